"""The plugins that are part of Moorage for the configuration: names, extension points, arguments, defaults.

It lets a configuration be checked without importing a single plugin. Third-party plugins are added by name:

    catalog = {**KNOWN_PLUGINS, "Mine": PluginFacts(frozenset({ExtensionPoint.FILTER}), MyArgs)}
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import Struct

from moorage.kube.features import FeatureGates
from moorage.scheduler.config import args, contrib_args
from moorage.scheduler.config.types import ExtensionPoint, PluginEntry, Plugins, PluginSet

#: Previous in-tree plugins. Using one is a separate error.
REMOVED: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})


class PluginFacts(Struct, frozen=True):
    """The properties of a plugin that a configuration needs: its extension points and the struct of its arguments."""

    points: frozenset[str]
    args: type[msgspec.Struct] | None = None

    @property
    def required_args(self) -> tuple[str, ...]:
        """Arguments that have no default, so that `pluginConfig` must give them."""
        fields = msgspec.structs.fields(self.args) if self.args else ()
        return tuple(info.encode_name for info in fields if info.required)


Catalogue = Mapping[str, PluginFacts]


def _facts(points: str, args_type: type[msgspec.Struct] | None = None) -> PluginFacts:
    return PluginFacts(frozenset(ExtensionPoint(point) for point in points.split()), args_type)


_FILTER: Final = "preFilter filter"
_FILTER_AND_SCORE: Final = "preFilter filter preScore score"

IN_TREE_PLUGINS: Final[Catalogue] = MappingProxyType(
    {
        "SchedulingGates": _facts("preEnqueue"),
        "PrioritySort": _facts("queueSort"),
        "NodeName": _facts(_FILTER),
        "NodeUnschedulable": _facts(_FILTER),
        "TaintToleration": _facts(_FILTER_AND_SCORE),
        "NodeAffinity": _facts(_FILTER_AND_SCORE, args.NodeAffinityArgs),
        "NodePorts": _facts(_FILTER),
        "DeferredPodScheduling": _facts("preFilter filter permit"),
        "NodeResourcesFit": _facts(f"{_FILTER_AND_SCORE} placementScore", args.NodeResourcesFitArgs),
        "VolumeRestrictions": _facts(_FILTER),
        "NodeVolumeLimits": _facts(_FILTER),
        "VolumeBinding": _facts(f"{_FILTER_AND_SCORE} reserve preBind", args.VolumeBindingArgs),
        "VolumeZone": _facts(_FILTER),
        "PodTopologySpread": _facts(_FILTER_AND_SCORE, args.PodTopologySpreadArgs),
        "InterPodAffinity": _facts(_FILTER_AND_SCORE, args.InterPodAffinityArgs),
        "DynamicResources": _facts(
            "preEnqueue preFilter filter postFilter podGroupPostFilter score reserve preBind", args.DynamicResourcesArgs
        ),
        "DefaultPreemption": _facts("preEnqueue postFilter podGroupPostFilter", args.DefaultPreemptionArgs),
        "NodeResourcesBalancedAllocation": _facts("preScore score", args.NodeResourcesBalancedAllocationArgs),
        "ImageLocality": _facts("score"),
        "DefaultBinder": _facts("bind"),
        "NodeDeclaredFeatures": _facts(_FILTER),
        "GangScheduling": _facts("preEnqueue permit placementFeasible"),
        "TopologyPlacementGenerator": _facts("placementGenerate"),
        "PodGroupPodsCount": _facts("placementScore"),
    }
)
"""Those of kube-scheduler."""

COMMUNITY_PLUGINS: Final[Catalogue] = MappingProxyType(
    {
        "CapacityScheduling": _facts("preEnqueue preFilter postFilter podGroupPostFilter reserve"),
        "Coscheduling": _facts(
            "preEnqueue queueSort preFilter postFilter reserve permit placementFeasible", contrib_args.CoschedulingArgs
        ),
        "LoadVariationRiskBalancing": _facts("preScore score", contrib_args.LoadVariationRiskBalancingArgs),
        "NodeMetadata": _facts("score", contrib_args.NodeMetadataArgs),
        "NodeResourcesAllocatable": _facts("score", contrib_args.NodeResourcesAllocatableArgs),
        "PreemptionToleration": _facts(
            "preEnqueue postFilter podGroupPostFilter", contrib_args.PreemptionTolerationArgs
        ),
        "TargetLoadPacking": _facts("preScore score", contrib_args.TargetLoadPackingArgs),
    }
)
"""Those of sigs.k8s.io/scheduler-plugins that Moorage contains. They are disabled unless a profile names it."""

GPU_PLUGINS: Final[Catalogue] = MappingProxyType(
    {
        "FGD": _facts("score", contrib_args.FGDArgs),
        "GpuBestFit": _facts("score"),
        "GpuClustering": _facts("score"),
        "GpuDotProd": _facts("score"),
        "GpuPacking": _facts("score"),
        "GpuRandom": _facts("score", contrib_args.GpuRandomArgs),
        "GpuShare": _facts("preFilter filter reserve preBind", contrib_args.GpuShareArgs),
    }
)
"""Those for GPUs that can be shared. None is enabled unless a profile names it."""


LEARNED_PLUGINS: Final[Catalogue] = MappingProxyType(
    {
        "LearnedScore": _facts("preScore score", contrib_args.LearnedScoreArgs),
    }
)
"""The plugin that scores with a trained policy; enabled only if a profile names it."""

KNOWN_PLUGINS: Final[Catalogue] = MappingProxyType(
    {**IN_TREE_PLUGINS, **COMMUNITY_PLUGINS, **GPU_PLUGINS, **LEARNED_PLUGINS}
)


class _Default(Struct, frozen=True):
    name: str
    weight: int = 0
    gate: str = ""


_DEFAULTS: Final = (
    _Default("SchedulingGates"),
    _Default("PrioritySort"),
    _Default("NodeName"),
    _Default("NodeUnschedulable"),
    _Default("TaintToleration", 3),
    _Default("NodeAffinity", 2),
    _Default("NodePorts"),
    _Default("DeferredPodScheduling", gate="InPlacePodVerticalScalingSchedulerPreemption"),
    _Default("NodeResourcesFit", 1),
    _Default("VolumeRestrictions"),
    _Default("NodeVolumeLimits"),
    _Default("VolumeBinding"),
    _Default("VolumeZone"),
    _Default("PodTopologySpread", 2),
    _Default("InterPodAffinity", 2),
    _Default("DynamicResources", 2, gate="DynamicResourceAllocation"),
    _Default("DefaultPreemption"),
    _Default("NodeResourcesBalancedAllocation", 1),
    _Default("ImageLocality", 1),
    _Default("DefaultBinder"),
    _Default("NodeDeclaredFeatures", gate="NodeDeclaredFeatures"),
    _Default("GangScheduling", gate="GenericWorkload"),
    _Default("TopologyPlacementGenerator", gate="TopologyAwareWorkloadScheduling"),
    _Default("PodGroupPodsCount", 1, gate="TopologyAwareWorkloadScheduling"),
)


def default_plugins(gates: FeatureGates) -> Plugins:
    """Return the default plugins of a profile: MultiPoint entries in upstream's order."""
    enabled = (default for default in _DEFAULTS if not default.gate or gates.enabled(default.gate))
    return Plugins(
        multi_point=PluginSet(enabled=tuple(PluginEntry(default.name, default.weight) for default in enabled)),
        placement_feasible=PluginSet() if gates.since(1, 38) else None,
    )
