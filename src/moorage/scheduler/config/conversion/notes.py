"""What a reader of a converted configuration must know: what moved, what has another name, what is lost."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct


class Effect(StrEnum):
    """What became of something."""

    MOVED = "moved"
    RENAMED = "renamed"
    CHANGED = "changed"
    DROPPED = "dropped"
    """It is not there any more, and nobody will miss it."""
    LOST = "lost"
    """Pods will be placed otherwise, or something is no longer served: the result is not faithful."""


class Note(Struct, frozen=True):
    """One thing that is not as it was."""

    effect: Effect
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.effect}: {self.where}: {self.text}"


class Notes(list[Note]):
    """Notes in the order of the file."""

    def add(self, effect: Effect, where: str, text: str) -> None:
        """Note something."""
        self.append(Note(effect, where, text))

    def lost(self, where: str, text: str) -> None:
        """Note something that nothing has taken the place of."""
        self.add(Effect.LOST, where, text)

    @property
    def are_faithful(self) -> bool:
        """Whether nothing is lost."""
        return all(note.effect is not Effect.LOST for note in self)


def as_mapping(value: Any, where: str, notes: Notes) -> Mapping[str, Any]:
    """Return a mapping; what is none is noted and counts as empty."""
    if value is None or isinstance(value, Mapping):
        return value or {}
    notes.lost(where, f"{_short(value)} is no mapping")
    return {}


def as_list(value: Any, where: str, notes: Notes) -> list[Any]:
    """Return a list; what is none is noted and counts as empty."""
    if value is None or isinstance(value, list):
        return value or []
    notes.lost(where, f"{_short(value)} is no list")
    return []


def as_number(value: Any, where: str, notes: Notes, default: int) -> int:
    """Return a whole number; what is none is noted, and the default counts."""
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    notes.lost(where, f"{_short(value)} is no whole number; {default} is written")
    return default


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
