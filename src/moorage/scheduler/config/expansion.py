"""Plugin sets of a profile: merged with the defaults, then expanded to the ordered plugins of each extension point."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec
from msgspec import Struct

from moorage.common.errors import ConfigError, ConfigErrors
from moorage.scheduler.config.types import ALL_PLUGINS, ExtensionPoint, PluginEntry, Plugins, PluginSet, ProfileConfig

MAX_SCORE: Final = 100
MAX_TOTAL_SCORE: Final = 2**63 - 1

#: Returns the extension points of a plugin; `None` if the plugin does not exist.
Implements = Callable[[str], Collection[str] | None]


def merge_plugins(defaults: Plugins, custom: Plugins) -> Plugins:
    """Merge every plugin set on its own."""
    names = [field.name for field in msgspec.structs.fields(Plugins)]
    sets = {name: (getattr(defaults, name), getattr(custom, name)) for name in names}
    return Plugins(
        **{
            name: merge_set(default or PluginSet(), own or PluginSet())
            for name, (default, own) in sets.items()
            if default is not None
        }
    )


def merge_set(defaults: PluginSet, custom: PluginSet) -> PluginSet:
    """Keep the enabled defaults in their order, then append the user's plugins.

    A default that the user also lists keeps its position and gets the user's weight, even if that is missing. A plugin
    that is both disabled and enabled is appended. Duplicates remain: building the profile rejects them.
    """
    disabled = tuple(PluginEntry(plugin.name) for plugin in (*custom.disabled, *defaults.disabled))
    disabled_names = {plugin.name for plugin in disabled}
    kept_defaults = (
        ()
        if ALL_PLUGINS in disabled_names
        else tuple(plugin for plugin in defaults.enabled if plugin.name not in disabled_names)
    )

    # The last of repeated entries replaces the default, as in upstream's map.
    last_of = {plugin.name: index for index, plugin in enumerate(custom.enabled)}
    replacing = {last_of[plugin.name] for plugin in kept_defaults if plugin.name in last_of}
    return PluginSet(
        enabled=(
            *(custom.enabled[last_of[plugin.name]] if plugin.name in last_of else plugin for plugin in kept_defaults),
            *(plugin for index, plugin in enumerate(custom.enabled) if index not in replacing),
        ),
        disabled=disabled,
    )


def enabled_names(plugins: Plugins) -> Iterator[str]:
    """Yield the names of all enabled plugins, in the order of the struct, with repetitions."""
    for field in msgspec.structs.fields(Plugins):
        plugin_set: PluginSet | None = getattr(plugins, field.name)
        yield from (plugin.name for plugin in plugin_set.enabled) if plugin_set is not None else ()


class EnabledPlugins(Struct, frozen=True):
    """Which plugins a profile runs: names per extension point in calling order, and the weights of scoring ones."""

    by_point: Mapping[ExtensionPoint, tuple[str, ...]]
    score_weights: Mapping[str, int]
    placement_score_weights: Mapping[str, int]

    def __getitem__(self, point: ExtensionPoint) -> tuple[str, ...]:
        return self.by_point[point]

    @property
    def names(self) -> tuple[str, ...]:
        """Every plugin that some extension point calls, once, in the order of first use."""
        return tuple(dict.fromkeys(chain.from_iterable(self.by_point.values())))


def expand_plugins(profile: ProfileConfig, implements: Implements, *, where: str = "profile") -> EnabledPlugins:
    """Return the plugins of every extension point. Raise ConfigErrors with upstream's messages.

    Plugins of a point's own list that are in MultiPoint too are first, then the rest of MultiPoint, then the rest of
    the point's own list. So repeating a default plugin moves it to the front of that point.
    """
    expansion = _Expansion(profile, implements, f"{where}.plugins")
    by_point = {point: expansion.at(point) for point in ExtensionPoint}
    problems = [*expansion.problems, *_count_problems(profile, by_point, f"{where}.plugins")]
    if problems:
        raise ConfigErrors(problems)
    return EnabledPlugins(
        by_point,
        _weights(profile.plugins, ExtensionPoint.SCORE, by_point, expansion),
        _weights(profile.plugins, ExtensionPoint.PLACEMENT_SCORE, by_point, expansion),
    )


class _Expansion:
    """The state of an expansion, with its problems."""

    def __init__(self, profile: ProfileConfig, implements: Implements, location: str) -> None:
        self.plugins, self.where = profile.plugins, location
        self.points_of = {
            plugin.name: self._current(plugin.name, implements(plugin.name))
            for plugins in (*map(self.plugins.at, ExtensionPoint), self.plugins.multi_point)
            for plugin in plugins.enabled
        }
        self.problems: list[ConfigError] = []
        self.repeated: set[str] = set()
        for point in ExtensionPoint:
            seen_names: set[str] = set()
            for index, plugin in enumerate(self.plugins.at(point).enabled):
                if problem := self._find_problem(plugin.name, point, seen_names):
                    points = self.points_of[plugin.name]
                    if not points or point in points:
                        hint = ""
                    else:
                        hint = f"enable it under multiPoint, or at its extension points: {', '.join(sorted(points))}"
                    self.problems.append(ConfigError(f"{self.where}.{point}.enabled[{index}]", problem, hint=hint))
                seen_names.add(plugin.name)
        self._check_multi_point_names()

    def _current(self, name: str, points: Collection[str] | None) -> Collection[str] | None:
        """Return the extension points of a plugin in the release of the profile."""
        if points is None:
            return None
        missing_point: ExtensionPoint | None = None if self.plugins.is_since_1_38 else ExtensionPoint.PLACEMENT_FEASIBLE
        if self.plugins.is_since_1_38 and name == "GangScheduling":
            missing_point = ExtensionPoint.PERMIT
        return [point for point in points if point != missing_point]

    def at(self, point: ExtensionPoint) -> tuple[str, ...]:
        """Return the plugins of a point in calling order."""
        plugin_set = self.plugins.at(point)
        specific = [*dict.fromkeys(plugin.name for plugin in plugin_set.enabled)]
        disabled = {plugin.name for plugin in plugin_set.disabled}
        if ALL_PLUGINS in disabled:
            return tuple(specific)
        multi_point = (plugin.name for plugin in self.plugins.multi_point.enabled)
        everywhere = [name for name in multi_point if name not in disabled and self.implements(name, point)]
        self._refuse_repetitions(point, [name for name in everywhere if name not in specific])
        return (
            *(name for name in specific if name in everywhere),
            *dict.fromkeys(name for name in everywhere if name not in specific),
            *(name for name in specific if name not in everywhere),
        )

    def implements(self, name: str, point: ExtensionPoint) -> bool:
        """Return whether a plugin exists and can be called at a point."""
        return point in (self.points_of[name] or ())

    def _find_problem(self, name: str, point: ExtensionPoint, seen_names: set[str]) -> str:
        if self.points_of[name] is None:
            return f'{point.plugin_type} "{name}" does not exist'
        if not self.implements(name, point):
            return f'plugin "{name}" does not extend {point.plugin_type} plugin'
        return _already_registered(name, point) if name in seen_names else ""

    def _check_multi_point_names(self) -> None:
        # Upstream trips over a missing plugin at the first point it expands.
        first = next(iter(ExtensionPoint)).plugin_type
        for index, plugin in enumerate(self.plugins.multi_point.enabled):
            if self.points_of[plugin.name] is None:
                location = f"{self.where}.multiPoint.enabled[{index}]"
                self.problems.append(ConfigError(location, f'{first} "{plugin.name}" does not exist'))

    def _refuse_repetitions(self, point: ExtensionPoint, names: Sequence[str]) -> None:
        for name in dict.fromkeys(name for name in names if names.count(name) > 1):
            # Once is sufficient: upstream stops at the first point, and one edit fixes every point.
            if name not in self.repeated:
                self.problems.append(ConfigError(f"{self.where}.multiPoint", _already_registered(name, point)))
                self.repeated.add(name)


def _already_registered(name: str, point: ExtensionPoint) -> str:
    return f'plugin "{name}" already registered as "{point.plugin_type}"'


def _count_problems(
    profile: ProfileConfig, by_point: Mapping[ExtensionPoint, tuple[str, ...]], location: str
) -> Iterator[ConfigError]:
    of_profile = f'for profile with scheduler name "{profile.scheduler_name}"'
    sorters = len(by_point[ExtensionPoint.QUEUE_SORT])
    if sorters != 1:
        text = f"only one queue sort plugin required {of_profile}, but got {sorters}"
        hint = "disable PrioritySort: queueSort.disabled: [{name: PrioritySort}]" if sorters > 1 else ""
        yield ConfigError(f"{location}.queueSort", text, hint=hint)
    if not by_point[ExtensionPoint.BIND]:
        yield ConfigError(f"{location}.bind", f"at least one bind plugin is needed {of_profile}")
    if len(by_point[ExtensionPoint.PLACEMENT_GENERATE]) > 1 and not profile.plugins.is_since_1_38:
        text = f"at most one placement generate plugin is allowed {of_profile}"
        yield ConfigError(f"{location}.placementGenerate", text)


def _weights(
    plugins: Plugins,
    point: ExtensionPoint,
    by_point: Mapping[ExtensionPoint, tuple[str, ...]],
    expansion: _Expansion,
) -> Mapping[str, int]:
    """Set the weight of each plugin of a scoring point: its own list overrides MultiPoint, the default is 1."""
    weights: dict[str, int] = {}
    entries: tuple[PluginEntry, ...] = (*plugins.at(point).enabled, *plugins.multi_point.enabled)
    total = 0
    for plugin in entries:
        if plugin.name in weights or not expansion.implements(plugin.name, point):
            continue
        weight = weights[plugin.name] = plugin.weight or 1
        # Upstream's check itself overflows after a sum below zero: then every further weight is too large.
        if total < 0 or weight * MAX_SCORE > MAX_TOTAL_SCORE - total:
            prefix = "score" if point is ExtensionPoint.SCORE else "placement score"
            text = f"{prefix} plugins: total score of Score plugins could overflow"
            raise ConfigError(f"{expansion.where}.{point}", text)
        total += weight * MAX_SCORE
    return {name: weights[name] for name in by_point[point]}
