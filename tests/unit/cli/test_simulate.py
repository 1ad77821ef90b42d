"""`moorage simulate`: what it prints, where, and its exit codes."""

import io
import json
from pathlib import Path

import pytest
import yaml

from moorage.cli.main import run

CLUSTERS = Path(__file__).parents[3] / "examples" / "clusters"
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}}\n---\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: web}]}\n---\n"


def test_one_pass_reports_and_carries_nothing_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "-f", str(CLUSTERS / "training.yaml"), "--one-pass", "-o", "json"]) == 0
    first = json.loads(capsys.readouterr().out)["decisions"][0]

    assert (first["pod"], first["result"]) == ("research/incident-model", "unschedulable")
    assert first["postFilter"] == {"nominatedNode": "gpu-2", "victims": ["research/sweep-3"]}


def test_until_quiet_carries_preemption_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "-f", str(CLUSTERS / "training.yaml"), "-o", "yaml"]) == 0
    decisions = {item["pod"]: item for item in yaml.safe_load(capsys.readouterr().out)["decisions"]}

    assert decisions["research/incident-model"]["node"] == "gpu-2"
    assert decisions["research/incident-model"]["attempts"] == 2
    assert decisions["research/sweep-3"]["evicted"] is True


def test_people_get_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "-f", str(CLUSTERS / "tour.yaml"), "--one-pass"]) == 0
    printed = capsys.readouterr().out

    assert "default/database" in printed
    assert "held back by SchedulingGates" in printed
    assert printed.endswith("4 pods: 2 scheduled, 1 unschedulable, 1 gated\n")


def test_standard_input_and_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(NODE)
    monkeypatch.setattr("sys.stdin", io.StringIO(POD))

    assert run(["simulate", "-f", str(nodes), "-f", "-", "--one-pass", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["decisions"][0]["node"] == "n1"


def test_a_configuration_is_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, cluster = tmp_path / "config.yaml", tmp_path / "cluster.yaml"
    config.write_text(CONFIG + "profiles: [{schedulerName: mine}]")
    cluster.write_text(
        NODE + POD + POD.replace("web}", "other}", 1).replace("{containers", "{schedulerName: mine, containers")
    )

    assert run(["simulate", "-f", str(cluster), "--config", str(config), "--one-pass", "-o", "json"]) == 0
    assert [item["pod"] for item in json.loads(capsys.readouterr().out)["decisions"]] == ["default/other"]


@pytest.mark.parametrize(("flags", "noted"), [([], True), (["--quiet"], False)])
def test_kinds_that_are_left_out_are_noted(
    flags: list[str], noted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(NODE + POD + "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n")

    assert run(["simulate", "-f", str(cluster), *flags]) == 0
    assert ("1 Deployment" in capsys.readouterr().err) is noted


BAD = {
    "a missing file": (["simulate", "-f", "nowhere.yaml"], "error: nowhere.yaml: there is no such file"),
    "no file at all": (["simulate"], "Missing option '--file' / '-f'"),
    "an unknown plugin": (
        ["simulate", "-f", "nowhere.yaml", "--plugin", "nothing"],
        "a plugin is named as module:Class",
    ),
    "an unknown gate": (
        ["simulate", "-f", "nowhere.yaml", "--feature-gates", "X=true"],
        "unrecognized feature gate: X",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_mistakes_are_told_in_one_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


def test_a_gate_whose_feature_we_lack_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    gates = "TaintTolerationComparisonOperators=true"
    assert run(["simulate", "-f", str(CLUSTERS / "tour.yaml"), "--feature-gates", gates]) == 2
    assert "moorage lacks the toleration operators Lt and Gt" in capsys.readouterr().err
