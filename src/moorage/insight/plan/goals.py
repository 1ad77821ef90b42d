"""Plan goals by name, for Python callers and for requests in JSON."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from moorage.common.errors import InputError, describe_decode_error, did_you_mean
from moorage.insight.plan.consolidation import plan_consolidate
from moorage.insight.plan.draining import plan_drain
from moorage.insight.plan.making_room import plan_room
from moorage.insight.plan.mobility import Constraints
from moorage.insight.plan.plan_model import REQUESTS, Plan
from moorage.insight.plan.rebalancing import HOT, plan_rebalance
from moorage.insight.whatif.session import Session


class DrainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a drain."""

    nodes: tuple[str, ...] = ()
    selector: str = ""
    rolling: int | None = None


class ConsolidateRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A consolidation has only constraints."""


class RebalanceRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The share of a resource above which a node is hot, and whether preferred node affinity counts."""

    hot: float = HOT
    preferred: bool = False


class RoomRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pods that have to fit: names or manifests."""

    request: tuple[str | dict[str, Any], ...] = msgspec.field(default=(), name="for")
    reads_files: bool = True


GOALS: Final[Mapping[str, tuple[type[msgspec.Struct], Callable[..., Plan]]]] = {
    "drain": (DrainRequest, plan_drain),
    "consolidate": (ConsolidateRequest, plan_consolidate),
    "defragment": (RoomRequest, partial(plan_room, goal="defragment")),
    "rebalance": (RebalanceRequest, plan_rebalance),
    "fit": (RoomRequest, partial(plan_room, goal="fit")),
}
"""The arguments of each goal, and the function that makes the plan."""


def plan(session: Session, goal: str, /, **arguments: Any) -> Plan:
    """Make a plan for a goal: ``drain``, ``rebalance``, ``consolidate``, ``defragment`` or ``fit``.

    The arguments are those of `moorage plan GOAL`, and its constraints: ``max_moves``, ``exclude``, ``keep``, ``force``
    and ``allow_pending``. The session remains unchanged. Raise InputError for an unknown goal or argument.
    """
    if not isinstance(goal, str) or goal not in GOALS:
        hint = did_you_mean(str(goal), GOALS) or f"use one of {', '.join(GOALS)}"
        raise InputError("goal", f"unknown goal {goal!r}", hint=hint)
    request_type, make = GOALS[goal]
    own = {key: value for key, value in arguments.items() if key in Constraints.__struct_fields__}
    request_data = {"for" if key == "request" else key: value for key, value in arguments.items() if key not in own}
    try:
        constraints = msgspec.convert({_camel(key): value for key, value in own.items()}, Constraints)
        request = msgspec.convert(request_data, request_type)
    except msgspec.ValidationError as error:
        names = ", ".join((*request_type.__struct_fields__, *Constraints.__struct_fields__))
        raise InputError(f"plan {goal}", describe_decode_error(error), hint=f"its arguments are {names}") from error
    return make(session, **msgspec.structs.asdict(request), constraints=constraints)


def plan_from_data(session: Session, goal: Any, arguments: Mapping[str, Any], *, reads_files: bool = False) -> Plan:
    """Make a plan from a request with camelCase names. ``reads_files`` must be false for remote requests."""
    names = {_camel(name): name for name in Constraints.__struct_fields__}
    by_name = {names.get(key, key): value for key, value in arguments.items()}
    return plan(session, goal, **by_name | ({"reads_files": reads_files} if goal in REQUESTS else {}))


def _camel(name: str) -> str:
    head, *parts = name.split("_")
    return head + "".join(part.title() for part in parts)
