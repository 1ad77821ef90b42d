"""The cycle state of DynamicResources."""

from typing import Final

from msgspec import Struct, field

from moorage.kube.api.devices import AllocationResult, ClaimConsumer, ResourceClaim
from moorage.kube.api.pod import ContainerExtendedResourceRequest, NodeAllocatableClaimStatus
from moorage.kube.api.selectors import NodeMatcher
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.plugins.dynamic_resources.allocation.allocator import SearchBudget
from moorage.scheduler.plugins.dynamic_resources.allocation.cached_allocations import CachedAllocations


class Pattern(Struct):
    """Claims to allocate on nodes of one kind; kinds differ if device plugins serve an extended resource.

    ``cached`` is ``None`` if there is nothing to allocate; ``is_idle`` is set if no claim applies to the nodes.
    """

    cached: CachedAllocations | None = None
    names: tuple[str, ...] = ()
    extended_claim: ResourceClaim | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    is_idle: bool = False


class DeviceState(Struct):
    """The claims of a pod: those in its spec, then the one for its extended resources."""

    claims: list[ResourceClaim] = field(default_factory=list)
    extended: ResourceClaim | None = None
    extended_resources: dict[str, int] = field(default_factory=dict)
    matchers: dict[int, NodeMatcher] = field(default_factory=dict)
    stuck: frozenset[int] = frozenset()
    skipping: frozenset[int] = frozenset()
    """Claims whose devices require nodes with optional node operations."""
    pending_skips: tuple[int, ...] = ()
    """Such claims among the ``shared`` ones."""
    mapped: tuple[int, ...] | None = None
    """Claims with devices that map to node resources; ``None`` until looked up."""
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
    fixed_score: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the pod needs no devices."""
        return not self.claims

    @property
    def named_count(self) -> int:
        """The number of claims in the pod's spec."""
        return len(self.claims) - (self.extended is not None)

    @property
    def to_allocate(self) -> list[int]:
        """The indexes of the claims without an allocation."""
        shared = self.shared
        claims = enumerate(self.claims)
        return [index for index, claim in claims if claim.status.allocation is None and index not in shared]


KEY: Final = StateKey[DeviceState]("DynamicResources", missing="not found")
PENDING: Final = StateKey[dict[str, int]]("DynamicResources/launched")
"""In the state of a group: UIDs of claims with pending allocations of this attempt, and their number of pods."""
FILTERED: Final = StateKey[bool]("DynamicResources/filtered")
"""Set by Filter: without it no devices were searched, so Reserve has nothing to allocate."""
