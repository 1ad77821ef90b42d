"""Label sets as bits of integers: a selector costs a few operations for any number of label sets.

A pod of a megabyte has 25,000 affinity terms. Each is evaluated on all label sets of the cluster in one operation.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from moorage.kube.api.selectors import LabelMatcher, Requirement
from moorage.scheduler.framework.status import IntArray
from moorage.scheduler.state.selector_index import Namespaces

Question = tuple[Namespaces, LabelMatcher]
_NO_BITS: Final[dict[str, int]] = {}


class LabelBits:
    """The labels of some objects with their namespaces. Bit ``n`` of a result means the object ``n``."""

    def __init__(self, objects: Sequence[tuple[str, Mapping[str, str]]]) -> None:
        namespaces: dict[str, list[int]] = {}
        values: dict[str, dict[str, list[int]]] = {}
        for index, (namespace, labels) in enumerate(objects):
            namespaces.setdefault(namespace, []).append(index)
            for key, value in labels.items():
                values.setdefault(key, {}).setdefault(value, []).append(index)
        self._count = len(objects)
        self._all_bits = (1 << self._count) - 1
        self._namespaces = {namespace: self._bits(indexes) for namespace, indexes in namespaces.items()}
        self._values = {
            key: {value: self._bits(indexes) for value, indexes in by_value.items()} for key, by_value in values.items()
        }
        self._keys: dict[str, int] = {}

    def select(self, namespaces: Namespaces, matcher: LabelMatcher) -> int:
        """Return the objects in these namespaces (``None``: all) that a selector selects."""
        if matcher.is_nothing:
            return 0
        bits = self._all_bits if namespaces is None else _union(namespaces, self._namespaces)
        for requirement in matcher.requirements:
            if not bits:
                break
            bits &= self._meeting(requirement)
        return bits

    def count(self, questions: Iterable[Question]) -> IntArray:
        """Return how many of the selectors select each object."""
        # The binary digits of all counts, each digit an integer with a bit per object.
        digits: list[int] = []
        for namespaces, matcher in questions:
            carry = self.select(namespaces, matcher)
            for position, digit in enumerate(digits):
                if not carry:
                    break
                digits[position], carry = digit ^ carry, digit & carry
            if carry:
                digits.append(carry)
        counts = np.zeros(self._count, dtype=np.int64)
        for position, digit in enumerate(digits):
            packed = np.frombuffer(digit.to_bytes(self._count // 8 + 1, "little"), dtype=np.uint8)
            counts += np.unpackbits(packed, count=self._count, bitorder="little").astype(np.int64) << position
        return counts

    def _meeting(self, requirement: Requirement) -> int:
        by_value = self._values.get(requirement.key, _NO_BITS)
        match requirement.operator:
            case "In":
                return _union(requirement.values, by_value)
            case "NotIn":
                return self._all_bits ^ _union(requirement.values, by_value)
            case operator:
                bits = self._keys.get(requirement.key)
                if bits is None:
                    bits = self._keys[requirement.key] = _union(by_value, by_value)
                return bits if operator == "Exists" else self._all_bits ^ bits

    def _bits(self, indexes: Iterable[int]) -> int:
        packed = bytearray(self._count // 8 + 1)
        for index in indexes:
            packed[index >> 3] |= 1 << (index & 7)
        return int.from_bytes(packed, "little")


def _union(names: Iterable[str], bits: Mapping[str, int]) -> int:
    union = 0
    for name in names:
        if name in bits:
            union |= bits[name]
    return union
