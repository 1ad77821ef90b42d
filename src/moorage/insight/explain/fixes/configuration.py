"""Fixes in the scheduler's configuration: change arguments, or disable a plugin."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from moorage.common.errors import MoorageError
from moorage.insight.explain.subject import Remedy, Subject
from moorage.insight.whatif.attempts import Attempt
from moorage.insight.whatif.edits import EditConfig, Operation, pointer, put, remove
from moorage.insight.whatif.session import Session
from moorage.kube.manifests import documents_of
from moorage.kube.patches import json_patch
from moorage.scheduler.config import completed_view
from moorage.scheduler.wiring.policy import load_policy

MAX_OBJECTS: Final = 30_000
"""In larger clusters no configuration is tried: the cluster would be read again for each."""
INDISPENSABLE: Final = frozenset(("PrioritySort", "DefaultBinder"))


def change_arguments(subject: Subject, plugins: set[str]) -> Iterator[Remedy]:
    """Change arguments of plugins that are in the way: added affinity, default spread constraints."""
    view = _view(subject)
    for index, profile in enumerate(view["profiles"]):
        if profile["schedulerName"] != subject.pod.scheduler_name:
            continue
        for number, entry in enumerate(profile.get("pluginConfig") or ()):
            if entry["name"] in plugins:
                path = ("profiles", index, "pluginConfig", number, "args")
                for text, operations in _arguments(subject, entry["name"], entry.get("args") or {}, path, view):
                    if (offer := _offer(subject, text, operations)) is not None:
                        yield offer


def _arguments(
    subject: Subject, plugin: str, args: dict[str, Any], path: tuple[str | int, ...], view: dict[str, Any]
) -> Iterator[tuple[str, list[Operation]]]:
    if plugin == "NodeAffinity" and (args.get("addedAffinity") or {}):
        yield "Remove addedAffinity from the arguments of NodeAffinity", [remove(*path, "addedAffinity")]
    if plugin == "PodTopologySpread":
        hard = [
            n
            for n, item in enumerate(args.get("defaultConstraints") or ())
            if item.get("whenUnsatisfiable") == "DoNotSchedule"
        ]
        if hard and not subject.pod.spec.topology_spread_constraints:
            operations = [
                put(view, (*path, "defaultConstraints", n, "whenUnsatisfiable"), "ScheduleAnyway") for n in hard
            ]
            yield "Relax the default topology spread constraints to whenUnsatisfiable: ScheduleAnyway", operations


def disable_plugins(subject: Subject, plugins: set[str]) -> Iterator[Remedy]:
    """Switch a plugin off that is in the way: the last resort."""
    view = _view(subject)
    for number, profile in enumerate(view["profiles"]):
        if profile["schedulerName"] != subject.pod.scheduler_name:
            continue
        for plugin in sorted(plugins - INDISPENSABLE):
            operations = _without(profile.get("plugins") or {}, ("profiles", number, "plugins"), plugin, view)
            text = f"Disable the plugin {plugin} in the profile {profile['schedulerName']}"
            if (offer := _offer(subject, text, operations)) is not None:
                yield offer
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


def _view(subject: Subject) -> dict[str, Any]:
    view: dict[str, Any] = completed_view(subject.session.given_policy.config)
    return view


def _offer(subject: Subject, text: str, operations: list[Operation]) -> Remedy | None:
    edit = EditConfig(tuple(operations))
    attempt = _try(subject, edit)
    return None if attempt is None else Remedy("config", text, (*subject.base, edit), attempt)


def _try(subject: Subject, edit: EditConfig) -> Attempt | None:
    """Read the cluster again under the changed configuration, and try the pod."""
    old_policy, contents = subject.session.given_policy, list(subject.session.objects.contents())
    if len(contents) > MAX_OBJECTS:
        return None
    subject.limits.spend()
    try:
        changed = json_patch(_view(subject), list(edit.operations))
        policy = load_policy(old_policy.registry, msgspec.json.encode(changed).decode(), features=old_policy.features)
        honours = subject.session.honours_nominations
        documents = documents_of(contents, source="the cluster")
        with Session(documents, policy, honours_nominations=honours) as session:
            session.apply(*subject.base)
            attempt = session.place(subject.key, preempts=subject.preempts)
            if subject.only_node:
                info = session.scheduler.cache.nodes.find(subject.only_node)
                return attempt if info is not None and attempt.fits_on(info.row) else None
            return attempt if attempt.node or attempt.nominated_node else None
    except MoorageError:
        return None
