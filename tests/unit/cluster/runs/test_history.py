from typing import Any

import pytest

from moorage.cluster.files.loading import build_cluster_input
from moorage.cluster.runs.history import Run
from moorage.cluster.runs.run_report import timeline_lines, wait_summary
from moorage.cluster.simulation.simulation import simulate
from moorage.scheduler.wiring.policy import collect_plugins, load_policy


def node(name: str, pool: str, cpu: int = 4) -> dict[str, Any]:
    room = {"cpu": cpu, "memory": "8Gi", "pods": 10}
    metadata = {"name": name, "labels": {"pool": pool}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": room}}


def pod(name: str, *, lasts: str = "", pool: str = "", **spec: Any) -> dict[str, Any]:
    annotations = {"moorage.io/run-for": lasts, "moorage.io/start-delay": "0s"} if lasts else {}
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "2"}}}
    selector = {"nodeSelector": {"pool": pool}} if pool else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [container], "restartPolicy": "Never", **selector, **spec},
    }


def run(*objects: dict[str, Any], until: float, group_by: str = "") -> Run:
    return simulate(build_cluster_input(objects), load_policy(collect_plugins()), until=until, group_by=group_by)


def test_finished_pod_frees_its_resources() -> None:
    result = run(node("a", "x"), pod("p", lasts="50s"), until=100.0)

    (cpu,) = (item for item in result.utilisation if item.resource == "cpu")
    assert (cpu.allocatable, cpu.requested, cpu.peak) == (4.0, 0.0, 2.0)
    assert cpu.mean == pytest.approx(1.0, abs=0.01)
    (life,) = result.timeline
    assert (life.pod, life.node, life.phase) == ("default/p", "a", "Succeeded")
    assert life.finished == pytest.approx(50.0, abs=0.1)


def test_groups_are_counted_apart() -> None:
    objects = (node("a", "x"), node("b", "x"), node("c", "y"), pod("p", pool="x"), pod("q", pool="y"))
    result = run(*objects, until=10.0, group_by="pool")

    utilisation = {(item.group, item.resource): (item.allocatable, item.requested) for item in result.utilisation}
    assert utilisation["x", "cpu"] == (8.0, 2.0)
    assert utilisation["y", "cpu"] == (4.0, 2.0)
    assert utilisation["x", "pods"] == (20.0, 1.0)


def test_pods_wait_for_capacity_and_report_the_duration() -> None:
    never = pod("third", pool="nowhere")
    result = run(node("a", "x", cpu=2), pod("first", lasts="30s"), pod("second"), never, until=60.0)

    lives = {life.pod: life for life in result.timeline}
    assert lives["default/second"].waited == pytest.approx(30.0, abs=0.2)
    assert (lives["default/third"].waited, lives["default/third"].bound) == (60.0, None)
    lines = [text for _, text in timeline_lines(result, is_complete=False)]
    assert lines == [
        "default/first succeeded on a 30s after it was placed",
        "default/second placed on a, waited 30s",
        "default/third is still pending",
    ]
    assert len(list(timeline_lines(result, is_complete=True))) == 4
    assert wait_summary(result.timeline) == "Waited for a node: median 15s, longest 30s (default/second)"
