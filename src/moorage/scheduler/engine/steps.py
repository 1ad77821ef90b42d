"""Work that is cut into steps, so that pods can be tried between them: a generator that yields after each."""

from collections.abc import Iterator
from time import perf_counter
from typing import Final

MAX_STEPS: Final = 64
"""However quick they are, no more steps than these are taken at once."""
MAX_SECONDS: Final = 0.0003
"""After so long no further step is begun: about as long as it takes to try a pod."""


def go_through(steps: Iterator[None]) -> None:
    """Take all steps that are left."""
    for _ in steps:
        pass


def take_some(steps: Iterator[None]) -> bool:
    """Take a few steps; return whether more may be left."""
    until = perf_counter() + MAX_SECONDS
    return any(taken == MAX_STEPS or perf_counter() > until for taken, _ in enumerate(steps, start=1))
