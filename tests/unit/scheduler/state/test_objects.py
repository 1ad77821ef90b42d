"""A cache of objects lists the changes since a version."""

from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.storage import PersistentVolume
from moorage.scheduler.state.objects import MAX_LENGTH, ObjectCache


def volume(name: str) -> PersistentVolume:
    return PersistentVolume(metadata=ObjectMeta(name=name))


def test_changes_are_named_in_order() -> None:
    cache: ObjectCache[PersistentVolume] = ObjectCache()
    cache.put(volume("a"))
    before = cache.version
    assert cache.changed_since(before) == []
    cache.put(volume("b"))
    cache.drop(volume("a"))
    cache.drop(volume("unknown"))
    assert cache.changed_since(before) == ["b", "a"]


def test_changes_beyond_the_log_are_unavailable() -> None:
    cache: ObjectCache[PersistentVolume] = ObjectCache()
    for _ in range(MAX_LENGTH + 1):
        cache.put(volume("a"))
    assert cache.changed_since(0) is None
    assert cache.changed_since(cache.version - 3) == ["a", "a", "a"]
