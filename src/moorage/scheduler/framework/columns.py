"""Column types: growing integer arrays, and Categorical for values with few distinct values."""

from collections.abc import Callable, Collection, Hashable, Iterator
from itertools import count
from typing import Any, Final, Generic, TypeVar

import numpy as np

from moorage.common.arrays import NDArray
from moorage.kube.api.integers import to_int64
from moorage.scheduler.framework.status import BoolArray, IntArray

V = TypeVar("V", bound=Hashable)
CodeArray = NDArray[np.int32]

FIRST_CAPACITY: Final = 64
NOT_SHOWN: Final = -1

next_version: Final = count(1).__next__
"""Makes numbers that no other column or vocabulary of the process has."""


class Categorical(Generic[V]):
    """A column with few distinct values: a code per node, and the values of the codes.

    >>> zones = Categorical.of(["a", "b", None, "a"])
    >>> zones.where(lambda zone: zone == "a").tolist()
    [True, False, False, True]
    """

    __slots__ = ("codes", "values", "version")

    def __init__(self, codes: CodeArray, values: "Vocabulary[V]") -> None:
        self.codes = codes
        self.values = values
        self.version = next_version()
        """Identifies a column: results derived from one are stale when the table shows another version."""

    @classmethod
    def of(cls, values: Collection[V]) -> "Categorical[V]":
        """Build a column from plain values."""
        vocabulary: Vocabulary[V] = Vocabulary()
        return cls(np.array([vocabulary.code(value) for value in values], dtype=np.int32), vocabulary)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> V:
        return self.values[int(self.codes[row])]

    def __iter__(self) -> Iterator[V]:
        values = self.values
        return (values[code] for code in self.codes.tolist())

    def where(self, test: Callable[[V], bool]) -> BoolArray:
        """Find the nodes with a value that passes. The test runs once per distinct value."""
        if len(self.codes) < len(self.values):
            # A narrow table on a column with many values: test only the values in the table.
            return np.fromiter((test(value) for value in self), dtype=np.bool_, count=len(self.codes))
        passes = [test(value) for value in self.values]
        if not any(passes):
            # The most common result of a filter. It needs no gather.
            return np.zeros(len(self.codes), dtype=np.bool_)
        return np.array(passes, dtype=np.bool_).take(self.codes)

    def map(self, function: Callable[[V], int]) -> IntArray:
        """Compute a number for each node. The function runs once per distinct value."""
        if len(self.codes) < len(self.values):
            return np.fromiter((function(value) for value in self), dtype=np.int64, count=len(self.codes))
        table = np.fromiter((function(value) for value in self.values), dtype=np.int64, count=len(self.values))
        return table.take(self.codes)

    def is_in(self, accepted_values: Collection[V]) -> BoolArray:
        """Find the nodes with one of these values: one look-up for any number of distinct values."""
        codes = [code for value in accepted_values if (code := self.values.find(value)) is not None]
        if not codes:
            return np.zeros(len(self.codes), dtype=np.bool_)
        if len(codes) == 1:
            return np.equal(self.codes, codes[0])
        table = np.zeros(len(self.values), dtype=np.bool_)
        table[codes] = True
        return table.take(self.codes)

    def is_number(self, test: Callable[[IntArray], BoolArray]) -> BoolArray:
        """Find the nodes with an integer that passes. The test gets the integers of all distinct values."""
        integers, are_integers = self.values.numbers()
        return (test(integers) & are_integers).take(self.codes)


class Vocabulary(Generic[V]):
    """The distinct values of a column, numbered in order of first appearance."""

    __slots__ = ("_codes", "_numbers", "_values", "version")

    def __init__(self) -> None:
        self._codes: dict[V, int] = {}
        self._values: list[V] = []
        self._numbers: tuple[IntArray, BoolArray] | None = None
        self.version = next_version()
        """Identifies a vocabulary: a code means the same in two columns if their vocabularies have one version."""

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[V]:
        return iter(self._values)

    def __getitem__(self, code: int) -> V:
        return self._values[code]

    def code(self, value: V) -> int:
        """Return the number of a value, giving it one if it is new."""
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self._values)
            self._values.append(value)
        return code

    def find(self, value: V) -> int | None:
        """Return the number of a value, or ``None`` if it has no number."""
        return self._codes.get(value)

    def numbers(self) -> tuple[IntArray, BoolArray]:
        """Return the values as integers by code, and a mask of the valid integers; parsed once for all selectors."""
        if self._numbers is None or len(self._numbers[0]) != len(self._values):
            parsed = [to_int64(value) if isinstance(value, str) else None for value in self._values]
            integers = np.array([number or 0 for number in parsed], dtype=np.int64)
            self._numbers = integers, np.array([number is not None for number in parsed], dtype=np.bool_)
        return self._numbers


class Growing:
    """An array with spare capacity, read through a read-only view of the rows in use."""

    __slots__ = ("array", "rows", "shown")

    def __init__(self, dtype: Any, capacity: int = FIRST_CAPACITY) -> None:
        self.array: NDArray[Any] = np.zeros(capacity, dtype=dtype)
        self.shown: NDArray[Any] = self.array[:0]
        """The current view and its number of rows; ``NOT_SHOWN`` if the array was replaced since."""
        self.rows = NOT_SHOWN

    def reserve(self, rows: int) -> None:
        """Grow to this many rows and keep the values."""
        if rows > len(self.array):
            larger = np.zeros(max(rows, 2 * len(self.array)), dtype=self.array.dtype)
            larger[: len(self.array)] = self.array
            self.array = larger
            self.rows = NOT_SHOWN

    def put(self, row: int, value: Any) -> None:
        """Write one row; grow if necessary."""
        try:
            self.array[row] = value
        except IndexError:
            self.reserve(row + 1)
            self.put(row, value)
        except OverflowError:
            # Pods that were bound elsewhere may have huge requests. Their sum must not stop the scheduler.
            self.array[row] = np.iinfo(self.array.dtype).max

    def view(self, rows: int) -> NDArray[Any]:
        """Return the rows in use, read-only."""
        if self.rows != rows:
            # A column that later rows have not used yet is shorter than the table. Missing values are zero.
            self.reserve(rows)
            self.shown = self.array[:rows]
            self.shown.flags.writeable = False
            self.rows = rows
        return self.shown
