"""What DynamicResources remembers of a pod during an attempt."""

from typing import Final

from msgspec import Struct, field

from moorage.kube.api.devices import AllocationResult, ClaimConsumer, ResourceClaim
from moorage.kube.api.pod import ContainerExtendedResourceRequest, NodeAllocatableClaimStatus
from moorage.kube.api.selectors import NodeMatcher
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.plugins.dynamic_resources.allocation.allocator import SearchBudget
from moorage.scheduler.plugins.dynamic_resources.allocation.cached_allocations import CachedAllocations


class Pattern(Struct):
    """What is to be allocated on nodes of one kind; they differ where a device plugin serves an extended resource.

    ``answers`` is ``None`` where nothing has to be allocated; ``is_idle`` where claims play no part at all.
    """

    answers: CachedAllocations | None = None
    names: tuple[str, ...] = ()
    extended_claim: ResourceClaim | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    is_idle: bool = False


class DeviceState(Struct):
    """The claims of a pod: those it names, then the one for its extended resources if it has any."""

    claims: list[ResourceClaim] = field(default_factory=list)
    extended: ResourceClaim | None = None
    extended_resources: dict[str, int] = field(default_factory=dict)
    matchers: dict[int, NodeMatcher] = field(default_factory=dict)
    stuck: frozenset[int] = frozenset()
    skipping: frozenset[int] = frozenset()
    """Claims whose devices can be used only where a node does without their drivers' work."""
    pending_skips: tuple[int, ...] = ()
    """Such claims among the ``shared`` ones."""
    mapped: tuple[int, ...] | None = None
    """Claims whose devices stand for something of a node, once that has been looked up."""
    patterns: dict[frozenset[str], Pattern] = field(default_factory=dict)
    shared: dict[int, AllocationResult] = field(default_factory=dict)
    """Claims that get their devices for another pod of the same group, with what they get."""
    consumers: dict[int, ClaimConsumer] = field(default_factory=dict)
    """The claims that are reserved for the group of the pod, and not for the pod."""
    entries: tuple[str, ...] = ()
    """What the pod calls the claims it names."""
    statuses: tuple[NodeAllocatableClaimStatus, ...] = ()
    """What the devices come to on the node that was chosen, and whether that has been written to the pod."""
    are_written: bool = False
    allocations: dict[int, AllocationResult] = field(default_factory=dict)
    launched: list[str] = field(default_factory=list)
    reserved: Pattern | None = None
    budget: SearchBudget | None = None
    fixed_score: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the pod has nothing to do with devices."""
        return not self.claims

    @property
    def named_count(self) -> int:
        """How many claims the pod names itself."""
        return len(self.claims) - (self.extended is not None)

    @property
    def to_allocate(self) -> list[int]:
        """The places of the claims that have no devices yet."""
        shared = self.shared
        claims = enumerate(self.claims)
        return [place for place, claim in claims if claim.status.allocation is None and place not in shared]


KEY: Final = StateKey[DeviceState]("DynamicResources", missing="not found")
LAUNCHED: Final = StateKey[dict[str, int]]("DynamicResources/launched")
"""In the state of a group: claims that are given devices in its own attempt, and by how many pods."""
FILTERED: Final = StateKey[bool]("DynamicResources/filtered")
"""Set when nodes were filtered: without that no devices were looked for, and there are none to set aside."""
