"""How few nodes are sufficient, and below which number nothing can go."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.insight.explain.clusters import Object, node, pod, session

from moorage.insight.whatif.packing import FewestNodes, find_fewest_nodes
from moorage.insight.whatif.packing_model import Bound, model_packing, solve_packing


def found(*objects: Object) -> FewestNodes:
    with session(*objects) as opened:
        return find_fewest_nodes(opened)


def test_nodes_are_emptied_while_their_pods_fit_elsewhere() -> None:
    pods = [pod(f"p{n}", on=f"n{n}") for n in range(1, 5)]
    nodes = [node(f"n{n}", cpu="2") for n in range(1, 5)]
    with session(*nodes, *pods) as opened:
        answer = find_fewest_nodes(opened)
        assert (answer.needed, answer.of, answer.at_least, len(answer.spare)) == (2, 4, 2, 2)
        assert sorted(info.name for info in opened.scheduler.cache.nodes) == ["n1", "n2", "n3", "n4"], "all is undone"


def running(*sizes: tuple[str, ...]) -> list[Object]:
    """Return nodes of 10 CPUs, each with pods of these sizes."""
    return [
        obj
        for number, pods in enumerate(sizes)
        for obj in (
            node(f"n{number}", cpu="10"),
            *(pod(f"p{number}-{at}", on=f"n{number}", requests={"cpu": cpu}) for at, cpu in enumerate(pods)),
        )
    ]


def test_repacking_beats_emptying() -> None:
    """No node can be emptied into the others; repacking as 6+4, 6+4 and 5+5 leaves one of the four nodes empty."""
    objects = running(("6",), ("6",), ("5", "4"), ("5", "4"))
    assert (found(*objects).needed, found(*objects).at_least) == (3, 3)


def test_pods_that_cannot_share_nodes_need_a_node_each() -> None:
    answer = found(*running(("6",), ("6",), ("6",)))
    assert (answer.needed, answer.at_least) == (3, 3)


def test_daemon_set_pods_remain_and_use_capacity() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    daemons = [pod(f"d{n}", on=f"n{n}", requests={"cpu": "2"}) for n in range(2)]
    for daemon in daemons:
        daemon["metadata"]["ownerReferences"] = [owner]
    answer = found(*running(("5",), ("4",)), *daemons)
    assert (answer.needed, answer.at_least) == (2, 2)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(1, 6), max_size=3).filter(lambda item: sum(item) <= 10), min_size=1, max_size=6))
def test_never_worse_than_first_fit_decreasing_nor_better_than_the_bound(sizes: list[list[int]]) -> None:
    bins: list[int] = []
    for size in sorted((size for pods in sizes for size in pods), reverse=True):
        at = next((n for n, bin_size in enumerate(bins) if bin_size + size <= 10), None)
        if at is None:
            bins.append(size)
        else:
            bins[at] += size
    answer = found(*running(*(tuple(str(size) for size in pods) for pods in sizes)))
    assert answer.at_least <= answer.needed <= len(bins)
    assert answer.needed + len(answer.spare) == len(sizes)


@pytest.mark.parametrize("count", [0, 1])
def test_no_pods_need_no_nodes(count: int) -> None:
    assert found(*running(*[()] * count)) == FewestNodes(
        0, count, 0, tuple(f"n{n}" for n in range(count)), bound=Bound(0, "nodes", True, "heuristic")
    )


def fewest_by_force(pools: list[int], pods: list[tuple[int, int, bool]]) -> int:
    """Try all assignments to nodes of 10 CPUs: pods have CPUs, a pool (0 for any), and may exclude each other."""

    def is_valid(assignment: tuple[int, ...]) -> bool:
        for at in set(assignment):
            own = [pod for pod, node in zip(pods, assignment, strict=True) if node == at]
            if sum(cpu for cpu, _, _ in own) > 10 or sum(alone for *_, alone in own) > 1:
                return False
            if any(pool not in (0, pools[at]) for _, pool, _ in own):
                return False
        return True

    return min(len(set(option)) for option in product(range(len(pools)), repeat=len(pods)) if is_valid(option))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 2), st.booleans()), min_size=1, max_size=5))
def test_the_solver_equals_brute_force_and_is_never_beaten(pods: list[tuple[int, int, bool]]) -> None:
    pytest.importorskip("ortools", reason="needs moorage[solver]")
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"alone": "yes"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    # Each pod starts on a node of its own.
    pools = [pool or 1 for _, pool, _ in pods]
    objects = [node(f"n{at}", cpu="10", labels={"pool": str(pool)}) for at, pool in enumerate(pools)]
    for at, (cpu, pool, alone) in enumerate(pods):
        more = ({"nodeSelector": {"pool": str(pool)}} if pool else {}) | ({"affinity": apart} if alone else {})
        labels = {"alone": "yes"} if alone else {}
        objects.append(pod(f"p{at}", on=f"n{at}", requests={"cpu": str(cpu)}, labels=labels, **more))
    with session(*objects) as opened:
        solution = solve_packing(model_packing(opened, [opened.pod(f"default/p{at}") for at in range(len(pods))]))
        result = find_fewest_nodes(opened)
    assert solution is not None
    assert solution.is_optimal
    expected = fewest_by_force(pools, pods)
    assert solution.used == expected
    assert result.needed == expected
    assert result.bound is not None
    assert result.bound.proven
