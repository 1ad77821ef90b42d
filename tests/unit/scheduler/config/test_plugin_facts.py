"""The default plugins, by feature gates."""

import pytest

from moorage.kube.features import FeatureGates
from moorage.scheduler.config import PluginEntry
from moorage.scheduler.config.plugin_facts import default_plugins


def entries(text: str) -> tuple[PluginEntry, ...]:
    return tuple(
        PluginEntry(name, int(weight or 0)) for name, _, weight in (item.partition(":") for item in text.split())
    )


GATED = {
    "upstream's default order": (
        "",
        "SchedulingGates PrioritySort NodeName NodeUnschedulable TaintToleration:3 NodeAffinity:2 NodePorts "
        "NodeResourcesFit:1 VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread:2 "
        "InterPodAffinity:2 DynamicResources:2 DefaultPreemption NodeResourcesBalancedAllocation:1 ImageLocality:1 "
        "DefaultBinder NodeDeclaredFeatures",
    ),
    "deferred pods precede NodeResourcesFit": (
        "InPlacePodVerticalScalingSchedulerPreemption=true",
        "SchedulingGates PrioritySort NodeName NodeUnschedulable TaintToleration:3 NodeAffinity:2 NodePorts "
        "DeferredPodScheduling NodeResourcesFit:1 VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone "
        "PodTopologySpread:2 InterPodAffinity:2 DynamicResources:2 DefaultPreemption NodeResourcesBalancedAllocation:1 "
        "ImageLocality:1 DefaultBinder NodeDeclaredFeatures",
    ),
    "pod groups are last": (
        "GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
        "SchedulingGates PrioritySort NodeName NodeUnschedulable TaintToleration:3 NodeAffinity:2 NodePorts "
        "NodeResourcesFit:1 VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread:2 "
        "InterPodAffinity:2 DynamicResources:2 DefaultPreemption NodeResourcesBalancedAllocation:1 ImageLocality:1 "
        "DefaultBinder NodeDeclaredFeatures GangScheduling TopologyPlacementGenerator PodGroupPodsCount:1",
    ),
}


@pytest.mark.release("1.37")
@pytest.mark.parametrize(("gates", "want"), GATED.values(), ids=GATED)
def test_default_plugins(gates: str, want: str) -> None:
    assert default_plugins(FeatureGates.parse(gates)).multi_point.enabled == entries(want)
