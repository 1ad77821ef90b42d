"""Combine boolean masks; ``None`` represents a constant mask, for which nothing is computed."""

from collections.abc import Iterable

from moorage.scheduler.framework.status import BoolArray


def all_of(masks: Iterable[BoolArray | None]) -> BoolArray | None:
    """Return where all masks are true; ``None`` is true everywhere."""
    combined: BoolArray | None = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined & mask
    return combined


def any_of(masks: Iterable[BoolArray | None]) -> BoolArray | None:
    """Return where any mask is true; ``None`` is true nowhere."""
    combined: BoolArray | None = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined | mask
    return combined


def but_not(mask: BoolArray, without: BoolArray | None) -> BoolArray:
    """Return where the first mask is true and the second is not; ``None`` is true nowhere."""
    return mask if without is None else mask & ~without
