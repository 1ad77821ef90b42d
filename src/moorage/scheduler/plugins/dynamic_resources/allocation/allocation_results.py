"""Converts a solution to the allocation result of a claim: devices, configuration, and node selector."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from uuid import uuid4

from moorage.kube.api.devices import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from moorage.kube.api.selectors import NODE_NAME_FIELD, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.scheduler.plugins.dynamic_resources.allocation.allocator import DeviceChoice
from moorage.scheduler.plugins.dynamic_resources.allocation.device_requests import Alternative, ClaimFault, ParsedClaim
from moorage.scheduler.plugins.dynamic_resources.devices.consumable_capacity import format_quantity
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceFeatures

FROM_CLASS: Final = "FromClass"
FROM_CLAIM: Final = "FromClaim"
MAX_ALTERNATIVES: Final = 8


def allocation(
    claim: ParsedClaim,
    choices: Sequence[DeviceChoice],
    selected: Sequence[Alternative],
    *,
    node_name: str,
    features: DeviceFeatures,
) -> AllocationResult:
    """Create the allocation result of a claim. Every share of a device gets its own ID."""
    return AllocationResult(
        devices=DeviceAllocationResult(
            results=tuple(device_result(item, features) for item in choices),
            config=tuple(_configuration(claim, selected)),
        ),
        node_selector=find_node_selector(choices, node_name),
    )


def preference(claim: ParsedClaim, selected: Sequence[Alternative]) -> int:
    """Score an allocation: earlier alternatives of each list score higher."""
    return sum(
        MAX_ALTERNATIVES - request.alternatives.index(alternative)
        for request, alternative in zip(claim.requests, selected, strict=True)
        if request.is_list
    )


def stored_preference(claim: ResourceClaim) -> int:
    """Score the stored allocation of a claim in the same way."""
    allocation = claim.status.allocation
    served = {result.request for result in allocation.devices.results} if allocation is not None else set()
    return sum(
        MAX_ALTERNATIVES - number
        for request in claim.spec.devices.requests
        if request.exactly is None
        for number, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in served
    )


def device_result(choice: DeviceChoice, features: DeviceFeatures) -> DeviceRequestAllocationResult:
    """Return the allocation result of a device."""
    conditions, skips = features.binding_conditions, features.optional_node_operations
    device, alternative = choice.device, choice.alternative
    return DeviceRequestAllocationResult(
        request=alternative.qualified,
        driver=device.id.driver,
        pool=device.id.pool,
        device=device.id.name,
        admin_access=True if alternative.has_admin_access else None,
        tolerations=alternative.tolerations,
        binding_conditions=device.device.binding_conditions if conditions else (),
        binding_failure_conditions=device.device.binding_failure_conditions if conditions else (),
        share_id=str(uuid4()) if choice.consumed is not None else None,
        consumed_capacity={
            name: format_quantity(amount, like=device.device.capacity[name].value)
            for name, amount in (choice.consumed or {}).items()
        },
        skip_node_operations=device.spec.skip_node_operations if skips else (),
    )


def _configuration(claim: ParsedClaim, selected: Sequence[Alternative]) -> Iterator[DeviceAllocationConfiguration]:
    """Collect the configuration of the classes in use, once each, and the applicable configuration of the claim."""
    by_class: dict[str, list[Alternative]] = {}
    for alternative in selected:
        by_class.setdefault(alternative.spec.device_class_name, []).append(alternative)
    for users in by_class.values():
        assert users[0].device_class is not None
        names = tuple(user.qualified for user in users)
        for config in users[0].device_class.spec.config:
            yield DeviceAllocationConfiguration(FROM_CLASS, _unless_all(names, claim, selected), config.opaque)
    for own in claim.spec.devices.config:
        if not own.requests or any(
            request.name in own.requests or alternative.qualified in own.requests
            for request, alternative in zip(claim.requests, selected, strict=True)
        ):
            yield DeviceAllocationConfiguration(FROM_CLAIM, _unless_all(own.requests, claim, selected), own.opaque)


def _unless_all(names: tuple[str, ...], claim: ParsedClaim, selected: Sequence[Alternative]) -> tuple[str, ...]:
    """Return no names if they cover every request: an empty list means all requests."""
    covers = all(
        request.name in names or alternative.qualified in names
        for request, alternative in zip(claim.requests, selected, strict=True)
    )
    return () if covers else names


def find_node_selector(choices: Sequence[DeviceChoice], node_name: str) -> NodeSelector | None:
    """Return where all devices can be used: this node, the nodes that match all selectors, or everywhere (None).

    Raise :class:`ClaimFault` if a selector is not supported.
    """
    terms = list_selector_terms(choices)
    if terms is None:
        requirement = NodeSelectorRequirement(NODE_NAME_FIELD, "In", (node_name,))
        return NodeSelector((NodeSelectorTerm(match_fields=(requirement,)),))
    fields = _distinct(item for term in terms for item in term.match_fields)
    expressions = _distinct(item for term in terms for item in term.match_expressions)
    if not fields and not expressions:
        return None
    return NodeSelector((NodeSelectorTerm(expressions, fields),))


def list_selector_terms(choices: Sequence[DeviceChoice]) -> list[NodeSelectorTerm] | None:
    """List the terms that a node must match to use all devices. Return ``None`` if only one node can use them.

    Raise :class:`ClaimFault` if a selector is not supported.
    """
    collected: list[NodeSelectorTerm] = []
    for item in choices:
        device, spec = item.device.device, item.device.spec
        where = device if spec.per_device_node_selection else spec
        if where.node_name is not None or device.binds_to_node:
            return None
        if where.node_selector is None:
            continue
        terms = where.node_selector.node_selector_terms
        if len(terms) > 1:
            raise ClaimFault(f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms")
        collected += terms
    return collected


def _distinct(requirements: Iterable[NodeSelectorRequirement]) -> tuple[NodeSelectorRequirement, ...]:
    """Return the first of each set of requirements that mean the same."""
    distinct: dict[tuple[str, str, frozenset[str]], NodeSelectorRequirement] = {}
    for item in requirements:
        distinct.setdefault((item.key, item.operator, frozenset(item.values)), item)
    return tuple(distinct.values())
