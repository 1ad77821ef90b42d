"""What plugins remember during one attempt to place one pod."""

from collections.abc import Iterable
from typing import Any, Final, Generic, TypeVar

from moorage.common.errors import NotStored
from moorage.kube.api.pod import Pod

T = TypeVar("T")


class StateKey(Generic[T]):
    """A typed key: what is stored under it is what comes out, without casts or string lookups.

    ``missing`` is what the error says when the key is read and nobody stored anything under it: a configuration may
    switch off the extension point that stores and leave on the one that reads.
    """

    def __init__(self, name: str, *, missing: str = "") -> None:
        self.name = name
        self.missing = missing or f"nothing is stored under {name!r}: is the plugin enabled where it stores this?"

    def __repr__(self) -> str:
        return f"StateKey({self.name!r})"


ASSUMED: Final = StateKey[Pod]("the pod as it is to be counted on its node")
"""Stored by a reserve plugin that found out that the pod takes more there than it asks for."""


class CycleState:
    """State of one attempt, from pre-filter to post-bind.

    What is stored is shared between clones, unless it has a ``clone`` method of its own: state that ``add_pod`` and
    ``remove_pod`` change must have one.

    >>> COUNT = StateKey[int]("count")
    >>> cycle = CycleState()
    >>> cycle[COUNT] = 3
    >>> cycle[COUNT] + 1
    4
    """

    __slots__ = ("_values", "group", "pods_to_activate", "skipped_filters", "skipped_scores")

    def __init__(self) -> None:
        self.group: CycleState | None = None
        """While a pod is tried as a member of a group: what plugins remember during the attempt of the whole group."""
        self._values: dict[StateKey[Any], Any] = {}
        self.skipped_filters: set[str] = set()
        self.skipped_scores: set[str] = set()
        self.pods_to_activate: dict[str, Pod] = {}

    def __setitem__(self, key: StateKey[T], value: T) -> None:
        self._values[key] = value

    def __getitem__(self, key: StateKey[T]) -> T:
        try:
            value: T = self._values[key]
        except KeyError:
            raise NotStored(key.missing) from None
        return value

    def __contains__(self, key: StateKey[Any]) -> bool:
        return key in self._values

    def get(self, key: StateKey[T]) -> T | None:
        """Return what is stored under the key, or ``None``."""
        value: T | None = self._values.get(key)
        return value

    def activate(self, pod: Pod) -> None:
        """Have this pod tried again at once, whatever its backoff, when this attempt succeeds."""
        self.pods_to_activate[pod.key] = pod

    def clone(self) -> "CycleState":
        """Return a copy for a what-if; clonable state is copied, the rest shared."""
        copy = CycleState()
        # Asking for the attribute, not for a protocol: preemption clones a hundred states for one pod.
        copy._values = {key: value.clone() if hasattr(value, "clone") else value for key, value in self._values.items()}
        copy.skipped_filters = set(self.skipped_filters)
        copy.skipped_scores = set(self.skipped_scores)
        copy.pods_to_activate = self.pods_to_activate
        copy.group = self.group
        return copy

    def detached(self) -> "CycleState":
        """Return a copy that no longer follows the cluster: a state that does has a method ``detach`` to end that."""
        copy = self.clone()
        for value in copy._values.values():
            if hasattr(value, "detach"):
                value.detach()
        return copy

    @classmethod
    def merged(cls, states: "Iterable[CycleState]") -> "CycleState":
        """Return a state with what others hold; their values are shared and must not be changed."""
        merged = cls()
        for state in states:
            if state._values:
                merged._values.update(state._values)
            merged.skipped_filters |= state.skipped_filters
            merged.skipped_scores |= state.skipped_scores
        return merged

    def absorb(self, other: "CycleState") -> None:
        """Take in what another state holds; its values are shared and must not be changed."""
        self._values.update(other._values)
        self.skipped_filters |= other.skipped_filters
        self.skipped_scores |= other.skipped_scores

    def drop(self, other: "CycleState") -> None:
        """Leave out what another state, absorbed before, holds."""
        for key in other._values:
            self._values.pop(key, None)
        self.skipped_filters -= other.skipped_filters
        self.skipped_scores -= other.skipped_scores

    def share(self) -> "CycleState":
        """Return a new attempt's state that starts with this one's values; they must not be changed."""
        copy = CycleState.__new__(CycleState)
        copy._values = {**self._values}
        copy.skipped_filters = {*self.skipped_filters}
        copy.skipped_scores = {*self.skipped_scores}
        copy.pods_to_activate = {}
        copy.group = None
        return copy
