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


LEVELS = """
---
apiVersion: scheduling.k8s.io/v1beta1
kind: CompositePodGroup
metadata: {{name: c{level}, namespace: default}}
spec: {{schedulingPolicy: {{basic: {{}}}}, workloadRef: {{workloadName: w, templateName: t}}{parent}}}
"""


@pytest.mark.parametrize(
    ("release", "count", "text"),
    [
        ("1.37", 4, "are nested too deeply"),
        ("1.38", 4, "is nested deeper than 4 levels"),
        ("1.37", 12, "are nested too deeply"),
        ("1.38", 12, "are nested too deeply"),
    ],
)
def test_groups_that_are_nested_too_deeply_are_explained(
    release: str, count: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parents = ["", *(f", parentCompositePodGroupName: c{level}" for level in range(count))]
    levels = "".join(LEVELS.format(level=level, parent=parents[level]) for level in range(count))
    path = tmp_path / "deep.yaml"
    path.write_text(
        GANG.replace(
            "spec: {schedulingPolicy: {gang: {minCount: 2}}}",
            f"""spec:
  schedulingPolicy: {{gang: {{minCount: 2}}}}
  workloadRef: {{workloadName: w, templateName: t}}
  parentCompositePodGroupName: c{count - 1}""",
        )
        + levels,
        encoding="utf-8",
    )
    run(["explain", "a", "-f", str(path), "--emulated-version", release])
    assert text in " ".join(capsys.readouterr().out.split())
