"""Parsed claim specs: requests, their alternatives, and the selectors that devices must match."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from moorage.common.errors import MoorageError
from moorage.kube.api.devices import (
    ALL_DEVICES,
    EXACT_COUNT,
    DeviceAttribute,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaimSpec,
)
from moorage.kube.api.quantity import Quantity
from moorage.scheduler.plugins.dynamic_resources.cel.program import (
    CelCompileError,
    CelRuntimeError,
    compile_attribute,
    compile_selector,
)
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceFeatures
from moorage.scheduler.plugins.dynamic_resources.devices.pools import PooledDevice

ClassOf = Callable[[str], DeviceClass | None]


class ClaimFault(MoorageError):
    """An invalid claim, class or device: allocation fails with an error on all nodes.

    The fault names the claim by index, since claims with equal specs share results. :meth:`about` adds the name.
    """

    def __init__(self, text: str, *, claim: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.claim = claim

    def about(self, names: Sequence[str]) -> str:
        """Return the message with the claim's name."""
        return self.text if self.claim is None else f"claim {names[self.claim]}{self.text}"


class Alternative(Struct, frozen=True, eq=False):
    """A request, or one of its sub-requests."""

    name: str
    qualified: str
    spec: ExactDeviceRequest | DeviceSubRequest
    device_class: DeviceClass | None
    problem: str = ""
    derived: Mapping[str, str] = {}
    """The derived attributes: expressions by name."""

    @property
    def takes_all(self) -> bool:
        """Whether it requests all matching devices."""
        return self.spec.allocation_mode == ALL_DEVICES

    @property
    def count(self) -> int:
        """Number of requested devices. The API server defaults it to 1."""
        return self.spec.count or 1

    @property
    def has_admin_access(self) -> bool:
        """Whether it may use devices that are in use."""
        return isinstance(self.spec, ExactDeviceRequest) and bool(self.spec.admin_access)

    @property
    def tolerations(self) -> tuple[DeviceToleration, ...]:
        return self.spec.tolerations

    @property
    def capacity(self) -> Mapping[str, Quantity]:
        """The requested capacity of a device."""
        return self.spec.capacity.requests if self.spec.capacity is not None else {}

    @property
    def demand(self) -> Hashable:
        """The parts on which the choice of a single device depends; equal for alternatives that select the same."""
        return (self.spec.device_class_name, self.spec.selectors, self.has_admin_access, tuple(self.capacity.items()))

    def selects(self, device: PooledDevice, claim: int, *, masks: bool = False) -> bool:
        """Return whether a device matches the selectors of the class and the request."""
        assert self.device_class is not None
        owner = f"class {self.device_class.name}"
        return _pass(self.device_class.spec.selectors, device, owner, None, masks) and _pass(
            self.spec.selectors, device, "", claim, masks
        )


def _pass(
    selectors: Sequence[DeviceSelector], device: PooledDevice, owner: str, claim: int | None, masks: bool
) -> bool:
    for number, selector in enumerate(selectors):
        assert selector.cel is not None
        try:
            if not compile_selector(selector.cel.expression, masks=masks).matches(device.facts):
                return False
        except CelCompileError as error:
            raise ClaimFault(f"{owner}: selector #{number}: CEL compile error: {error}", claim=claim) from error
        except CelRuntimeError as error:
            text = f"{owner}: selector #{number} on device {device.id}: CEL runtime error: {error}"
            raise ClaimFault(text, claim=claim) from error
    return True


class Request(Struct, frozen=True, eq=False):
    """A request of a claim and its alternatives; exactly one if it is not a list."""

    name: str
    alternatives: tuple[Alternative, ...]
    is_list: bool
    problem: str = ""


class ParsedClaim(Struct, frozen=True, eq=False):
    """The parsed requests of a claim."""

    spec: ResourceClaimSpec
    requests: tuple[Request, ...]


def list_expressions(claims: Iterable[ParsedClaim]) -> list[str]:
    """List the distinct selectors of claims and their classes."""
    alternatives = [item for claim in claims for request in claim.requests for item in request.alternatives]
    specs = [item.spec for item in alternatives] + [
        item.device_class.spec for item in alternatives if item.device_class
    ]
    expressions = [selector.cel.expression for spec in specs for selector in spec.selectors if selector.cel is not None]
    return list(dict.fromkeys(expressions))


def parse_claim(spec: ResourceClaimSpec, class_of: ClassOf, features: DeviceFeatures) -> ParsedClaim:
    """Parse a claim's spec. As upstream, problems are reported on allocation."""
    return ParsedClaim(spec, tuple(_request(request, class_of, features) for request in spec.devices.requests))


def _request(request: DeviceRequest, class_of: ClassOf, features: DeviceFeatures) -> Request:
    if not request.first_available:
        spec = request.exactly or ExactDeviceRequest()
        has_capacity = spec.capacity is not None
        problem = _no_capacity("request", request) if has_capacity and _rejects_capacity(features) else ""
        exact = _alternative(request.name, request.name, spec, class_of, features)
        return Request(request.name, (exact,), False, problem)
    problem = ""
    if not features.prioritized_list:
        problem = f", request {request.name}: has subrequests, but the DRAPrioritizedList feature is disabled"
    elif _rejects_capacity(features):
        problem = next((_no_capacity("subrequest", sub) for sub in request.first_available if sub.capacity), "")
    alternatives = tuple(
        _alternative(sub.name, f"{request.name}/{sub.name}", sub, class_of, features) for sub in request.first_available
    )
    return Request(request.name, alternatives, True, problem)


def _rejects_capacity(features: DeviceFeatures) -> bool:
    """Return whether requested capacities are an error. The oldest allocator ignores them."""
    return not features.consumable_capacity and not features.uses_oldest_allocator


def _no_capacity(kind: str, request: DeviceRequest | DeviceSubRequest) -> str:
    return f", {kind} {request.name}: has capacity requests, but the DRAConsumableCapacity feature is disabled"


def _alternative(
    name: str,
    qualified: str,
    spec: ExactDeviceRequest | DeviceSubRequest,
    class_of: ClassOf,
    features: DeviceFeatures,
) -> Alternative:
    device_class = class_of(spec.device_class_name)
    problem = _problem(spec, device_class, features)
    text = f", request {name}{problem}" if problem else ""
    derived = {item.name: item.expression for item in spec.derived_attributes}
    return Alternative(name, qualified, spec, device_class, text, derived)


def _problem(
    spec: ExactDeviceRequest | DeviceSubRequest, device_class: DeviceClass | None, features: DeviceFeatures
) -> str:
    for number, selector in enumerate(spec.selectors):
        if selector.cel is None:
            return f", selector #{number}: CEL expression empty (unsupported selector type?)"
    if not features.admin_access and isinstance(spec, ExactDeviceRequest) and spec.admin_access is not None:
        return ": admin access is requested, but the feature is disabled"
    if spec.derived_attributes and not features.derived_attributes:
        return ": cannot handle request with derived attributes, the feature is disabled"
    if not spec.device_class_name:
        return ": missing device class name (unsupported request type?)"
    if device_class is None:
        name = spec.device_class_name
        return f': could not retrieve device class {name}: deviceclass.resource.k8s.io "{name}" not found'
    if spec.allocation_mode not in ("", EXACT_COUNT, ALL_DEVICES):
        return f": unsupported count mode {spec.allocation_mode}"
    return ""


Value = tuple[str, object]
Values = frozenset[Value]
"""The values of an attribute with their types: one, or those of a list."""
UNKNOWN: Final[Value] = ("unknown", None)
_UNKNOWN: Final = frozenset((UNKNOWN,))
_KINDS: Final = {str: "string", int: "int", bool: "bool", dict: "version"}


def attribute_values(device: PooledDevice, name: str, *, lists: bool = False) -> Values | None:
    """Return the values of a device's attribute. Names in the driver's own domain may omit the domain.

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


def derived_values(device: PooledDevice, name: str, expression: str, features: DeviceFeatures) -> Values:
    """Derive an attribute of a device from an expression. Raise ClaimFault if that fails."""
    try:
        value: Any = compile_attribute(expression, masks=features.cidr_masks).value(device.facts)
    except CelCompileError as error:
        raise ClaimFault(f"compile derived attribute {name} failed: {error}") from error
    except CelRuntimeError as error:
        text = f"evaluate derived attribute {name} on device {device.id} failed: {error}"
        raise ClaimFault(text) from error
    if isinstance(value, list) and not features.list_attributes:
        return _UNKNOWN
    items = value if isinstance(value, list) else [value]
    return frozenset((_KINDS[type(item)], item["@semver"] if isinstance(item, dict) else item) for item in items)


class Constraint(ABC):
    """Tracks the devices chosen so far. A rejected device remains rejected when more devices are added."""

    def __init__(self, attribute: str, requests: tuple[str, ...], features: DeviceFeatures) -> None:
        self.attribute = attribute
        self._requests = frozenset(requests)
        self._features = features
        self._steps: list[Values] = []

    def add(self, device: PooledDevice, request: str, alternative: Alternative) -> bool:
        """Add a device, or return False if it violates the constraint. Other requests are ignored."""
        if not self.covers(request, alternative.qualified):
            return True
        expression = alternative.derived.get(self.attribute)
        if expression is None:
            values = attribute_values(device, self.attribute, lists=self._features.list_attributes)
        else:
            values = derived_values(device, self.attribute, expression, self._features)
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
        """The values common to all devices chosen so far, or ``None`` before the first device."""
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


def make_constraint(spec: DeviceConstraint, features: DeviceFeatures) -> Constraint | None:
    """Create the tracker of a constraint. Return ``None`` if its type is unsupported."""
    if spec.match_attribute is not None:
        return SameValue(spec.match_attribute, spec.requests, features)
    if spec.distinct_attribute is not None and not features.uses_oldest_allocator:
        return DistinctValues(spec.distinct_attribute, spec.requests, features)
    return None
