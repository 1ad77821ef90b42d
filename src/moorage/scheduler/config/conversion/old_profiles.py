"""Plugins and their arguments in profiles of removed API versions."""

from collections.abc import Mapping
from typing import Any, Final

from moorage.scheduler.config.conversion.drafts import EVERY, Effect, ProfileDraft, as_list, as_mapping, as_number
from moorage.scheduler.config.conversion.policy_files import use_ratio
from moorage.scheduler.config.conversion.tables import (
    FIT,
    LABEL,
    LEAST,
    OLD_WEIGHTS,
    RATIO,
    REMOVED,
    SELECTOR_SPREADS,
    SPREAD,
    STRATEGIES,
    VOLUME_LIMITS,
)
from moorage.scheduler.config.plugin_facts import KNOWN_PLUGINS
from moorage.scheduler.config.types import API_VERSION, Plugins

VERSIONS: Final = ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3", "v1")
_GROUP: Final = API_VERSION.partition("/")[0]
KNOWN_POINTS: Final = frozenset(Plugins.__struct_encode_fields__) - {
    *("placementGenerate", "placementScore", "placementFeasible", "podGroupPostFilter")
}
"""Extension points that old versions may name."""


class OldProfile:
    """Converts one profile. ``version`` is that of the entire configuration."""

    def __init__(self, draft: ProfileDraft, version: str) -> None:
        self._draft = draft
        self._notes = draft.notes
        self._age = VERSIONS.index(version)
        self._resource_scorers: dict[str, int] = {}
        self._had_selector_spread: bool | None = None

    def is_before(self, version: str) -> bool:
        """Return whether the configuration is older than a version."""
        return self._age < VERSIONS.index(version)

    def convert(self, plugins: Any, plugin_config: Any) -> None:
        """Take over the sets of plugins, and their arguments."""
        location = self._draft.where
        sets = as_mapping(plugins, f"{location}.plugins", self._notes)
        if self.is_before("v1beta3"):
            for plugin, weight in OLD_WEIGHTS.items():
                self._draft.enable("multiPoint", plugin, weight)
            *names, last_name = OLD_WEIGHTS
            increased = f"the default weights of {', '.join(names)} and {last_name} increased in v1beta3"
            text = f"{increased}; the result sets their old weights"
            self._notes.add(Effect.CHANGED, f"{location}.plugins", text)
        if self.is_before("v1beta2"):
            self._resource_scorers = {LEAST: 1}
        for point, plugin_set in sets.items():
            self._convert_point(point, as_mapping(plugin_set, f"{location}.plugins.{point}", self._notes))
        arguments = as_list(plugin_config, f"{location}.pluginConfig", self._notes)
        args_by_plugin: dict[str, Any] = {}
        for number, entry in enumerate(arguments):
            field_path = f"{location}.pluginConfig[{number}]"
            self._convert_args(as_mapping(entry, field_path, self._notes), field_path, args_by_plugin)
        if self.is_before("v1beta2") or self._resource_scorers:
            self._settle_resource_scorers(args_by_plugin)
        self._settle_spread()

    def _convert_point(self, point: str, plugin_set: Mapping[str, Any]) -> None:
        location = f"{self._draft.where}.plugins.{point}"
        target = self._current_point(point, location)
        if target not in KNOWN_POINTS:
            self._notes.report_loss(location, "unknown extension point")
            return
        for row in as_list(plugin_set.get("disabled"), f"{location}.disabled", self._notes):
            self._disable(target, str(as_mapping(row, location, self._notes).get("name", "")), location)
        for row in as_list(plugin_set.get("enabled"), f"{location}.enabled", self._notes):
            entry = as_mapping(row, location, self._notes)
            weight = as_number(entry.get("weight"), f"{location}.weight", self._notes, 0)
            self._enable(target, str(entry.get("name", "")), weight, location)

    def _current_point(self, point: str, location: str) -> str:
        if point == "unreserve":
            self._notes.add(Effect.MOVED, location, "is part of reserve since v1beta1")
            return "reserve"
        if point == "postFilter" and self.is_before("v1alpha2"):
            self._notes.add(
                Effect.RENAMED, location, "is preScore since v1alpha2, which gave postFilter another meaning"
            )
            return "preScore"
        return point

    def _disable(self, point: str, plugin: str, location: str) -> None:
        if point == "score":
            if plugin == EVERY:
                self._resource_scorers.clear()
                self._had_selector_spread = False
            self._resource_scorers.pop(plugin, None)
        if plugin in SELECTOR_SPREADS:
            self._had_selector_spread = False
        elif plugin in STRATEGIES or plugin in VOLUME_LIMITS or plugin in REMOVED or plugin == LABEL:
            self._notes.add(Effect.DROPPED, f"{location} {plugin}", "was removed, so it cannot be disabled")
        else:
            self._draft.disable(point, plugin)

    def _enable(self, point: str, plugin: str, weight: int, location: str) -> None:
        field_path = f"{location} {plugin}"
        if plugin in STRATEGIES:
            self._resource_scorers[plugin] = weight or 1
        elif plugin in SELECTOR_SPREADS:
            self._had_selector_spread = True
            self._replace(point, SPREAD, weight, field_path, f"{SPREAD} spreads pods without constraints")
        elif plugin in VOLUME_LIMITS:
            text = "is now NodeVolumeLimits: these volumes are CSI volumes"
            self._replace(point, "NodeVolumeLimits", weight, field_path, text)
        elif plugin == LABEL:
            self._notes.add(Effect.RENAMED, field_path, "is now addedAffinity in the args of NodeAffinity")
        elif plugin in REMOVED:
            self._notes.report_loss(field_path, f"was removed: {REMOVED[plugin]}")
        else:
            self._draft.enable(point, plugin, weight)

    def _replace(self, point: str, plugin: str, weight: int, field_path: str, text: str) -> None:
        """Enable the replacement of a plugin, unless it is enabled by default."""
        if point not in KNOWN_PLUGINS[plugin].points:
            self._notes.report_loss(field_path, f"its replacement {plugin} does not have this extension point")
            return
        self._notes.add(Effect.RENAMED, field_path, text)
        if self._draft.disables(point, plugin) and not self._draft.enables(point, plugin):
            self._draft.enable(point, plugin, weight)

    def _convert_args(self, entry: Mapping[str, Any], field_path: str, args_by_plugin: dict[str, Any]) -> None:
        name, args = str(entry.get("name", "")), entry.get("args")
        if isinstance(args, Mapping):
            args = _convert_header(args)
        if name in STRATEGIES:
            args_by_plugin[name] = args or {}
            self._notes.add(Effect.MOVED, field_path, f"is now scoringStrategy in the args of {FIT}")
        elif name == LABEL:
            self._convert_labels(as_mapping(args, field_path, self._notes), field_path)
        elif name in REMOVED or name in SELECTOR_SPREADS or name in VOLUME_LIMITS:
            self._notes.add(Effect.DROPPED, field_path, f"{name} was removed")
        elif isinstance(args, Mapping) and name in KNOWN_PLUGINS:
            self._draft.args(name).update(args)
        else:
            self._draft.set_args(name, args)

    def _convert_labels(self, args: Mapping[str, Any], field_path: str) -> None:
        for field, presence in (("presentLabels", True), ("absentLabels", False)):
            if labels := as_list(args.get(field), f"{field_path}.args.{field}", self._notes):
                self._draft.require_labels(labels, presence=presence)
        for field, presence in (("presentLabelsPreference", True), ("absentLabelsPreference", False)):
            for label in as_list(args.get(field), f"{field_path}.args.{field}", self._notes):
                self._draft.prefer_label(label, presence=presence, weight=100)
                self._notes.report_loss(
                    f"{field_path}.args.{field}", f"{label} is now scored with the weight of NodeAffinity"
                )

    def _settle_resource_scorers(self, args_by_plugin: Mapping[str, Any]) -> None:
        """Make the scorers of resources one strategy of NodeResourcesFit."""
        draft, location = self._draft, f"{self._draft.where}.plugins.score"
        if not self._resource_scorers:
            if not draft.disables("score", FIT):
                draft.disable("score", FIT)
            return
        (winner, weight), *losers = sorted(self._resource_scorers.items(), key=lambda item: -item[1])
        for loser, _ in losers:
            self._notes.report_loss(f"{location} {loser}", f"{FIT} has only one strategy, and {winner} has more weight")
        if winner != LEAST or args_by_plugin.get(winner):
            params = as_mapping(args_by_plugin.get(winner), location, self._notes)
            if winner == RATIO:
                use_ratio(draft, params)
            else:
                draft.use_strategy(STRATEGIES[winner], resources=list(params.get("resources") or ()))
            self._notes.add(
                Effect.RENAMED, f"{location} {winner}", f"is now {FIT} with the strategy {STRATEGIES[winner]}"
            )
        if weight != 1 or draft.disables("score", FIT):
            draft.enable("score", FIT, weight)

    def _settle_spread(self) -> None:
        """Set the default spread constraints that correspond to SelectorSpread."""
        args, notes = self._draft.args(SPREAD), self._notes
        if args.get("defaultConstraints") and not args.get("defaultingType"):
            args["defaultingType"] = "List"
            notes.add(Effect.CHANGED, f"{self._draft.where}.pluginConfig {SPREAD}", "defaultingType: List is added")
        scores = not self._draft.disables("score", SPREAD) or self._draft.enables("score", SPREAD)
        if self._had_selector_spread is False and scores and not args and self.is_before("v1"):
            args.update(defaultConstraints=[], defaultingType="List")
            text = f"SelectorSpread was disabled: {SPREAD} has no default constraints"
            notes.add(Effect.CHANGED, f"{self._draft.where}.plugins.score", text)
        if not args:
            self._draft.forget_args(SPREAD)


def _convert_header(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with the apiVersion of v1. Other groups keep theirs."""
    version = str(args.get("apiVersion", ""))
    if not version:
        return {key: value for key, value in args.items() if key not in ("apiVersion", "kind")}
    return {
        **args,
        "apiVersion": API_VERSION if version.startswith(f"{_GROUP}/") else version,
        "kind": args.get("kind"),
    }
