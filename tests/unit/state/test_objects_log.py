"""A shelf tells what changed since a version."""

from moorage.api.meta import ObjectMeta
from moorage.api.storage import PersistentVolume
from moorage.state import objects
from moorage.state.objects import Shelf


def volume(name: str) -> PersistentVolume:
    return PersistentVolume(metadata=ObjectMeta(name=name))


def test_changes_are_named_in_order() -> None:
    shelf: Shelf[PersistentVolume] = Shelf()
    shelf.put(volume("a"))
    before = shelf.version
    assert shelf.changed_since(before) == []
    shelf.put(volume("b"))
    shelf.drop(volume("a"))
    shelf.drop(volume("unknown"))
    assert shelf.changed_since(before) == ["b", "a"]


def test_what_is_too_long_ago_cannot_be_told() -> None:
    shelf: Shelf[PersistentVolume] = Shelf()
    for _ in range(objects.LONGEST_LOG + 1):
        shelf.put(volume("a"))
    assert shelf.changed_since(0) is None
    assert shelf.changed_since(shelf.version - 3) == ["a", "a", "a"]
