"""Early detection of infeasible searches: fewer devices are free than the remaining requests need.

Pruning must not change the result of the search. A branch is pruned only if its result must be "nothing found";
:meth:`SearchBounds.prepare` checks the conditions.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from moorage.scheduler.plugins.dynamic_resources.allocation.device_requests import (
    Alternative,
    ClaimFault,
    Constraint,
    ParsedClaim,
    Request,
    SameValue,
    Value,
    attribute_values,
)
from moorage.scheduler.plugins.dynamic_resources.devices.pools import PooledDevice

Mask = int
"""A set of candidates: bit n is the nth device in search order."""
Passes = Callable[[int, Alternative, int], bool]


class _Demand(NamedTuple):
    """Lower bound on the devices that all requests from a point on need, and the devices they can use."""

    need: int
    devices: Mask

    def with_more(self, need: int, devices: Mask) -> "_Demand":
        return _Demand(self.need + need, self.devices | devices)


class _Group:
    """A ``matchAttribute`` constraint: its devices by value, and the demand under it after each request."""

    def __init__(self, constraint: SameValue, devices: Sequence[PooledDevice], *, lists: bool) -> None:
        self.constraint = constraint
        self.by_value: dict[Value, Mask] = {}
        for index, device in enumerate(devices):
            for value in attribute_values(device, constraint.attribute, lists=lists) or ():
                self.by_value[value] = self.by_value.get(value, 0) | 1 << index
        self.after: list[_Demand] = []

    def possible(self) -> Iterable[Mask]:
        """Return the sets of devices that could satisfy the remaining requests under the constraint."""
        common = self.constraint.common
        return self.by_value.values() if common is None else [self.by_value.get(value, 0) for value in common]


class SearchBounds:
    """Lower bounds on the remaining demand of a search. They hold for every branch."""

    def __init__(
        self,
        parsed_claims: Sequence[ParsedClaim],
        constraints: Sequence[Sequence[Constraint]],
        devices: Sequence[PooledDevice],
        *,
        lists: bool = False,
    ) -> None:
        self._parsed_claims = parsed_claims
        self._shareable = sum(1 << index for index, device in enumerate(devices) if device.is_shareable)
        self._groups = [
            [_Group(constraint, devices, lists=lists) for constraint in of_claim if isinstance(constraint, SameValue)]
            for of_claim in constraints
        ]
        self._count = len(devices)
        self._eligible: dict[Alternative, Mask] = {}
        self._after: list[list[_Demand]] = []

    def prepare(self, passes: Passes, limit: int) -> bool:
        """Evaluate every request for every device. Return whether pruning is allowed.

        Pruning is not allowed if a selector fails with an error (a branch might reach it), if a request takes all
        devices (a violated constraint is then an error), if a claim could exceed its device limit, or if requests
        derive attributes (constraints then depend on the request).
        """
        for claim, parsed in enumerate(self._parsed_claims):
            alternatives = [alternative for request in parsed.requests for alternative in request.alternatives]
            maximum = sum(max(alternative.count for alternative in request.alternatives) for request in parsed.requests)
            if maximum > limit or any(alternative.takes_all or alternative.derived for alternative in alternatives):
                return False
            try:
                masks: dict[Hashable, Mask] = {}
                for alternative in alternatives:
                    mask = masks.get(alternative.demand)
                    if mask is None:
                        mask = sum(1 << index for index in range(self._count) if passes(claim, alternative, index))
                        masks[alternative.demand] = mask
                    self._eligible[alternative] = mask
            except ClaimFault:
                return False
        # Sum up demands from the last request to the first.
        demand = _Demand(0, 0)
        self._after = [[] for _ in self._parsed_claims]
        for claim in range(len(self._parsed_claims) - 1, -1, -1):
            requests = self._parsed_claims[claim].requests
            with_groups = {group: _Demand(0, 0) for group in self._groups[claim]}
            for request in reversed(requests):
                self._after[claim].insert(0, demand)
                devices = reduce(or_, (self._eligible[alternative] for alternative in request.alternatives))
                demand = demand.with_more(_need(request, lambda _: True), devices)
                for group, before in with_groups.items():
                    group.after.insert(0, before)
                    with_groups[group] = before.with_more(_need(request, _make_cover_test(group, request)), devices)
        return True

    def is_infeasible(
        self, claim: int, number: int, alternative: Alternative, missing: int, used_devices: Mask
    ) -> bool:
        """Return whether the current request and all later requests cannot be satisfied together."""
        eligible = self._eligible[alternative]
        need = 0 if alternative.has_admin_access else missing
        demand = self._after[claim][number].with_more(need, eligible)
        if not self._suffices(need, eligible, used_devices) or not self._suffices(
            demand.need, demand.devices, used_devices
        ):
            return True
        name = self._parsed_claims[claim].requests[number].name
        for group in self._groups[claim]:
            group_demand = group.after[number]
            if group.constraint.covers(name, alternative.qualified):
                group_demand = group_demand.with_more(need, eligible)
            if group_demand.need and not any(
                self._suffices(group_demand.need, group_demand.devices & devices, used_devices)
                for devices in group.possible()
            ):
                return True
        return False

    def _suffices(self, need: int, devices: Mask, used_devices: Mask) -> bool:
        return bool(devices & self._shareable) or (devices & ~used_devices).bit_count() >= need


def _make_cover_test(group: _Group, request: Request) -> Callable[[Alternative], bool]:
    return lambda alternative: group.constraint.covers(request.name, alternative.qualified)


def _need(request: Request, counts: Callable[[Alternative], bool]) -> int:
    """Return the minimum number of devices that a request uses exclusively."""
    return min(
        alternative.count if counts(alternative) and not alternative.has_admin_access else 0
        for alternative in request.alternatives
    )
