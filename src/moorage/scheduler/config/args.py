"""The arguments of the in-tree plugins, and their defaults."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from moorage.kube.api.affinity import NodeAffinity, TopologySpreadConstraint
from moorage.kube.api.struct import KubeStruct
from moorage.kube.features import FeatureGates
from moorage.scheduler.config.durations import Duration
from moorage.scheduler.config.types import Int32, Int64

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"
SYSTEM_DEFAULTING: Final = "System"
LIST_DEFAULTING: Final = "List"
MAX_SHAPE_SCORE: Final = 10


class DefaultPreemptionArgs(KubeStruct, frozen=True):
    """The number of nodes that a preemption evaluates."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class InterPodAffinityArgs(KubeStruct, frozen=True):
    """The weight of existing pods' affinity."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(KubeStruct, frozen=True):
    """Affinity that is added to every pod of the profile."""

    added_affinity: NodeAffinity | None = None


class ResourceSpec(KubeStruct, frozen=True):
    """The weight of a resource in a score."""

    name: str = ""
    weight: Int64 = 1


class UtilizationShapePoint(KubeStruct, frozen=True):
    """A point of a piecewise linear function from utilization in percent to a score of at most ten."""

    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioParam(KubeStruct, frozen=True):
    """The function of the strategy of that name."""

    shape: tuple[UtilizationShapePoint, ...] = ()


DEFAULT_RESOURCES: Final = (ResourceSpec("cpu"), ResourceSpec("memory"))
DEFAULT_SHAPE: Final = (UtilizationShapePoint(0, MAX_SHAPE_SCORE), UtilizationShapePoint(100, 0))


class ScoringStrategy(KubeStruct, frozen=True):
    """The scoring strategy of NodeResourcesFit. Its type is required."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(KubeStruct, frozen=True):
    """Which resources need not fit, and how other resources are scored."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(LEAST_ALLOCATED, DEFAULT_RESOURCES)


class NodeResourcesBalancedAllocationArgs(KubeStruct, frozen=True):
    """Which resources are balanced."""

    resources: tuple[ResourceSpec, ...] = ()


class PodTopologySpreadArgs(KubeStruct, frozen=True):
    """Constraints for pods that have none."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = SYSTEM_DEFAULTING


class VolumeBindingArgs(KubeStruct, frozen=True):
    """Timeout of volumes, and the scoring of free capacity."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] = ()


class DynamicResourcesArgs(KubeStruct, frozen=True):
    """Timeouts of an allocation on a node and of binding, or `None` where the gate for it is off."""

    filter_timeout: Duration | None = None
    binding_timeout: Duration | None = None


def complete_args(args: Any, gates: FeatureGates) -> Any:
    """Apply upstream's defaults after decoding: zero weights, empty lists, and gate-dependent values."""
    match args:
        case NodeResourcesFitArgs(scoring_strategy=strategy):
            completed = replace(strategy, resources=_weigh(strategy.resources))
            return replace(args, scoring_strategy=completed)
        case NodeResourcesBalancedAllocationArgs(resources=resources):
            return replace(args, resources=_weigh(resources))
        case PodTopologySpreadArgs(defaulting_type=defaulting):
            return replace(args, defaulting_type=defaulting or SYSTEM_DEFAULTING)
        case VolumeBindingArgs(shape=shape):
            default = DEFAULT_SHAPE if gates.enabled("StorageCapacityScoring") else ()
            return replace(args, shape=shape or default)
        case DynamicResourcesArgs():
            filtering, binding = args.filter_timeout, args.binding_timeout
            if filtering is None and gates.enabled("DRASchedulerFilterTimeout"):
                filtering = Duration.of(seconds=10)
            if binding is None and binding_timeout_applies(gates):
                binding = Duration.of(seconds=600)
            return DynamicResourcesArgs(filtering, binding)
        case _:
            return args


def binding_timeout_applies(gates: FeatureGates) -> bool:
    """Return whether DynamicResources waits for device conditions."""
    return gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")


def _weigh(resources: Sequence[ResourceSpec]) -> tuple[ResourceSpec, ...]:
    return tuple(replace(spec, weight=spec.weight or 1) for spec in resources) or DEFAULT_RESOURCES
