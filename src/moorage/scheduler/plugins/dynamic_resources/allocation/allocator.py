"""The search for devices: depth first, in a fixed order, and the first complete solution wins.

Claims, requests and devices are tried in order. Within a request only later devices are tried after a chosen one, so
that combinations and not permutations are tried. Drivers and users rely on this order: the choice of the device
is part of the contract.
"""

from collections.abc import Sequence
from enum import Enum
from math import inf
from typing import Final

from msgspec import Struct

from moorage.common.clock import Clock
from moorage.common.errors import MoorageError
from moorage.scheduler.plugins.dynamic_resources.allocation.device_requests import (
    Alternative,
    ClaimFault,
    Constraint,
    ParsedClaim,
    make_constraint,
)
from moorage.scheduler.plugins.dynamic_resources.allocation.search_bounds import SearchBounds
from moorage.scheduler.plugins.dynamic_resources.cel.program import Program
from moorage.scheduler.plugins.dynamic_resources.devices.consumable_capacity import (
    CapacityError,
    consumption,
    fits,
    qualify,
)
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import (
    AllocatedDevices,
    DeviceFeatures,
    DeviceId,
    PoolId,
)
from moorage.scheduler.plugins.dynamic_resources.devices.pools import Counters, DeviceView, Pool, PooledDevice, repels

MAX_RESULTS: Final = 32
"""Maximum number of devices per claim."""
MAX_STEPS: Final = 5_000_000
"""Maximum number of devices that the searches of an attempt visit; takes about the default ``filterTimeout``."""
MAX_EASY_STEPS: Final = 1024
"""Number of steps after which a search is treated as hard at the latest; usually after two for each device."""
SLICE: Final = 0.2
"""Seconds that the searches of an attempt take before they are suspended in favor of other pods."""
MAX_DEAD_ENDS: Final = 100_000

CommonGroups = dict[str, list[frozenset[str]]]
"""By counter set, the compatibility groups common to the devices in use, after each device, or empty without groups."""


class SearchTimeout(MoorageError):
    """The search exceeded its budget."""


class SearchBudget:
    """Limit for all searches of an attempt: time, and steps (simulated time does not advance during a search).

    ``spent`` is the time that earlier, suspended attempts have used.
    """

    def __init__(self, clock: Clock | None = None, timeout: float | None = None, spent: float = 0.0) -> None:
        self._clock = clock
        self._timeout = timeout or inf
        self._start = self.now()
        self._end = self._start + self._timeout - spent
        self._steps: float = MAX_STEPS if timeout else inf
        self._began = (self.now(), self._steps)

    def now(self) -> float:
        return 0.0 if self._clock is None else self._clock.now()

    def used_by_attempt(self) -> float:
        """Return the seconds since the start of the attempt's first search."""
        return self.now() - self._start

    def start_search(self) -> None:
        """Begin the next search."""
        self._began = (self.now(), self._steps)

    def spend(self, steps: int) -> None:
        """Count some steps. Raise :class:`SearchTimeout` if the budget is exhausted."""
        self._steps -= steps
        if self._steps < 0 or self.now() > self._end:
            raise SearchTimeout

    def last_search_took_most(self) -> bool:
        """Return whether the last search, and not an earlier one, used most of the budget."""
        time, steps = self._began
        return 2 * (self.now() - time) > self._timeout or 2 * (steps - self._steps) > MAX_STEPS


class DeviceChoice(Struct, frozen=True, eq=False):
    """A device chosen for a request; for a shared device, also the capacity that the share consumes, in billionths."""

    device: PooledDevice
    alternative: Alternative
    consumed: dict[str, int] | None


class Solution(Struct, frozen=True, eq=False):
    """Devices for every claim, and the selected alternative of each request."""

    choices: tuple[tuple[DeviceChoice, ...], ...]
    alternatives: tuple[tuple[Alternative, ...], ...]


class CounterTracker:
    """Remaining counters of each pool, and the compatibility groups of the devices in use.

    The devices of a pool share counters; for example, partitions of a GPU consume its memory. Devices that consume from
    one counter set at the same time must be compatible: all share a compatibility group, or no device has groups.
    (Without the gate, slices with groups are ignored.)
    """

    def __init__(self, allocated: AllocatedDevices) -> None:
        self._allocated = allocated
        self._free: dict[PoolId, Counters] = {}
        self._groups_in_use: dict[PoolId, CommonGroups] = {}

    def draw(self, device: PooledDevice, pool: Pool) -> bool:
        """Consume the counters of a device. Change nothing and return False if they are exhausted or incompatible."""
        if pool.id not in self._free:
            self._start(pool)
        free, in_use = self._free[pool.id], self._groups_in_use[pool.id]
        for counter_set, groups in device.groups:
            if history := in_use.get(counter_set):
                common = history[-1]
                if bool(common) != bool(groups) or (groups and not groups & common):
                    return False
        self._join(device, in_use)
        for key, amount in device.draws.items():
            free[key] -= amount
        # Check all counters of the pool: an exhausted counter blocks every device.
        if all(amount >= 0 for amount in free.values()):
            return True
        self.give_back(device, pool)
        return False

    def give_back(self, device: PooledDevice, pool: Pool) -> None:
        free = self._free[pool.id]
        for key, amount in device.draws.items():
            free[key] += amount
        for counter_set, _ in device.groups:
            self._groups_in_use[pool.id][counter_set].pop()

    def _start(self, pool: Pool) -> None:
        free = self._free[pool.id] = dict(pool.counters)
        in_use = self._groups_in_use[pool.id] = {}
        for device in (*pool.devices, *pool.others):
            if device.groups and self._allocated.is_taken(device.id):
                self._join(device, in_use)
                for key, amount in device.draws.items():
                    free[key] -= amount

    @staticmethod
    def _join(device: PooledDevice, in_use: CommonGroups) -> None:
        for counter_set, groups in device.groups:
            history = in_use.setdefault(counter_set, [])
            history.append(groups & history[-1] if history else groups)


class _End(Enum):
    """Outcome of a branch of the search."""

    FOUND = 1
    NOTHING = 2
    TOO_MANY = 3  # the claim would exceed its device limit: other devices do not help


class _Step(Struct):
    """An allocated device, and the state needed to undo the allocation."""

    claim: int
    request: str
    choice: DeviceChoice
    pool: Pool
    drew: bool


class Search:
    """One attempt to allocate some claims from the devices of a view."""

    def __init__(
        self,
        parsed_claims: Sequence[ParsedClaim],
        view: DeviceView,
        allocated: AllocatedDevices,
        features: DeviceFeatures,
        budget: SearchBudget | None = None,
    ) -> None:
        self._parsed_claims = parsed_claims
        self._view = view
        self._allocated = allocated
        self._features = features
        self._budget = budget or SearchBudget()
        self._visits = 0
        self._evaluations = Program.evaluations
        self._easy_steps = min(2 * len(view.candidates) + 16, MAX_EASY_STEPS)
        self._is_hard = False
        self._bits: dict[DeviceId, int] = {}
        self._bounds: SearchBounds | None = None
        self._dead_ends: dict[tuple[object, ...], _End] = {}
        self._counters = CounterTracker(allocated)
        self._lists = features.list_attributes
        self._constraints: list[list[Constraint]] = []
        self._all_devices: dict[Alternative, list[tuple[PooledDevice, Pool]]] = {}
        self._in_use: dict[DeviceId, set[int]] = {}
        self._shares: dict[DeviceId, list[dict[str, int]]] = {}
        self._steps: list[_Step] = []
        self._counts = [0] * len(parsed_claims)
        self._selected: list[list[Alternative]] = [[] for _ in parsed_claims]

    def run(self) -> Solution | None:
        """Find devices for all claims. Raise :class:`ClaimFault` or :class:`SearchTimeout`."""
        for claim, parsed in enumerate(self._parsed_claims):
            self._prepare(claim, parsed)
        if self._claim(0) is not _End.FOUND:
            return None
        choices = tuple(
            tuple(step.choice for step in self._steps if step.claim == claim)
            for claim in range(len(self._parsed_claims))
        )
        return Solution(choices, tuple(tuple(reversed(selected)) for selected in self._selected))

    def _prepare(self, claim: int, ask: ParsedClaim) -> None:
        """Validate a claim and count the devices that it needs at least."""
        minimum = 0
        for request in ask.requests:
            if request.problem:
                raise ClaimFault(request.problem, claim=claim)
            count = min(self._count_needed(claim, alternative) for alternative in request.alternatives)
            if count > MAX_RESULTS - minimum:
                text = f"adding {count} devices exceeds the claim limit of {MAX_RESULTS}"
                raise ClaimFault(f", request {request.name}: {text}, with {minimum} already accounted for", claim=claim)
            minimum += count
        constraints = []
        for number, spec in enumerate(ask.spec.devices.constraints):
            constraint = make_constraint(spec, self._features)
            if constraint is None:
                text = f", constraint #{number}: empty constraint (unsupported constraint type?)"
                raise ClaimFault(text, claim=claim)
            constraints.append(constraint)
        self._constraints.append(constraints)

    def _count_needed(self, claim: int, alternative: Alternative) -> int:
        if alternative.problem:
            raise ClaimFault(alternative.problem, claim=claim)
        if not alternative.takes_all:
            return alternative.count
        devices = self._all_devices[alternative] = []
        for pool in self._view.pools:
            if not pool.is_usable:
                state = "currently being updated" if pool.is_incomplete else "currently invalid"
                text = f"asks for all devices, but resource pool {pool.id} is {state}"
                raise ClaimFault(f", request {alternative.name}: {text}", claim=claim)
            for device, reached in zip(pool.devices, pool.reached, strict=True):
                # A device that the node cannot use still counts for "all". The request then fails at that device.
                is_near = reached or device.id in pool.blocked
                # Check against the empty device: if other claims use its capacity, the request for "all" fails later.
                if self._is_selectable(claim, alternative, device, is_near) and self._has_room(
                    claim, alternative, device, device.device.name, empty=True
                ):
                    devices.append((device, pool))
        return len(devices)

    def _claim(self, claim: int) -> _End:
        return _End.FOUND if claim == len(self._parsed_claims) else self._request(claim, 0)

    def _request(self, claim: int, number: int) -> _End:
        requests = self._parsed_claims[claim].requests
        if number == len(requests):
            end = self._claim(claim + 1)
            # A limit reached by a later claim is not final for this claim: another choice here may free an alternative.
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
        """Find the nth device of a request from a position on, and then devices for all later requests."""
        self._visit()
        if not self._is_hard:
            return self._try_device(claim, number, alternative, nth, start)
        used_bits, own, shares = self._collect_chosen_devices(claim)
        missing_count = alternative.count - nth
        if self._bounds is not None and self._bounds.is_infeasible(
            claim, number, alternative, missing_count, used_bits
        ):
            return _End.NOTHING
        # The result depends only on the devices in use and the constraints, not on the path. Searches with shares are
        # not cached: the consumed capacity depends on the request that allocated the share.
        constraints = tuple(constraint.state for constraint in self._constraints[claim])
        key = (claim, number, alternative, nth, start, self._counts[claim], used_bits, own, constraints)
        end = self._dead_ends.get(key)
        if end is None or shares:
            end = self._try_device(claim, number, alternative, nth, start)
            if end is not _End.FOUND and not shares and len(self._dead_ends) < MAX_DEAD_ENDS:
                self._dead_ends[key] = end
        return end

    def _try_device(self, claim: int, number: int, alternative: Alternative, nth: int, start: int) -> _End:
        all_devices = self._all_devices.get(alternative)
        count = alternative.count if all_devices is None else len(all_devices)
        if count == 0:
            return _End.NOTHING
        if nth >= count:
            return self._request(claim, number + 1)
        if count - nth > MAX_RESULTS - self._counts[claim]:
            return _End.TOO_MANY
        request = self._parsed_claims[claim].requests[number].name
        if all_devices is not None:
            device, pool = all_devices[nth]
            if not self._take(claim, request, alternative, device, pool):
                return _End.NOTHING
            end = self._device(claim, number, alternative, nth + 1, 0)
            if end is not _End.FOUND:
                self._give_back()
            return end
        return self._any_device(claim, number, alternative, nth, start)

    def _any_device(self, claim: int, number: int, alternative: Alternative, nth: int, start: int) -> _End:
        request = self._parsed_claims[claim].requests[number].name
        candidates = self._view.candidates
        is_admin, allocated = alternative.has_admin_access, self._allocated.whole
        for index in range(start, len(candidates)):
            self._visit()
            device, pool, reached = candidates[index]
            # These are mostly devices before the first free one. Skip them without a function call.
            users = self._in_use.get(device.id)
            if (users and claim in users) if is_admin else (users or device.id in allocated):
                continue
            if not (
                self._is_selectable(claim, alternative, device, reached)
                and self._has_room(claim, alternative, device, str(device.id))
                and self._take(claim, request, alternative, device, pool)
            ):
                continue
            end = self._device(claim, number, alternative, nth + 1, index + 1)
            if end is _End.FOUND:
                return end
            self._give_back()
            if end is _End.TOO_MANY:
                return end
        return _End.NOTHING

    def _visit(self) -> None:
        self._visits += 1
        if self._visits == self._easy_steps:
            # Enable the cache of dead ends and the bounds: most searches finish before these pay off.
            self._is_hard = True
            self._bits = {device.id: 1 << index for index, (device, _, _) in enumerate(self._view.candidates)}
            devices = [device for device, _, _ in self._view.candidates]
            bounds = SearchBounds(self._parsed_claims, self._constraints, devices, lists=self._lists)
            if bounds.prepare(self._could_take, MAX_RESULTS):
                self._bounds = bounds
        if self._visits & 63 == 0:
            self._budget.spend(64)

    def _could_take(self, claim: int, alternative: Alternative, index: int) -> bool:
        """Return whether a device could be chosen if this search had not chosen any device yet."""
        device, _, reached = self._view.candidates[index]
        fits = self._has_room(claim, alternative, device, str(device.id), empty=True)
        is_selectable = self._is_selectable(claim, alternative, device, reached)
        is_taken = not alternative.has_admin_access and device.id in self._allocated.whole
        return fits and is_selectable and not is_taken

    def _collect_chosen_devices(self, claim: int) -> tuple[int, int, bool]:
        """Return the chosen devices as bits, those of a claim, and whether some are shares."""
        used_bits = own = 0
        shares = False
        for step in self._steps:
            if step.choice.consumed is not None:
                shares = True
                continue
            bit = self._bits[step.choice.device.id]
            used_bits |= bit
            own |= bit if step.claim == claim else 0
        return used_bits, own, shares

    def _is_free(self, claim: int, alternative: Alternative, device: PooledDevice) -> bool:
        users = self._in_use.get(device.id)
        if alternative.has_admin_access:
            return not users or claim not in users
        return not users and device.id not in self._allocated.whole

    def _is_selectable(self, claim: int, alternative: Alternative, device: PooledDevice, reached: bool) -> bool:
        if device.device.binding_conditions and not self._features.binding_conditions:
            return False
        # Selectors are first, as upstream: an expression can also fail for a device of another node.
        is_selected = alternative.selects(device, claim, masks=self._features.cidr_masks)
        if self._evaluations != Program.evaluations:
            # The first evaluation of an expression may be slow.
            self._evaluations = Program.evaluations
            self._budget.spend(1)
        return is_selected and reached

    def _has_room(
        self, claim: int, alternative: Alternative, device: PooledDevice, name: str, *, empty: bool = False
    ) -> bool:
        if not self._features.consumable_capacity or not (device.device.capacity or alternative.capacity):
            return True
        fractions, driver = self._features.fractional_ranges, self._domain(device)
        try:
            amounts = consumption(device.device, alternative.capacity, fractions=fractions, driver=driver)
        except CapacityError as error:
            text = f", request {alternative.name}: checking capacity for device {name}: {error}"
            raise ClaimFault(text, claim=claim) from error
        if amounts is None:
            return False
        consumed = {} if empty else self._sum_consumed(device)
        return fits(device.device, amounts, consumed, fractions=fractions, driver=driver)

    def _domain(self, device: PooledDevice) -> str:
        """Return the domain of unqualified capacity names, or empty if names are literal."""
        return device.id.driver if self._features.qualifies_capacities else ""

    def _sum_consumed(self, device: PooledDevice) -> dict[str, int]:
        consumed = dict(self._allocated.consumed(device.id))
        for share in self._shares.get(device.id, ()):
            for published, amount in share.items():
                name = qualify(published, self._domain(device))
                consumed[name] = consumed.get(name, 0) + amount
        return consumed

    def _take(self, claim: int, request: str, alternative: Alternative, device: PooledDevice, pool: Pool) -> bool:
        """Choose a device if its use, counters, taints, constraints and capacity allow it."""
        if device.id in pool.blocked:
            return False
        consumes = bool(device.device.consumes_counters)
        if not self._is_free(claim, alternative, device) or (consumes and not self._features.partitionable):
            return False
        # Only the first share of a device consumes counters.
        draws = consumes and not (
            device.is_shareable and (self._allocated.is_shared(device.id) or self._shares.get(device.id))
        )
        if draws and not self._counters.draw(device, pool):
            return False
        if not self._is_acceptable(claim, request, alternative, device):
            if draws:
                self._counters.give_back(device, pool)
            return False
        consumed = None
        if device.is_shareable:
            fractions = self._features.fractional_ranges
            driver = self._domain(device)
            consumed = consumption(device.device, alternative.capacity, fractions=fractions, driver=driver) or {}
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
        # Devices found one by one were checked for capacity before; devices of "all" only against the empty device.
        if alternative.takes_all and not self._has_room(claim, alternative, device, str(device.id)):
            self._release_constraints(claim, request, alternative)
            return False
        return True

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
        step = self._steps.pop()
        device, alternative = step.choice.device, step.choice.alternative
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
