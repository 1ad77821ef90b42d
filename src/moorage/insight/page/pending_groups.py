"""Pending pods, grouped by their reasons and by the events that trigger a retry."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2s
from typing import Any, Final

from msgspec import Struct

from moorage.insight.page.api_types import GroupLine, RetryEvent, WaitingGroup, WaitingPodLine
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.queue.observer import GATED, INCOMPLETE

MAX_SHOWN: Final = 50
"""Maximum number of groups in a state; clients request further groups in pages."""
MAX_EXAMPLES: Final = 3
MAX_EVENTS: Final = 40
NOT_TRIED: Final = "not tried yet"
NO_REASON: Final = "no reason reported yet"
OTHERS: Final = "another scheduler"


class Suggestion(Struct, frozen=True):
    """The suggested change for a group, empty if the search finds no change, and the decisive reason."""

    text: str
    reason: str = ""


def describe_owner(pod: Pod) -> str:
    """Return the kind and name of the first owner, or an empty text."""
    owners = pod.metadata.owner_references
    return f"{owners[0].kind.lower()}/{owners[0].name}" if owners else ""


def pod_fields(pod: Pod) -> dict[str, Any]:
    """Return the fields of a line that the manifest of the pod contains."""
    return {
        "pod": pod.key,
        "group": pod.group_key or "",
        "priority": pod.priority,
        "owner": describe_owner(pod),
        "requests": dict(pod.requests),
        "created": pod.metadata.creation_timestamp or "",
    }


def foreign_line(pod: Pod, created_at: float = 0.0) -> WaitingPodLine:
    """Describe a pending pod that no profile of this scheduler is responsible for."""
    reason = f"another scheduler is responsible: {pod.scheduler_name}"
    return WaitingPodLine(
        place=OTHERS,
        since=created_at,
        reasons=(reason,),
        message=f"schedulerName is {pod.scheduler_name}, which is not a profile of this scheduler",
        **pod_fields(pod),
    )


def group_id(reasons: Sequence[str]) -> str:
    """Return a short ID of a group. Equal reasons have equal IDs."""
    return blake2s("\0".join(sorted(reasons)).encode(), digest_size=6).hexdigest()


def list_reasons(line: WaitingPodLine) -> tuple[str, ...]:
    """Return the reasons why a pod is pending; pods with equal reasons form a group."""
    if line.reasons:
        return line.reasons
    if line.place == GATED:
        return (f"gated by {', '.join(line.plugins)}" if line.plugins else "gated",)
    if line.place == INCOMPLETE:
        return ("its pod group does not exist",)
    return (NOT_TRIED if not line.attempts else NO_REASON,)


def group_lines(lines: Iterable[WaitingPodLine]) -> list[list[WaitingPodLine]]:
    """Group pods by their reasons, the largest groups first. The order of the reasons does not matter."""
    by_id: dict[str, list[WaitingPodLine]] = {}
    names: dict[tuple[str, ...], str] = {}
    for line in lines:
        reasons = list_reasons(line)
        if reasons not in names:
            names[reasons] = group_id(reasons)
        by_id.setdefault(names[reasons], []).append(line)
    return sorted(by_id.values(), key=lambda members: (-len(members), list_reasons(members[0])))


def describe_group(members: Sequence[WaitingPodLine], helps: Mapping[str, Suggestion]) -> WaitingGroup:
    """Describe a group; called only for groups that are shown."""
    reasons = list_reasons(members[0])
    name = group_id(reasons)
    suggestion = helps.get(name)
    if suggestion is not None and suggestion.reason in reasons:
        reasons = tuple(sorted(reasons, key=lambda reason: reason != suggestion.reason))
    owners = Counter(f"{line.pod.partition('/')[0]}/{line.owner}" for line in members if line.owner)
    return WaitingGroup(
        id=name,
        reasons=reasons,
        plugins=members[0].plugins,
        pods=len(members),
        examples=tuple(line.pod for line in members[:MAX_EXAMPLES]),
        message=members[0].message,
        oldest=min(line.since for line in members),
        help="" if suggestion is None else suggestion.text,
        is_helped=suggestion is not None,
        owners=dict(owners.most_common(MAX_EXAMPLES)),
    )


def list_retry_events(lines: Iterable[WaitingPodLine], events: Mapping[str, Sequence[str]]) -> list[RetryEvent]:
    """Count the pods that each event would retry. ``events`` are the registered events of each plugin."""
    by_plugins = Counter(line.plugins for line in lines if line.plugins)
    pods: Counter[str] = Counter()
    plugins: dict[str, dict[str, None]] = {}
    for names, count in by_plugins.items():
        by_event: dict[str, list[str]] = {}
        for plugin in names:
            for event in events.get(plugin, ()):
                by_event.setdefault(event, []).append(plugin)
        for event, plugin_names in by_event.items():
            pods[event] += count
            plugins.setdefault(event, {}).update(dict.fromkeys(plugin_names))
    return [
        RetryEvent(event=event, pods=count, plugins=tuple(plugins[event]))
        for event, count in sorted(pods.items(), key=lambda item: (-item[1], item[0]))[:MAX_EVENTS]
    ]


def list_events(profiles: Iterable[Profile]) -> dict[str, list[str]]:
    """Return the registered events of each plugin, over all profiles."""
    from moorage.insight.explain.pods import event_names  # on first use: it would slow the start of a cluster

    by_plugin: dict[str, dict[str, None]] = {}
    for profile in profiles:
        for plugin, registrations in profile.registrations().items():
            names = (name for item in registrations for name in event_names(item.event))
            by_plugin.setdefault(plugin, {}).update(dict.fromkeys(names))
    return {plugin: list(names) for plugin, names in by_plugin.items()}


def pod_groups(lines: Iterable[WaitingPodLine], placed: Mapping[str, int]) -> list[GroupLine]:
    """List the pod groups with pending members. ``placed`` counts the members on nodes."""
    pending_counts: Counter[str] = Counter()
    queues: dict[str, str] = {}
    for line in lines:
        if line.group:
            pending_counts[line.group] += 1
            queues.setdefault(line.group, line.place)
    return [
        GroupLine(name=name, waiting=count, placed=placed.get(name, 0), place=queues[name])
        for name, count in pending_counts.most_common(MAX_SHOWN)
    ]
