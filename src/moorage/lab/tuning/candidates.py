"""Configurations of a search: the baseline with other weights and arguments in its first profile.

The result is a KubeSchedulerConfiguration that contains only the changes, so that kube-scheduler accepts it if all
plugins are in-tree.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

import msgspec

from moorage.kube.api.documents import read_documents
from moorage.lab.trial import PolicyText
from moorage.lab.tuning.plan import Knob
from moorage.scheduler.config.plugin_facts import IN_TREE_PLUGINS

Content = dict[str, Any]
Setting = tuple[Knob, Any]
"""A knob and its value."""

_HEADER: Final = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def tuned_policy(base: PolicyText, settings: Iterable[Setting]) -> PolicyText:
    """Return a policy with changed settings; equal settings give equal policies."""
    config_text = msgspec.json.encode(tuned_config(base.config, settings), order="deterministic").decode()
    return msgspec.structs.replace(base, name="candidate", config=config_text)


def tuned_config(text: str, settings: Iterable[Setting]) -> Content:
    """Return a configuration in YAML, or the default one, with changed settings."""
    config: Content = deepcopy(next(iter(read_documents(text, source="configuration")))) if text else dict(_HEADER)
    profiles = config.setdefault("profiles", [])
    if not profiles:
        profiles.append({"schedulerName": "default-scheduler"})
    profile = profiles[0]
    for knob, value in settings:
        if knob.path:
            _set_argument(profile, knob.plugin, knob.path.split("."), value)
        else:
            _set_weight(profile.setdefault("plugins", {}), knob.plugin, value)
    return config


def _set_weight(plugins: Content, name: str, weight: int) -> None:
    """Set the weight of a plugin at the point that enables it; a weight of 0 disables its score."""
    score: Content = plugins.setdefault("score", {})
    multi_point: Content = plugins.setdefault("multiPoint", {})
    enabled, disabled = score.setdefault("enabled", []), score.setdefault("disabled", [])
    disabled[:] = [entry for entry in disabled if entry["name"] != name]
    score_entries = [entry for entry in enabled if entry["name"] == name]
    if weight == 0:
        enabled[:] = [entry for entry in enabled if entry["name"] != name]
        disabled.append({"name": name})
    elif score_entries:
        score_entries[0]["weight"] = weight
    else:
        existing = [entry for entry in multi_point.setdefault("enabled", []) if entry["name"] == name]
        if existing:
            existing[0]["weight"] = weight
        else:
            multi_point["enabled"].append({"name": name, "weight": weight})
    for point in ("score", "multiPoint"):
        plugins[point] = {key: entries for key, entries in plugins[point].items() if entries}
        if not plugins[point]:
            del plugins[point]


def _set_argument(profile: Content, plugin: str, path: list[str], value: Any) -> None:
    entries = profile.setdefault("pluginConfig", [])
    entry = next((candidate for candidate in entries if candidate["name"] == plugin), None)
    if entry is None:
        entry = {"name": plugin, "args": {}}
        entries.append(entry)
    target: Content = entry.setdefault("args", {})
    for step in path[:-1]:
        target = target.setdefault(step, {})
    target[path[-1]] = value


def foreign_plugins(config: Mapping[str, Any]) -> list[str]:
    """Return the plugins of a configuration that kube-scheduler does not have."""
    plugin_names: set[str] = set()
    for profile in config.get("profiles", ()):
        points = (profile.get("plugins") or {}).values()
        plugin_names.update(entry["name"] for point in points for entry in point.get("enabled") or ())
        plugin_names.update(entry["name"] for entry in profile.get("pluginConfig") or ())
    return sorted(plugin_names - IN_TREE_PLUGINS.keys() - {"*"})
