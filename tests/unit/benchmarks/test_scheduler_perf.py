"""The runner of scheduler_perf reads workloads, renders their templates and computes rates as upstream does."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchmarks.scheduler_perf.go_templates import GoTemplate
from benchmarks.scheduler_perf.playing import Measurement, SeenPods, allocation, csi_node
from benchmarks.scheduler_perf.workloads import PerfWorkload, load

from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.pod import Pod
from moorage.kube.client.list_watch import Change
from moorage.testing import make_pod

RENDERED: dict[str, tuple[str, Mapping[str, Any], str]] = {
    "a value": ("a-{{.Index}}", {"Index": 3}, "a-3"),
    "a function": ("{{ AddInt 8000 (Mod .Index 12) }}", {"Index": 25}, "8001"),
    "division truncates": ("{{DivideInt .Index .podsPerGroup}}", {"Index": 7, "podsPerGroup": "4"}, "1"),
    "a pipeline": ("{{(or .missing nil) | JSON}}", {}, "null"),
    "a variable with a default": ("{{$n := or .n 10}}{{$n}}", {}, "10"),
    "a range over a number": ("{{range (.n | Int)}}<{{.}}>{{end}}", {"n": 2}, "<0><1>"),
    "variables are visible in a range": ("{{$m := 2}}{{range 3}}{{Mod . $m}}{{end}}", {}, "010"),
    "nested ranges": ("{{range $i := 2}}{{range $j := 2}}{{$i}}{{$j}} {{end}}{{end}}", {}, "00 01 10 11 "),
    "a condition": ('{{if eq .class "gpu"}}yes{{else}}no{{end}}', {"class": "gpu"}, "yes"),
    "the other branch": ("{{if ge .n 5}}yes{{else}}no{{end}}", {"n": 4}, "no"),
    "a missing value is false": ("{{if .priority}}priority{{end}}.", {}, "."),
    "trimmed space": ("a\n{{- if .n}} b {{- end}}\nc", {"n": 1}, "a b\nc"),
}


@pytest.mark.parametrize(("text", "values", "rendered"), RENDERED.values(), ids=RENDERED)
def test_templates_are_rendered_as_in_go(text: str, values: Mapping[str, Any], rendered: str) -> None:
    assert GoTemplate(text).render(values) == rendered


CONFIG = """
- name: Case
  featureGates: {A: true, B: true}
  workloadTemplate:
  - {opcode: createNodes, countParam: $initNodes}
  - {opcode: createPods, count: 4, templateParams: {a: $depth|2, b: $size}}
  workloads:
  - {name: Small, params: {initNodes: 5, size: x}}
  - {name: Large, featureGates: {B: false}, threshold: 100, params: {initNodes: 5000, size: y, depth: 7}}
- name: Shared
  workloadTemplate: []
  workloads: [{name: Only, threshold: {dra: 60}}]
"""


def workloads(tmp_path: Path) -> dict[str, PerfWorkload]:
    for topic in ("misc", "dra"):
        (tmp_path / topic).mkdir()
        (tmp_path / topic / "performance-config.yaml").write_text(CONFIG)
    return {f"{work.topic}/{work.title}": work for work in load(tmp_path)}


def test_workloads_are_read_with_their_gates_and_thresholds(tmp_path: Path) -> None:
    works = workloads(tmp_path)
    assert len(works) == 6
    assert {name for name, work in works.items() if work.threshold} == {
        "dra/Case/Large",
        "dra/Shared/Only",
        "misc/Case/Large",
    }
    assert works["misc/Case/Small"].gate_flags == ("--feature-gates=A=true,B=true",)
    assert works["misc/Case/Large"].gate_flags == ("--feature-gates=A=true,B=false",)
    assert works["misc/Shared/Only"].gate_flags == ()


def test_parameters_are_resolved_and_numbers_of_objects_scaled(tmp_path: Path) -> None:
    works = workloads(tmp_path)
    small, large = works["misc/Case/Small"], works["misc/Case/Large"]
    nodes, pods = large.operations
    assert (large.count(nodes), large.count(pods), large.scaled(0.01).count(nodes)) == (5000, 4, 50)
    assert [[work.value(text) for text in ("$depth|2", "$size", "plain")] for work in (small, large)] == [
        [2, "x", "plain"],
        [7, "y", "plain"],
    ]
    with pytest.raises(KeyError, match="'other' is missing"):
        small.value("$other")
    assert large.scaled(0.1).value("$depth") == 7, "not a number of objects"


class Program:
    """A process that takes a millisecond for each call of ``cpu``."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def cpu(self) -> float:
        self.seconds += 0.001
        return self.seconds


def test_rate_leaves_out_the_first_sample_and_counts_each_binding_once() -> None:
    clock = VirtualClock()

    async def work() -> dict[str, Any]:
        seen = SeenPods()
        measurement = Measurement(seen, ["a"], Program())  # type: ignore[arg-type]
        sampling = asyncio.create_task(measurement.run())
        number = 0
        for bound in (0, 50, 20, 0, 40, 0):
            for _ in range(bound):
                pod = make_pod(f"p{number}", namespace="a")
                number += 1
                seen.take(BY_TYPE[Pod], [Change(None, pod), Change(pod, pod.on_node("n"))])
                seen.take(BY_TYPE[Pod], [Change(pod.on_node("n"), pod.on_node("n"))])
            seen.take(BY_TYPE[Pod], [Change(None, make_pod("elsewhere", namespace="b", node="n"))])
            await asyncio.sleep(1.0)
        sampling.cancel()
        return measurement.result()

    result = run_virtual(work(), clock)
    assert result["pods"] == 110
    # 20 in a second, then 40 in two seconds, which count as two samples.
    assert result["rate"] == pytest.approx(20.0)
    assert result["cpu_ms"] == pytest.approx(1 / 110, abs=0.001)


def test_objects_of_volumes_and_devices() -> None:
    volumes = yaml.safe_load("{csiNodeAllocatable: {ebs.csi.aws.com: {count: 39}}, migratedPlugins: [aws-ebs]}")
    node = csi_node("n", volumes)
    assert node["spec"]["drivers"] == [{"name": "ebs.csi.aws.com", "nodeID": "n", "allocatable": {"count": 39}}]
    assert node["metadata"]["annotations"] == {"storage.alpha.kubernetes.io/migrated-plugins": "aws-ebs"}
    spec = {"driver": "d", "pool": {"name": "p"}, "nodeName": "n"}
    (result,) = allocation(spec, "gpu-0")["devices"]["results"]
    assert result == {"request": "req-0", "driver": "d", "pool": "p", "device": "gpu-0"}
