"""The bounded map: what goes, what stays, and how much there is at most."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.common.caches import LRU, MAX_KEPT, MAX_KEY_LENGTH, Doorkeeper, cached_if_short, short_key
from moorage.kube.api import affinity_terms, shape
from moorage.kube.api.affinity import Affinity, PodAffinity, PodAffinityTerm
from moorage.kube.api.selectors import LabelSelector
from moorage.testing import make_pod


@given(st.integers(1, 12), st.lists(st.integers(0, 30)))
def test_there_are_never_more_entries_than_the_limit(limit: int, keys: list[int]) -> None:
    cache: LRU[int, int] = LRU(limit, lambda key: key + 1)
    for key in keys:
        assert cache[key] == key + 1
        assert cache.size <= max(2, limit)


def test_what_is_asked_for_again_and_again_stays() -> None:
    cache: LRU[int, int] = LRU(10)
    cache.put(0, 100)
    for key in range(1, 1000):
        cache.put(key, key)
        assert cache.find(0) == 100
    assert cache.find(1) is None


def test_a_value_of_the_old_generation_is_not_computed_again() -> None:
    computed: list[int] = []
    cache: LRU[int, int] = LRU(4, lambda key: computed.append(key) or key)
    for key in (1, 2, 3, 1, 2):
        assert cache[key] == key
    assert computed == [1, 2, 3]


def test_forgetting_reaches_both_generations() -> None:
    cache: LRU[str, int] = LRU(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.discard("a")
    assert (cache.find("a"), cache.find("b")) == (None, 2)
    cache.clear()
    assert cache.size == 0


def test_a_doorkeeper_lets_in_what_comes_back() -> None:
    kept: Doorkeeper[str, int] = Doorkeeper(4)
    kept.put("shared", 1)
    assert kept.find("shared") == 1
    for number in range(100):
        kept.put(f"own {number}", number)
    assert kept.find("shared") == 1
    assert kept.find("own 98") is None
    assert kept.find("own 99") == 99


def test_a_doorkeeper_knows_a_key_whose_value_it_dropped() -> None:
    kept: Doorkeeper[str, int] = Doorkeeper(4)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.find("a") is None
    kept.put("a", 3)
    kept.put("c", 4)
    assert kept.find("a") == 3


@given(st.integers(2, 12), st.lists(st.tuples(st.integers(0, 30), st.integers(2, 12))))
def test_whatever_goes_for_want_of_room_is_named(limit: int, steps: list[tuple[int, int]]) -> None:
    dropped: list[int] = []
    cache: LRU[int, int] = LRU(limit, on_drop=lambda key, value: dropped.append(key))
    known: set[int] = set()
    for key, resized in steps:
        cache.resize(resized)
        if cache.find(key) is None:
            cache.put(key, key)
            known.add(key)
        known.difference_update(dropped)
        dropped.clear()
        assert {kept for kept, _ in cache.entries()} == known


def test_long_texts_are_answered_but_not_kept() -> None:
    asked: list[str] = []

    @cached_if_short(8)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    short, long = "a", "a" * (MAX_KEY_LENGTH + 1)
    assert [length(short), length(short), length(long), length(long)] == [1, 1, len(long), len(long)]
    assert asked == [short, long, long]


def test_long_objects_are_answered_but_not_kept() -> None:
    asked: list[tuple[str, ...]] = []

    @cached_if_short(8, lambda texts: sum(map(len, texts)))
    def count(texts: tuple[str, ...]) -> int:
        asked.append(texts)
        return len(texts)

    short, long = ("a", "b"), ("a" * MAX_KEPT, "b")
    assert [count(short), count(short), count(long), count(long)] == [2, 2, 2, 2]
    assert asked == [short, long, long]


@pytest.mark.parametrize("size", [100, 2 * MAX_KEPT])
def test_of_a_pod_with_a_huge_spec_nothing_is_kept(size: int) -> None:
    term = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector(match_labels={"a": "x" * size}))
    affinity = Affinity(pod_affinity=PodAffinity(required=(term,)))
    pod = make_pod("huge", affinity=affinity, node_selector={"a": "x" * size})
    before = len(shape._shapes), len(affinity_terms._parsed)
    assert pod.shape is not None
    assert affinity_terms.affinity_terms(pod).affinity
    kept = len(shape._shapes) - before[0], len(affinity_terms._parsed) - before[1]
    assert kept == ((1, 1) if size < MAX_KEPT else (0, 0))


@given(st.binary(max_size=3 * MAX_KEY_LENGTH), st.binary(max_size=3 * MAX_KEY_LENGTH))
def test_keys_are_short_and_still_tell_objects_apart(one: bytes, other: bytes) -> None:
    assert len(short_key(one)) <= MAX_KEY_LENGTH
    assert (short_key(one) == short_key(other)) == (one == other)
