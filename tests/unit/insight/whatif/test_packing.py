"""How few nodes are sufficient, and below which number nothing can go."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.unit.insight.explain.clusters import Object, node, pod, session
from tests.unit.insight.plan.plan_clusters import owned

from moorage.insight.plan.making_room import plan_room
from moorage.insight.whatif.packing import FewestNodes, find_fewest_nodes
from moorage.insight.whatif.packing_model import (
    Bound,
    NoAssignment,
    PackedItem,
    PackingProblem,
    find_fewest_moves,
    model_packing,
    solve_packing,
)


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


def test_prices_may_favor_more_nodes() -> None:
    pytest.importorskip("ortools", reason="needs moorage[solver]")
    room = {name: {"cpu": size} for name, size in (("a", 8), ("b", 4), ("c", 4))}
    items = [PackedItem(f"p{at}", {"cpu": 2}, frozenset(room), "a" if at < 2 else "b") for at in range(4)]
    problem = PackingProblem(room, items)
    fewest = solve_packing(problem)
    cheapest = solve_packing(problem, prices={"a": 10.0, "b": 3.0, "c": 3.0})
    limited = solve_packing(problem, max_moves=1)
    assert fewest is not None
    assert cheapest is not None
    assert limited is not None
    assert set(fewest.nodes.values()) == {"a"}
    assert set(cheapest.nodes.values()) == {"b", "c"}
    assert limited.used == 2


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=5), st.integers(3, 6))
def test_the_least_number_of_moves_equals_brute_force(pods: list[tuple[int, int]], size: int) -> None:
    """Pods are pairs of node and CPUs; each of the three nodes has six CPUs."""
    pytest.importorskip("ortools", reason="needs moorage[solver]")
    used = Counter[int]()
    for at, cpu in pods:
        used[at] += cpu
    assume(max(used.values(), default=0) <= 6)
    expected = fewest_moves_by_force(pods, size)
    objects = [node(f"n{at}", cpu="6") for at in range(3)]
    objects += [owned(f"p{number}", on=f"n{at}", requests={"cpu": str(cpu)}) for number, (at, cpu) in enumerate(pods)]
    with session(*objects, pod("r", requests={"cpu": str(size)})) as opened:
        names = [*(f"default/p{number}" for number in range(len(pods))), "default/r"]
        problem = model_packing(opened, [opened.pod(name) for name in names])
        plan = plan_room(opened, ["r"])
        if expected is None:
            with pytest.raises(NoAssignment):
                find_fewest_moves(problem)
            assert not plan.feasible
            return
        assert find_fewest_moves(problem) == expected
    if plan.feasible:
        assert plan.summary.moves >= expected
    if plan.bound is not None and plan.bound.proven:
        assert plan.bound.value == expected


def fewest_moves_by_force(pods: list[tuple[int, int]], size: int) -> int | None:
    """Try all assignments of the pods and the request; return the least number of moves, ``None`` without any."""
    counts = []
    for nodes in product(range(3), repeat=len(pods) + 1):
        used = Counter[int]()
        for at, cpu in zip(nodes, (*(cpu for _, cpu in pods), size), strict=True):
            used[at] += cpu
        if max(used.values()) <= 6:
            counts.append(sum(new != old for new, (old, _) in zip(nodes, pods, strict=False)))
    return min(counts, default=None)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 2), st.booleans()), min_size=1, max_size=5))
def test_the_solver_equals_brute_force_and_is_never_beaten(pods: list[tuple[int, int, bool]]) -> None:
    pytest.importorskip("ortools", reason="needs moorage[solver]")
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"alone": "yes"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    # Each pod starts on a separate node.
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
