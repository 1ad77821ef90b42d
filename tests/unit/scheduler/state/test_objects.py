"""A cache of objects lists the changes since a version."""

from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.storage import PersistentVolume
from moorage.scheduler.state.objects import MAX_LENGTH, ObjectCache


def volume(name: str) -> PersistentVolume:
    return PersistentVolume(metadata=ObjectMeta(name=name))


def test_changes_are_named_in_order() -> None:
    kept: ObjectCache[PersistentVolume] = ObjectCache()
    kept.put(volume("a"))
    before = kept.version
    assert kept.changed_since(before) == []
    kept.put(volume("b"))
    kept.drop(volume("a"))
    kept.drop(volume("unknown"))
    assert kept.changed_since(before) == ["b", "a"]


def test_changes_beyond_the_log_are_unavailable() -> None:
    kept: ObjectCache[PersistentVolume] = ObjectCache()
    for _ in range(MAX_LENGTH + 1):
        kept.put(volume("a"))
    assert kept.changed_since(0) is None
    assert kept.changed_since(kept.version - 3) == ["a", "a", "a"]
