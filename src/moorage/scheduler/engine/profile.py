"""The configured plugins of one scheduler name, in the order in which each extension point asks them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from moorage.common.errors import PluginError
from moorage.scheduler.config.catalogue import KNOWN_PLUGINS
from moorage.scheduler.config.expansion import EnabledPlugins, expand_plugins
from moorage.scheduler.config.types import ExtensionPoint, ProfileConfig
from moorage.scheduler.framework.contracts import EXTENSION_POINTS
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration
from moorage.scheduler.framework.faults import PLUGIN_FAULTS, described, pass_on_interrupt, shown
from moorage.scheduler.framework.group_plugins import (
    GroupSourcePlugin,
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodGroupPostFilterPlugin,
)
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.plugin import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from moorage.scheduler.framework.registry import Registry, extension_points

MAX_EVENTS: Final = 1000
"""A plugin may name so many events: there are far fewer kinds and actions."""


class Profile:
    """One scheduler name and its plugins, each built once: by :meth:`build`, before anything else is asked of it."""

    def __init__(self, config: ProfileConfig, registry: Registry, handle_of: Callable[[type[Plugin]], Handle]) -> None:
        self.config = config
        self.name: str = config.scheduler_name or ""
        self._registry = registry
        self._handle_of = handle_of

    def build(self) -> Iterator[None]:
        """Build the plugins, one at each step."""
        config, registry = self.config, self._registry
        enabled = expand_plugins(config, lambda name: points_of(registry, name))
        args = {entry.name: entry.args for entry in config.plugin_config}
        names = dict.fromkeys(name for point in EXTENSION_POINTS for name in enabled[ExtensionPoint(point)])
        known: dict[str, Plugin] = {}
        yield
        for name in names:
            if name in registry:
                known[name] = registry.build(name, args=args.get(name), handle=self._handle_of(registry[name]))
                yield
        self.missing = tuple(name for name in names if name not in registry)
        self._file(known, enabled)

    def _file(self, known: Mapping[str, Plugin], enabled: EnabledPlugins) -> None:
        """Note which plugins each extension point asks."""
        self.plugins = known
        self.weights: Mapping[str, int] = enabled.score_weights

        def at(point: str) -> tuple[Any, ...]:
            return tuple(known[name] for name in enabled[ExtensionPoint(point)] if name in known)

        self.pre_enqueue: tuple[PreEnqueuePlugin, ...] = at("preEnqueue")
        self.queue_sort: tuple[QueueSortPlugin, ...] = at("queueSort")
        self.pre_filter: tuple[PreFilterPlugin, ...] = at("preFilter")
        self.filter: tuple[FilterPlugin, ...] = at("filter")
        self.post_filter: tuple[PostFilterPlugin, ...] = at("postFilter")
        self.pre_score: tuple[PreScorePlugin, ...] = at("preScore")
        self.score: tuple[ScorePlugin, ...] = at("score")
        self.reserve: tuple[ReservePlugin, ...] = at("reserve")
        self.permit: tuple[PermitPlugin, ...] = at("permit")
        self.pre_bind: tuple[PreBindPlugin, ...] = at("preBind")
        self.bind: tuple[BindPlugin, ...] = at("bind")
        self.post_bind: tuple[PostBindPlugin, ...] = at("postBind")
        self.placement_generate: tuple[PlacementGeneratePlugin, ...] = at("placementGenerate")
        self.placement_score: tuple[PlacementScorePlugin, ...] = at("placementScore")
        self.group_post_filter: tuple[PodGroupPostFilterPlugin, ...] = at("podGroupPostFilter")
        self.placement_weights: Mapping[str, int] = enabled.placement_score_weights
        # Not configurable: whichever plugins of the profile can tell whether a group is complete, or who is in one.
        everyone = known.values()
        self.placement_feasible = tuple(one for one in everyone if isinstance(one, PlacementFeasiblePlugin))
        self.group_sources = tuple(one for one in everyone if isinstance(one, GroupSourcePlugin))
        self.reserving = frozenset(plugin.name for plugin in self.reserve)
        self.pre_binding = frozenset(plugin.name for plugin in self.pre_bind)
        # Those that are asked before a bind alone have not been asked to reserve, and may find fault with that.
        idle = (plugin.name for plugin in self.pre_filter if plugin._idle_when_skipped)
        self.idle_when_skipped = self.reserving.intersection(idle)
        self.extensions = tuple(plugin for plugin in self.pre_filter if isinstance(plugin, PreFilterExtensions))
        self.pre_filtering = frozenset(plugin.name for plugin in self.pre_filter)
        self.pre_scoring = frozenset(plugin.name for plugin in self.pre_score)
        node_plugins: Iterable[Plugin] = (*self.pre_filter, *self.filter, *self.pre_score, *self.score)
        self.node_plugins: tuple[Plugin, ...] = tuple({plugin.name: plugin for plugin in node_plugins}.values())

    def __repr__(self) -> str:
        return f"Profile({self.name})"

    def registrations(
        self, listed: Callable[[str], Iterable[EventRegistration]] = lambda _name: ()
    ) -> dict[str, tuple[EventRegistration, ...]]:
        """Return the events that could cure each plugin's rejections, for the plugins that can reject.

        ``listed`` are changes of the kinds that a plugin lists, which count unless it names its events itself.
        """
        rejecting: Iterable[Plugin] = (
            *self.pre_enqueue,
            *self.pre_filter,
            *self.filter,
            *self.reserve,
            *self.permit,
        )
        return {plugin.name: self._events_of(plugin, listed) for plugin in rejecting}

    @staticmethod
    def _events_of(
        plugin: Plugin, listed: Callable[[str], Iterable[EventRegistration]]
    ) -> tuple[EventRegistration, ...]:
        where = f'running EventsToRegister plugin "{plugin.name}"'
        try:
            # One that never ends would fill memory.
            named = tuple(islice(plugin.events_to_register(), MAX_EVENTS + 1))
        except PLUGIN_FAULTS as error:
            pass_on_interrupt(error)
            raise PluginError(plugin.name, f"{where}: {described(error)}") from error
        if len(named) > MAX_EVENTS:
            raise PluginError(plugin.name, f"{where}: it names more than {MAX_EVENTS} events")
        for each in named:
            if not _is_registration(each):
                advice = "list EventRegistration(ClusterEvent(Resource.NODE, Action.ADD)) and the like"
                raise PluginError(plugin.name, f"{where}: it names {shown(each)}; {advice}")
        return (*named, *listed(plugin.name)) if _inherits(plugin, Plugin, "events_to_register") else named

    def per_node_plugins(self) -> tuple[str, ...]:
        """Name the plugins that filter or score node by node, for want of a columnar form."""
        return tuple(
            plugin.name
            for plugin in self.node_plugins
            if (isinstance(plugin, FilterPlugin) and _inherits(plugin, FilterPlugin, "filter_nodes"))
            or (isinstance(plugin, ScorePlugin) and _inherits(plugin, ScorePlugin, "score_nodes"))
        )


def _is_registration(named: object) -> bool:
    if not (isinstance(named, EventRegistration) and isinstance(named.event, ClusterEvent)):
        return False
    known = isinstance(named.event.resource, str) and isinstance(named.event.action, Action)
    return known and (named.hint is None or callable(named.hint))


def points_of(registry: Registry, name: str) -> frozenset[str] | None:
    """Return the extension points of a plugin, by the class we have or else by upstream's table."""
    if name in registry:
        return extension_points(registry[name])
    facts = KNOWN_PLUGINS.get(name)
    return facts.points if facts else None


def derives_filter(profile: Profile, name: str) -> bool:
    """Return whether a filter plugin filters single nodes by its columnar form, for want of another."""
    plugin = profile.plugins.get(name)
    return isinstance(plugin, FilterPlugin) and _inherits(plugin, FilterPlugin, "filter")


def normalizes(plugin: ScorePlugin) -> bool:
    """Return whether a plugin brings its scores into range itself."""
    return not _inherits(plugin, ScorePlugin, "normalize_scores")


def _inherits(plugin: Plugin, base: type[Any], method: str) -> bool:
    return getattr(type(plugin), method) is getattr(base, method)
