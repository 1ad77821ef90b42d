"""Consumable capacity of devices: requests rounded by the device's policy, and whether they fit.

All amounts are exact billionths.
"""

from collections.abc import Mapping
from typing import Final

from moorage.common.errors import MoorageError
from moorage.kube.api.devices import CapacityRange, CapacityRequestPolicy, Device, DeviceCapacity
from moorage.kube.api.quantity import MAX_INT64, NANO, Quantity, nano_to_unit, nano_value

MILLI: Final = NANO // 1000

_UNREPRESENTABLE: Final = "capacity request cannot be represented in the device's range arithmetic"
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = ((10**18, "E"), (10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"), (1, ""))


class CapacityError(MoorageError):
    """A capacity request cannot be evaluated: the attempt fails."""


def consumption(device: Device, requested: Mapping[str, Quantity], *, fractions: bool) -> dict[str, int] | None:
    """Return the consumed capacities of a request; ``None`` if the device lacks a requested capacity."""
    if any(name not in device.capacity for name in requested):
        return None
    amounts: dict[str, int] = {}
    for name, capacity in device.capacity.items():
        try:
            amounts[name] = _rounded(requested.get(name), capacity, fractions)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from error
        if amounts[name] < 0:
            raise CapacityError(f'capacity "{name}": capacity value is negative')
    return amounts


def fits(device: Device, amounts: Mapping[str, int], consumed: Mapping[str, int], *, fractions: bool) -> bool:
    """Return whether an amount conforms to the device's policy and fits next to the consumed capacity."""
    return all(
        not _breaks(amounts[name], capacity.request_policy, fractions)
        and amounts[name] + consumed.get(name, 0) <= nano_value(capacity.value)
        for name, capacity in device.capacity.items()
    )


def _rounded(requested: Quantity | None, capacity: DeviceCapacity, fractions: bool) -> int:
    policy = capacity.request_policy
    if requested is None:
        default = policy.default if policy is not None else None
        return nano_value(capacity.value if default is None else default)
    amount = nano_value(requested)
    if policy is None:
        return amount
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _next_step(amount, requested, policy.valid_range, fractions)
    return next((nano_value(value) for value in policy.valid_values if amount <= nano_value(value)), amount)


def _next_step(amount: int, requested: Quantity, bounds: CapacityRange, fractions: bool) -> int:
    """Round up to the next valid amount: the minimum plus a whole number of steps."""
    minimum = nano_value(bounds.min or 0)
    if amount < minimum:
        return minimum
    if bounds.step is None:
        return amount
    unit = _unit(bounds, fractions)
    if unit == MILLI and (amount % MILLI or amount // MILLI > MAX_INT64):
        raise CapacityError(f"{_UNREPRESENTABLE}: request {requested} is not a representable milli value")
    if unit == NANO and amount > MAX_INT64 * NANO:
        raise CapacityError(f"{_UNREPRESENTABLE}: request {requested} exceeds MaxInt64")
    step, base = _units(nano_value(bounds.step), unit), _units(minimum, unit)
    rounded = base + -(-(_units(amount, unit) - base) // step) * step
    if rounded > MAX_INT64:
        limit = "MaxInt64" if unit == NANO else "the milli-value range"
        raise CapacityError(f"{_UNREPRESENTABLE}: rounding request {requested} up to the next step passes {limit}")
    return rounded * unit


def _breaks(amount: int, policy: CapacityRequestPolicy | None, fractions: bool) -> bool:
    if policy is None or (policy.default is not None and amount == nano_value(policy.default)):
        return False
    bounds = policy.valid_range
    if bounds is None:
        return bool(policy.valid_values) and all(amount != nano_value(value) for value in policy.valid_values)
    if bounds.max is not None and amount > nano_value(bounds.max):
        return True
    if bounds.step is None:
        return False
    unit = _unit(bounds, fractions)
    if unit == MILLI and amount % MILLI:
        return True
    beyond = _units(amount, unit) - _units(nano_value(bounds.min or 0), unit)
    return beyond % _units(nano_value(bounds.step), unit) != 0


def _unit(bounds: CapacityRange, fractions: bool) -> int:
    """Return the unit of steps: thousandths if the entire range is representable in them."""
    amounts = [nano_value(bound) for bound in (bounds.min, bounds.max, bounds.step) if bound is not None]
    exact = all(amount % MILLI == 0 and abs(amount) // MILLI <= MAX_INT64 for amount in amounts)
    return MILLI if fractions and exact and nano_value(bounds.step or 0) >= MILLI else NANO


def _units(amount: int, unit: int) -> int:
    return nano_to_unit(amount) if unit == NANO else amount // MILLI


def format_quantity(amount: int, *, like: Quantity) -> str:
    """Format an amount as a quantity, with the suffixes (binary or decimal) of ``like``."""
    integer, fraction = divmod(amount, NANO)
    if fraction:
        return f"{amount // MILLI}m" if fraction % MILLI == 0 else f"{amount}n"
    if isinstance(like, str) and like.endswith("i"):
        power = 0
        while power < len(_BINARY) and integer and integer % 1024 == 0:
            integer, power = integer // 1024, power + 1
        return f"{integer}{_BINARY[power - 1] if power else ''}"
    return (
        next(f"{integer // factor}{suffix}" for factor, suffix in _DECIMAL if integer % factor == 0) if integer else "0"
    )
