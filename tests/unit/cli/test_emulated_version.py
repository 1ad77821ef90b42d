"""The next release in commands: the same group, with the texts of the emulated release."""

from pathlib import Path

import pytest

from moorage.cli.main import run

GANG = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {rack: r1}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "20"}}
---
apiVersion: scheduling.k8s.io/v1
kind: PodGroup
metadata: {name: ring, namespace: default}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: default}
spec: {schedulingGroup: {podGroupName: ring}, containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, namespace: default}
spec: {schedulingGroup: {podGroupName: ring}, containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}
"""
TOPOLOGY = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
COMMANDS = {"simulate": ["simulate"], "explain": ["explain", "a"]}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_emulate_the_next_release(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    path = tmp_path / "gang.yaml"
    path.write_text(GANG, encoding="utf-8")
    for flags, text in (
        (["--feature-gates", TOPOLOGY], "first placement status"),
        (["--emulated-version", "1.38"], "reported placement status"),
    ):
        run([*COMMANDS[command], "-f", str(path), *flags])
        assert text in capsys.readouterr().out
