"""The search for devices: depth first, in a fixed order, and the first complete solution wins.

Claims, requests and devices are taken in their order. Within a request only later devices are tried after a chosen one,
so that combinations and not permutations are looked at. Drivers and users rely on this order: which device is picked
is part of the contract.
"""

from collections.abc import Sequence
from enum import Enum
from math import inf
from typing import Final

from msgspec import Struct

from moorage.common.clock import Clock
from moorage.common.errors import MoorageError
from moorage.scheduler.plugins.dynamic_resources.allocation.counters import CounterTracker
from moorage.scheduler.plugins.dynamic_resources.allocation.device_constraints import Constraint, constraint_for
from moorage.scheduler.plugins.dynamic_resources.allocation.device_requests import Alternative, ClaimFault, ParsedClaim
from moorage.scheduler.plugins.dynamic_resources.allocation.search_bounds import SearchBounds
from moorage.scheduler.plugins.dynamic_resources.cel.program import Program
from moorage.scheduler.plugins.dynamic_resources.devices.allocated import AllocatedDevices
from moorage.scheduler.plugins.dynamic_resources.devices.capacity import CapacityError, consumption, fits
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceFeatures, DeviceId
from moorage.scheduler.plugins.dynamic_resources.devices.pools import DeviceView, Pool, PooledDevice, repels

MAX_RESULTS: Final = 32
"""How many devices one claim can be given."""
MAX_STEPS: Final = 5_000_000
"""How many devices the searches of one attempt look at; it takes about as long as the default ``filterTimeout``."""
HARD: Final = 1024
"""After how many steps a search counts as hard."""
MAX_DEAD_ENDS: Final = 100_000


class SearchTimeout(MoorageError):
    """The search took too long."""


class SearchBudget:
    """What the searches of one attempt may take together: time, and steps where time stands still, as simulated."""

    def __init__(self, clock: Clock | None = None, timeout: float | None = None) -> None:
        self._clock = clock
        self._timeout = timeout or inf
        self._end = self.now() + self._timeout
        self._steps: float = MAX_STEPS if timeout else inf
        self._began = (self.now(), self._steps)

    def now(self) -> float:
        """Return the time."""
        return 0.0 if self._clock is None else self._clock.now()

    def start_search(self) -> None:
        """Begin the next search."""
        self._began = (self.now(), self._steps)

    def spend(self, steps: int) -> None:
        """Count some steps; raise :class:`SearchTimeout` if the budget is used up."""
        self._steps -= steps
        if self._steps < 0 or self.now() > self._end:
            raise SearchTimeout

    def last_search_took_most(self) -> bool:
        """Return whether the last search took most of it, and did not merely come after others that did."""
        time, steps = self._began
        return 2 * (self.now() - time) > self._timeout or 2 * (steps - self._steps) > MAX_STEPS


class DeviceChoice(Struct, frozen=True, eq=False):
    """A device picked for a request, and for a shared device what the share consumes, in billionths."""

    device: PooledDevice
    alternative: Alternative
    consumed: dict[str, int] | None


class Solution(Struct, frozen=True, eq=False):
    """Devices for every claim, and which alternative of each request they serve."""

    chosen: tuple[tuple[DeviceChoice, ...], ...]
    selected: tuple[tuple[Alternative, ...], ...]


class _End(Enum):
    """How a branch of the search ended."""

    FOUND = 1
    NOTHING = 2
    TOO_MANY = 3  # a claim would get more devices than a result can hold: other devices will not help


class _Step(Struct):
    """A device that was taken, with what has to be undone to give it back."""

    claim: int
    request: str
    chosen: DeviceChoice
    pool: Pool
    drew: bool


class Search:
    """One attempt to allocate some claims from the devices of one view."""

    def __init__(
        self,
        asks: Sequence[ParsedClaim],
        view: DeviceView,
        allocated: AllocatedDevices,
        features: DeviceFeatures,
        budget: SearchBudget | None = None,
    ) -> None:
        self._asks = asks
        self._view = view
        self._allocated = allocated
        self._features = features
        self._budget = budget or SearchBudget()
        self._visits = 0
        self._evaluations = Program.evaluations
        self._is_hard = False
        self._bits: dict[DeviceId, int] = {}
        self._lookahead: SearchBounds | None = None
        self._dead_ends: dict[tuple[object, ...], _End] = {}
        self._counters = CounterTracker(allocated)
        self._lists = features.list_attributes
        self._constraints: list[list[Constraint]] = []
        self._everything: dict[Alternative, list[tuple[PooledDevice, Pool]]] = {}
        self._in_use: dict[DeviceId, set[int]] = {}
        self._shares: dict[DeviceId, list[dict[str, int]]] = {}
        self._steps: list[_Step] = []
        self._counts = [0] * len(asks)
        self._selected: list[list[Alternative]] = [[] for _ in asks]

    def run(self) -> Solution | None:
        """Find devices for all claims, or none; raise :class:`ClaimFault` or :class:`SearchTimeout`."""
        for claim, ask in enumerate(self._asks):
            self._prepare(claim, ask)
        if self._claim(0) is not _End.FOUND:
            return None
        chosen = tuple(
            tuple(step.chosen for step in self._steps if step.claim == claim) for claim in range(len(self._asks))
        )
        return Solution(chosen, tuple(tuple(reversed(selected)) for selected in self._selected))

    def _prepare(self, claim: int, ask: ParsedClaim) -> None:
        """Check a claim and count the devices it needs at least."""
        least = 0
        for request in ask.requests:
            if request.problem:
                raise ClaimFault(request.problem, claim=claim)
            needed = min(self._needed(claim, alternative) for alternative in request.alternatives)
            if needed > MAX_RESULTS - least:
                text = f"adding {needed} devices exceeds the claim limit of {MAX_RESULTS}"
                raise ClaimFault(f", request {request.name}: {text}, with {least} already accounted for", claim=claim)
            least += needed
        constraints = []
        for number, written in enumerate(ask.spec.devices.constraints):
            constraint = constraint_for(written, lists=self._features.list_attributes)
            if constraint is None:
                text = f", constraint #{number}: empty constraint (unsupported constraint type?)"
                raise ClaimFault(text, claim=claim)
            constraints.append(constraint)
        self._constraints.append(constraints)

    def _needed(self, claim: int, alternative: Alternative) -> int:
        if alternative.problem:
            raise ClaimFault(alternative.problem, claim=claim)
        if not alternative.takes_all:
            return alternative.count
        found = self._everything[alternative] = []
        for pool in self._view.pools:
            if not pool.is_usable:
                state = "currently being updated" if pool.is_incomplete else "currently invalid"
                text = f"asks for all devices, but resource pool {pool.id} is {state}"
                raise ClaimFault(f", request {alternative.name}: {text}", claim=claim)
            for device, reached in zip(pool.devices, pool.reached, strict=True):
                # One that the node cannot use is one of "all" none the less; it cannot be had when its turn comes.
                is_near = reached or device.id in pool.blocked
                # Only what the device could give at all counts here: one that others use up makes "all" fail later.
                if self._is_selectable(claim, alternative, device, is_near) and self._has_room(
                    claim, alternative, device, device.device.name, empty=True
                ):
                    found.append((device, pool))
        return len(found)

    def _claim(self, claim: int) -> _End:
        return _End.FOUND if claim == len(self._asks) else self._request(claim, 0)

    def _request(self, claim: int, number: int) -> _End:
        requests = self._asks[claim].requests
        if number == len(requests):
            end = self._claim(claim + 1)
            # A limit hit by a later claim says nothing about this one: another choice here may free an alternative.
            return _End.NOTHING if end is _End.TOO_MANY else end
        request = requests[number]
        ends = set()
        for alternative in request.alternatives:
            end = self._device(claim, number, alternative, 0, 0)
            if end is _End.FOUND:
                self._selected[claim].append(alternative)
                return end
            ends.add(end)
        return _End.TOO_MANY if ends == {_End.TOO_MANY} else _End.NOTHING

    def _device(self, claim: int, number: int, alternative: Alternative, nth: int, start: int) -> _End:
        """Find the nth device of a request among those from a position on, and then all that comes after."""
        self._visit()
        if not self._is_hard:
            return self._try_device(claim, number, alternative, nth, start)
        used, own, shares = self._taken_by(claim)
        missing = alternative.count - nth
        if self._lookahead is not None and self._lookahead.is_infeasible(claim, number, alternative, missing, used):
            return _End.NOTHING
        # Whatever the way here was, from the same devices taken under the same constraints the same comes out. Shares
        # are left out: what they consume depends on who took them.
        constraints = tuple(constraint.state for constraint in self._constraints[claim])
        key = (claim, number, alternative, nth, start, self._counts[claim], used, own, constraints)
        end = self._dead_ends.get(key)
        if end is None or shares:
            end = self._try_device(claim, number, alternative, nth, start)
            if end is not _End.FOUND and not shares and len(self._dead_ends) < MAX_DEAD_ENDS:
                self._dead_ends[key] = end
        return end

    def _try_device(self, claim: int, number: int, alternative: Alternative, nth: int, start: int) -> _End:
        everything = self._everything.get(alternative)
        needed = alternative.count if everything is None else len(everything)
        if needed == 0:
            return _End.NOTHING
        if nth >= needed:
            return self._request(claim, number + 1)
        if needed - nth > MAX_RESULTS - self._counts[claim]:
            return _End.TOO_MANY
        request = self._asks[claim].requests[number].name
        if everything is not None:
            device, pool = everything[nth]
            if not self._take(claim, request, alternative, device, pool):
                return _End.NOTHING
            end = self._device(claim, number, alternative, nth + 1, 0)
            if end is not _End.FOUND:
                self._give_back()
            return end
        return self._any_device(claim, number, alternative, nth, start)

    def _any_device(self, claim: int, number: int, alternative: Alternative, nth: int, start: int) -> _End:
        request = self._asks[claim].requests[number].name
        candidates = self._view.candidates
        is_admin, taken = alternative.has_admin_access, self._allocated.whole
        for place in range(start, len(candidates)):
            self._visit()
            device, pool, reached = candidates[place]
            # Mostly those before the first free device: they are not worth a call each.
            users = self._in_use.get(device.id)
            if (users and claim in users) if is_admin else (users or device.id in taken):
                continue
            if not (
                self._is_selectable(claim, alternative, device, reached)
                and self._has_room(claim, alternative, device, str(device.id))
                and self._take(claim, request, alternative, device, pool)
            ):
                continue
            end = self._device(claim, number, alternative, nth + 1, place + 1)
            if end is _End.FOUND:
                return end
            self._give_back()
            if end is _End.TOO_MANY:
                return end
        return _End.NOTHING

    def _visit(self) -> None:
        self._visits += 1
        if self._visits == HARD:
            self._prepare_for_long()
        if self._visits & 63 == 0:
            self._budget.spend(64)

    def _prepare_for_long(self) -> None:
        """Start to remember dead ends and to look ahead: most searches are over before that pays."""
        self._is_hard = True
        self._bits = {device.id: 1 << place for place, (device, _, _) in enumerate(self._view.candidates)}
        devices = [device for device, _, _ in self._view.candidates]
        lookahead = SearchBounds(self._asks, self._constraints, devices, lists=self._lists)
        if lookahead.prepare(self._might_take, MAX_RESULTS):
            self._lookahead = lookahead

    def _might_take(self, claim: int, alternative: Alternative, place: int) -> bool:
        """Return whether a device could be taken if nothing of this search were in its way."""
        device, _, reached = self._view.candidates[place]
        fits = self._has_room(claim, alternative, device, str(device.id), empty=True)
        is_selectable = self._is_selectable(claim, alternative, device, reached)
        is_taken = not alternative.has_admin_access and self._allocated.takes_whole(device.id)
        return fits and is_selectable and not is_taken

    def _taken_by(self, claim: int) -> tuple[int, int, bool]:
        """Return the devices taken so far as bits, those of one claim, and whether some are shares of devices."""
        used = own = 0
        shares = False
        for step in self._steps:
            if step.chosen.consumed is not None:
                shares = True
                continue
            bit = self._bits[step.chosen.device.id]
            used |= bit
            own |= bit if step.claim == claim else 0
        return used, own, shares

    def _is_free(self, claim: int, alternative: Alternative, device: PooledDevice) -> bool:
        users = self._in_use.get(device.id)
        if alternative.has_admin_access:
            return not users or claim not in users
        return not users and not self._allocated.takes_whole(device.id)

    def _is_selectable(self, claim: int, alternative: Alternative, device: PooledDevice, reached: bool) -> bool:
        if device.device.binding_conditions and not self._features.binding_conditions:
            return False
        # The tests come first, as upstream: an expression that fails does so for a device of another node, too.
        is_selected = alternative.selects(device, claim)
        if self._evaluations != Program.evaluations:
            # An expression that is evaluated for the first time may take long.
            self._evaluations = Program.evaluations
            self._budget.spend(1)
        return is_selected and reached

    def _has_room(
        self, claim: int, alternative: Alternative, device: PooledDevice, name: str, *, empty: bool = False
    ) -> bool:
        if not self._features.consumable_capacity or not (device.device.capacity or alternative.capacity):
            return True
        fractions = self._features.fractional_ranges
        try:
            taken = consumption(device.device, alternative.capacity, fractions=fractions)
        except CapacityError as error:
            text = f", request {alternative.name}: checking capacity for device {name}: {error}"
            raise ClaimFault(text, claim=claim) from error
        if taken is None:
            return False
        return fits(device.device, taken, {} if empty else self._consumed(device), fractions=fractions)

    def _consumed(self, device: PooledDevice) -> dict[str, int]:
        consumed = dict(self._allocated.consumed(device.id))
        for share in self._shares.get(device.id, ()):
            for name, amount in share.items():
                consumed[name] = consumed.get(name, 0) + amount
        return consumed

    def _take(self, claim: int, request: str, alternative: Alternative, device: PooledDevice, pool: Pool) -> bool:
        """Take a device if nothing is against it: use, counters, taints, constraints, capacity."""
        if device.id in pool.blocked:
            return False
        consumes = bool(device.device.consumes_counters)
        if not self._is_free(claim, alternative, device) or (consumes and not self._features.partitionable):
            return False
        # A further share of a device in use draws nothing: its first share has drawn for all.
        draws = consumes and not (device.is_shareable and self._has_shares(device.id))
        if draws and not self._counters.draw(device, pool):
            return False
        if not self._is_acceptable(claim, request, alternative, device):
            if draws:
                self._counters.give_back(device, pool)
            return False
        consumed = None
        if device.is_shareable:
            fractions = self._features.fractional_ranges
            consumed = consumption(device.device, alternative.capacity, fractions=fractions) or {}
            self._shares.setdefault(device.id, []).append(consumed)
        else:
            self._in_use.setdefault(device.id, set()).add(claim)
        self._steps.append(_Step(claim, request, DeviceChoice(device, alternative, consumed), pool, draws))
        self._counts[claim] += 1
        return True

    def _is_acceptable(self, claim: int, request: str, alternative: Alternative, device: PooledDevice) -> bool:
        if repels(device.taints, alternative.tolerations):
            return False
        if not self._satisfies_constraints(claim, request, alternative, device):
            return False
        # A device looked for one by one has shown its room before; one of "all" has only shown that it has some.
        if alternative.takes_all and not self._has_room(claim, alternative, device, str(device.id)):
            self._release_constraints(claim, request, alternative)
            return False
        return True

    def _has_shares(self, device: DeviceId) -> bool:
        return self._allocated.is_shared(device) or bool(self._shares.get(device))

    def _satisfies_constraints(self, claim: int, request: str, alternative: Alternative, device: PooledDevice) -> bool:
        for number, constraint in enumerate(self._constraints[claim]):
            if constraint.add(device, request, alternative):
                continue
            for earlier in self._constraints[claim][:number]:
                earlier.remove(request, alternative)
            if alternative.takes_all:
                text = f"cannot add device {device.id} because a claim constraint would not be satisfied"
                raise ClaimFault(f", request {alternative.name}: {text}", claim=claim)
            return False
        return True

    def _give_back(self) -> None:
        """Undo the last step."""
        step = self._steps.pop()
        device, alternative = step.chosen.device, step.chosen.alternative
        self._counts[step.claim] -= 1
        if device.is_shareable:
            self._shares[device.id].pop()
        else:
            self._in_use[device.id].discard(step.claim)
        self._release_constraints(step.claim, step.request, alternative)
        if step.drew:
            self._counters.give_back(device, step.pool)

    def _release_constraints(self, claim: int, request: str, alternative: Alternative) -> None:
        for constraint in self._constraints[claim]:
            constraint.remove(request, alternative)
