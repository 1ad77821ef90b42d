"""Conversion of a text to v1: detect its kind, convert it, and check the result."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from moorage.common.errors import ConfigError
from moorage.kube.api.documents import read_documents
from moorage.scheduler.config.conversion.drafts import EVERY, Effect, Notes, ProfileDraft, as_list, as_mapping
from moorage.scheduler.config.conversion.old_profiles import KNOWN_POINTS, VERSIONS, OldProfile
from moorage.scheduler.config.conversion.policy_files import HARD_WEIGHT_NOW, convert_extenders, convert_policy
from moorage.scheduler.config.conversion.tables import PROVIDERS
from moorage.scheduler.config.encoding import to_yaml
from moorage.scheduler.config.loading import load_config
from moorage.scheduler.config.plugin_facts import KNOWN_PLUGINS, Catalogue, PluginFacts
from moorage.scheduler.config.types import API_VERSION, DEFAULT_SCHEDULER_NAME, KIND, ExtensionPoint

_GROUPS: Final = ("kubescheduler.config.k8s.io", "componentconfig")
LAST_WITH_PROVIDERS: Final = "v1beta1"
"""The last version with algorithm providers. Their weights are those of its time."""
_MULTI_POINT: Final = "multiPoint"
_SORTING: Final = "queueSort"
_EVERYWHERE: Final = KNOWN_POINTS - {_MULTI_POINT, _SORTING}
"""Extension points of a plugin that is enabled everywhere. queueSort is excluded, since it allows only one."""


class Converted(Struct, frozen=True):
    """A converted configuration, its origin, and notes on differences."""

    where: str
    data: dict[str, Any]
    notes: Notes


def convert_text(text: str, source: str) -> list[Converted]:
    """Convert every scheduler configuration in a text, also inside ConfigMaps. Raise ConfigError without one."""
    configurations = [
        _convert(location, data)
        for number, document in enumerate(read_documents(text, source=source))
        for location, data in _configurations(document, source if number == 0 else f"{source}, document {number + 1}")
    ]
    if not configurations:
        raise ConfigError(
            source,
            "no scheduler configuration found",
            hint="pass a KubeSchedulerConfiguration, a Policy, or a ConfigMap that contains one",
        )
    return configurations


def convert_provider(name: str) -> Converted:
    """Return the configuration of an --algorithm-provider."""
    notes = Notes()
    draft = ProfileDraft(DEFAULT_SCHEDULER_NAME, "profiles[0]", notes)
    use_provider(name, draft, notes)
    OldProfile(draft, LAST_WITH_PROVIDERS).convert(None, None)
    converted = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [draft.finished()]}
    return _check("--algorithm-provider", converted, notes)


def _configurations(document: Any, location: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(document, Mapping):
        return
    match document.get("kind"):
        case "KubeSchedulerConfiguration" | "Policy":
            yield location, document
        case "ConfigMap":
            texts = document.get("data")
            for key, text in texts.items() if isinstance(texts, Mapping) else ():
                field_path = f"{location}, ConfigMap key {key}"
                for inner in read_documents(text, source=field_path) if isinstance(text, str) else ():
                    yield from _configurations(inner, field_path)
        case "List":
            items = document.get("items")
            for item in items if isinstance(items, list) else ():
                yield from _configurations(item, location)
        case None if "predicates" in document or "priorities" in document:
            yield location, document


def _convert(location: str, data: Mapping[str, Any]) -> Converted:
    notes = Notes()
    if data.get("kind") != KIND:
        return _check(location, {"apiVersion": API_VERSION, "kind": KIND} | convert_policy(data, "", notes), notes)
    group, _, version = str(data.get("apiVersion", "")).partition("/")
    if group not in _GROUPS or version not in VERSIONS:
        raise ConfigError(
            location,
            f"apiVersion {data.get('apiVersion')!r} is not a version of the scheduler's configuration",
            hint=f"write one of {', '.join(f'{_GROUPS[0]}/{supported}' for supported in VERSIONS)}",
        )
    if version == VERSIONS[-1]:
        notes.add(Effect.UNCHANGED, "apiVersion", "the configuration is already v1; nothing was changed")
        try:
            return _check(location, dict(data), notes)
        except ConfigError as error:
            hint = f"list all problems with: moorage config check {location}"
            raise ConfigError(location, f"the file is already {API_VERSION}, and is invalid", hint=hint) from error
    return _check(location, convert_configuration(data, version, notes), notes)


def _check(location: str, data: dict[str, Any], notes: Notes) -> Converted:
    """Check that the result can be loaded. Raise ConfigErrors with the cause in the old file."""
    out_of_tree = _read_catalogue(data)
    for name, facts in sorted(out_of_tree.items()):
        text = "is not in-tree: it must be installed where this configuration is used"
        notes.add(Effect.UNCHANGED, f"plugin {name}", text)
        points = [point for point in ExtensionPoint if point in _EVERYWHERE - facts.points]
        if points and facts.points != {_SORTING}:
            text = f"is not enabled at {', '.join(points)}: if it implements one of them, enable it under multiPoint"
            notes.add(Effect.UNCHANGED, f"plugin {name}", text)
    load_config(to_yaml(data), source=f"{location}, converted to v1", catalogue={**KNOWN_PLUGINS, **out_of_tree})
    return Converted(location, data, notes)


def _read_catalogue(data: Mapping[str, Any]) -> Catalogue:
    """Return the out-of-tree plugins with the extension points that the file names."""
    points_by_plugin: dict[str, set[str]] = {}
    for profile in _mappings(data.get("profiles")):
        plugins = profile.get("plugins")
        plugin_sets = plugins if isinstance(plugins, Mapping) else {}
        sets = {point: rows for point, rows in plugin_sets.items() if isinstance(rows, Mapping)}
        off = {name for point in (_MULTI_POINT, _SORTING) for name in _names(sets.get(point, {}), "disabled")}
        needs_sorter = not off.isdisjoint(("PrioritySort", EVERY)) and not _names(sets.get(_SORTING, {}), "enabled")
        for point, rows in sets.items():
            for name in _names(rows, "enabled") if point in KNOWN_POINTS else ():
                if name not in KNOWN_PLUGINS and name != EVERY:
                    points = _EVERYWHERE if point == _MULTI_POINT else {point}
                    points_by_plugin.setdefault(name, set()).update(points)
                    if point == _MULTI_POINT and needs_sorter:
                        points_by_plugin[name].add(_SORTING)
                        needs_sorter = False
    return {name: PluginFacts(frozenset(map(ExtensionPoint, points))) for name, points in points_by_plugin.items()}


def _names(rows: Mapping[str, Any], field: str) -> list[str]:
    return [name for row in _mappings(rows.get(field)) if isinstance(name := row.get("name"), str)]


def _mappings(content: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list. Other elements are reported when the result is loaded."""
    return [item for item in content if isinstance(item, Mapping)] if isinstance(content, list) else []


_UNCHANGED: Final = (
    *("parallelism", "clientConnection", "enableProfiling", "enableContentionProfiling", "percentageOfNodesToScore"),
    *("podInitialBackoffSeconds", "podMaxBackoffSeconds", "delayCacheUntilActive"),
)
_OF_THE_PROFILE: Final = (
    *("schedulerName", "plugins", "pluginConfig", "hardPodAffinitySymmetricWeight", "algorithmSource"),
    *("disablePreemption", "bindTimeoutSeconds"),
)
"""Previous top-level fields that are fields of a profile now."""
_ADDRESSES: Final = ("healthzBindAddress", "metricsBindAddress")
_LEASES: Final = "leases"
_LOCK_NAMES: Final = {"lockObjectName": "resourceName", "lockObjectNamespace": "resourceNamespace"}


def convert_configuration(data: Mapping[str, Any], version: str, notes: Notes) -> dict[str, Any]:
    """Return a configuration of an old version as one of v1."""
    converted: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    for field, value in data.items():
        if field in _UNCHANGED:
            converted[field] = value
        elif field == "leaderElection":
            converted[field] = _leader_election(as_mapping(value, field, notes), notes)
        elif field == "extenders":
            converted[field] = convert_extenders(value, field, notes)
        elif field in _ADDRESSES:
            if value not in ("", None):
                notes.add(Effect.MOVED, field, "replaced by the flags --bind-address and --secure-port")
        elif field not in ("apiVersion", "kind", "metadata", "profiles", *_OF_THE_PROFILE):
            notes.report_loss(field, f"{version} has no such field")
    converted["profiles"] = _profiles(data, version, notes)
    return converted


def _leader_election(old: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for field, value in old.items():
        now = _LOCK_NAMES.get(field, field)
        if now != field:
            notes.add(Effect.RENAMED, f"leaderElection.{field}", f"is now {now}")
            if old.get(now):
                continue
        if field == "resourceLock" and value not in ("", _LEASES):
            notes.add(Effect.CHANGED, f"leaderElection.{field}", f"{value} is now {_LEASES}, the only supported lock")
            value = _LEASES  # noqa: PLW2901 - the replacement
        converted[now] = value
    return converted


def _profiles(data: Mapping[str, Any], version: str, notes: Notes) -> list[dict[str, Any]]:
    rows = as_list(data.get("profiles"), "profiles", notes)
    top = {field: data[field] for field in ("schedulerName", "plugins", "pluginConfig") if field in data}
    if top:
        notes.add(Effect.MOVED, ", ".join(top), "moved into the only profile")
    if not rows:
        rows = [top]
    profiles = []
    for number, row in enumerate(rows):
        profile = as_mapping(row, f"profiles[{number}]", notes)
        name = str(profile.get("schedulerName") or DEFAULT_SCHEDULER_NAME)
        draft = ProfileDraft(name, f"profiles[{number}]", notes)
        _convert_algorithm(data.get("algorithmSource"), draft, is_first=number == 0)
        OldProfile(draft, version).convert(profile.get("plugins"), profile.get("pluginConfig"))
        _convert_global_fields(data, draft, is_first=number == 0)
        converted = draft.finished()
        if "percentageOfNodesToScore" in profile:
            converted["percentageOfNodesToScore"] = profile["percentageOfNodesToScore"]
        profiles.append(converted)
    return profiles


def _convert_global_fields(data: Mapping[str, Any], draft: ProfileDraft, *, is_first: bool) -> None:
    """Move former top-level fields into a profile, with one note each."""
    notes = draft.notes if is_first else Notes()
    if (weight := data.get("hardPodAffinitySymmetricWeight")) is not None:
        draft.args("InterPodAffinity").setdefault("hardPodAffinityWeight", weight)
        notes.add(Effect.MOVED, "hardPodAffinitySymmetricWeight", HARD_WEIGHT_NOW)
    if (seconds := data.get("bindTimeoutSeconds")) is not None:
        draft.args("VolumeBinding").setdefault("bindTimeoutSeconds", seconds)
        notes.add(Effect.MOVED, "bindTimeoutSeconds", "is now an argument of VolumeBinding")
    if data.get("disablePreemption"):
        draft.disable("multiPoint", "DefaultPreemption")
        notes.add(Effect.MOVED, "disablePreemption", "DefaultPreemption is disabled")


def _convert_algorithm(source: Any, draft: ProfileDraft, *, is_first: bool) -> None:
    notes = draft.notes if is_first else Notes()
    algorithm = as_mapping(source, "algorithmSource", notes)
    if provider := algorithm.get("provider"):
        use_provider(str(provider), draft, notes)
    policy = as_mapping(algorithm.get("policy"), "algorithmSource.policy", notes)
    for kind, source_config in policy.items():
        location = as_mapping(source_config, f"algorithmSource.policy.{kind}", notes)
        policy_name = location.get("path") or f"{location.get('namespace', '')}/{location.get('name', '')}"
        notes.report_loss(f"algorithmSource.policy.{kind}", f"the Policy in {policy_name} is another file: convert it")


def use_provider(provider: str, draft: ProfileDraft, notes: Notes) -> None:
    """Set the scores of an algorithm provider."""
    strategy = PROVIDERS.get(provider)
    if strategy is None:
        notes.report_loss("algorithm provider", f"{provider} is not one of {', '.join(PROVIDERS)}")
    elif provider != "DefaultProvider":
        draft.use_strategy(strategy)
        notes.add(
            Effect.RENAMED, f"algorithm provider {provider}", f"is now NodeResourcesFit with the strategy {strategy}"
        )
    else:
        notes.add(Effect.DROPPED, f"algorithm provider {provider}", "its plugins are the default")
