"""KubeSchedulerConfigurations of all versions before v1."""

from collections.abc import Mapping
from typing import Any, Final

from moorage.scheduler.config.conversion.drafts import ProfileDraft
from moorage.scheduler.config.conversion.notes import Effect, Notes, as_list, as_mapping
from moorage.scheduler.config.conversion.old_profiles import OldProfile
from moorage.scheduler.config.conversion.policy_files import HARD_WEIGHT_NOW, convert_extenders
from moorage.scheduler.config.conversion.tables import PROVIDERS
from moorage.scheduler.config.types import API_VERSION, DEFAULT_SCHEDULER_NAME, KIND

_UNCHANGED: Final = (
    *("parallelism", "clientConnection", "enableProfiling", "enableContentionProfiling", "percentageOfNodesToScore"),
    *("podInitialBackoffSeconds", "podMaxBackoffSeconds", "delayCacheUntilActive"),
)
_OF_THE_PROFILE: Final = (
    *("schedulerName", "plugins", "pluginConfig", "hardPodAffinitySymmetricWeight", "algorithmSource"),
    *("disablePreemption", "bindTimeoutSeconds"),
)
"""Former top-level fields that are fields of a profile now."""
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
                notes.add(Effect.MOVED, field, "--bind-address and --secure-port define where both are served")
        elif field not in ("apiVersion", "kind", "metadata", "profiles", *_OF_THE_PROFILE):
            notes.lost(field, f"{version} has no such field")
    converted["profiles"] = _profiles(data, version, notes)
    return converted


def _leader_election(old: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for field, value in old.items():
        now = _LOCK_NAMES.get(field, field)
        if now != field:
            notes.add(Effect.RENAMED, f"leaderElection.{field}", f"is {now}")
            if old.get(now):
                continue
        if field == "resourceLock" and value not in ("", _LEASES):
            notes.add(Effect.CHANGED, f"leaderElection.{field}", f"{value} is {_LEASES}, the only lock there is")
            value = _LEASES  # noqa: PLW2901 - the replacement
        converted[now] = value
    return converted


def _profiles(data: Mapping[str, Any], version: str, notes: Notes) -> list[dict[str, Any]]:
    rows = as_list(data.get("profiles"), "profiles", notes)
    top = {field: data[field] for field in ("schedulerName", "plugins", "pluginConfig") if field in data}
    if top:
        notes.add(Effect.MOVED, ", ".join(top), "in the only profile")
    if not rows:
        rows = [top]
    profiles = []
    for number, row in enumerate(rows):
        profile = as_mapping(row, f"profiles[{number}]", notes)
        name = str(profile.get("schedulerName") or DEFAULT_SCHEDULER_NAME)
        draft = ProfileDraft(name, f"profiles[{number}]", notes)
        _take_algorithm(data.get("algorithmSource"), draft, is_first=number == 0)
        OldProfile(draft, version).convert(profile.get("plugins"), profile.get("pluginConfig"))
        _take_global_fields(data, draft, is_first=number == 0)
        converted = draft.finished()
        if "percentageOfNodesToScore" in profile:
            converted["percentageOfNodesToScore"] = profile["percentageOfNodesToScore"]
        profiles.append(converted)
    return profiles


def _take_global_fields(data: Mapping[str, Any], draft: ProfileDraft, *, is_first: bool) -> None:
    """Move former top-level fields into a profile, with one note each."""
    notes = draft.notes if is_first else Notes()
    if (weight := data.get("hardPodAffinitySymmetricWeight")) is not None:
        draft.args("InterPodAffinity").setdefault("hardPodAffinityWeight", weight)
        notes.add(Effect.MOVED, "hardPodAffinitySymmetricWeight", HARD_WEIGHT_NOW)
    if (seconds := data.get("bindTimeoutSeconds")) is not None:
        draft.args("VolumeBinding").setdefault("bindTimeoutSeconds", seconds)
        notes.add(Effect.MOVED, "bindTimeoutSeconds", "is an argument of VolumeBinding")
    if data.get("disablePreemption"):
        draft.disable("multiPoint", "DefaultPreemption")
        notes.add(Effect.MOVED, "disablePreemption", "DefaultPreemption is disabled")


def _take_algorithm(source: Any, draft: ProfileDraft, *, is_first: bool) -> None:
    notes = draft.notes if is_first else Notes()
    algorithm = as_mapping(source, "algorithmSource", notes)
    if provider := algorithm.get("provider"):
        use_provider(str(provider), draft, notes)
    policy = as_mapping(algorithm.get("policy"), "algorithmSource.policy", notes)
    for kind, source_config in policy.items():
        where = as_mapping(source_config, f"algorithmSource.policy.{kind}", notes)
        policy_name = where.get("path") or f"{where.get('namespace', '')}/{where.get('name', '')}"
        notes.lost(f"algorithmSource.policy.{kind}", f"the Policy in {policy_name} is not in this file: convert it")


def use_provider(provider: str, draft: ProfileDraft, notes: Notes) -> None:
    """Set the scores of an algorithm provider."""
    strategy = PROVIDERS.get(provider)
    if strategy is None:
        notes.lost("algorithm provider", f"{provider} is not one of {', '.join(PROVIDERS)}")
    elif provider != "DefaultProvider":
        draft.use_strategy(strategy)
        notes.add(Effect.RENAMED, f"algorithm provider {provider}", f"is NodeResourcesFit with the strategy {strategy}")
    else:
        notes.add(Effect.DROPPED, f"algorithm provider {provider}", "its plugins are the default")
