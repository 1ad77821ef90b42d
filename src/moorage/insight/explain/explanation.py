"""Explanations as data: the decision on a pod, its reasons, and suggested changes; camelCase on the wire."""

from collections.abc import Mapping
from typing import Any

import msgspec

from moorage.scheduler.decisions.decision import Decision


class ReasonGroup(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reason and the rejected nodes. ``short`` is the smallest missing amount.

    ``alone`` counts the nodes for which this is the only problem. ``details`` counts single causes, such as taints.
    """

    plugin: str
    reason: str
    nodes: int
    examples: tuple[str, ...] = ()
    short: dict[str, str] = {}
    alone: int = 0
    details: dict[str, int] = {}

    def as_data(self) -> dict[str, Any]:
        """Return the documented format, without fields that only the web page uses."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return {key: item for key, item in data.items() if key not in ("alone", "details")}


class PossibleChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change that makes the pod fit, as text and as edits; its node, and the pods to preempt there."""

    text: str
    kind: str
    edits: list[dict[str, Any]]
    node: str = ""
    victims: tuple[str, ...] = ()


class ScoreDifference(msgspec.Struct, frozen=True, rename="camel"):
    """The weighted scores of a plugin for the winner and the runner-up."""

    plugin: str
    weight: int
    winner: int
    runner_up: int


class WakingEvent(msgspec.Struct, frozen=True):
    """An event that triggers a retry of the pod, and the plugin that registered it."""

    event: str
    plugin: str


class PodExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The explanation of a pending or scheduled pod."""

    decision: Decision
    is_bound: bool = False
    reasons: tuple[ReasonGroup, ...] = ()
    changes: tuple[PossibleChange, ...] = ()
    stopped: str = ""
    """Reason for an incomplete search for changes."""
    because: tuple[ScoreDifference, ...] = ()
    runner_up: str = ""
    wakes: tuple[WakingEvent, ...] = ()
    group: Mapping[str, Any] | None = None
    is_refused: bool = False
    """Whether the API server does not admit the pod."""
    notes: tuple[str, ...] = ()
    """Facts about the obstacles that help to choose a change."""
    reported: str = ""
    """The reason in the pod's PodScheduled condition, if the pod fits here but its scheduler rejected it."""

    @property
    def stopped_sentence(self) -> str:
        """Explain why the search for changes is incomplete. Return an empty string if it is complete."""
        return f"The search for changes is incomplete: {self.stopped}." if self.stopped else ""

    def as_data(self) -> dict[str, Any]:
        """Return the documented format."""
        data: dict[str, Any] = msgspec.to_builtins(self.decision)
        if self.is_bound:
            data["result"] = "bound"
        data |= {"reasons": [group.as_data() for group in self.reasons], "changes": msgspec.to_builtins(self.changes)}
        if self.stopped:
            data["stopped"] = self.stopped_sentence
        if self.because:
            data |= {"because": msgspec.to_builtins(self.because), "runnerUp": self.runner_up}
        data["wakes"] = msgspec.to_builtins(self.wakes)
        if self.group is not None:
            data["group"] = dict(self.group)
        if self.notes:
            data["notes"] = list(self.notes)
        return data


class WorkloadExplanation(msgspec.Struct, frozen=True):
    """The number of pods of a workload that fit, and the explanation of the next one."""

    workload: str
    fits: int
    of: int
    next: PodExplanation | None = None
    group: Mapping[str, Any] | None = None
    """The state of a group that is scheduled as a unit."""
    note: str = ""
    """Reason why the controller creates no pods."""

    @property
    def is_refused(self) -> bool:
        """Whether the API server does not admit the next pod."""
        return self.next is not None and self.next.is_refused

    def as_data(self) -> dict[str, Any]:
        """Return the documented format."""
        data: dict[str, Any] = {"workload": self.workload, "fits": self.fits, "of": self.of}
        data |= {"refused": True} if self.is_refused else {}
        data |= {"note": self.note} if self.note else {}
        data |= {} if self.group is None else {"group": dict(self.group)}
        return data if self.next is None else {**data, "next": self.next.as_data()}
