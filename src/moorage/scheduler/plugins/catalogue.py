"""Every plugin that comes with Moorage, in the order of the default profile."""

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

COMMUNITY: Final[Mapping[str, str]] = {
    "CapacityScheduling": "moorage.contrib.community.capacity_scheduling.plugin:CapacityScheduling",
    "Coscheduling": "moorage.contrib.community.coscheduling.plugin:Coscheduling",
    "LoadVariationRiskBalancing": (
        "moorage.contrib.community.load_variation_risk_balancing:LoadVariationRiskBalancing"
    ),
    "NodeMetadata": "moorage.contrib.community.node_metadata:NodeMetadata",
    "NodeResourcesAllocatable": "moorage.contrib.community.node_resources_allocatable:NodeResourcesAllocatable",
    "PreemptionToleration": "moorage.contrib.community.preemption_toleration:PreemptionToleration",
    "TargetLoadPacking": "moorage.contrib.community.target_load_packing:TargetLoadPacking",
}
"""Import paths of community plugins shipped with Moorage; imported only if a profile enables them."""

GPU: Final[Mapping[str, str]] = {
    "FGD": "moorage.contrib.gpu.fgd:FGD",
    "GpuBestFit": "moorage.contrib.gpu.gpu_best_fit:GpuBestFit",
    "GpuClustering": "moorage.contrib.gpu.gpu_clustering:GpuClustering",
    "GpuDotProd": "moorage.contrib.gpu.gpu_dot_prod:GpuDotProd",
    "GpuPacking": "moorage.contrib.gpu.gpu_packing:GpuPacking",
    "GpuRandom": "moorage.contrib.gpu.gpu_random:GpuRandom",
    "GpuShare": "moorage.contrib.gpu.gpu_share:GpuShare",
}
"""The import paths of the plugins for shared GPUs."""

LEARNED: Final[Mapping[str, str]] = {
    "LearnedScore": "moorage.contrib.learned_score.plugin:LearnedScore",
}
"""The import path of the plugin that scores with a trained policy."""
