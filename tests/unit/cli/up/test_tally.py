from typing import Any

from tests.support.reconciling import make, pod

from moorage.cli.up.tally import Reason, Tally
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
    assert summary.reasons == (Reason("no scheduling result yet", 1, "shop/c"),)


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
