"""Cached rules: a plugin with every change returns the same results as a new one."""

import pytest
from msgspec.structs import replace
from tests.unit.scheduler.plugins.inter_pod_affinity.affinity_builders import CLUSTER, pod, to

from moorage.kube.api.node import HOSTNAME_LABEL
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.plugins.inter_pod_affinity import cached_rules
from moorage.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from moorage.scheduler.state import pod_index
from moorage.testing.rig import (
    FORMS,
    FilterForm,
    Rig,
    all_at_once,
    one_at_a_time,
    run_filter,
    run_score,
    score_all_at_once,
)

WISHES: dict[str, dict[str, object]] = {
    "away from its own kind, by host": {"away": [to(key=HOSTNAME_LABEL)]},
    "away from its own kind, by zone": {"away": [to()]},
    "near its own kind, by zone": {"near": [to()]},
    "near by both zone and rack": {"near": [to(), to(key="rack")]},
    "near by zone, away by host": {"near": [to()], "away": [to(key=HOSTNAME_LABEL), to("db")]},
    "rather near, rather not on the same host": {"likes": [(3, to())], "dislikes": [(2, to(key=HOSTNAME_LABEL))]},
    "likes and dislikes that cancel out": {"likes": [(3, to())], "dislikes": [(3, to())]},
    "no wishes": {},
}


def assert_up_to_date(plugin: InterPodAffinity, rig: Rig, incoming: Pod) -> None:
    fresh = InterPodAffinity(handle=rig)
    assert run_filter(plugin, rig, incoming, all_at_once) == run_filter(fresh, rig, incoming, one_at_a_time)
    assert run_score(plugin, rig, incoming, score_all_at_once) == run_score(fresh, rig, incoming, score_all_at_once)


@pytest.mark.parametrize("wishes", WISHES.values(), ids=WISHES)
def test_results_follow_added_and_removed_pods(wishes: dict[str, object]) -> None:
    rig = Rig(*CLUSTER)
    cached, placed = InterPodAffinity(handle=rig), []
    for step in range(24):
        assert_up_to_date(cached, rig, pod(**wishes))
        placed.append(pod("web" if step % 3 else "db", CLUSTER[step * step % 5].name, name=f"p{step}", **wishes))
        rig.cache.add_pod(placed[-1])
        if step % 4 == 3:
            rig.cache.remove_pod(placed.pop(0))


@pytest.mark.parametrize("form", FORMS)
def test_a_what_if_does_not_change_cached_counts(form: FilterForm) -> None:
    rig, incoming = Rig(*CLUSTER), pod(away=[to()])
    plugin, cycle = InterPodAffinity(handle=rig), CycleState()
    assert plugin.pre_filter(cycle, incoming, rig.nodes) is None

    plugin.add_pod(cycle, incoming, pod(node="a1"), rig.nodes[0])

    assert plugin.filter(cycle, incoming, rig.nodes[1]) is not None
    assert plugin.filter_nodes(cycle, incoming, rig.nodes).status_at(1) is not None
    assert run_filter(plugin, rig, incoming, form) == [None] * len(CLUSTER)


def test_a_count_dropped_by_the_index_is_requested_repeatedly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_index, "MAX_BYTES", 0)
    rig = Rig(*CLUSTER)
    plugin, incoming = InterPodAffinity(handle=rig), pod(away=[to()])
    assert_up_to_date(plugin, rig, incoming)
    for number in range(pod_index.MIN_COUNTS):
        assert_up_to_date(plugin, rig, pod(away=[to(f"app-{number}")]))

    rig.cache.add_pod(pod(node="a1"))

    assert_up_to_date(plugin, rig, incoming)


def test_cached_rules_are_limited_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_rules, "MAX_BYTES", 0)
    rig = Rig(*CLUSTER, pod(node="a1"))
    plugin = InterPodAffinity(handle=rig)
    for number in range(3 * cached_rules.MIN_TALLIES):
        assert_up_to_date(plugin, rig, pod(f"app-{number}", away=[to(f"app-{number}")], likes=[(1, to())]))

    assert len(plugin._cached_rules) <= cached_rules.MIN_TALLIES + 2


@pytest.mark.parametrize("wishes", WISHES.values(), ids=WISHES)
def test_many_terms_give_the_results_of_single_ones(monkeypatch: pytest.MonkeyPatch, wishes: dict[str, object]) -> None:
    rig, incoming = Rig(*CLUSTER), pod(**wishes)
    for step in range(12):
        rig.cache.add_pod(pod("web" if step % 3 else "db", CLUSTER[step * step % 5].name, name=f"p{step}", **wishes))
    removed, added = rig.nodes[0], pod("web", name="added", **wishes)
    results = []
    for many in (16, 0):
        monkeypatch.setattr(cached_rules, "MANY", many)
        plugin, cycle = InterPodAffinity(handle=rig), CycleState()
        result: list[object] = [run_filter(plugin, rig, incoming, form) for form in FORMS]
        result.append(run_score(plugin, rig, incoming, score_all_at_once))
        if plugin.pre_filter(cycle, incoming, rig.nodes) is None:
            for victim in removed.pods.values():
                plugin.remove_pod(cycle, incoming, victim, removed)
            result.append([plugin.filter(cycle, incoming, node) for node in rig.nodes])
            plugin.add_pod(cycle, incoming, added, rig.nodes[1])
            result.append([plugin.filter(cycle, incoming, node) for node in rig.nodes])
        results.append(result)
    assert results[0] == results[1]


def test_unknown_topology_key_determines_the_result() -> None:
    rig = Rig(*CLUSTER)
    rig.cache.add_pod(pod("web", CLUSTER[0].name, name="web"))
    near = [to(key=f"absent-{number}") for number in range(100)]
    plugin = InterPodAffinity(handle=rig)
    results = [run_filter(plugin, rig, pod(near=[to(), *near]), form) for form in FORMS]
    assert results == [run_filter(plugin, rig, pod(near=[to(), near[0]]), form) for form in FORMS]
    assert len(plugin._cached_rules._domains._by_key) < 4


def test_a_topology_key_that_a_node_gets_later_counts_from_then_on() -> None:
    rig = Rig(*CLUSTER)
    rig.cache.add_pod(pod("db", CLUSTER[0].name, name="db", away=[to("web", key="new")]))
    plugin, incoming = InterPodAffinity(handle=rig), pod("web")
    assert run_filter(plugin, rig, incoming, all_at_once) == [None] * len(CLUSTER)
    labels = {**CLUSTER[0].labels, "new": "x"}
    rig.cache.update_node(replace(CLUSTER[0], metadata=replace(CLUSTER[0].metadata, labels=labels)))
    assert_up_to_date(plugin, rig, incoming)
    assert run_filter(plugin, rig, incoming, all_at_once)[0] is not None
