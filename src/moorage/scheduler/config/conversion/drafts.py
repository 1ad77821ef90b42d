"""A profile of a v1 configuration under construction."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from moorage.scheduler.config.conversion.tables import AFFINITY, FIT


class Effect(StrEnum):
    """The effect of a conversion on a setting."""

    MOVED = "moved"
    RENAMED = "renamed"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    DROPPED = "dropped"
    """Removed without an effect on decisions."""
    LOST = "lost"
    """Pods may get other nodes, or a setting has no replacement: the result is not faithful."""


class Note(Struct, frozen=True):
    """One difference."""

    effect: Effect
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.effect}: {self.where}: {self.text}"


class Notes(list[Note]):
    """Notes in the order of the file."""

    def add(self, effect: Effect, location: str, text: str) -> None:
        """Add a note."""
        self.append(Note(effect, location, text))

    def report_loss(self, location: str, text: str) -> None:
        """Note a setting without a replacement."""
        self.add(Effect.LOST, location, text)

    @property
    def are_faithful(self) -> bool:
        """Whether nothing is lost."""
        return all(note.effect is not Effect.LOST for note in self)


def as_mapping(value: Any, location: str, notes: Notes) -> Mapping[str, Any]:
    """Return the value if it is a mapping. Otherwise record a note and return {}."""
    if value is None or isinstance(value, Mapping):
        return value or {}
    notes.report_loss(location, f"{_short(value)} is not a mapping")
    return {}


def as_list(value: Any, location: str, notes: Notes) -> list[Any]:
    """Return the value if it is a list. Otherwise record a note and return []."""
    if value is None or isinstance(value, list):
        return value or []
    notes.report_loss(location, f"{_short(value)} is not a list")
    return []


def as_number(value: Any, location: str, notes: Notes, default: int) -> int:
    """Return the value if it is an integer. Otherwise record a note and return the default."""
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    notes.report_loss(location, f"{_short(value)} is not an integer; {default} is written")
    return default


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


EVERY = "*"


class ProfileDraft:
    """One profile as plain data, completed step by step."""

    def __init__(self, name: str, location: str, notes: Notes) -> None:
        self.name = name
        self.where = location
        self.notes = notes
        self._sets: dict[str, dict[str, list[dict[str, Any]]]] = {}
        self._args: dict[str, Any] = {}

    def enable(self, point: str, plugin: str, weight: int = 0) -> None:
        """Enable a plugin at an extension point. An enabled one gets the weight."""
        enabled = self._set(point)["enabled"]
        entry = next((entry for entry in enabled if entry["name"] == plugin), None)
        if entry is None:
            enabled.append(entry := {"name": plugin})
        if weight:
            entry["weight"] = weight

    def disable(self, point: str, plugin: str) -> None:
        """Disable a plugin at an extension point."""
        disabled = self._set(point)["disabled"]
        if {"name": plugin} not in disabled:
            disabled.append({"name": plugin})

    def enables(self, point: str, plugin: str) -> bool:
        """Return whether a plugin is enabled."""
        return any(entry["name"] == plugin for entry in self._set(point)["enabled"])

    def disables(self, point: str, plugin: str) -> bool:
        """Return whether a plugin is disabled, by name or by a wildcard."""
        return any(entry["name"] in (EVERY, plugin) for entry in self._set(point)["disabled"])

    def args(self, plugin: str) -> dict[str, Any]:
        """Return the arguments of a plugin, to be written into."""
        if not isinstance(self._args.get(plugin), dict):
            self._args[plugin] = {}
        plugin_args: dict[str, Any] = self._args[plugin]
        return plugin_args

    def set_args(self, plugin: str, args: Any) -> None:
        """Set the arguments of a plugin, of any type."""
        self._args[plugin] = args

    def forget_args(self, plugin: str) -> None:
        """Remove the arguments of a plugin."""
        self._args.pop(plugin, None)

    def use_strategy(self, strategy: str, **params: Any) -> None:
        """Set the scoring strategy of NodeResourcesFit."""
        self.args(FIT)["scoringStrategy"] = {
            "type": strategy,
            "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
        } | {name: value for name, value in params.items() if value}

    def require_labels(self, labels: list[str], *, presence: bool) -> None:
        """Require nodes with, or without, some labels for every pod of the profile."""
        terms = self._added_affinity().setdefault(
            "requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [{"matchExpressions": []}]}
        )
        operator = "Exists" if presence else "DoesNotExist"
        terms["nodeSelectorTerms"][0]["matchExpressions"] += [{"key": key, "operator": operator} for key in labels]

    def prefer_label(self, label: str, *, presence: bool, weight: int) -> None:
        """Prefer nodes with, or without, a label for every pod of the profile."""
        operator = "Exists" if presence else "DoesNotExist"
        preference = {"matchExpressions": [{"key": label, "operator": operator}]}
        terms = self._added_affinity().setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
        terms.append({"weight": max(1, min(100, weight)), "preference": preference})

    def _added_affinity(self) -> dict[str, Any]:
        affinity: dict[str, Any] = self.args(AFFINITY).setdefault("addedAffinity", {})
        return affinity

    def finished(self) -> dict[str, Any]:
        """Return the profile. A custom queue sort replaces PrioritySort, since a profile has only one."""
        has_own_sort = any(entry["name"] != "PrioritySort" for entry in self._set("queueSort")["enabled"])
        if has_own_sort and not self.disables("queueSort", "PrioritySort"):
            self.disable("queueSort", EVERY)
            self.notes.add(Effect.CHANGED, f"{self.where}.plugins.queueSort", "PrioritySort is disabled for it")
        profile: dict[str, Any] = {"schedulerName": self.name}
        sets = {
            point: {key: rows for key, rows in plugin_set.items() if rows} for point, plugin_set in self._sets.items()
        }
        if plugins := {point: plugin_set for point, plugin_set in sets.items() if plugin_set}:
            profile["plugins"] = plugins
        if self._args:
            profile["pluginConfig"] = [{"name": name, "args": args} for name, args in self._args.items()]
        return profile

    def _set(self, point: str) -> dict[str, list[dict[str, Any]]]:
        return self._sets.setdefault(point, {"disabled": [], "enabled": []})
