"""Fixes in the scheduler's configuration: change arguments, or disable a plugin."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from moorage.common.errors import MoorageError
from moorage.insight.explain.subject import LAST_RESORT, Remedy, Subject
from moorage.insight.whatif.attempts import Attempt
from moorage.insight.whatif.edits import EditConfig, Operation, pointer, put, remove
from moorage.insight.whatif.session import Session
from moorage.kube.manifests import to_documents
from moorage.kube.patches import json_patch
from moorage.scheduler.config import completed_view
from moorage.scheduler.wiring.policy import load_policy

MAX_OBJECTS: Final = 30_000
"""Configurations are not tried in larger clusters: the cluster is reloaded for each."""
INDISPENSABLE: Final = frozenset(("PrioritySort", "DefaultBinder"))


def change_arguments(subject: Subject, plugins: set[str]) -> Iterator[Remedy]:
    """Change arguments of plugins that reject nodes: added affinity, default spread constraints."""
    view, number, profile = _find_profile(subject)
    for index, entry in enumerate(profile.get("pluginConfig") or ()):
        path, args = ("profiles", number, "pluginConfig", index, "args"), entry.get("args") or {}
        text, operations = "", list[Operation]()
        if entry["name"] == "NodeAffinity" and args.get("addedAffinity"):
            text = "Remove addedAffinity from the arguments of NodeAffinity"
            operations = [remove(*path, "addedAffinity")]
        if entry["name"] == "PodTopologySpread" and not subject.pod.spec.topology_spread_constraints:
            text = "Relax the default topology spread constraints to whenUnsatisfiable: ScheduleAnyway"
            operations = [
                put(view, (*path, "defaultConstraints", n, "whenUnsatisfiable"), "ScheduleAnyway")
                for n, item in enumerate(args.get("defaultConstraints") or ())
                if item.get("whenUnsatisfiable") == "DoNotSchedule"
            ]
        if entry["name"] in plugins and operations and (offer := _offer(subject, text, operations)) is not None:
            yield offer


def disable_plugins(subject: Subject, plugins: set[str]) -> Iterator[Remedy]:
    """Disable a plugin that rejects nodes: the last resort."""
    view, number, profile = _find_profile(subject)
    for plugin in sorted(plugins - INDISPENSABLE):
        operations = _without(profile.get("plugins") or {}, ("profiles", number, "plugins"), plugin, view)
        text = f"Disable the plugin {plugin} in the profile {profile['schedulerName']}"
        if (offer := _offer(subject, text, operations)) is not None:
            yield replace(offer, cost=3 * LAST_RESORT)
            return


def _without(points: dict[str, Any], path: tuple[str | int, ...], plugin: str, view: dict[str, Any]) -> list[Operation]:
    operations: list[Operation] = []
    for point, plugin_set in points.items():
        enabled = (plugin_set or {}).get("enabled") or []
        numbers = [n for n, item in enumerate(enabled) if item.get("name") == plugin]
        operations += [remove(*path, point, "enabled", n) for n in reversed(numbers)]
    disabled = (points.get("multiPoint") or {}).get("disabled")
    entry = {"name": plugin}
    if disabled:
        operations.append({"op": "add", "path": pointer(*path, "multiPoint", "disabled", "-"), "value": entry})
    else:
        operations.append(put(view, (*path, "multiPoint", "disabled"), [entry]))
    return operations


def _find_profile(subject: Subject) -> tuple[dict[str, Any], int, dict[str, Any]]:
    """Return the configuration, and the index and the content of the pod's profile in it."""
    view: dict[str, Any] = completed_view(subject.session.given_policy.config)
    names = [profile["schedulerName"] for profile in view["profiles"]]
    number = names.index(subject.pod.scheduler_name)
    return view, number, view["profiles"][number]


def _offer(subject: Subject, text: str, operations: list[Operation]) -> Remedy | None:
    edit = EditConfig(tuple(operations))
    attempt = _try(subject, edit)
    return None if attempt is None else Remedy("config", text, (*subject.base, edit), attempt)


def _try(subject: Subject, edit: EditConfig) -> Attempt | None:
    """Reload the cluster under the changed configuration, and try the pod."""
    old_policy, contents = subject.session.given_policy, list(subject.session.objects.contents())
    if len(contents) > MAX_OBJECTS:
        return None
    subject.limits.spend()
    try:
        new_config = json_patch(completed_view(old_policy.config), list(edit.operations))
        policy = load_policy(
            old_policy.registry, msgspec.json.encode(new_config).decode(), features=old_policy.features
        )
        honors = subject.session.honors_nominations
        documents = to_documents(contents, source="the cluster")
        with Session(documents, policy, honors_nominations=honors) as session:
            session.apply(*subject.base)
            attempt = session.place(subject.key, preempts=subject.preempts)
            if subject.only_node:
                info = session.scheduler.cache.nodes.find(subject.only_node)
                return attempt if info is not None and attempt.fits_row(info.row) else None
            return attempt if attempt.node or attempt.nominated_node else None
    except MoorageError:
        return None
