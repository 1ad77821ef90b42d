"""How to schedule: a configuration, the plugins that it may name, and the feature gates."""

from collections.abc import Iterable
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
from moorage.scheduler.config.types import SchedulerConfiguration
from moorage.scheduler.framework.plugin import BindPlugin, Plugin, QueueSortPlugin
from moorage.scheduler.framework.registry import Registry, extension_points
from moorage.scheduler.plugins.catalogue import COMMUNITY, GPU, IN_TREE, LEARNED

log = structlog.get_logger(__name__)


class Policy(Struct, frozen=True):
    """How to schedule: the configuration, the plugins it may name, and the feature gates."""

    config: SchedulerConfiguration
    registry: Registry
    features: FeatureGates


def collect_plugins(
    given: Iterable[type[Plugin]] = (), *, paths: Iterable[str] = (), with_installed: bool = True
) -> Registry:
    """Collect the plugins of Moorage, those given, those of installed packages, and those named ``module:Class``.

    A start without a configuration can do without what is installed: nothing could name it.
    """
    registry = Registry.of_checked(IN_TREE)
    for plugin in given:
        registry.register(plugin)
    registry.offer(COMMUNITY)
    registry.offer(GPU)
    registry.offer(LEARNED)
    if with_installed:
        registry.register_entry_points()
    for path in paths:
        registry.register_path(path)
    return registry


def catalogue_of(registry: Registry) -> Catalogue:
    """Describe plugins to the configuration; in-tree ones are known whether or not they are in the registry."""
    others = [name for name in registry if name not in IN_TREE_PLUGINS and not registry.is_offered(name)]
    facts = {name: PluginFacts(extension_points(registry[name]), registry[name].Args) for name in others}
    return {**KNOWN_PLUGINS, **facts}


FIXED: Final = {
    "leader_election": "leaderElection",
    "client_connection": "clientConnection",
    "enable_profiling": "enableProfiling",
    "enable_contention_profiling": "enableContentionProfiling",
    "delay_cache_until_active": "delayCacheUntilActive",
}
"""What is settled when a scheduler starts, and stays so whatever its configuration says later."""


def with_fixed(policy: Policy, running: SchedulerConfiguration) -> tuple[Policy, list[str]]:
    """Return a policy with what a running scheduler cannot change left as it is, and which of that would differ."""
    kept = {field: getattr(running, field) for field in FIXED}
    differing = [name for field, name in FIXED.items() if getattr(policy.config, field) != kept[field]]
    return replace(policy, config=replace(policy.config, **kept)), differing


def load_policy(
    registry: Registry,
    config: str | Path | None = None,
    *,
    features: FeatureGates | None = None,
    enabled: Iterable[type[Plugin]] = (),
    to_schedule: bool = True,
) -> Policy:
    """Read a configuration, its text or a file; without one, take the defaults with ``enabled`` plugins beside them.

    ConfigErrors if it cannot be used; ``to_schedule`` says that it must not enable a plugin that we do not have either.
    """
    gates, catalogue = features or FeatureGates(), catalogue_of(registry)
    if isinstance(config, Path):
        loaded = load_config_file(config, gates=gates, catalogue=catalogue)
    elif config:
        loaded = load_config(config, gates=gates, catalogue=catalogue)
    elif given := tuple(enabled):
        loaded = load_config(_default_with(given), gates=gates, catalogue=catalogue)
    else:
        loaded = default_config(gates=gates, catalogue=catalogue)
    _warn_of_unused_args(loaded, catalogue)
    if to_schedule:
        require_plugins(loaded, registry)
    return Policy(loaded, registry, gates)


def _warn_of_unused_args(config: SchedulerConfiguration, catalogue: Catalogue) -> None:
    """Say which arguments are for nobody: kube-scheduler passes over them, but a slip of the pen is likely."""
    for number, profile in enumerate(config.profiles):
        for place, entry in enumerate(profile.plugin_config):
            if entry.name not in catalogue:
                where = f"profiles[{number}].pluginConfig[{place}]"
                hint = did_you_mean(entry.name, catalogue)
                log.warning("arguments of a plugin that is not there", where=where, plugin=entry.name, hint=hint)


def require_plugins(config: SchedulerConfiguration, registry: Registry) -> None:
    """Refuse a configuration with plugins that kube-scheduler has and we do not: they would silently never run."""
    catalogue = catalogue_of(registry)
    missing = [
        ConfigError(
            f"profiles[{number}].plugins",
            f"{name} is enabled, and is a plugin of kube-scheduler that Moorage does not have",
            hint=f"disable it under multiPoint, or give one of that name: --plugin my_module:{name}",
        )
        for number, profile in enumerate(config.profiles)
        for name in expand_plugins(profile, lambda name: catalogue[name].points).names
        if name not in registry
    ]
    if missing:
        raise ConfigErrors(missing)


def _default_with(given: Iterable[type[Plugin]]) -> str:
    plugins: dict[str, Any] = {"multiPoint": {"enabled": [{"name": plugin.name} for plugin in given]}}
    if sorting := [{"name": plugin.name} for plugin in given if issubclass(plugin, QueueSortPlugin)]:
        # There is one order of the queue: who brings another means it instead of the default.
        plugins["queueSort"] = {"disabled": [{"name": "*"}], "enabled": sorting}
    if binding := [{"name": plugin.name} for plugin in given if issubclass(plugin, BindPlugin)]:
        # The default binder leaves no pod to those behind it: who brings another means it to be asked first.
        default = {"name": "DefaultBinder"}
        plugins["bind"] = {"disabled": [default], "enabled": [*binding, default]}
    content: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": DEFAULT_SCHEDULER_NAME, "plugins": plugins}],
    }
    return msgspec.json.encode(content).decode()
