"""Running pods whose resize the kubelet has put off: they have a node, and are queued so that room is made for them.

What is tried for such a pod is its own node and nothing but resources: whatever else a node was chosen for has been
decided when the pod came to it. It never gets as far as binding, since the cache has it already; when it fits, it is
tried again until the kubelet has carried the resize out.
"""

from typing import Final

from msgspec.structs import fields, replace

from moorage.kube.features import FeatureGates
from moorage.scheduler.config.types import PluginEntry, Plugins, PluginSet, ProfileConfig, SchedulerConfiguration

SETTLED: Final = (
    *("NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "VolumeRestrictions", "NodeVolumeLimits"),
    *("VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity", "DynamicResources"),
    "NodeDeclaredFeatures",
)
"""Plugins that do not apply to a pod that is already on its node."""


def resizing(config: SchedulerConfiguration, features: FeatureGates) -> SchedulerConfiguration:
    """Return how pods are tried whose resize was put off: not at all, unless room is to be made for them."""
    is_on = features.enabled("InPlacePodVerticalScalingSchedulerPreemption")
    return replace(config, profiles=tuple(map(_for_resizes, config.profiles)) if is_on else ())


def _for_resizes(config: ProfileConfig) -> ProfileConfig:
    """Return a profile without the plugins that do not apply to a resize."""
    sets = {field.name: getattr(config.plugins, field.name) for field in fields(Plugins)}
    reduced = {name: _without_settled(found) for name, found in sets.items() if isinstance(found, PluginSet)}
    return replace(config, plugins=replace(config.plugins, **reduced))


def _without_settled(found: PluginSet) -> PluginSet:
    kept = tuple(entry for entry in found.enabled if entry.name not in SETTLED)
    return PluginSet(kept, (*found.disabled, *(PluginEntry(name) for name in SETTLED)))
