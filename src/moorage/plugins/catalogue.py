"""Every plugin that comes with Moorage, in the order of the default profile."""

from collections.abc import Mapping
from typing import Final

from moorage.framework.plugin import Plugin
from moorage.plugins.default_binder import DefaultBinder
from moorage.plugins.default_preemption.plugin import DefaultPreemption
from moorage.plugins.deferred_pod_scheduling import DeferredPodScheduling
from moorage.plugins.dynamic_resources.plugin import DynamicResources
from moorage.plugins.gang_scheduling.plugin import GangScheduling
from moorage.plugins.image_locality import ImageLocality
from moorage.plugins.inter_pod_affinity.plugin import InterPodAffinity
from moorage.plugins.node_affinity import NodeAffinity
from moorage.plugins.node_declared_features import NodeDeclaredFeatures
from moorage.plugins.node_name import NodeName
from moorage.plugins.node_ports import NodePorts
from moorage.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from moorage.plugins.node_resources_fit.plugin import NodeResourcesFit
from moorage.plugins.node_unschedulable import NodeUnschedulable
from moorage.plugins.node_volume_limits.plugin import NodeVolumeLimits
from moorage.plugins.pod_group_pods_count import PodGroupPodsCount
from moorage.plugins.pod_topology_spread.plugin import PodTopologySpread
from moorage.plugins.priority_sort import PrioritySort
from moorage.plugins.scheduling_gates import SchedulingGates
from moorage.plugins.taint_toleration import TaintToleration
from moorage.plugins.topology_placement_generator import TopologyPlacementGenerator
from moorage.plugins.volume_binding.plugin import VolumeBinding
from moorage.plugins.volume_restrictions import VolumeRestrictions
from moorage.plugins.volume_zone import VolumeZone

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
    "CapacityScheduling": "moorage.plugins.community.capacity_scheduling.plugin:CapacityScheduling",
    "Coscheduling": "moorage.plugins.community.coscheduling.plugin:Coscheduling",
    "LoadVariationRiskBalancing": (
        "moorage.plugins.community.load_variation_risk_balancing:LoadVariationRiskBalancing"
    ),
    "NodeMetadata": "moorage.plugins.community.node_metadata:NodeMetadata",
    "NodeResourcesAllocatable": "moorage.plugins.community.node_resources_allocatable:NodeResourcesAllocatable",
    "PreemptionToleration": "moorage.plugins.community.preemption_toleration:PreemptionToleration",
    "TargetLoadPacking": "moorage.plugins.community.target_load_packing:TargetLoadPacking",
}
"""Where the plugins of the wider community are that come with Moorage: imported only when a profile names them."""

GPU: Final[Mapping[str, str]] = {
    "FGD": "moorage.plugins.gpu.fgd:FGD",
    "GpuBestFit": "moorage.plugins.gpu.gpu_best_fit:GpuBestFit",
    "GpuClustering": "moorage.plugins.gpu.gpu_clustering:GpuClustering",
    "GpuDotProd": "moorage.plugins.gpu.gpu_dot_prod:GpuDotProd",
    "GpuPacking": "moorage.plugins.gpu.gpu_packing:GpuPacking",
    "GpuRandom": "moorage.plugins.gpu.gpu_random:GpuRandom",
    "GpuShare": "moorage.plugins.gpu.gpu_share:GpuShare",
}
"""Where the plugins for GPUs that can be shared are, likewise."""
