"""Masks put together; ``None`` stands for what need not be looked at, so that nothing is computed for it."""

from collections.abc import Iterable

from moorage.scheduler.framework.status import BoolArray


def all_of(masks: Iterable[BoolArray | None]) -> BoolArray | None:
    """Find where all masks are true; ``None`` is true everywhere."""
    found: BoolArray | None = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found & mask
    return found


def any_of(masks: Iterable[BoolArray | None]) -> BoolArray | None:
    """Find where any mask is true; ``None`` is true nowhere."""
    found: BoolArray | None = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found | mask
    return found


def but_not(mask: BoolArray, without: BoolArray | None) -> BoolArray:
    """Find where the first mask is true and the second is not; ``None`` is true nowhere."""
    return mask if without is None else mask & ~without
