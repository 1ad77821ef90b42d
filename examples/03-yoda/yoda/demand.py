"""The demand of a pod, read from its labels."""

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

from moorage import Pod

NUMBER: Final = "scv/number"
MEMORY: Final = "scv/memory"
CLOCK: Final = "scv/clock"
PRIORITY: Final = "scv/priority"
CARDS: Final = "scv/cards"
"""The annotation with the cards assigned to a pod, such as ``0,2``."""

EXAMPLES: Final = {
    NUMBER: '"2"',
    MEMORY: '"8000" (MB per card)',
    CLOCK: '"5705" (MHz)',
    PRIORITY: '"10"',
}
MOST: Final = 1 << 40
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}\Z")


class Demand(Struct, frozen=True):
    """A number of cards, each with free memory (MB) and a minimum clock (MHz); ``None`` means unspecified."""

    number: int | None = None
    memory: int | None = None
    clock: int | None = None

    @property
    def cards(self) -> int:
        """The number of cards (default: 1)."""
        return 1 if self.number is None else self.number

    @property
    def total(self) -> int:
        """The memory of all cards together."""
        return self.cards * (self.memory or 0)


class WrongLabel(Exception):
    """A label cannot be read; the text is for the pod's event."""


def compute_demand(pod: Pod) -> Demand:
    """Read a pod's labels; raise WrongLabel for an invalid number."""
    return _demand(*_labels(pod))


def check_labels(pod: Pod) -> None:
    """Reject invalid labels that are unrelated to cards: an invalid priority or an invalid name."""
    for key in pod.labels:
        if key.startswith("scv/") and key not in EXAMPLES:
            raise WrongLabel(f"the pod's label {key[:40]} is unknown: write one of {', '.join(EXAMPLES)}")
    priority = pod.labels.get(PRIORITY)
    if priority is not None and not _WHOLE.match(priority):
        raise WrongLabel(_wrong(PRIORITY, priority))


def compute_original_demand(pod: Pod) -> Demand:
    """Read a pod's labels as the original does: invalid numbers are 0, negative numbers wrap around."""
    return Demand(*(None if label is None else min(number(label) % (1 << 64), MOST) for label in _labels(pod)))


def number(label: str) -> int:
    """Read a number as Go's ``Atoi``; anything else is 0."""
    return int(label) if _WHOLE.match(label) else 0


def cards_given(pod: Pod) -> tuple[int, ...]:
    """Return the cards assigned to a pod; empty if another scheduler placed it."""
    return _ids(pod.annotations.get(CARDS, ""))


@lru_cache(4096)
def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",")) if re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", text) else ()


def _labels(pod: Pod) -> tuple[str | None, ...]:
    return pod.labels.get(NUMBER), pod.labels.get(MEMORY), pod.labels.get(CLOCK)


@lru_cache(4096)
def _demand(*labels: str | None) -> Demand:
    pairs = zip((NUMBER, MEMORY, CLOCK), labels, strict=True)
    return Demand(*(None if label is None else _amount(key, label) for key, label in pairs))


def _amount(key: str, label: str) -> int:
    if not _WHOLE.match(label) or not 0 <= int(label) <= MOST:
        raise WrongLabel(_wrong(key, label))
    return int(label)


def _wrong(key: str, label: str) -> str:
    return f"the pod's label {key} is {label[:40]!r}: write a whole number such as {EXAMPLES[key]}"
