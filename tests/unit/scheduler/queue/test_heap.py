from random import Random
from types import FunctionType

import pytest
from tests.unit.scheduler.queue.queue_bench import Bench, ByPriority, ByPriorityLess

from moorage.scheduler.framework.plugin import QueuedPod, QueueSortPlugin
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.heap import KeyedHeap
from moorage.testing import make_pod


def entry(name: str) -> QueuedPodInfo:
    return QueuedPodInfo(make_pod(name), 0.0)


def drained(heap: KeyedHeap) -> list[str]:
    names = []
    while (info := heap.pop()) is not None:
        heap.check_invariants()
        names.append(info.pod.name)
    return names


def test_equal_keys_leave_in_order_of_arrival() -> None:
    heap = KeyedHeap()
    for name in "abcdefgh":
        heap.put(entry(name), 1)
    assert drained(heap) == list("abcdefgh")


def test_a_replaced_entry_keeps_its_place_unless_its_key_changed() -> None:
    heap = KeyedHeap()
    for name in "abc":
        heap.put(entry(name), 1)
    heap.put(entry("a"), 1)
    heap.put(entry("b"), 0)
    heap.put(entry("b"), 1)
    assert len(heap) == 3
    assert drained(heap) == ["a", "c", "b"]


def test_removed_entries_never_surface_and_do_not_pile_up() -> None:
    heap = KeyedHeap()
    heap.put(entry("kept"), 5)
    for number in range(1000):
        heap.put(entry(f"gone{number}"), number % 10)
        assert heap.remove(f"default/gone{number}") is not None
    assert heap.remove("default/gone1") is None
    assert len(heap._heap) < 100
    assert heap.first_key() == 5
    assert drained(heap) == ["kept"]
    assert heap.first_key() is None


@pytest.mark.parametrize("sort", [ByPriority(), ByPriorityLess()], ids=["sort_key", "less"])
def test_queue_sort_by_either_method_is_the_same_and_ties_keep_the_order_of_insertion(sort: QueueSortPlugin) -> None:
    bench = Bench(sort=sort)
    bench.add("b", "a", priority=1)
    bench.add("top", priority=7)
    bench.add("none")
    bench.clock.advance(1)
    bench.add("later", priority=1)
    assert [bench.pop().pod.name for _ in range(5)] == ["top", "b", "a", "later", "none"]


@pytest.mark.parametrize("sort", [ByPriority(), ByPriorityLess()], ids=["sort_key", "less"])
def test_an_updated_pod_is_re_sorted(sort: QueueSortPlugin) -> None:
    bench = Bench(sort=sort)
    first = bench.add("first", priority=5)
    bench.add("a", "b", "c", priority=3)
    second = make_pod("first", uid=first.uid, priority=1)
    bench.update(first, second)
    bench.update(second, make_pod("first", uid=first.uid, priority=3))
    assert [bench.pop().pod.name for _ in range(4)] in (["first", "a", "b", "c"], ["a", "b", "c", "first"])
    assert bench.queue.pop() is None


class Moody(QueueSortPlugin):
    """Puts pods in the order of their names, and will not compare some."""

    def less(self, left: QueuedPod, right: QueuedPod) -> bool:
        if "bad" in (left.pod.name, right.pod.name):
            raise RuntimeError("I do not like that one")
        return left.pod.name < right.pod.name


class Keyless(QueueSortPlugin):
    """Has no key for some pods."""

    def sort_key(self, queued: QueuedPod) -> str:
        if queued.pod.name == "bad":
            raise RuntimeError("I do not like that one")
        return queued.pod.name


def popped(bench: Bench) -> list[str]:
    names = []
    while (info := bench.queue.pop()) is not None:
        bench.queue.check_invariants()
        names.append(info.pod.name)
    return names


@pytest.mark.parametrize(
    ("sort", "method"), [(Moody(), Moody.less), (Keyless(), Keyless.sort_key)], ids=["less", "sort_key"]
)
def test_a_sort_plugin_that_raises_loses_no_pod(sort: QueueSortPlugin, method: FunctionType) -> None:
    line = method.__code__.co_firstlineno + 2
    bench = Bench(sort=sort)
    names = ["d", "bad", "b", "c", "a"]
    bench.add(*names)
    bench.queue.check_invariants()
    assert sorted(popped(bench)) == sorted(names), "every pod is tried, once"
    assert {(plugin, problem) for plugin, _, problem in bench.counts.failures} == {
        (sort.name, f"{sort.name}.{method.__name__} raised RuntimeError: I do not like that one (test_heap.py:{line})")
    }
    assert len(bench.counts.failures) <= len(names), "each pod is reported once"
    bench.add("f", "e")
    assert [info.pod.name for _ in "ef" if (info := bench.queue.pop()) is not None] == ["e", "f"], (
        "the others are sorted"
    )


def test_first_key_is_that_of_the_next_entity() -> None:
    chance = Random(3)
    heap, keys = KeyedHeap(), dict[str, int]()
    for number in range(300):
        name = f"e{chance.randrange(40)}"
        if chance.random() < 0.3:
            heap.remove(f"default/{name}")
            keys.pop(name, None)
        else:
            keys[name] = chance.randrange(1000) + number
            heap.put(entry(name), keys[name])
        assert heap.first_key() == min(keys.values(), default=None)
    assert [keys[name] for name in drained(heap)] == sorted(keys.values())


class Spoilt(str):
    """A key that cannot be compared from some moment on."""

    is_spoilt = False

    def __lt__(self, other: str) -> bool:
        if self.is_spoilt:
            raise RuntimeError("no order")
        return str.__lt__(self, other)


def test_keys_that_fail_during_a_removal_lose_no_entity(monkeypatch: pytest.MonkeyPatch) -> None:
    heap = KeyedHeap(lambda key, info: (0, info.pod.name))
    for number in range(200):
        heap.put(entry(f"e{number:03}"), Spoilt(f"{number:03}"))
    monkeypatch.setattr(Spoilt, "is_spoilt", True)
    for number in range(190):
        assert heap.remove(f"default/e{number:03}") is not None
    heap.check_invariants()
    assert drained(heap) == [f"e{number}" for number in range(190, 200)]
