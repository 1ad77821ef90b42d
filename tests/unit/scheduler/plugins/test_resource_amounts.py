"""Incremental columns must equal node-by-node results, for all amounts."""

from random import Random

import pytest

from moorage.kube.api.pod import Pod
from moorage.scheduler.config.args import LEAST_ALLOCATED, NodeResourcesFitArgs, ResourceSpec, ScoringStrategy
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.status import Code
from moorage.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit
from moorage.scheduler.plugins.resource_amounts import MAX_RESOURCES, ClusterAmounts
from moorage.scheduler.state.cache import Cache
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig

GPU = "example.com/gpu"
HUGE = 1 << 53
NODES = 24

AMOUNTS = {
    "ordinary ones": [{"cpu": "8", "memory": "32Gi", "pods": 4}],
    "some nodes without some": [{"cpu": "8", "memory": "32Gi", "pods": 4}, {"cpu": "8", "pods": 2}, {"pods": 3}],
    "too large for floats": [{"cpu": "8", "memory": HUGE + 3, "pods": 9, GPU: HUGE + 3}, {"memory": 7, "pods": 9}],
    "near the end of 64 bits": [{"cpu": "8", "memory": 1 << 62, "pods": 9, GPU: 1 << 62}, {"memory": 3, "pods": 9}],
    "at the edge of exact quotients": [{"cpu": "8", "memory": (1 << 46) - 1, "pods": 9, GPU: (1 << 46) - 1}],
}
WEIGHTS = {"by default": (1, 1, 1), "of other sums": (1, 2, 0), "of powers of two": (1, 3, 4)}


def some_pod(chance: Random, name: str, node: str = "") -> Pod:
    requests = {
        "cpu": f"{chance.choice((0, 1, 250, 4000, 8000))}m",
        "memory": chance.choice((0, 1, 6, 3 << 30, (1 << 46) - 1, HUGE + 2, HUGE + 4, 1 << 61)),
        GPU: chance.choice((0, 0, 1, HUGE + 4)),
    }
    return make_pod(name, node=node, requests={key: amount for key, amount in requests.items() if amount})


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("shapes", AMOUNTS.values(), ids=AMOUNTS)
def test_columns_equal_single_nodes(shapes: list[dict[str, int | str]], weights: tuple[int, ...]) -> None:
    chance, cache = Random(7), Cache()
    for number in range(NODES):
        cache.add_node(make_node(f"n{number}", allocatable=shapes[number % len(shapes)]))
    specs = [ResourceSpec(name, weight) for name, weight in zip(("cpu", "memory", GPU), weights, strict=True) if weight]
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(LEAST_ALLOCATED, tuple(specs)))
    fit, balanced = NodeResourcesFit(args=args, handle=Rig()), NodeResourcesBalancedAllocation()
    there: list[Pod] = []
    for step in range(60):
        if there and chance.random() < 0.3:
            cache.remove_pod(there.pop(chance.randrange(len(there))))
        else:
            there.append(some_pod(chance, f"p{step}", f"n{chance.randrange(NODES)}"))
            cache.add_pod(there[-1])
        compare(fit, balanced, cache, some_pod(chance, "asking"))


@pytest.mark.parametrize(("memory", "bits"), [((1 << 46) - 1, 32), (1 << 46, 64)])
def test_scores_are_narrow_where_floats_are_exact(memory: int, bits: int) -> None:
    cache = Cache()
    for number in range(NODES):
        cache.add_node(make_node(f"n{number}", allocatable={"cpu": "8", "memory": memory, "pods": 9}))
    cycle, pod = CycleState(), make_pod(requests={"cpu": 1, "memory": 5})
    scores = NodeResourcesFit(handle=Rig()).score_nodes(cycle, pod, cache.nodes)
    assert scores.dtype.itemsize * 8 == bits


@pytest.mark.parametrize(("occupied", "bits"), [(HUGE - 6, 32), (HUGE - 5, 64)])
def test_evenness_is_narrow_where_floats_are_exact(occupied: int, bits: int) -> None:
    cache = Cache()
    for number in range(NODES):
        cache.add_node(make_node(f"n{number}", allocatable={"cpu": "8", "memory": 1 << 60, "pods": 9}))
    cache.add_pod(make_pod("large", node="n3", requests={"memory": occupied}))
    cycle, pod = CycleState(), make_pod(requests={"cpu": 1, "memory": 5})
    plugin = NodeResourcesBalancedAllocation()
    scores = plugin.score_nodes(cycle, pod, cache.nodes)
    assert scores.dtype.itemsize * 8 == bits
    assert scores.tolist() == [plugin.score(cycle, pod, node) for node in cache.nodes]


def test_the_free_bound_is_recomputed_when_the_fullest_node_is_freed() -> None:
    cache, amounts = Cache(), ClusterAmounts()
    for number in range(NODES):
        cache.add_node(make_node(f"n{number}", allocatable={"cpu": "8", "pods": 9}))
    large = make_pod("large", node="n3", requests={"cpu": 7})
    result = []
    for change in (lambda: None, lambda: cache.add_pod(large), lambda: cache.remove_pod(large)):
        change()
        amounts.follow(cache.nodes)
        result.append(
            [amounts["cpu"].is_free_everywhere(cache.nodes, requested) for requested in (1000, 1001, 8000, 8001)]
        )
    assert result == [[True, True, True, False], [True, False, False, False], [True, True, True, False]]


def compare(fit: NodeResourcesFit, balanced: NodeResourcesBalancedAllocation, cache: Cache, pod: Pod) -> None:
    cycle, nodes = CycleState(), cache.nodes
    fit.pre_filter(cycle, pod, nodes)
    fit.pre_score(cycle, pod, nodes)
    skipped = balanced.pre_score(cycle, pod, nodes)
    verdict = fit.filter_nodes(cycle, pod, nodes)
    assert [verdict.status_at(row) for row in range(NODES)] == [fit.filter(cycle, pod, node) for node in nodes]
    assert fit.score_nodes(cycle, pod, nodes).tolist() == [fit.score(cycle, pod, node) for node in nodes]
    if skipped is None or skipped.code is not Code.SKIP:
        assert balanced.score_nodes(cycle, pod, nodes).tolist() == [balanced.score(cycle, pod, node) for node in nodes]


def test_custom_names_are_evicted_from_the_cache() -> None:
    rig = Rig(make_node("n", allocatable={"cpu": 4}), make_pod("p", node="n", requests={"cpu": 1}))
    amounts = ClusterAmounts()
    amounts.follow(rig.nodes)
    for number in range(3 * MAX_RESOURCES):
        assert not amounts[f"example.com/thing-{number}"].is_free_everywhere(rig.nodes, 1)
        assert len(amounts) <= MAX_RESOURCES
    assert amounts["cpu"].is_free_everywhere(rig.nodes, 3000)
    assert not amounts["cpu"].is_free_everywhere(rig.nodes, 3001)
