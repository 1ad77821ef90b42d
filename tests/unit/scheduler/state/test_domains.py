from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.kube.api.affinity import Affinity, PodAffinity, PodAffinityTerm
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import EVERYTHING, LabelMatcher, LabelSelector, label_set_matcher
from moorage.scheduler.state import domains
from moorage.scheduler.state.cache import Cache
from moorage.scheduler.state.domains import Domains, DomainTally
from moorage.testing import make_node, make_pod

WEB = label_set_matcher({"app": "web"})
NEAR_ANY = Affinity(pod_affinity=PodAffinity(required=(PodAffinityTerm(label_selector=LabelSelector()),)))


def pod(name: str, app: str, node: str = "", *, zone: str = "") -> Pod:
    """Make a pod with a term; the API server adds the zone to its labels on binding."""
    labels = {"app": app, "zone": zone} if zone else {"app": app}
    return make_pod(name, node=node, uid=name, labels=labels, affinity=NEAR_ANY)


def cluster(*zones: str | None) -> Cache:
    cache = Cache()
    for number, zone in enumerate(zones):
        cache.add_node(make_node(f"n{number}", labels={"zone": zone} if zone else {}))
    return cache


def make_tally(cache: Cache, *weighted: tuple[LabelMatcher, int]) -> DomainTally:
    return DomainTally(
        tuple((cache.pods.count(None, matcher, terminating=True), weight) for matcher, weight in weighted)
    )


def refreshed(tally: DomainTally, cache: Cache) -> DomainTally:
    tally.refresh(Domains.of(cache.nodes.label("zone")))
    return tally


def test_sums_follow_the_pods_by_domain() -> None:
    cache = cluster("a", "a", "b", None)
    tally = make_tally(cache, (WEB, 3), (EVERYTHING, -1))
    assert refreshed(tally, cache).counted == 0

    for index, node in enumerate(("n0", "n1", "n2", "n3")):
        cache.add_pod(pod(f"p{index}", "web" if index else "db", node))
    refreshed(tally, cache)

    assert (tally["a"], tally["b"], tally[None], tally["c"]) == (1, 2, 0, 0)
    assert tally.at(None).tolist() == [1, 1, 2, 0]
    assert tally.positive_rows().tolist() == [True, True, True, False]
    assert tally.counted == 5


def test_opinions_that_cancel_out_are_still_counted() -> None:
    cache = cluster("a")
    tally = make_tally(cache, (WEB, 1), (EVERYTHING, -1))
    cache.add_pod(pod("p", "web", "n0"))

    assert refreshed(tally, cache)["a"] == 0
    assert tally.counted == 2


def test_rows_keep_their_version_until_others_have_a_sum_above_zero() -> None:
    cache = cluster("a", "b")
    tally = make_tally(cache, (WEB, 1))
    cache.add_pod(pod("first", "web", "n0"))
    version = refreshed(tally, cache).positive_version

    cache.add_pod(pod("second", "web", "n0"))
    assert refreshed(tally, cache).positive_version == version
    cache.add_pod(pod("third", "web", "n1"))
    assert refreshed(tally, cache).positive_version > version


def test_snapshot_does_not_change() -> None:
    cache = cluster("a")
    tally = make_tally(cache, (WEB, 1))
    before = refreshed(tally, cache).snapshot()
    cache.add_pod(pod("p", "web", "n0"))
    refreshed(tally, cache)

    assert (before["a"], tally["a"]) == (0, 1)


def test_labels_added_on_binding_do_not_change_counts_that_ignore_them() -> None:
    cache = cluster("a")
    web = cache.pods.count(None, WEB, terminating=True)
    here = cache.pods.count(None, label_set_matcher({"zone": "a"}), terminating=True)
    cache.assume(pod("p", "web", "n0"))
    position = web.log.position

    cache.add_pod(pod("p", "web", "n0", zone="a"))

    assert web.log.position == position
    assert (web.per_row(1).tolist(), here.per_row(1).tolist()) == ([1], [1])


def test_values_that_are_added_after_the_count_have_no_count() -> None:
    cache = cluster("a")
    tally = make_tally(cache, (WEB, 1))
    cache.remove_node("n0")
    refreshed(tally, cache)
    cache.add_node(make_node("n1", labels={"zone": "a"}))
    cache.remove_node("n1")
    assert refreshed(tally, cache)["a"] == 0


ZONES = st.sampled_from(["a", "b", "c", "d", None])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add pod"), st.sampled_from(["web", "db"]), st.integers(0, 9)),
        st.tuples(st.just("confirm pod"), st.none(), st.integers(0, 99)),
        st.tuples(st.just("remove pod"), st.none(), st.integers(0, 99)),
        st.tuples(st.just("add node"), ZONES, st.none()),
        st.tuples(st.just("move node"), ZONES, st.integers(0, 9)),
        st.tuples(st.just("remove node"), st.none(), st.integers(0, 9)),
        st.tuples(st.just("ask"), st.none(), st.none()),
    ),
    max_size=40,
)


@pytest.mark.parametrize("most_steps", [1, 128])
@settings(max_examples=100, deadline=None)
@given(steps=STEPS)
def test_tally_equals_a_full_count_after_any_history(most_steps: int, steps) -> None:  # type: ignore[no-untyped-def]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(domains, "MAX_STEPS", most_steps)
        cache = cluster("a", "b", None)
        tally = make_tally(cache, (WEB, 2), (EVERYTHING, 1))
        for number, step in enumerate(steps):
            take(step, number, cache, tally)
        assert_counted(refreshed(tally, cache), cache)


def take(step, number: int, cache: Cache, tally: DomainTally) -> None:  # type: ignore[no-untyped-def]
    action, value, position = step
    pods = [placed for info in cache.nodes for placed in info.pods.values()]
    if action == "add pod" and len(cache):
        cache.assume(pod(f"p{number}", value, cache.nodes[position % len(cache)].name))
    elif action == "confirm pod" and pods:
        placed = pods[position % len(pods)]
        if cache.is_assumed(placed):
            cache.add_pod(pod(placed.name, placed.labels["app"], placed.node_name, zone="a"))
    elif action == "remove pod" and pods:
        cache.remove_pod(pods[position % len(pods)])
    elif action == "add node":
        cache.add_node(make_node(f"m{number}", labels={"zone": value} if value else {}))
    elif action == "move node" and len(cache):
        cache.update_node(make_node(cache.nodes[position % len(cache)].name, labels={"zone": value} if value else {}))
    elif action == "remove node" and len(cache):
        cache.remove_node(cache.nodes[position % len(cache)].name)
    elif action == "ask":
        assert_counted(refreshed(tally, cache), cache)


def assert_counted(tally: DomainTally, cache: Cache) -> None:
    sums: Counter[str | None] = Counter()
    counted = 0
    for info in cache.nodes:
        if "zone" in info.labels:
            for placed in info.pods.values():
                sums[info.labels["zone"]] += 3 if placed.labels["app"] == "web" else 1
                counted += 2 if placed.labels["app"] == "web" else 1
    want = [sums[info.labels.get("zone")] for info in cache.nodes]
    assert tally.at(None).tolist() == want
    assert tally.at(np.arange(len(want))[::-2]).tolist() == want[::-2]
    assert tally.positive_rows().tolist() == [number > 0 for number in want]
    assert (tally["a"], tally["b"], tally.counted) == (sums["a"], sums["b"], counted)
