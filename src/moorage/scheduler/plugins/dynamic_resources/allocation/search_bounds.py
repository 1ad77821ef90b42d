"""Seeing early that a search is in vain: fewer devices are left than the rest of the requests needs.

Cutting off a branch must not change what comes of the search. So it is done only where no device, request or limit can
make the branch end in anything but "nothing found"; :meth:`SearchBounds.prepare` decides.
"""

from collections.abc import Callable, Iterable, Sequence

from moorage.scheduler.plugins.dynamic_resources.allocation.device_constraints import (
    Constraint,
    SameValue,
    Value,
    attribute_values,
)
from moorage.scheduler.plugins.dynamic_resources.allocation.device_requests import (
    Alternative,
    ClaimFault,
    ParsedClaim,
    Request,
)
from moorage.scheduler.plugins.dynamic_resources.devices.pools import PooledDevice

Mask = int
"""A set of candidates: bit n stands for the nth device in the order of the search."""
Passes = Callable[[int, Alternative, int], bool]


class _Rest:
    """What all requests from some point on need together, at least, and from which devices."""

    __slots__ = ("devices", "need")

    def __init__(self, need: int, devices: Mask) -> None:
        self.need = need
        self.devices = devices

    def with_more(self, need: int, devices: Mask) -> "_Rest":
        return _Rest(self.need + need, self.devices | devices)


class _Group:
    """A ``matchAttribute`` constraint: its devices by value, and what is left to do under it after each request."""

    def __init__(self, constraint: SameValue, devices: Sequence[PooledDevice], *, lists: bool) -> None:
        self.constraint = constraint
        self.by_value: dict[Value, Mask] = {}
        for place, device in enumerate(devices):
            for value in attribute_values(device, constraint.attribute, lists=lists) or ():
                self.by_value[value] = self.by_value.get(value, 0) | 1 << place
        self.after: list[_Rest] = []

    def possible(self) -> Iterable[Mask]:
        """Return the sets of devices from which all that is left would have to come."""
        common = self.constraint.common
        return self.by_value.values() if common is None else [self.by_value.get(value, 0) for value in common]


class SearchBounds:
    """Bounds on what a search still needs; all of them hold for every way it may go on."""

    def __init__(
        self,
        asks: Sequence[ParsedClaim],
        constraints: Sequence[Sequence[Constraint]],
        devices: Sequence[PooledDevice],
        *,
        lists: bool = False,
    ) -> None:
        self._asks = asks
        self._shareable = sum(1 << place for place, device in enumerate(devices) if device.is_shareable)
        self._groups = [
            [_Group(constraint, devices, lists=lists) for constraint in of_claim if isinstance(constraint, SameValue)]
            for of_claim in constraints
        ]
        self._count = len(devices)
        self._eligible: dict[Alternative, Mask] = {}
        self._after: list[list[_Rest]] = []

    def prepare(self, passes: Passes, limit: int) -> bool:
        """ParsedClaim every request about every device; return whether branches may be cut off at all.

        Not if a test fails with an error, which a branch might have met; nor if a request takes all devices, which is
        an error when a constraint is in the way; nor if a claim could ask for more devices than it may get; nor if
        constraints see attributes that requests work out, each its own, and perhaps in vain.
        """
        for claim, ask in enumerate(self._asks):
            alternatives = [alternative for request in ask.requests for alternative in request.alternatives]
            most = sum(max(alternative.count for alternative in request.alternatives) for request in ask.requests)
            if most > limit or any(alternative.takes_all or alternative.derived for alternative in alternatives):
                return False
            try:
                for alternative in alternatives:
                    self._eligible[alternative] = sum(
                        1 << place for place in range(self._count) if passes(claim, alternative, place)
                    )
            except ClaimFault:
                return False
        self._sum_up()
        return True

    def is_infeasible(self, claim: int, number: int, alternative: Alternative, missing: int, used: Mask) -> bool:
        """Return whether a request that lacks some devices, and all requests after it, cannot all be served."""
        eligible = self._eligible[alternative]
        need = 0 if alternative.has_admin_access else missing
        rest = self._after[claim][number].with_more(need, eligible)
        if not self._suffices(need, eligible, used) or not self._suffices(rest.need, rest.devices, used):
            return True
        name = self._asks[claim].requests[number].name
        for group in self._groups[claim]:
            here = group.after[number]
            if group.constraint.covers(name, alternative.qualified):
                here = here.with_more(need, eligible)
            if here.need and not any(
                self._suffices(here.need, here.devices & devices, used) for devices in group.possible()
            ):
                return True
        return False

    def _suffices(self, need: int, devices: Mask, used: Mask) -> bool:
        return bool(devices & self._shareable) or (devices & ~used).bit_count() >= need

    def _sum_up(self) -> None:
        """Add up needs from the last request to the first."""
        rest = _Rest(0, 0)
        self._after = [[] for _ in self._asks]
        for claim in range(len(self._asks) - 1, -1, -1):
            requests = self._asks[claim].requests
            of_groups = {group: _Rest(0, 0) for group in self._groups[claim]}
            for request in reversed(requests):
                self._after[claim].insert(0, rest)
                devices = self._devices(request.alternatives)
                rest = rest.with_more(_need(request, lambda _: True), devices)
                for group, before in of_groups.items():
                    group.after.insert(0, before)
                    of_groups[group] = before.with_more(_need(request, _covered(group, request)), devices)

    def _devices(self, alternatives: Iterable[Alternative]) -> Mask:
        found = 0
        for alternative in alternatives:
            found |= self._eligible[alternative]
        return found


def _covered(group: _Group, request: Request) -> Callable[[Alternative], bool]:
    return lambda alternative: group.constraint.covers(request.name, alternative.qualified)


def _need(request: Request, counts: Callable[[Alternative], bool]) -> int:
    """Return how many devices a request takes at least that others cannot have."""
    return min(
        alternative.count if counts(alternative) and not alternative.has_admin_access else 0
        for alternative in request.alternatives
    )
