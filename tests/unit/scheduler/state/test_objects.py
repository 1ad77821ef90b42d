"""A cache of objects lists the changes since a version."""

from hypothesis import given
from hypothesis import strategies as st

from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.storage import PersistentVolume
from moorage.scheduler.state.objects import MAX_LENGTH, ChangeLog, ObjectCache


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


@given(st.lists(st.integers()), st.integers(1, 8), st.data())
def test_reader_gets_all_changes_since_its_position_or_none_if_too_late(
    changes: list[int], length: int, data: st.DataObject
) -> None:
    log = ChangeLog[int](length)
    for change in changes:
        log.note(change)
    assert log.position == len(changes)
    position = data.draw(st.integers(0, len(changes)))
    new_changes = log.since(position)
    assert new_changes is None or new_changes == changes[position:]
    assert new_changes is not None or len(changes) - position > length // 2
