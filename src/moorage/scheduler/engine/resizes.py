"""Running pods with a deferred resize: they have a node, and are queued so that preemption can free resources.

An attempt checks only resources, on the pod's node: everything else was decided when the pod was placed. The attempt
never reaches binding, since the cache has the pod already. A pod that fits is retried until the kubelet has carried
out the resize.
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
    """Return the configuration for deferred resizes: without profiles, unless preemption may free resources."""
    is_on = features.enabled("InPlacePodVerticalScalingSchedulerPreemption")
    return replace(config, profiles=tuple(map(_for_resizes, config.profiles)) if is_on else ())


def _for_resizes(config: ProfileConfig) -> ProfileConfig:
    """Return a profile without the plugins that do not apply to a resize."""
    sets = {field.name: getattr(config.plugins, field.name) for field in fields(Plugins)}
    reduced = {
        name: _without_settled(plugin_set) for name, plugin_set in sets.items() if isinstance(plugin_set, PluginSet)
    }
    return replace(config, plugins=replace(config.plugins, **reduced))


def _without_settled(plugin_set: PluginSet) -> PluginSet:
    enabled = tuple(entry for entry in plugin_set.enabled if entry.name not in SETTLED)
    return PluginSet(enabled, (*plugin_set.disabled, *(PluginEntry(name) for name in SETTLED)))
