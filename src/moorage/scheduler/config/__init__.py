"""KubeSchedulerConfiguration v1: read, complete, check and print it exactly as kube-scheduler does.

load_config(text)      what a file says, completed and checked; ConfigErrors lists everything wrong with it
default_config()       what there is without a file
expand_plugins(…)      MultiPoint expansion: which plugin runs at which extension point, in which order
completed_view(config) what kube-scheduler's --write-config-to writes
"""

from moorage.scheduler.config.catalogue import COMMUNITY_PLUGINS, IN_TREE_PLUGINS, KNOWN_PLUGINS, Catalogue, PluginFacts
from moorage.scheduler.config.durations import Duration
from moorage.scheduler.config.encoding import completed_view, to_json, to_yaml, without_secrets
from moorage.scheduler.config.expansion import EnabledPlugins, expand_plugins
from moorage.scheduler.config.loading import default_config, load_config, load_config_file
from moorage.scheduler.config.types import (
    ClientConnection,
    ExtenderConfig,
    ExtensionPoint,
    LeaderElection,
    PluginConfig,
    PluginEntry,
    Plugins,
    PluginSet,
    ProfileConfig,
    SchedulerConfiguration,
)

__all__ = [
    "COMMUNITY_PLUGINS",
    "IN_TREE_PLUGINS",
    "KNOWN_PLUGINS",
    "Catalogue",
    "ClientConnection",
    "Duration",
    "EnabledPlugins",
    "ExtenderConfig",
    "ExtensionPoint",
    "LeaderElection",
    "PluginConfig",
    "PluginEntry",
    "PluginFacts",
    "PluginSet",
    "Plugins",
    "ProfileConfig",
    "SchedulerConfiguration",
    "completed_view",
    "default_config",
    "expand_plugins",
    "load_config",
    "load_config_file",
    "to_json",
    "to_yaml",
    "without_secrets",
]
