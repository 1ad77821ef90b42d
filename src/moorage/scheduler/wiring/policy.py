"""Loads a policy: the configuration, the available plugins, and the feature gates."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import ConfigError, ConfigErrors, did_you_mean
from moorage.kube.api.pod import DEFAULT_SCHEDULER_NAME
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import (
    IN_TREE_PLUGINS,
    KNOWN_PLUGINS,
    Catalogue,
    PluginFacts,
    default_config,
    expand_plugins,
    load_config,
    load_config_file,
)
from moorage.scheduler.config.types import ALL_PLUGINS, ExtensionPoint, SchedulerConfiguration
from moorage.scheduler.framework.plugin import BindPlugin, Plugin, QueueSortPlugin
from moorage.scheduler.framework.registry import Registry, extension_points
from moorage.scheduler.plugins.included_plugins import CONTRIB, IN_TREE

BOOKKEEPING: Final = (
    *(ExtensionPoint.PRE_FILTER, ExtensionPoint.PRE_SCORE),
    *(ExtensionPoint.RESERVE, ExtensionPoint.PERMIT, ExtensionPoint.PRE_BIND),
)
"""Extension points without which filters and scores of the same plugin are wrong."""

log = structlog.get_logger(__name__)


class Policy(Struct, frozen=True):
    """A scheduling policy: the configuration, the available plugins, and the feature gates."""

    config: SchedulerConfiguration
    registry: Registry
    features: FeatureGates


def collect_plugins(
    plugins: Iterable[type[Plugin]] = (), *, paths: Iterable[str] = (), with_installed: bool = True
) -> Registry:
    """Collect Moorage's plugins, ``plugins``, those of installed packages, and ``paths`` (``module:Class``).

    Without a configuration, installed plugins are not needed, because nothing enables them.
    """
    registry = Registry.of_checked(IN_TREE)
    for plugin in plugins:
        registry.register(plugin)
    registry.offer(CONTRIB)
    if with_installed:
        registry.register_entry_points()
    for path in paths:
        registry.register_path(path)
    return registry


class RegistryFacts(Mapping[str, PluginFacts]):
    """The facts of plugins by name. A plugin of an installed package is imported when its facts are read."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def __getitem__(self, name: str) -> PluginFacts:
        registry = self._registry
        if name in IN_TREE_PLUGINS or registry.is_offered(name) or name not in registry:
            return KNOWN_PLUGINS[name]
        return PluginFacts(extension_points(registry[name]), registry[name].Args)

    def __contains__(self, name: object) -> bool:
        return name in KNOWN_PLUGINS or name in self._registry

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*KNOWN_PLUGINS, *self._registry)))

    def __len__(self) -> int:
        return len(KNOWN_PLUGINS.keys() | self._registry.keys())


def build_catalogue(registry: Registry) -> Catalogue:
    """Return the catalog that configurations are validated with. It always contains the in-tree plugins."""
    return RegistryFacts(registry)


FIXED: Final = {
    "leader_election": "leaderElection",
    "client_connection": "clientConnection",
    "enable_profiling": "enableProfiling",
    "enable_contention_profiling": "enableContentionProfiling",
    "delay_cache_until_active": "delayCacheUntilActive",
}
"""The fields that a reload cannot change."""


def keep_fixed_fields(policy: Policy, running: SchedulerConfiguration) -> tuple[Policy, list[str]]:
    """Return a policy with the fixed fields of the running configuration, and the names of the fields that differ."""
    fixed = {field: getattr(running, field) for field in FIXED}
    differing = [name for field, name in FIXED.items() if getattr(policy.config, field) != fixed[field]]
    return replace(policy, config=replace(policy.config, **fixed)), differing


def load_policy(
    registry: Registry,
    config: str | Path | None = None,
    *,
    features: FeatureGates | None = None,
    enabled: Iterable[type[Plugin]] = (),
    to_schedule: bool = True,
) -> Policy:
    """Load a configuration from its text or a file. The default enables the ``enabled`` plugins additionally.

    Raise ConfigErrors if it is invalid or, with ``to_schedule``, if it enables plugins that Moorage does not have.
    """
    gates, catalogue = features or FeatureGates(), build_catalogue(registry)
    if isinstance(config, Path):
        loaded_config = load_config_file(config, gates=gates, catalogue=catalogue)
    elif config:
        loaded_config = load_config(config, gates=gates, catalogue=catalogue)
    elif plugins := tuple(enabled):
        loaded_config = load_config(_write_default_config(plugins), gates=gates, catalogue=catalogue)
    else:
        loaded_config = default_config(gates=gates, catalogue=catalogue)
    # kube-scheduler ignores arguments of unknown plugins, but a typo is likely.
    for number, profile in enumerate(loaded_config.profiles):
        for index, entry in enumerate(profile.plugin_config):
            if entry.name not in catalogue:
                location = f"profiles[{number}].pluginConfig[{index}]"
                hint = did_you_mean(entry.name, catalogue)
                log.warning("arguments for an unknown plugin", where=location, plugin=entry.name, hint=hint)
    if to_schedule:
        require_plugins(loaded_config, registry)
        _warn_of_missing_points(loaded_config, catalogue)
    return Policy(loaded_config, registry, gates)


def require_plugins(config: SchedulerConfiguration, registry: Registry) -> None:
    """Raise ConfigErrors if a plugin of kube-scheduler is enabled that Moorage does not have."""
    catalogue = build_catalogue(registry)
    problems = [
        ConfigError(
            f"profiles[{number}].plugins",
            f"{name} is enabled, and is a plugin of kube-scheduler that Moorage does not have",
            hint=f"disable it under multiPoint, or load one with that name: --plugin my_module:{name}",
        )
        for number, profile in enumerate(config.profiles)
        for name in expand_plugins(profile, lambda name: catalogue[name].points).names
        if name not in registry
    ]
    if problems:
        raise ConfigErrors(problems)


def _warn_of_missing_points(config: SchedulerConfiguration, catalogue: Catalogue) -> None:
    """Log plugins that filter or score while their bookkeeping is not enabled: two pods may get the same devices.

    Old configurations list each extension point, and plugins implement more of these today. An entry under
    ``disabled`` is intended.
    """
    for number, profile in enumerate(config.profiles):
        enabled = expand_plugins(profile, lambda name: catalogue[name].points)
        for name in sorted({*enabled.names} - {*IN_TREE_PLUGINS}):
            if not any(name in enabled[point] for point in (ExtensionPoint.FILTER, ExtensionPoint.SCORE)):
                continue
            missing_points = [
                point.value
                for point in BOOKKEEPING
                if point in catalogue[name].points
                and name not in enabled[point]
                and {name, ALL_PLUGINS}.isdisjoint(entry.name for entry in profile.plugins.at(point).disabled)
            ]
            if missing_points:
                hint = "enable it under multiPoint, or disable it at these points explicitly"
                location = f"profiles[{number}].plugins"
                log.warning(
                    "a plugin is only partly enabled", where=location, plugin=name, missing=missing_points, hint=hint
                )


def _write_default_config(enabled: Iterable[type[Plugin]]) -> str:
    plugins: dict[str, Any] = {"multiPoint": {"enabled": [{"name": plugin.name} for plugin in enabled]}}
    if sorting := [{"name": plugin.name} for plugin in enabled if issubclass(plugin, QueueSortPlugin)]:
        # A queue has one order: a QueueSort plugin replaces the default.
        plugins["queueSort"] = {"disabled": [{"name": "*"}], "enabled": sorting}
    if binding := [{"name": plugin.name} for plugin in enabled if issubclass(plugin, BindPlugin)]:
        # DefaultBinder binds every pod, so other Bind plugins must run before it.
        default = {"name": "DefaultBinder"}
        plugins["bind"] = {"disabled": [default], "enabled": [*binding, default]}
    content: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": DEFAULT_SCHEDULER_NAME, "plugins": plugins}],
    }
    return msgspec.json.encode(content).decode()
