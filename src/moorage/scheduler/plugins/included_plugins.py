"""The plugins that are part of Moorage: those of kube-scheduler in the order of the default profile, and more."""

from collections.abc import Mapping
from typing import Final

from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.plugins.default_binder import DefaultBinder
from moorage.scheduler.plugins.default_preemption.plugin import DefaultPreemption
from moorage.scheduler.plugins.deferred_pod_scheduling import DeferredPodScheduling
from moorage.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from moorage.scheduler.plugins.gang_scheduling import GangScheduling
from moorage.scheduler.plugins.image_locality import ImageLocality
from moorage.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from moorage.scheduler.plugins.node_affinity import NodeAffinity
from moorage.scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from moorage.scheduler.plugins.node_name import NodeName
from moorage.scheduler.plugins.node_ports import NodePorts
from moorage.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit
from moorage.scheduler.plugins.node_unschedulable import NodeUnschedulable
from moorage.scheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits
from moorage.scheduler.plugins.pod_group_pods_count import PodGroupPodsCount
from moorage.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from moorage.scheduler.plugins.priority_sort import PrioritySort
from moorage.scheduler.plugins.scheduling_gates import SchedulingGates
from moorage.scheduler.plugins.taint_toleration import TaintToleration
from moorage.scheduler.plugins.topology_placement_generator import TopologyPlacementGenerator
from moorage.scheduler.plugins.volume_binding.plugin import VolumeBinding
from moorage.scheduler.plugins.volume_restrictions import VolumeRestrictions
from moorage.scheduler.plugins.volume_zone import VolumeZone

IN_TREE: Final[tuple[type[Plugin], ...]] = (
    SchedulingGates,
    PrioritySort,
    NodeName,
    NodeUnschedulable,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    DeferredPodScheduling,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    GangScheduling,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
)

_CONTRIB: Final = "moorage.contrib"
_GPU: Final = f"{_CONTRIB}.gpu"
_COMMUNITY: Final = f"{_CONTRIB}.community"
CONTRIB: Final[Mapping[str, str]] = {
    "CapacityScheduling": f"{_COMMUNITY}.capacity_scheduling.plugin:CapacityScheduling",
    "Coscheduling": f"{_COMMUNITY}.coscheduling.plugin:Coscheduling",
    "FGD": f"{_GPU}.gpu_policies:FGD",
    "GpuBestFit": f"{_GPU}.gpu_policies:GpuBestFit",
    "GpuClustering": f"{_GPU}.gpu_policies:GpuClustering",
    "GpuDotProd": f"{_GPU}.gpu_policies:GpuDotProd",
    "GpuPacking": f"{_GPU}.gpu_policies:GpuPacking",
    "GpuRandom": f"{_GPU}.gpu_policies:GpuRandom",
    "GpuShare": f"{_GPU}.gpu_share:GpuShare",
    "LearnedScore": f"{_CONTRIB}.learned_score.plugin:LearnedScore",
    "LoadVariationRiskBalancing": f"{_COMMUNITY}.load_variation_risk_balancing:LoadVariationRiskBalancing",
    "NodeMetadata": f"{_COMMUNITY}.node_metadata:NodeMetadata",
    "NodeResourcesAllocatable": f"{_COMMUNITY}.node_resources_allocatable:NodeResourcesAllocatable",
    "PreemptionToleration": f"{_COMMUNITY}.preemption_toleration:PreemptionToleration",
    "TargetLoadPacking": f"{_COMMUNITY}.target_load_packing:TargetLoadPacking",
}
"""Import paths of the other plugins. A plugin is imported only if a profile enables it."""
