"""Groups of pods that are scheduled together, and the workloads that describe such groups."""

from moorage.kube.api.meta import Condition, KubeObject
from moorage.kube.api.pod import PodResourceClaim, PodResourceClaimStatus
from moorage.kube.api.struct import Data, Int32, KubeStruct


class GangPolicy(KubeStruct, frozen=True):
    """A group of pods that runs only when this many of them can."""

    min_count: Int32 = 0


class PodGroupPolicy(KubeStruct, frozen=True):
    """Scheduling policy of the pods of a group: one by one, or together. One of the two is set."""

    basic: Data | None = None
    gang: GangPolicy | None = None


class CompositeGangPolicy(KubeStruct, frozen=True):
    """A group of groups that runs only when this many of them can."""

    min_group_count: Int32 = 0


class CompositePodGroupPolicy(KubeStruct, frozen=True):
    """Scheduling policy of the groups of a group: one by one, or together. One of the two is set."""

    basic: Data | None = None
    gang: CompositeGangPolicy | None = None


class TopologyConstraint(KubeStruct, frozen=True):
    key: str = ""


class GroupSchedulingConstraints(KubeStruct, frozen=True):
    topology: tuple[TopologyConstraint, ...] = ()


class DisruptionMode(KubeStruct, frozen=True):
    """The unit of preemption in a group: single pods or the entire group. One of the two is set."""

    single: Data | None = None
    all: Data | None = None


class GroupSpec(KubeStruct, frozen=True):
    """The common fields of groups and composite groups, as objects and as templates."""

    scheduling_constraints: GroupSchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: Int32 | None = None
    preemption_policy: str | None = None

    @property
    def topology_key(self) -> str | None:
        """The node label that all pods must have in common. Upstream allows one at most."""
        constraints = self.scheduling_constraints
        return constraints.topology[0].key if constraints is not None and constraints.topology else None

    @property
    def is_disrupted_whole(self) -> bool:
        """Whether a preemption takes all of the group or nothing."""
        return self.disruption_mode is not None and self.disruption_mode.all is not None


class WorkloadReference(KubeStruct, frozen=True):
    """The workload template that a group was created from. Its existence is not checked."""

    workload_name: str = ""
    template_name: str = ""


class CreatedGroupSpec(GroupSpec, frozen=True):
    """The common fields of groups and composite groups as objects."""

    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadReference | None = None


class CreatedGroup(KubeObject, frozen=True, dict=True, gc=True):
    """A group or a composite group."""

    spec: CreatedGroupSpec = CreatedGroupSpec()

    @property
    def priority(self) -> int:
        """Return the priority of the group. None means 0."""
        return self.spec.priority or 0

    @property
    def parent_key(self) -> str | None:
        """``namespace/name`` of the group that this one is part of."""
        parent = self.spec.parent_composite_pod_group_name
        return f"{self.namespace}/{parent}" if parent else None


class PodGroupSpec(CreatedGroupSpec, frozen=True):
    scheduling_policy: PodGroupPolicy = PodGroupPolicy()
    resource_claims: tuple[PodResourceClaim, ...] = ()


class PodGroupStatus(KubeStruct, frozen=True):
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class PodGroup(CreatedGroup, frozen=True, dict=True, gc=True):
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def min_count(self) -> int | None:
        """Minimum number of pods that must run together, or ``None`` if each may run alone."""
        gang = self.spec.scheduling_policy.gang
        return None if gang is None else gang.min_count


class CompositePodGroupSpec(CreatedGroupSpec, frozen=True):
    scheduling_policy: CompositePodGroupPolicy = CompositePodGroupPolicy()


class CompositePodGroupStatus(KubeStruct, frozen=True):
    conditions: tuple[Condition, ...] = ()


class CompositePodGroup(CreatedGroup, frozen=True, dict=True, gc=True):
    spec: CompositePodGroupSpec = CompositePodGroupSpec()
    status: CompositePodGroupStatus = CompositePodGroupStatus()

    @property
    def min_group_count(self) -> int | None:
        """Minimum number of groups that must run together, or ``None`` if each may run alone."""
        gang = self.spec.scheduling_policy.gang
        return None if gang is None else gang.min_group_count


class PodGroupTemplate(GroupSpec, frozen=True):
    name: str = ""
    scheduling_policy: PodGroupPolicy = PodGroupPolicy()
    resource_claims: tuple[PodResourceClaim, ...] = ()


class CompositePodGroupTemplate(GroupSpec, frozen=True):
    name: str = ""
    scheduling_policy: CompositePodGroupPolicy = CompositePodGroupPolicy()
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()
    composite_pod_group_templates: "tuple[CompositePodGroupTemplate, ...]" = ()


class WorkloadController(KubeStruct, frozen=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class WorkloadSpec(KubeStruct, frozen=True):
    """The groups of a workload: either of pods, or of groups."""

    controller_ref: WorkloadController | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()
    composite_pod_group_templates: tuple[CompositePodGroupTemplate, ...] = ()


class Workload(KubeObject, frozen=True, dict=True, gc=True):
    spec: WorkloadSpec = WorkloadSpec()
