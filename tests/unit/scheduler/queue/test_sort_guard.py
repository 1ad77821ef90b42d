"""Sort keys that can be compared even if the QueueSort plugin fails."""

from typing import Any

import pytest

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.plugin import QueuedPod, QueueSortPlugin
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.observer import QueueObserver
from moorage.scheduler.queue.sort_guard import SortGuard
from moorage.testing import make_pod


class ByAnnotation(QueueSortPlugin):
    """Sorts by a label, which may be missing or of another type."""

    def sort_key(self, queued: QueuedPod) -> Any:
        rank = queued.pod.metadata.labels["rank"]
        return int(rank) if rank.isdigit() else rank


class Failures(QueueObserver):
    def __init__(self) -> None:
        self.pods: list[str] = []

    def on_plugin_failure(self, plugin: str, pod: Pod, problem: BaseException | str) -> None:
        self.pods.append(pod.name)


def entity(name: str, rank: str | None) -> QueuedPodInfo:
    return QueuedPodInfo(make_pod(name, labels={} if rank is None else {"rank": rank}), 0.0)


def test_keys_of_the_plugin_are_used_unchanged() -> None:
    guard = SortGuard(ByAnnotation())
    assert guard.key(entity("a", "1")) == 1


def test_a_pod_without_a_key_is_reported_once_and_compares_as_equal() -> None:
    failures = Failures()
    guard = SortGuard(ByAnnotation(), failures)
    unsorted, first = entity("unsorted", None), entity("first", "1")
    keys = [guard.guarded(guard.key(info), info) for info in (unsorted, first)]
    assert failures.pods == ["unsorted"]
    assert not keys[0] < keys[1]
    assert not keys[1] < keys[0]
    assert keys[0] == keys[1]
    assert failures.pods == ["unsorted"]


def test_keys_that_cannot_be_compared_are_reported_once_for_each_pod() -> None:
    failures = Failures()
    guard = SortGuard(ByAnnotation(), failures)
    number, text = (guard.guarded(guard.key(info), info) for info in (entity("number", "1"), entity("text", "x")))
    assert not number < text
    assert not number < text
    assert failures.pods == ["number"]
    assert not text < number
    assert failures.pods == ["number", "text"]


def test_guarded_keys_keep_the_order_of_comparable_keys() -> None:
    guard = SortGuard(ByAnnotation())
    low, high = (guard.guarded(guard.key(info), info) for info in (entity("a", "1"), entity("b", "2")))
    assert low < high
    assert not high < low
    assert low != high


def test_an_unguarded_key_of_a_failed_plugin_cannot_be_compared() -> None:
    guard = SortGuard(ByAnnotation())
    with pytest.raises(TypeError, match="no sort key"):
        assert guard.key(entity("a", None)) < guard.key(entity("b", None))
