"""Constraints between the devices of a claim: ``matchAttribute`` and ``distinctAttribute``."""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, Final

from moorage.kube.api.devices import DeviceAttribute, DeviceConstraint
from moorage.scheduler.plugins.dynamic_resources.allocation.device_requests import Alternative, ClaimFault
from moorage.scheduler.plugins.dynamic_resources.cel.program import CelCompileError, CelRuntimeError, compile_attribute
from moorage.scheduler.plugins.dynamic_resources.devices.pools import PooledDevice

Value = tuple[str, object]
Values = frozenset[Value]
"""The values of an attribute with their types: one, or those of a list."""
UNKNOWN: Final[Value] = ("unknown", None)
_UNKNOWN: Final = frozenset((UNKNOWN,))
_KINDS: Final = {str: "string", int: "int", bool: "bool", dict: "version"}


def attribute_values(device: PooledDevice, name: str, *, lists: bool = False) -> Values | None:
    """Return the values of a device's attribute; names in the driver's own domain may omit the domain.

    Without ``lists`` (the gate DRAListTypeAttributes), list values are unknown.
    """
    attribute = device.device.attributes.get(name)
    if attribute is None:
        domain, slash, identifier = name.partition("/")
        if slash and domain == device.id.driver:
            attribute = device.device.attributes.get(identifier)
    return None if attribute is None else _written_values(attribute, lists)


def _written_values(attribute: DeviceAttribute, lists: bool) -> Values:
    if attribute.string_value is not None:
        return frozenset((("string", attribute.string_value),))
    if attribute.int_value is not None:
        return frozenset((("int", attribute.int_value),))
    if attribute.bool_value is not None:
        return frozenset((("bool", attribute.bool_value),))
    if attribute.version_value is not None:
        return frozenset((("version", attribute.version_value),))
    several = {
        "string": attribute.string_values,
        "int": attribute.int_values,
        "bool": attribute.bool_values,
        "version": attribute.version_values,
    }
    for kind, values in several.items():
        if values is not None and lists:
            return frozenset((kind, value) for value in values)
    return _UNKNOWN


def derived_values(device: PooledDevice, name: str, expression: str, *, lists: bool) -> Values:
    """Derive an attribute of a device from an expression; raise ClaimFault if that fails."""
    try:
        value: Any = compile_attribute(expression).value(device.facts)
    except CelCompileError as error:
        raise ClaimFault(f"compile derived attribute {name} failed: {error}") from error
    except CelRuntimeError as error:
        text = f"evaluate derived attribute {name} on device {device.id} failed: {error}"
        raise ClaimFault(text) from error
    if isinstance(value, list) and not lists:
        return _UNKNOWN
    items = value if isinstance(value, list) else [value]
    return frozenset((_KINDS[type(item)], item["@semver"] if isinstance(item, dict) else item) for item in items)


class Constraint(ABC):
    """Tracks the devices chosen so far. A rejected device stays rejected when more devices are added."""

    def __init__(self, attribute: str, requests: tuple[str, ...], *, lists: bool = False) -> None:
        self.attribute = attribute
        self._requests = frozenset(requests)
        self._lists = lists
        self._steps: list[Values] = []

    def add(self, device: PooledDevice, request: str, alternative: Alternative) -> bool:
        """Add a device, or return False if it violates the constraint; other requests are ignored."""
        if not self.covers(request, alternative.qualified):
            return True
        expression = alternative.derived.get(self.attribute)
        if expression is None:
            values = attribute_values(device, self.attribute, lists=self._lists)
        else:
            values = derived_values(device, self.attribute, expression, lists=self._lists)
        step = self._step(values) if values else None
        if step is None:
            return False
        self._steps.append(step)
        return True

    def remove(self, request: str, alternative: Alternative) -> None:
        """Remove the last device of this request."""
        if self.covers(request, alternative.qualified):
            self._steps.pop()

    def covers(self, request: str, qualified: str) -> bool:
        """Return whether the constraint applies to a request; without a list it applies to all."""
        return not self._requests or request in self._requests or qualified in self._requests

    @property
    def state(self) -> Hashable:
        """The state on which the next results depend."""
        return self._steps[-1] if self._steps else None

    @abstractmethod
    def _step(self, values: Values) -> Values | None:
        """Return the state after a device with these values, or ``None`` if it violates the constraint."""


class SameValue(Constraint):
    """All devices have a common value of the same type."""

    @property
    def common(self) -> Values | None:
        """The values common to all devices chosen so far; ``None`` before the first device."""
        return self._steps[-1] if self._steps else None

    def _step(self, values: Values) -> Values | None:
        if not self._steps:
            return values
        return (values & self._steps[-1]) - _UNKNOWN or None


class DistinctValues(Constraint):
    """No two devices have a common value."""

    def _step(self, values: Values) -> Values | None:
        if not self._steps:
            return values
        seen_values = self._steps[-1]
        return None if values & seen_values or UNKNOWN in values else values | seen_values


def constraint_for(spec: DeviceConstraint, *, lists: bool = False) -> Constraint | None:
    """Create the tracker of a constraint; ``None`` if its type is unsupported."""
    if spec.match_attribute is not None:
        return SameValue(spec.match_attribute, spec.requests, lists=lists)
    if spec.distinct_attribute is not None:
        return DistinctValues(spec.distinct_attribute, spec.requests, lists=lists)
    return None
