"""The configured plugins of a profile, in the order in which each extension point calls them."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from moorage.common.errors import PluginError, did_you_mean
from moorage.scheduler.config.expansion import expand_plugins
from moorage.scheduler.config.plugin_facts import KNOWN_PLUGINS
from moorage.scheduler.config.types import ExtensionPoint, ProfileConfig
from moorage.scheduler.framework import group_plugins as group_points
from moorage.scheduler.framework import plugin as points
from moorage.scheduler.framework.contracts import EXTENSION_POINTS, read_signature
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, Resource
from moorage.scheduler.framework.faults import PLUGIN_FAULTS, described_call, invalid_result, pass_on_interrupt, shown
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.registry import Registry, extension_points

_RESOURCES: Final = frozenset(Resource)
MAX_EVENTS: Final = 1000
"""The limit of events that a plugin may register for. There are far fewer kinds and actions."""


class Profile:
    """One scheduler name and its plugins, each built once, with the handles that ``make_handle`` makes.

    Plugins of ``shared`` are not built: another profile of the same name has started them.
    """

    def __init__(
        self,
        config: ProfileConfig,
        registry: Registry,
        make_handle: Callable[[type[points.Plugin]], Handle],
        shared: Mapping[str, points.Plugin] = MappingProxyType({}),
    ) -> None:
        self.config = config
        self.name: str = config.scheduler_name or ""
        enabled = expand_plugins(config, lambda name: find_extension_points(registry, name))
        args = {entry.name: entry.args for entry in config.plugin_config}
        names = dict.fromkeys(name for point in EXTENSION_POINTS for name in enabled[ExtensionPoint(point)])
        self.missing = tuple(name for name in names if name not in registry)
        self.plugins: Mapping[str, points.Plugin] = {
            name: shared[name]
            if name in shared
            else registry.build(name, args=args.get(name), handle=make_handle(registry[name]))
            for name in names
            if name in registry
        }
        self.weights: Mapping[str, int] = enabled.score_weights

        def at(point: str) -> tuple[Any, ...]:
            return tuple(self.plugins[name] for name in enabled[ExtensionPoint(point)] if name in self.plugins)

        self.names_by_point = {point: [plugin.name for plugin in at(point)] for point in EXTENSION_POINTS if at(point)}
        self.pre_enqueue: tuple[points.PreEnqueuePlugin, ...] = at("preEnqueue")
        self.queue_sort: tuple[points.QueueSortPlugin, ...] = at("queueSort")
        self.pre_filter: tuple[points.PreFilterPlugin, ...] = at("preFilter")
        self.filter: tuple[points.FilterPlugin, ...] = at("filter")
        self.post_filter: tuple[points.PostFilterPlugin, ...] = at("postFilter")
        self.pre_score: tuple[points.PreScorePlugin, ...] = at("preScore")
        self.score: tuple[points.ScorePlugin, ...] = at("score")
        self.reserve: tuple[points.ReservePlugin, ...] = at("reserve")
        self.permit: tuple[points.PermitPlugin, ...] = at("permit")
        self.pre_bind: tuple[points.PreBindPlugin, ...] = at("preBind")
        self.bind: tuple[points.BindPlugin, ...] = at("bind")
        self.post_bind: tuple[points.PostBindPlugin, ...] = at("postBind")
        self.placement_generate: tuple[group_points.PlacementGeneratePlugin, ...] = at("placementGenerate")
        self.placement_score: tuple[group_points.PlacementScorePlugin, ...] = at("placementScore")
        self.group_post_filter: tuple[group_points.PodGroupPostFilterPlugin, ...] = at("podGroupPostFilter")
        self.placement_weights: Mapping[str, int] = enabled.placement_score_weights
        # These extension points cannot be configured: every plugin that implements one is called.
        plugins = self.plugins.values()
        self.placement_feasible: tuple[group_points.PlacementFeasiblePlugin, ...] = at("placementFeasible")
        if not config.plugins.is_since_1_38:
            # 1.38 adds the point to the configuration.
            self.placement_feasible = tuple(
                plugin for plugin in plugins if isinstance(plugin, group_points.PlacementFeasiblePlugin)
            )
        self.group_sources = tuple(plugin for plugin in plugins if isinstance(plugin, group_points.GroupSourcePlugin))
        self.reserving = frozenset(plugin.name for plugin in self.reserve)
        self.pre_binding = frozenset(plugin.name for plugin in self.pre_bind)
        # A plugin that was skipped at reserve must not be called before the bind: it could reject the pod.
        idle = (plugin.name for plugin in self.pre_filter if plugin._idle_when_skipped)
        self.idle_when_skipped = self.reserving.intersection(idle)
        self.extensions = tuple(plugin for plugin in self.pre_filter if isinstance(plugin, points.PreFilterExtensions))
        self.pre_filtering = frozenset(plugin.name for plugin in self.pre_filter)
        self.pre_scoring = frozenset(plugin.name for plugin in self.pre_score)
        node_plugins: Iterable[points.Plugin] = (*self.pre_filter, *self.filter, *self.pre_score, *self.score)
        self.node_plugins: tuple[points.Plugin, ...] = tuple({plugin.name: plugin for plugin in node_plugins}.values())

    def __repr__(self) -> str:
        return f"Profile({self.name})"

    def registrations(
        self, events_of_listed_kinds: Mapping[str, Iterable[EventRegistration]] | None = None
    ) -> dict[str, tuple[EventRegistration, ...]]:
        """Return the events that could make rejected pods schedulable, for each plugin that can reject pods.

        Plugins that do not override ``events_to_register`` are also registered for the kinds that they list.
        """
        rejecting = (*self.pre_enqueue, *self.pre_filter, *self.filter, *self.reserve, *self.permit)
        by_plugin: dict[str, tuple[EventRegistration, ...]] = {}
        for plugin in rejecting:
            registrations = (events_of_listed_kinds or {}).get(plugin.name, ())
            inherited = registrations if _inherits(plugin, points.Plugin, "events_to_register") else ()
            by_plugin[plugin.name] = (*_read_registrations(plugin), *inherited)
        return by_plugin

    def per_node_plugins(self) -> tuple[str, ...]:
        """Return the names of the plugins that filter or score node by node because they have no columnar form."""
        return tuple(
            plugin.name
            for plugin in self.node_plugins
            if (isinstance(plugin, points.FilterPlugin) and _inherits(plugin, points.FilterPlugin, "filter_nodes"))
            or (isinstance(plugin, points.ScorePlugin) and _inherits(plugin, points.ScorePlugin, "score_nodes"))
        )


def _read_registrations(plugin: points.Plugin) -> tuple[EventRegistration, ...]:
    method = "events_to_register"
    try:
        # An endless iterator would fill the memory.
        registrations = tuple(islice(plugin.events_to_register(), MAX_EVENTS + 1))
        problem = next((problem for entry in registrations if (problem := _invalid_registration(entry))), "")
        if len(registrations) > MAX_EVENTS:
            problem = f"names more than {MAX_EVENTS} events"
        if not problem:
            return registrations
        problem, cause = invalid_result(plugin, (method,), problem), None
    except PLUGIN_FAULTS as error:
        pass_on_interrupt(error)
        problem, cause = described_call(plugin, (method,), error), error
    raise PluginError(plugin.name, f'running EventsToRegister plugin "{plugin.name}": {problem}') from cause


def _invalid_registration(entry: object) -> str:
    """Return the problem of an entry of ``events_to_register`` and what to write instead, or empty if it is valid."""
    if not (
        isinstance(entry, EventRegistration)
        and isinstance(entry.event, ClusterEvent)
        and isinstance(entry.event.resource, str)
        and isinstance(entry.event.action, Action)
        and (entry.hint is None or callable(entry.hint))
    ):
        return f"names {shown(entry)}; list EventRegistration(ClusterEvent(Resource.NODE, Action.ADD)) or others"
    resource = entry.event.resource
    if resource not in _RESOURCES and resource.count(".") < 2:
        member_name = f"Resource.{resource.removesuffix('s').upper()}"
        near = did_you_mean(member_name, [f"Resource.{item.name}" for item in Resource])
        hint = near or "write Resource.NODE or another Resource; for custom resources KIND.event_resource"
        return f"names the resource {resource!r}, which has no events; {hint}"
    if entry.hint is not None:
        try:
            read_signature(entry.hint).bind(None, None, None)
        except TypeError:
            return f"names a hint that takes {read_signature(entry.hint)}; write `def hint(self, pod, old, new)`"
        except ValueError:
            pass  # it has no signature
    return ""


def find_extension_points(registry: Registry, name: str) -> frozenset[str] | None:
    """Return the extension points of a plugin: from the registered class, or from upstream's table."""
    if name in registry:
        return extension_points(registry[name])
    facts = KNOWN_PLUGINS.get(name)
    return facts.points if facts else None


def derives_filter(profile: Profile, name: str) -> bool:
    """Return whether a plugin has only the columnar form of filter."""
    plugin = profile.plugins.get(name)
    return isinstance(plugin, points.FilterPlugin) and _inherits(plugin, points.FilterPlugin, "filter")


def normalizes(plugin: points.ScorePlugin) -> bool:
    """Return whether a plugin normalizes its own scores."""
    return not _inherits(plugin, points.ScorePlugin, "normalize_scores")


def _inherits(plugin: points.Plugin, base: type[Any], method: str) -> bool:
    return getattr(type(plugin), method) is getattr(base, method)
