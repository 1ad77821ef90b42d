"""A profile on a cluster of plain objects, for tests of the engine."""

from collections.abc import Callable, Iterable, Mapping

import yaml

from moorage.cluster.offline import DiscardingApi, NoBackground
from moorage.common.clock import VirtualClock
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config, load_config
from moorage.scheduler.config.plugin_facts import KNOWN_PLUGINS as KNOWN
from moorage.scheduler.config.plugin_facts import PluginFacts
from moorage.scheduler.config.types import PluginEntry, SchedulerConfiguration
from moorage.scheduler.engine.cycle.filter import Rotation
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import NoNode, OneNode, SearchResult
from moorage.scheduler.engine.services import Services
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.framework.registry import Registry, extension_points
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.state.cache import Cache
from moorage.scheduler.state.holds import Holds
from moorage.scheduler.state.objects import Objects
from moorage.testing.rig import make_nominator


def config_with(*plugins: type[Plugin], first: bool = False) -> SchedulerConfiguration:
    """Return the default configuration with additional plugins after the default ones, or before them."""
    usual = [{"name": plugin.name, "weight": plugin.weight} for plugin in default_plugins()]
    more: list[dict[str, object]] = [{"name": plugin.name} for plugin in plugins]
    enabled = [*more, *usual] if first else [*usual, *more]
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}},
    }
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    text = yaml.safe_dump({**head, "profiles": [profile]})
    facts = {plugin.name: PluginFacts(extension_points(plugin), plugin.Args) for plugin in plugins}
    return load_config(text, catalogue={**KNOWN, **facts})


def default_plugins() -> Iterable[PluginEntry]:
    """Return the plugins of the default profile, in their order."""
    plugins = default_config().profiles[0].plugins
    assert plugins is not None
    return plugins.multi_point.enabled


def registry_with(*plugins: type[Plugin]) -> Registry:
    """Return the in-tree plugins and additional ones."""
    return Registry((*IN_TREE, *plugins))


def build_runner(
    *objects: KubeObject,
    plugins: Iterable[type[Plugin]] = (),
    percentage: int | None = None,
    waiting: Iterable[Pod] = (),
    cross_check: bool = True,
    activate: Callable[[Mapping[str, Pod]], None] | None = None,
    clock: VirtualClock | None = None,
) -> ProfileRunner:
    """Build the default profile with additional plugins for a cluster."""
    extra = tuple(plugins)
    cache, shelves = Cache(), Objects()
    services = Services(
        cache=cache,
        objects=shelves,
        clock=clock or VirtualClock(),
        features=FeatureGates(),
        cluster=DiscardingApi(),
        nominator=make_nominator(*(pod for pod in waiting if pod.nominated_node_name)),
        background=NoBackground(),
        activate=activate or (lambda _pods: None),
        holds=Holds(cache, lambda _placeholder: None),
    )
    for obj in objects:
        if isinstance(obj, Node):
            cache.add_node(obj)
        elif isinstance(obj, Pod) and obj.node_name:
            cache.add_pod(obj)
        shelves[type(obj)].put(obj)
    config = config_with(*extra) if extra else default_config()
    return ProfileRunner(config.profiles[0], registry_with(*extra), services, Rotation(), percentage, cross_check)


def feasible_nodes(runner: ProfileRunner, result: SearchResult) -> list[str]:
    """Return the names of the feasible nodes, in row order."""
    if isinstance(result, NoNode):
        return []
    if isinstance(result, OneNode):
        return [result.node.name]
    return [node.name for node, fits in zip(runner.cache.nodes, result.feasible, strict=True) if fits]
