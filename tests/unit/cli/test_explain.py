"""`moorage explain`, `capacity`, `simulate --compare` and the rest as users type them."""

import json
from pathlib import Path

import pytest
from tests.unit.insight.explain.clusters import Object, node, pod

from moorage.cli.main import run


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("x", requests={"cpu": "3"})["spec"]}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    manifests = [
        node("n1"),
        node("n2"),
        pod("big", requests={"cpu": "5"}),
        pod("fits"),
        pod("runs", on="n1"),
        pod("foreign", schedulerName="other"),
        deleted(pod("leaving")),
        deleted(pod("stopping", on="n1", requests={"cpu": "0"})),
        {**pod("ended", on="n1"), "status": {"phase": "Failed"}},
        deployment,
    ]
    return written(tmp_path / "cluster.json", manifests)


def deleted(manifest: Object) -> Object:
    return {**manifest, "metadata": {**manifest["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def written(path: Path, manifests: list[Object]) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    return str(path)


def test_json_follows_the_format(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "big", "-f", cluster, "-o", "json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["result"] == "unschedulable"
    assert output["reasons"] == [
        {
            "plugin": "NodeResourcesFit",
            "reason": "Insufficient cpu",
            "nodes": 2,
            "examples": ["n1", "n2"],
            "short": {"cpu": "1"},
        }
    ]
    assert output["changes"][0] == {
        "text": "Lower the cpu request of container main from 5 to 4",
        "kind": "request",
        "edits": [
            {
                "object": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "big"},
                "apply": "replace",
                "patch": [{"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "4"}],
            }
        ],
        "node": "n2",
    }
    assert {"event": "Node/Add", "plugin": "NodeResourcesFit"} in output["wakes"]


def test_only_json_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Also where plugins and the engine have something to log, in every trial."""
    waits = {**pod("a", requests={"cpu": "9"}), "status": {"nominatedNodeName": "ghost"}}
    assert run(["explain", "a", "-f", written(tmp_path / "c.json", [node("n1"), waits]), "-o", "json"]) == 0
    printed = capfd.readouterr()
    assert json.loads(printed.out)["result"] == "unschedulable"
    assert printed.err == ""


def test_feasible_pod_is_compared_with_the_runner_up(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "fits", "-f", cluster, "-o", "json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["result"], output["node"], output["runnerUp"]) == ("scheduled", "n2", "n1")
    assert {"plugin", "weight", "winner", "runnerUp"} == output["because"][0].keys()
    assert output["changes"] == []


def test_running_pod_is_reported_as_bound(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "default/runs", "-f", cluster, "-o", "json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["result"], output["node"], output["runnerUp"]) == ("bound", "n1", "n2")


def test_fitting_pods_of_a_workload_are_counted(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "deployment/web", "-f", cluster, "-o", "json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["workload"], output["fits"], output["of"]) == ("deployment/web", 2, 3)
    (edit,) = next(change["edits"] for change in output["next"]["changes"] if change["kind"] == "request")
    assert edit["object"]["kind"] == "Deployment"
    assert edit["patch"][0]["path"] == "/spec/template/spec/containers/0/resources/requests/cpu"


PAGES = {
    "pending": (
        "big",
        [
            "is pending",
            "insufficient cpu on 2 nodes (n1, n2), short by at least 1 core",
            "Changes that would make it fit",
            "1. Lower",
        ],
    ),
    "fits": ("fits", ["fits on node n2", "Scores: n2 and n1, the second best"]),
    "has a node": ("runs", ["is on node n1"]),
    "has a node that it is leaving": ("stopping", ["is on node n1"]),
    "a workload": ("deploy/web", ["2 of 3 pods fit", "The next pod does not fit"]),
}


@pytest.mark.parametrize(("name", "message"), PAGES.values(), ids=PAGES)
def test_text_and_html_contain_the_explanation(
    cluster: str, name: str, message: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", name, "-f", cluster]) == 0
    page = capsys.readouterr().out
    for text in message:
        assert text in page
    assert run(["explain", name, "-f", cluster, "-o", "html"]) == 0
    html = capsys.readouterr().out
    assert html.startswith("<!doctype html>")
    assert "http://" not in html
    assert "https://" not in html
    assert "<script" not in html


def test_contradiction_of_the_scheduler_is_part_of_the_first_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = "0/2 nodes are available: 2 annotation is wrong."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    waiting = {**pod("web"), "status": {"phase": "Pending", "conditions": [condition]}}
    path = written(tmp_path / "cluster.json", [node("n1"), node("n2"), waiting])
    assert run(["explain", "web", "-f", path]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("default/web fits on node n")
    assert first.endswith(f", but its scheduler reported: {message}")
    assert any("pass its --config and --plugin" in line for line in others)
    assert any(line.startswith("Scores: n") and line.endswith(" are tied") for line in others)


def test_changes_for_one_node_name_it(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "big", "-f", cluster, "--node", "n1"]) == 0
    assert "Changes that would make it fit on n1" in capsys.readouterr().out


def test_gated_pod_has_no_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gated = pod("gated", schedulingGates=[{"name": "example.com/quota"}])
    assert run(["explain", "gated", "-f", written(tmp_path / "gated.json", [node("n1"), node("n2"), gated])]) == 0
    output = capsys.readouterr().out
    assert output.startswith("default/gated is gated by SchedulingGates")
    assert "Scores" not in output
    assert output.endswith("\nUse -v 1 to show the events that trigger a retry, and -o json to get patches.\n")


MISTAKES = {
    "no such pod": (["bog"], "did you mean 'default/big'?"),
    "a pod of another namespace": (["big", "-n", "shop"], "there is 'default/big'"),
    "an unknown kind": (
        ["dploy/zzz"],
        "neither a workload kind nor a namespace with pods\n  hint: did you mean 'deployment'?",
    ),
    "a pod that is being deleted": (["leaving"], "the pod is being deleted"),
    "a pod that has ended": (["ended"], "the pod has finished (Failed)"),
    "unknown node": (["big", "--node", "x"], "node not found\n  hint: the nodes are n1"),
    "mistyped node": (["big", "--node", "n11"], "did you mean 'n1'?"),
    "no such workload": (["deployment/wob"], "did you mean 'default/web'?"),
    "two sources": (["big", "--snapshot", "s"], "cannot be combined with -f"),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_reported(
    cluster: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", *arguments, "-f", cluster]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    assert message in errors


def test_two_configurations_are_compared(cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: "
        "{type: MostAllocated, resources: [{name: cpu, weight: 100}]}}}]}]"
    )
    cluster_file = written(tmp_path / "two.json", [node("n1"), node("n2"), pod("runs", on="n1"), pod("fits")])
    assert run(["simulate", "--one-pass", "-q", "-f", cluster_file, "--compare", str(config)]) == 0
    assert "default/fits  n2  →  n1" in capsys.readouterr().out
    assert run(["whatif", "fewest-nodes", "-f", cluster_file]) == 0
    assert "all pods fit on 1 of 2 nodes" in capsys.readouterr().out


def test_fewest_nodes_lists_pending_pods_that_fit_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = [pod("runs", on="n1"), pod("huge", requests={"cpu": "100"}), pod("waits")]
    cluster_file = written(tmp_path / "two.json", [node("n1"), node("n2"), *pods])
    assert run(["whatif", "fewest-nodes", "-f", cluster_file]) == 0
    output = capsys.readouterr().out
    assert "1 pending pod fits on no node: default/huge" in output
    assert "all other pods fit on 1 of 2 nodes" in output
