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
_AMBIGUOUS: Final = 'ambiguous capacity request: "{name}" is requested with and without its domain'
"""The text of 1.38 is not known yet."""
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = ((10**18, "E"), (10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"), (1, ""))


class CapacityError(MoorageError):
    """A capacity request cannot be evaluated: the attempt fails."""


def qualify(name: str, driver: str) -> str:
    """Return the name of a capacity with its domain. The default is the driver. Without a driver, names are literal.

    >>> qualify("bandwidth", "nic.example.com"), qualify("example.com/bandwidth", "nic.example.com")
    ('nic.example.com/bandwidth', 'example.com/bandwidth')
    """
    return f"{driver}/{name}" if driver and "/" not in name else name


def consumption(
    device: Device, requested: Mapping[str, Quantity], *, fractions: bool, driver: str = ""
) -> dict[str, int] | None:
    """Return the consumed capacities of a request, or ``None`` if the device lacks a requested capacity.

    With a ``driver`` (from 1.38), a name without a domain is one of the driver, and the result has the names that the
    device publishes. If the device publishes both forms, the qualified one counts.
    """
    capacities, demands = device.capacity, requested
    if driver:
        demands = _qualify_all(requested, driver)
        published = {qualify(name, driver): name for name in sorted(capacities, key=lambda name: "/" in name)}
        if not demands.keys() <= published.keys():
            return None
        demands = {published[name]: amount for name, amount in demands.items()}
        capacities = {name: capacities[name] for name in published.values()}
    elif any(name not in capacities for name in requested):
        return None
    amounts: dict[str, int] = {}
    for name, capacity in capacities.items():
        try:
            amounts[name] = _round(demands.get(name), capacity, fractions)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from error
        if amounts[name] < 0:
            raise CapacityError(f'capacity "{name}": capacity value is negative')
    return amounts


def _qualify_all(requested: Mapping[str, Quantity], driver: str) -> dict[str, Quantity]:
    """Return a request with qualified names. One capacity in both forms is ambiguous, even with equal amounts."""
    qualified: dict[str, Quantity] = {}
    for name, amount in requested.items():
        if qualify(name, driver) in qualified:
            raise CapacityError(_AMBIGUOUS.format(name=qualify(name, driver)))
        qualified[qualify(name, driver)] = amount
    return qualified


def fits(
    device: Device, amounts: Mapping[str, int], consumed: Mapping[str, int], *, fractions: bool, driver: str = ""
) -> bool:
    """Return whether an amount conforms to the device's policy and fits next to the consumed capacity.

    The names of ``consumed`` are qualified if there is a ``driver``.
    """
    return all(
        not _breaks(amount, device.capacity[name].request_policy, fractions)
        and amount + consumed.get(qualify(name, driver), 0) <= nano_value(device.capacity[name].value)
        for name, amount in amounts.items()
    )


def _round(requested: Quantity | None, capacity: DeviceCapacity, fractions: bool) -> int:
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
