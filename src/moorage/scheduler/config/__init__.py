"""KubeSchedulerConfiguration v1: load, default, validate and print it as kube-scheduler does.

load_config(text)      the configuration of a file, defaulted and validated; ConfigErrors lists all problems
default_config()       the configuration without a file
expand_plugins(…)      MultiPoint expansion: the plugins of each extension point, in order
completed_view(config) the output of kube-scheduler's --write-config-to
"""

from moorage.scheduler.config.durations import Duration
from moorage.scheduler.config.encoding import completed_view, to_json, to_yaml, without_secrets
from moorage.scheduler.config.expansion import EnabledPlugins, expand_plugins
from moorage.scheduler.config.loading import default_config, load_config, load_config_file
from moorage.scheduler.config.plugin_facts import (
    COMMUNITY_PLUGINS,
    IN_TREE_PLUGINS,
    KNOWN_PLUGINS,
    Catalogue,
    PluginFacts,
)
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
