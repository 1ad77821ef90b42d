"""The cycle state of DynamicResources: the claims of a pod, and the nodes where they can be used."""

from typing import Final

import numpy as np
from msgspec import Struct, field

from moorage.kube.api.devices import AllocationResult, ClaimConsumer, ResourceClaim
from moorage.kube.api.pod import ContainerExtendedResourceRequest, NodeAllocatableClaimStatus
from moorage.kube.api.selectors import NodeMatcher
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.framework.node_selection import any_of, matching_nodes
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray, Status
from moorage.scheduler.plugins.dynamic_resources.allocation.allocator import SearchBudget
from moorage.scheduler.plugins.dynamic_resources.allocation.cached_allocations import CachedAllocations
from moorage.scheduler.plugins.dynamic_resources.devices.pools import OPTIONAL_NODE_OPERATIONS

NOT_AVAILABLE: Final = Status.unresolvable("resourceclaim not available on the node")


class Pattern(Struct):
    """Claims to allocate on nodes of the same kind; kinds differ if device plugins serve an extended resource.

    ``cached`` is ``None`` if there is nothing to allocate. ``is_idle`` is set if no claim applies to the nodes.
    """

    cached: CachedAllocations | None = None
    names: tuple[str, ...] = ()
    extended_claim: ResourceClaim | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    is_idle: bool = False


class DeviceState(Struct):
    """The claims of a pod: those in its spec, then that for its extended resources."""

    claims: list[ResourceClaim] = field(default_factory=list)
    extended: ResourceClaim | None = None
    extended_resources: dict[str, int] = field(default_factory=dict)
    matchers: dict[int, NodeMatcher] = field(default_factory=dict)
    stuck: frozenset[int] = frozenset()
    skipping: frozenset[int] = frozenset()
    """Claims for devices that require nodes with optional node operations."""
    pending_skips: tuple[int, ...] = ()
    """Such claims among the ``shared`` ones."""
    mapped: tuple[int, ...] | None = None
    """Claims with devices that map to node resources, or ``None`` until looked up."""
    patterns: dict[frozenset[str], Pattern] = field(default_factory=dict)
    shared: dict[int, AllocationResult] = field(default_factory=dict)
    """Claims with a pending allocation of another pod of the same group, by index."""
    consumers: dict[int, ClaimConsumer] = field(default_factory=dict)
    """The consumers of claims that are reserved for the pod's group instead of the pod."""
    entries: tuple[str, ...] = ()
    """The names of the claims in the pod's spec."""
    statuses: tuple[NodeAllocatableClaimStatus, ...] = ()
    """Node resources of the devices on the selected node, and whether they are written to the pod."""
    are_written: bool = False
    allocations: dict[int, AllocationResult] = field(default_factory=dict)
    pending_uids: list[str] = field(default_factory=list)
    reserved: Pattern | None = None
    budget: SearchBudget | None = None
    may_suspend: bool = False
    fixed_score: int = 0

    @property
    def is_empty(self) -> bool:
        return not self.claims

    @property
    def to_allocate(self) -> list[int]:
        """The indexes of the claims without an allocation."""
        shared = self.shared
        claims = enumerate(self.claims)
        return [index for index, claim in claims if claim.status.allocation is None and index not in shared]

    def unprepared(self) -> Status | None:
        """Return the status of nodes without the feature that a pending allocation of the group requires."""
        if not self.pending_skips:
            return None
        claim = self.claims[self.pending_skips[0]]
        return Status.unresolvable(
            f"resource claim {claim.key} allocation requires {OPTIONAL_NODE_OPERATIONS} feature on the node"
        )

    def find_unavailable(self, info: NodeInfo) -> set[int]:
        """Return the indexes of the claims that cannot be used on a node."""
        return self.find_unreachable(info) | self.stuck

    def find_unreachable(self, info: NodeInfo) -> set[int]:
        """Return the indexes of the claims for devices that a node does not reach."""
        away = {index for index, matcher in self.matchers.items() if not matcher.matches(info.labels, info.name)}
        if self.skipping and OPTIONAL_NODE_OPERATIONS not in info.node.status.declared_features:
            away |= self.skipping
        return away

    def find_rejected_claims(self, statuses: NodeStatuses, nodes: NodeTable) -> set[int]:
        """Return the indexes of the claims for which a node was rejected in the final statuses.

        This reads the final statuses instead of recording rejections in Filter: a node rejected for a claim does
        not count if kube-scheduler never checks the claim there, for example since a nominated pod fills the node.
        """
        candidates = self.stuck | self.skipping | self.matchers.keys()
        unavailable: set[int] = set()
        for name, status in statuses.explicit.items() if candidates else ():
            if status.reasons == NOT_AVAILABLE.reasons and (info := nodes.find(name)) is not None:
                unavailable |= self.find_unavailable(info)
                if unavailable == candidates:
                    break
        return unavailable

    def unavailable_on_nodes(self, nodes: NodeTable) -> BoolArray | None:
        """Find the nodes where a claim cannot be used. Return ``None`` if all claims can be used on all nodes."""
        if self.stuck:
            return np.ones(len(nodes), dtype=np.bool_)
        masks = [~matching_nodes(matcher, nodes) for matcher in self.matchers.values()]
        if self.skipping:
            masks.append(nodes.declared_features.where(lambda declared: OPTIONAL_NODE_OPERATIONS not in declared))
        return any_of(masks)


KEY: Final = StateKey[DeviceState]("DynamicResources", missing="not found")
PENDING: Final = StateKey[dict[str, int]]("DynamicResources/launched")
"""In the state of a group: UIDs of claims with pending allocations of this attempt, and their number of pods."""
FILTERED: Final = StateKey[bool]("DynamicResources/filtered")
"""Set by Filter: without it no devices were searched, so Reserve has nothing to allocate."""
