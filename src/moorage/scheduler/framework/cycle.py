"""The state that plugins store during one scheduling attempt of a pod."""

from collections.abc import Iterable
from typing import Any, Final, Generic, TypeVar

from moorage.common.errors import NotStored
from moorage.kube.api.pod import Pod

T = TypeVar("T")


class StateKey(Generic[T]):
    """A typed key of a :class:`CycleState`: values need no casts and keys cannot be mistyped.

    ``missing`` is the error message if the key is read before a value is stored. A configuration may disable the
    extension point that stores the value and enable the extension point that reads it.
    """

    def __init__(self, name: str, *, missing: str = "") -> None:
        self.name = name
        self.missing = missing or f"nothing is stored under {name!r}: is the plugin enabled where it stores this?"

    def __repr__(self) -> str:
        return f"StateKey({self.name!r})"


ASSUMED: Final = StateKey[Pod]("the pod with its actual requests on the node")
"""Stored by a reserve plugin if the pod uses more resources on its node than it requests."""


class CycleState:
    """The state of an attempt, from pre-filter to post-bind.

    Clones share the stored values, except those with a ``clone`` method. A value that ``add_pod`` and ``remove_pod``
    change must have one.

    >>> COUNT = StateKey[int]("count")
    >>> cycle = CycleState()
    >>> cycle[COUNT] = 3
    >>> cycle[COUNT] + 1
    4
    """

    __slots__ = ("_values", "group", "may_suspend", "pods_to_activate", "skipped_filters", "skipped_scores")

    def __init__(self) -> None:
        self.group: CycleState | None = None
        """The state of the group's attempt, if the pod is scheduled as a member of a group."""
        self.may_suspend = False
        """Whether a filter may raise :class:`AttemptSuspended`."""
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
        """Return the value of the key, or ``None``."""
        value: T | None = self._values.get(key)
        return value

    def activate(self, pod: Pod) -> None:
        """Retry this pod immediately, regardless of its backoff, when this attempt succeeds."""
        self.pods_to_activate[pod.key] = pod

    def clone(self) -> "CycleState":
        """Return a copy. Values with a ``clone`` method are copied, other values are shared."""
        copy = CycleState()
        # hasattr is faster than isinstance with a protocol, and preemption clones a hundred states per pod.
        copy._values = {key: value.clone() if hasattr(value, "clone") else value for key, value in self._values.items()}
        copy.skipped_filters = set(self.skipped_filters)
        copy.skipped_scores = set(self.skipped_scores)
        copy.pods_to_activate = self.pods_to_activate
        copy.group = self.group
        return copy

    def detached(self) -> "CycleState":
        """Return a copy that is not updated with the cluster. Values that are have a ``detach`` method."""
        copy = self.clone()
        for value in copy._values.values():
            if hasattr(value, "detach"):
                value.detach()
        return copy

    @classmethod
    def merged(cls, states: "Iterable[CycleState]") -> "CycleState":
        """Return a state with the values of others. They are shared and must not be changed."""
        merged = cls()
        for state in states:
            if state._values:
                merged._values.update(state._values)
            if state.skipped_filters:
                merged.skipped_filters |= state.skipped_filters
            if state.skipped_scores:
                merged.skipped_scores |= state.skipped_scores
        return merged

    def absorb(self, other: "CycleState") -> None:
        """Add the values of another state. They are shared and must not be changed."""
        self._values.update(other._values)
        self.skipped_filters |= other.skipped_filters
        self.skipped_scores |= other.skipped_scores

    def drop(self, other: "CycleState") -> None:
        """Remove the values of another state that was absorbed before."""
        for key in other._values:
            self._values.pop(key, None)
        self.skipped_filters -= other.skipped_filters
        self.skipped_scores -= other.skipped_scores

    def share(self) -> "CycleState":
        """Return the state of a new attempt that starts with these values. They must not be changed."""
        copy = CycleState.__new__(CycleState)
        copy._values = {**self._values}
        copy.skipped_filters = {*self.skipped_filters}
        copy.skipped_scores = {*self.skipped_scores}
        copy.pods_to_activate = {}
        copy.group = None
        return copy
