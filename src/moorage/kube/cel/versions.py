"""Semantic versions in expressions."""

import re
from functools import total_ordering
from typing import Any, Final

from moorage.common.caches import cached

Tagged = dict[str, str]
"""The value of a quantity or a version in expressions."""

_VERSION: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][\dA-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][\dA-Za-z-]*))*))?"
    r"(?:\+([\dA-Za-z-]+(?:\.[\dA-Za-z-]+)*))?\Z"
)


@total_ordering
class Version:
    """A semantic version. Comparisons ignore build metadata."""

    def __init__(self, numbers: tuple[int, int, int], prerelease: str) -> None:
        self.numbers = numbers
        self.prerelease = prerelease

    @property
    def tagged(self) -> Tagged:
        """The value of the version in expressions."""
        text = ".".join(str(number) for number in self.numbers)
        return {"@semver": f"{text}-{self.prerelease}" if self.prerelease else text}

    @property
    def _order(self) -> tuple[Any, ...]:
        # A prerelease precedes its release, numbers precede words, and a prefix precedes a longer list.
        parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.prerelease.split(".")]
        return (self.numbers, not self.prerelease, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._order == other._order

    def __lt__(self, other: "Version") -> bool:
        return self._order < other._order

    __hash__ = None  # type: ignore[assignment]


@cached(4096)
def parse_version(text: str) -> Version:
    """Parse a strict semantic version."""
    match = _VERSION.match(text)
    if match is None:
        raise ValueError(f"parse semantic version: {text!r} is not major.minor.patch with optional -prerelease")
    return Version((int(match[1]), int(match[2]), int(match[3])), match[4] or "")


def normalized(text: str) -> str:
    """Normalize a lax version: no ``v``, three numbers, no leading zeros."""
    text = text.removeprefix("v")
    end = min((text.index(mark) for mark in "-+" if mark in text), default=len(text))
    numbers = [number.lstrip("0") or "0" if number else number for number in text[:end].split(".")]
    if len(numbers) < 3 and end < len(text):
        raise ValueError(f"parse semantic version: {text!r} has too few numbers before its suffix")
    numbers += ["0"] * (3 - len(numbers))
    return ".".join(numbers) + text[end:]
