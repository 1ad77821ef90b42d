from io import StringIO
from typing import Any

from rich.console import Console
from tests.support.reconciling import make, pod

from moorage.cli.up.screen import Screen, render
from moorage.cli.up.tally import Reason, Summary, Tally
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.kube.api.node import Node


def node(name: str, ready: str = "True") -> Node:
    status: dict[str, Any] = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    return make(Node, name, status=status | {"conditions": [{"type": "Ready", "status": ready}]})


def asking(name: str, node: str, cpu: str = "2", **state: Any) -> Any:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "2Gi"}}}
    return pod(name, node=node, containers=[container], **state)


def test_counts_a_cluster() -> None:
    pods = [asking("a", "n1"), asking("b", "n1", phase="Succeeded"), asking("c", "", phase="Pending")]
    summary = Tally().summary(InformerCache([node("n1"), node("n2", "False"), *pods]), now=0.0)
    assert (summary.nodes, summary.ready) == (2, 1)
    assert summary.phases == {"Running": 1, "Pending": 1, "Succeeded": 1}
    assert summary.used == {"cpu": 0.25, "memory": 0.125, "pods": 0.05}
    assert summary.reasons == (Reason("not tried yet", 1, "shop/c"),)


def test_the_rate_is_that_of_the_last_seconds() -> None:
    tally, cache = Tally(), InformerCache([node("n1")])
    tally.summary(cache, now=0.0)
    for number in range(10):
        placed = pod(f"p{number}")
        cache[type(placed)].put(placed)
        list(tally.affected(placed, cache))
        list(tally.affected(placed, cache))
    assert tally.summary(cache, now=2.0).rate == 5.0
    assert tally.summary(cache, now=100.0).rate == 0.0
    assert tally.placed == 10


SUMMARY = Summary(
    nodes=2,
    ready=2,
    phases={"Running": 3, "Pending": 1},
    placed=3,
    rate=1.5,
    used={"cpu": 0.5, "memory": 0.25},
    reasons=(Reason("0/2 nodes are available: 2 Insufficient cpu.", 1, "shop/big"),),
)


def test_a_terminal_gets_a_picture() -> None:
    console = Console(width=100, record=True, force_terminal=True, file=StringIO())
    console.print(render(SUMMARY))
    text = console.export_text()
    for part in ("2 of 2 ready", "50%", "3 running", "1 pending", "1.5 pods/s", "2 Insufficient cpu", "shop/big"):
        assert part in text


def test_plain_output_prints_only_changed_lines() -> None:
    console = Console(width=200, record=True, force_terminal=False, file=StringIO())
    screen = Screen(console)
    with screen.showing():
        screen.show(SUMMARY)
        screen.show(SUMMARY)
    screen.farewell(SUMMARY)
    lines = console.export_text().splitlines()
    assert len(lines) == 3
    assert lines[0] == "nodes 2/2 ready · pods: 3 running, 1 pending · used: cpu 50%, memory 25% · 1.5 pods/s"
    assert lines[2].startswith("  1 pending (e.g. shop/big): 0/2 nodes are available")
