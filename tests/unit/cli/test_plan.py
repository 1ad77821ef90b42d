"""`moorage plan` on files."""

import json
from pathlib import Path

import pytest
from tests.unit.insight.explain.clusters import gang, node, pod
from tests.unit.insight.plan.plan_clusters import owned

from moorage.cli.main import run


@pytest.fixture(name="cluster")
def write_cluster(tmp_path: Path) -> str:
    items = [node("n1"), node("n2"), owned("a", on="n1")]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def test_json_has_the_documented_format(cluster: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["plan", "drain", "n1", "-f", cluster, "-o", "json", "--keep", "app=db"]) == 0
    plan = json.loads(capfdbinary.readouterr().out)
    assert plan["arguments"] == {"nodes": ["n1"], "keep": ["app=db"]}
    assert plan.keys() >= {"goal", "cluster", "feasible", "steps", "pending", "summary"}
    assert [(item["pod"], item["from"], item["to"]) for item in plan["steps"][0]["evict"]] == [
        ("default/a", "n1", "n2")
    ]


@pytest.mark.parametrize(
    ("output", "expected"),
    [("text", "drain: feasible, 1 move"), ("markdown", "# Plan: drain"), ("html", "<!doctype html>")],
)
def test_outputs(cluster: str, output: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "drain", "n1", "-f", cluster, "-o", output]) == 0
    assert capsys.readouterr().out.startswith(expected)


def test_invalid_input_prints_one_error(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "drain", "n3", "-f", cluster]) == 2
    assert "error: node n3: not found" in capsys.readouterr().err
    assert run(["plan", "drain", "n1", "-f", cluster, "--keep", "x"]) == 2
    assert "--keep x: not of the form KEY=VALUE" in capsys.readouterr().err
    assert run(["plan", "rebalance", "-f", cluster, "--hot", "7"]) == 2
    assert "error: --hot: 7 is not between 0 and 1" in capsys.readouterr().err


def test_constraints_that_match_nothing_are_reported(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "drain", "n1", "-f", cluster, "--exclude", "a*", "--keep", "app=db"]
    notes = [
        "--exclude a* matches no node and no pod; for pods, use NAMESPACE/POD, such as default/a*",
        "--keep app=db matches no pod",
    ]
    assert run(arguments) == 0
    printed = capsys.readouterr()
    assert (printed.out.splitlines()[-2:], printed.err) == (notes, "")
    assert run([*arguments, "-o", "json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["notes"] == notes
    assert printed.err.splitlines() == [f"note: {note}" for note in notes]
    assert run(["plan", "drain", "n1", "-f", cluster, "--exclude", "default/a", "--keep", "namespace=default"]) == 0
    assert "matches no" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "arguments_in_plan"),
    [
        (["consolidate"], {}),
        (["rebalance", "--hot", "0.5"], {"hot": 0.5}),
        (["fit", "--max-moves", "3"], {"for": [], "maxMoves": 3}),
        (["defragment", "REQUEST"], {"for": ["REQUEST"]}),
        (["defragment", "--for", "REQUEST"], {"for": ["REQUEST"]}),
    ],
)
def test_all_goals_have_the_documented_format(
    cluster: str,
    tmp_path: Path,
    arguments: list[str],
    arguments_in_plan: dict[str, object],
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(pod("r")))
    names = [str(file) if item == "REQUEST" else item for item in arguments]
    assert run(["plan", *names, "-f", cluster, "-o", "json"]) == 0
    plan = json.loads(capfdbinary.readouterr().out)
    assert plan["goal"] == arguments[0]
    expected = json.loads(json.dumps(arguments_in_plan).replace("REQUEST", str(file)))
    assert plan["arguments"] == expected
    assert plan["feasible"] is True
    assert plan.keys() >= {"cluster", "steps", "pending", "summary"}
    assert ("placed" in plan) == (arguments[0] in ("fit", "defragment"))


def test_files_without_nodes_are_the_request(
    cluster: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(pod("r")))
    assert run(["plan", "fit", "-f", cluster, "-f", str(file), "-o", "json"]) == 0
    assert [item["pod"] for item in json.loads(capfdbinary.readouterr().out)["placed"]] == ["default/r"]
    assert run(["plan", "fit", "-f", str(file), "--snapshot", str(tmp_path / "none")]) == 2


def test_apply_rejects_other_files(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "apply", cluster, "--step"]) == 2
    assert "not a plan" in capsys.readouterr().err


def test_excluding_every_node_to_drain_is_an_error(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "drain", "n1", "-f", cluster, "--exclude", "n*"]) == 2
    assert "plan drain: --exclude excludes every node to drain" in capsys.readouterr().err


def test_pod_groups_move_together_without_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group = {"schedulingGroup": {"podGroupName": "ring"}}
    members = [owned(f"ring-{number}", on=f"n{number}", requests={"cpu": "3"}, **group) for number in (1, 2)]
    items = [*(node(f"n{number}") for number in (1, 2, 3)), gang(2), *members]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert run(["plan", "drain", "n1", "-f", str(path)]) == 0
    printed = capsys.readouterr()
    assert "assuming --feature-gates GenericWorkload=true" in printed.err
    assert "feasible, 2 moves in 1 step" in printed.out


def test_defragment_needs_a_request(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "defragment", "-f", cluster]) == 2
    assert "plan defragment: no pods specified" in capsys.readouterr().err
