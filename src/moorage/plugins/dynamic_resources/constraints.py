"""What the devices of a claim must have in common, or must not."""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Final

from moorage.api.devices import DeviceConstraint
from moorage.plugins.dynamic_resources.pools import PooledDevice

Value = tuple[str, object]
UNKNOWN: Final[Value] = ("unknown", None)


def attribute_of(device: PooledDevice, name: str) -> Value | None:
    """Return a device's attribute with its type; a name in the driver's own domain may be written without it."""
    attribute = device.device.attributes.get(name)
    if attribute is None:
        domain, slash, identifier = name.partition("/")
        if slash and domain == device.id.driver:
            attribute = device.device.attributes.get(identifier)
    if attribute is None:
        return None
    if attribute.string_value is not None:
        return ("string", attribute.string_value)
    if attribute.int_value is not None:
        return ("int", attribute.int_value)
    if attribute.bool_value is not None:
        return ("bool", attribute.bool_value)
    return ("version", attribute.version_value) if attribute.version_value is not None else UNKNOWN


class Constraint(ABC):
    """Follows the devices chosen so far. What was refused once stays refused however many devices are added."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        self.attribute = attribute
        self._requests = frozenset(requests)
        self._values: list[Value] = []

    def add(self, device: PooledDevice, request: str, qualified: str) -> bool:
        """Take a device in, or refuse it; requests that are not named do not matter."""
        if not self.covers(request, qualified):
            return True
        value = attribute_of(device, self.attribute)
        if value is None or not self._admits(value):
            return False
        self._values.append(value)
        return True

    def remove(self, request: str, qualified: str) -> None:
        """Take the last device of this request out again."""
        if self.covers(request, qualified):
            self._values.pop()

    def covers(self, request: str, qualified: str) -> bool:
        """Return whether the devices of a request are meant; without a list those of all are."""
        return not self._requests or request in self._requests or qualified in self._requests

    @property
    @abstractmethod
    def state(self) -> Hashable:
        """What the next answers depend on."""

    @abstractmethod
    def _admits(self, value: Value) -> bool:
        """Return whether a device with this value may join those chosen so far."""


class SameValue(Constraint):
    """All devices have the same value, of the same type."""

    @property
    def value(self) -> Value | None:
        """The value, once there is a device."""
        return self._values[0] if self._values else None

    @property
    def state(self) -> Hashable:
        return self.value

    def _admits(self, value: Value) -> bool:
        return not self._values or (value == self._values[0] and value is not UNKNOWN)


class DistinctValues(Constraint):
    """No two devices have the same value."""

    @property
    def state(self) -> Hashable:
        return frozenset(self._values)

    def _admits(self, value: Value) -> bool:
        return not self._values or (value not in self._values and value is not UNKNOWN)


def constraint_for(written: DeviceConstraint) -> Constraint | None:
    """Make ready to follow a constraint; ``None`` if it is of a kind nobody knows."""
    if written.match_attribute is not None:
        return SameValue(written.match_attribute, written.requests)
    if written.distinct_attribute is not None:
        return DistinctValues(written.distinct_attribute, written.requests)
    return None
