"""Merging the plugins of a profile with the defaults: each merge rule."""

import pytest

from moorage.kube.features import FeatureGates
from moorage.scheduler.config import PluginEntry, PluginSet
from moorage.scheduler.config.catalogue import default_plugins
from moorage.scheduler.config.merging import merge_plugins, merge_set

DEFAULTS = PluginSet(enabled=(PluginEntry("A"), PluginEntry("B", 3), PluginEntry("C", 2)))


def written(enabled: str = "", disabled: str = "") -> PluginSet:
    """Read `A B:5` as plugin A without weight and B with weight 5."""
    return PluginSet(enabled=entries(enabled), disabled=entries(disabled))


def entries(text: str) -> tuple[PluginEntry, ...]:
    return tuple(
        PluginEntry(name, int(weight or 0)) for name, _, weight in (item.partition(":") for item in text.split())
    )


CASES = {
    "nothing written keeps the defaults": (written(), written("A B:3 C:2")),
    "a disabled default is gone, and remembered": (written(disabled="B"), written("A C:2", "B")),
    "a star takes every default": (written(disabled="*"), written("", "*")),
    "after a star only the user's are left": (written("X B", "*"), written("X B", "*")),
    "a new plugin is appended": (written("X:7"), written("A B:3 C:2 X:7")),
    "a default listed again keeps its place and takes the new weight": (written("B:9"), written("A B:9 C:2")),
    "without a weight it has none": (written("B"), written("A B C:2")),
    "disabled and enabled is enabled, at the end": (written("B:9", "B"), written("A C:2 B:9", "B")),
    "repetitions stay": (written("X X"), written("A B:3 C:2 X X")),
    "of a repeated default the last one takes its place": (written("B:1 B:2"), written("A B:2 C:2 B:1")),
    "weights of disabled entries are dropped": (written(disabled="B:4"), written("A C:2", "B")),
}


@pytest.mark.parametrize(("custom", "want"), CASES.values(), ids=CASES)
def test_merge(custom: PluginSet, want: PluginSet) -> None:
    assert merge_set(DEFAULTS, custom) == want


def test_default_disabled_entries_follow_the_users() -> None:
    merged = merge_set(PluginSet(enabled=(PluginEntry("A"),), disabled=(PluginEntry("Z"),)), written(disabled="A"))
    assert merged == written("", "A Z")


def test_sets_are_merged_one_by_one() -> None:
    defaults = default_plugins(FeatureGates())
    custom = type(defaults)(score=written("NodeName:4", "ImageLocality"))
    merged = merge_plugins(defaults, custom)
    assert merged.score == written("NodeName:4", "ImageLocality")
    assert merged.multi_point == defaults.multi_point


GATED = {
    "upstream's default order": (
        "",
        "SchedulingGates PrioritySort NodeName NodeUnschedulable TaintToleration:3 NodeAffinity:2 NodePorts "
        "NodeResourcesFit:1 VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread:2 "
        "InterPodAffinity:2 DynamicResources:2 DefaultPreemption NodeResourcesBalancedAllocation:1 ImageLocality:1 "
        "DefaultBinder NodeDeclaredFeatures",
    ),
    "deferred pods come before NodeResourcesFit": (
        "InPlacePodVerticalScalingSchedulerPreemption=true",
        "SchedulingGates PrioritySort NodeName NodeUnschedulable TaintToleration:3 NodeAffinity:2 NodePorts "
        "DeferredPodScheduling NodeResourcesFit:1 VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone "
        "PodTopologySpread:2 InterPodAffinity:2 DynamicResources:2 DefaultPreemption NodeResourcesBalancedAllocation:1 "
        "ImageLocality:1 DefaultBinder NodeDeclaredFeatures",
    ),
    "pod groups come last": (
        "GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
        "SchedulingGates PrioritySort NodeName NodeUnschedulable TaintToleration:3 NodeAffinity:2 NodePorts "
        "NodeResourcesFit:1 VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread:2 "
        "InterPodAffinity:2 DynamicResources:2 DefaultPreemption NodeResourcesBalancedAllocation:1 ImageLocality:1 "
        "DefaultBinder NodeDeclaredFeatures GangScheduling TopologyPlacementGenerator PodGroupPodsCount:1",
    ),
}


@pytest.mark.parametrize(("gates", "want"), GATED.values(), ids=GATED)
def test_default_plugins(gates: str, want: str) -> None:
    assert default_plugins(FeatureGates.parse(gates)).multi_point.enabled == entries(want)
