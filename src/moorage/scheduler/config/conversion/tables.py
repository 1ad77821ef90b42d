"""Replacements for old predicates, priorities and plugins. docs/reference/old-configurations.md prints them."""

from typing import Final

from msgspec import Struct

LEAST: Final = "NodeResourcesLeastAllocated"
MOST: Final = "NodeResourcesMostAllocated"
RATIO: Final = "RequestedToCapacityRatio"
FIT: Final = "NodeResourcesFit"
SPREAD: Final = "PodTopologySpread"
AFFINITY: Final = "NodeAffinity"
LABEL: Final = "NodeLabel"

STRATEGIES: Final = {LEAST: "LeastAllocated", MOST: "MostAllocated", RATIO: "RequestedToCapacityRatio"}
"""The scorers of resources that are strategies of NodeResourcesFit now."""

SELECTOR_SPREADS: Final = frozenset(("SelectorSpread", "DefaultPodTopologySpread"))
"""The constraints of PodTopologySpread for pods without their own."""

PREDICATES: Final[dict[str, tuple[str, ...]]] = {
    "CheckNodeCondition": ("TaintToleration", "NodeUnschedulable"),
    "CheckNodeDiskPressure": ("TaintToleration",),
    "CheckNodeMemoryPressure": ("TaintToleration",),
    "CheckNodePIDPressure": ("TaintToleration",),
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    "CheckVolumeBinding": ("VolumeBinding",),
    "EvenPodsSpread": (SPREAD,),
    "GeneralPredicates": (FIT, "NodeName", "NodePorts", AFFINITY),
    "HostName": ("NodeName",),
    "MatchInterPodAffinity": ("InterPodAffinity",),
    "MatchNodeSelector": (AFFINITY,),
    "MaxAzureDiskVolumeCount": ("NodeVolumeLimits",),
    "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
    "MaxCinderVolumeCount": ("NodeVolumeLimits",),
    "MaxEBSVolumeCount": ("NodeVolumeLimits",),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "NoVolumeNodeConflict": ("VolumeBinding",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "PodFitsHostPorts": ("NodePorts",),
    "PodFitsPorts": ("NodePorts",),
    "PodFitsResources": (FIT,),
    "PodToleratesNodeNoExecuteTaints": ("TaintToleration",),
    "PodToleratesNodeTaints": ("TaintToleration",),
}
MANDATORY: Final = ("TaintToleration", "NodeUnschedulable")
"""Predicates that were always active."""
FILTERS: Final = frozenset(plugin for plugins in PREDICATES.values() for plugin in plugins)
"""The filters that a Policy could select. Later ones remain enabled."""


class ScoredBy(Struct, frozen=True):
    """The replacement of a priority: a plugin, and for NodeResourcesFit its strategy; or nothing."""

    plugin: str = ""
    strategy: str = ""
    why: str = ""


PRIORITIES: Final[dict[str, ScoredBy]] = {
    "BalancedResourceAllocation": ScoredBy("NodeResourcesBalancedAllocation"),
    "EqualPriority": ScoredBy(why="all nodes had the same score"),
    "EvenPodsSpreadPriority": ScoredBy(SPREAD),
    "ImageLocalityPriority": ScoredBy("ImageLocality"),
    "InterPodAffinityPriority": ScoredBy("InterPodAffinity"),
    "LeastRequestedPriority": ScoredBy(FIT, STRATEGIES[LEAST]),
    "MostRequestedPriority": ScoredBy(FIT, STRATEGIES[MOST]),
    "NodeAffinityPriority": ScoredBy(AFFINITY),
    "NodePreferAvoidPodsPriority": ScoredBy(why="taint the nodes that pods should avoid"),
    "RequestedToCapacityRatioPriority": ScoredBy(FIT, STRATEGIES[RATIO]),
    "ResourceLimitsPriority": ScoredBy(why="limits of pods are no longer scored"),
    "SelectorSpreadPriority": ScoredBy(SPREAD),
    "ServiceSpreadingPriority": ScoredBy(SPREAD),
    "TaintTolerationPriority": ScoredBy("TaintToleration"),
}
HARMLESS: Final = frozenset(("EqualPriority",))
DEFAULT_PRIORITIES: Final = (
    *("SelectorSpreadPriority", "InterPodAffinityPriority", "LeastRequestedPriority", "BalancedResourceAllocation"),
    *("NodeAffinityPriority", "TaintTolerationPriority", "ImageLocalityPriority"),
)
"""Each has weight 1."""
SCORERS: Final = frozenset(scorer.plugin for scorer in PRIORITIES.values() if scorer.plugin)

VOLUME_LIMITS: Final = frozenset(("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"))
REMOVED: Final = {
    "NodePreferAvoidPods": "taint the nodes that pods should avoid",
    "NodeResourceLimits": "limits of pods are no longer scored",
    "ResourceLimits": "limits of pods are no longer scored",
    "ServiceAffinity": "add a podAffinity to the pods, with the label as topologyKey",
}
"""Plugins without a replacement, and what to do instead."""

OLD_WEIGHTS: Final = {"TaintToleration": 1, AFFINITY: 1, "InterPodAffinity": 1}
"""Default weights before v1beta3. Later they are 3, 2 and 2."""

PROVIDERS: Final = {"DefaultProvider": STRATEGIES[LEAST], "ClusterAutoscalerProvider": STRATEGIES[MOST]}
