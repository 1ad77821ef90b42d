"""Notes on a converted configuration: moved, renamed and lost settings."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct


class Effect(StrEnum):
    """The effect of a conversion on a setting."""

    MOVED = "moved"
    RENAMED = "renamed"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    DROPPED = "dropped"
    """Removed without an effect on decisions."""
    LOST = "lost"
    """Pods may get other nodes, or a setting has no replacement: the result is not faithful."""


class Note(Struct, frozen=True):
    """One difference."""

    effect: Effect
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.effect}: {self.where}: {self.text}"


class Notes(list[Note]):
    """Notes in the order of the file."""

    def add(self, effect: Effect, where: str, text: str) -> None:
        """Add a note."""
        self.append(Note(effect, where, text))

    def lost(self, where: str, text: str) -> None:
        """Note a setting without a replacement."""
        self.add(Effect.LOST, where, text)

    @property
    def are_faithful(self) -> bool:
        """Whether nothing is lost."""
        return all(note.effect is not Effect.LOST for note in self)


def as_mapping(value: Any, where: str, notes: Notes) -> Mapping[str, Any]:
    """Return the value if it is a mapping; otherwise record a note and return {}."""
    if value is None or isinstance(value, Mapping):
        return value or {}
    notes.lost(where, f"{_short(value)} is not a mapping")
    return {}


def as_list(value: Any, where: str, notes: Notes) -> list[Any]:
    """Return the value if it is a list; otherwise record a note and return []."""
    if value is None or isinstance(value, list):
        return value or []
    notes.lost(where, f"{_short(value)} is not a list")
    return []


def as_number(value: Any, where: str, notes: Notes, default: int) -> int:
    """Return the value if it is an integer; otherwise record a note and return the default."""
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    notes.lost(where, f"{_short(value)} is not an integer; {default} is written")
    return default


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
