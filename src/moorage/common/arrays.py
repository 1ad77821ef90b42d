"""Types of arrays, without the imports of numpy.typing, and the grouping of rows."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

Scalar_co = TypeVar("Scalar_co", bound=np.generic, covariant=True)

NDArray: TypeAlias = np.ndarray[Any, np.dtype[Scalar_co]]

IntType: TypeAlias = type[np.int32] | type[np.int64]


MASKS_AT_ONCE: Final = 40
"""The number of masks that are combined in one pass: each is one bit of an int64, next to the number of a group."""


def group_rows(masks: Sequence[NDArray[np.bool_]], size: int) -> tuple[list[tuple[int, ...]], NDArray[np.int64]]:
    """Group rows by the masks that are true for them. Return the masks of each group, and the group of each row.

    >>> groups, numbers = group_rows([np.array([True, True, False]), np.array([True, False, False])], 3)
    >>> [groups[number] for number in numbers]
    [(0, 1), (0,), ()]
    """
    groups: list[tuple[int, ...]] = [()]
    numbers = np.zeros(size, dtype=np.int64)
    for start in range(0, len(masks), MASKS_AT_ONCE):
        chunk = masks[start : start + MASKS_AT_ONCE]
        combined = numbers << MASKS_AT_ONCE
        for bit, mask in enumerate(chunk):
            combined |= mask.astype(np.int64) << bit
        distinct, numbers = np.unique(combined, return_inverse=True)
        groups = [
            groups[key >> MASKS_AT_ONCE] + tuple(start + bit for bit in range(len(chunk)) if key >> bit & 1)
            for key in distinct.tolist()
        ]
    return groups, numbers
