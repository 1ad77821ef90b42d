"""A plan as data, in the documented format of `moorage plan -o json`."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from moorage.common.errors import InputError, describe_decode_error
from moorage.common.user_files import MAX_OBJECTS, read_file
from moorage.insight.whatif.packing_model import Bound
from moorage.kube.api.codec import UNREADABLE


class PlannedEviction(Struct, frozen=True, rename={"source": "from"}):
    """One pod that a step evicts. ``to`` is absent if its controller does not recreate the pod."""

    pod: str
    uid: str
    source: str
    text: str
    to: str | UnsetType | None = UNSET
    recreated: bool = True
    tied: tuple[str, ...] = ()
    """Nodes with the same score: kube-scheduler chooses one of them at random."""
    cost: float = 0.0
    reason: str = ""
    """Reason for the move, if the goal does not imply it."""
    owner: str = ""
    """The UID of the controller. `plan apply` uses it to find the replacement."""

    @property
    def node(self) -> str:
        """The new node, or empty if the pod has none."""
        return self.to if isinstance(self.to, str) else ""


class BudgetUse(Struct, frozen=True):
    """The disruptions that a budget allows before a step, and how many the step uses."""

    name: str
    allowed: int
    used: int


class PlanStep(Struct, frozen=True):
    """Pods that are evicted together, between a cordon and an uncordon of nodes."""

    cordon: tuple[str, ...] = ()
    evict: tuple[PlannedEviction, ...] = ()
    uncordon: tuple[str, ...] = ()
    budgets: tuple[BudgetUse, ...] = ()


class PendingPod(Struct, frozen=True):
    """A previously running pod that is pending after the last step."""

    pod: str
    message: str


class ImmovablePod(Struct, frozen=True):
    """A pod that should move but cannot. ``kind`` classifies the reason."""

    pod: str
    node: str
    kind: str
    reason: str


class PlacedPod(Struct, frozen=True):
    """A requested pod and its node after the last step, or ``null`` if it is pending."""

    pod: str
    node: str | None
    message: str = ""


class PlanSummary(Struct, frozen=True, rename="camel"):
    """The number of moves, the emptied nodes and the cost of all restarts."""

    moves: int = 0
    nodes_emptied: tuple[str, ...] = ()
    cost: float = 0.0
    price_saved: float = 0.0
    """The price per hour of the emptied nodes, if it is known."""


class ExtraNodes(Struct, frozen=True):
    """Nodes that would make the plan feasible: copies of an existing node."""

    count: int
    like: str
    text: str


class NodeChange(Struct, frozen=True, rename="camel"):
    """A node before and after the plan: its number of pods, and the largest share of a resource that they request."""

    name: str
    pods_before: int
    pods_after: int
    used_before: float
    used_after: float


class PlannedCluster(Struct, frozen=True, rename="camel"):
    """The cluster of a plan: its identity, and the time of its state."""

    fingerprint: str
    taken_at: str


class PlanProgress(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The progress of `plan apply`: the completed steps, and whether the next one has begun.

    ``existing`` has the UIDs of the pods of its controllers at that time. Other pods are replacements. ``tied`` has for
    each of its pods the other nodes that had the same score.
    """

    done: int = 0
    is_started: bool = False
    existing: tuple[str, ...] = ()
    tied: Mapping[str, tuple[str, ...]] = {}


class Plan(Struct, frozen=True, rename="camel", kw_only=True):
    """The steps to reach a goal, with the predicted node of each recreated pod."""

    goal: str
    arguments: Mapping[str, Any]
    cluster: PlannedCluster
    feasible: bool
    reason: str = ""
    steps: tuple[PlanStep, ...] = ()
    pending: tuple[PendingPod, ...] = ()
    placed: tuple[PlacedPod, ...] = ()
    cannot_move: tuple[ImmovablePod, ...] = ()
    waits: tuple[str, ...] = ()
    """Budgets that increase the number of steps."""
    extra_nodes: ExtraNodes | None = None
    nodes: tuple[NodeChange, ...] = ()
    summary: PlanSummary = PlanSummary()
    bound: Bound | None = None
    notes: tuple[str, ...] = ()
    """Constraints that match nothing, and side effects of the plan."""
    progress: PlanProgress | None = None

    def as_data(self) -> dict[str, Any]:
        """Return the documented format. Optional fields without a value are omitted."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        optional = ("reason", "placed", "cannotMove", "waits", "extraNodes", "bound", "notes", "progress")
        for name in (name for name in optional if not data[name] and not (name == "placed" and self.goal in REQUESTS)):
            del data[name]
        if not self.summary.price_saved:
            del data["summary"]["priceSaved"]
        for eviction in (eviction for step in data["steps"] for eviction in step["evict"]):
            for name in ("tied", "owner", "reason"):
                if not eviction[name]:
                    del eviction[name]
            if eviction["recreated"]:
                del eviction["recreated"]
        return data


REQUESTS: Final = ("defragment", "fit")
"""Goals with a request: the pods that must fit."""


def read_plan(path: str) -> Plan:
    """Read a plan written by a plan command with -o json. Raise InputError for other files."""
    hint = "write a plan with: moorage plan drain NODE -o json > plan.json"
    try:
        return msgspec.json.decode(read_file(path, limit=MAX_OBJECTS, hint=hint), type=Plan)
    except msgspec.ValidationError as error:
        raise InputError(path, f"not a plan: {describe_decode_error(error)}", hint=hint) from error
    except UNREADABLE as error:
        raise InputError(path, "not a plan in JSON", hint=hint) from error
