"""Explain workloads: how many of their pods fit, and why the next one does not."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.insight.explain.explanation import PodExplanation, PossibleChange, WorkloadExplanation
from moorage.insight.explain.groups import is_scheduled_with_group, list_active_pods, view_group
from moorage.insight.explain.pods import explain_member, explain_pod
from moorage.insight.explain.refusals import Refusals, find_replica_failure
from moorage.insight.explain.search import gate_owner
from moorage.insight.explain.spelling import find_intended
from moorage.insight.explain.subject import DEFAULT_SECONDS, Draft
from moorage.insight.whatif.edits import CreateObject, DeleteObject, ObjectId, Operation
from moorage.insight.whatif.session import Session
from moorage.insight.whatif.workload_pods import (
    NamedWorkload,
    belongs_to_workload,
    check_pod_count,
    create_gang,
    create_workload_pod,
)
from moorage.kube.admission.checks.rules import SYSTEM_CLASSES
from moorage.scheduler.decisions.decision import Result


def explain_workload(
    session: Session, workload: NamedWorkload, *, seconds: float = DEFAULT_SECONDS
) -> WorkloadExplanation:
    """Place the pods of a workload one after the other, until one does not fit."""
    title = f"{workload.id.kind.lower()}/{workload.id.name}"
    if workload.id.kind == "PodGroup":
        return _explain_group(session, workload.id.key, title, seconds)
    own = [pod for pod in list_active_pods(session) if belongs_to_workload(pod, workload)]
    with session.branch():
        own += create_gang(session, workload, title) if not own else []
        gang = next((pod.group_key for pod in own if is_scheduled_with_group(session, pod)), None)
        if gang is not None:
            explanation = _explain_group(session, gang, title, seconds)
            if explanation.next is None:
                return explanation
            return replace(explanation, next=_edit_template(explanation.next, workload, {pod.key for pod in own}))
    running = [pod for pod in own if pod.node_name]
    waiting = [pod.key for pod in own if not pod.node_name]
    placed = {pod.key for pod in running}
    pod_count = max(workload.wanted, len(running))
    check_pod_count(title, pod_count)
    fits = len(running)
    if workload.id.kind == "Job" and workload.spec.get("suspend") is True:
        return WorkloadExplanation(title, fits, pod_count, _suspended(session, workload))
    if len(own) < pod_count and (refused := _explain_unknown_class(session, workload)) is not None:
        return WorkloadExplanation(title, fits, pod_count, refused)
    refusals = Refusals(session, workload.id.namespace)
    failure = find_replica_failure(workload.content, _list_replica_sets(session)) if len(own) < pod_count else ""
    with session.branch():
        while fits < pod_count:
            is_made = not waiting
            key = waiting.pop(0) if waiting else create_workload_pod(session, workload, fits)
            if is_made:
                target = ObjectId("Pod", *key.split("/"))
                content = session.objects.content(target)
                admitted, refusal = refusals.admit(content)
                if admitted != content:
                    session.apply(DeleteObject(target), CreateObject(admitted))
            if is_made and (refusal := refusal or failure):
                changes = refusals.changes(content, workload.content, pod_count - fits)
                return WorkloadExplanation(title, fits, pod_count, _refused(session, key, refusal, changes))
            if not session.place(key, preempts=False).node:
                # A deleted pod of the same workload would be recreated, and be pending itself.
                explained = explain_pod(session, key, seconds=seconds, spared=frozenset(placed))
                explained = _edit_template(explained, workload, {key}) if is_made else explained
                return WorkloadExplanation(title, fits, pod_count, explained)
            placed.add(key)
            fits += 1
    return WorkloadExplanation(title, fits, pod_count)


def _refused(session: Session, key: str, message: str, changes: Sequence[PossibleChange]) -> PodExplanation:
    """Explain a pod that the API server does not create; with the changes it may have a node."""
    attempt = session.try_pod(key, preempts=False)
    if not attempt.node:
        message = f"{message}; without that, {attempt.decision.message}"
    decision = replace(attempt.decision, result=Result.UNSCHEDULABLE, node="", tied=(), nodes={}, message=message)
    located = tuple(replace(item, node=attempt.node) for item in changes)
    return PodExplanation(decision=decision, changes=located, is_refused=True)


def _explain_unknown_class(session: Session, workload: NamedWorkload) -> PodExplanation | None:
    """Explain a workload whose priority class does not exist: the API server rejects its pods."""
    name = ((workload.spec.get("template") or {}).get("spec") or {}).get("priorityClassName")
    names = [*SYSTEM_CLASSES, *(target.name for target in session.objects.known("PriorityClass"))]
    if not name or name in names:
        return None
    new_class = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 0}
    create = CreateObject(new_class)
    changes = [PossibleChange(f"Create the priority class {name}", "priority", [create.as_data()])]
    if intended := find_intended(name, names):
        # The template of a job is immutable.
        apply = "replace" if workload.id.kind == "Job" else "patch"
        patch = [{"op": "replace", "path": "/spec/template/spec/priorityClassName", "value": intended}]
        target = workload.id.as_data(str(workload.content.get("apiVersion", "")))
        text = f"Change priorityClassName from {name} to {intended}"
        changes.insert(0, PossibleChange(text, "priority", [{"object": target, "apply": apply, "patch": patch}]))
    with session.branch():
        session.apply(create)
        key = create_workload_pod(session, workload, 0)
        return _refused(session, key, f"no PriorityClass with name {name} was found", changes)


def _suspended(session: Session, workload: NamedWorkload) -> PodExplanation:
    """Explain a suspended job: it has no pods until it is resumed."""
    labels = (workload.content.get("metadata") or {}).get("labels") or {}
    owners = {gate_owner(name.rpartition("/")[0]) for name in labels} - {""}
    message = f"the job is suspended{f'; {min(owners)} resumes it' if owners else ''}"
    with session.branch():
        key = create_workload_pod(session, workload, 0)
        target = workload.id.as_data(str(workload.content.get("apiVersion", "")))
        patch = [{"op": "replace", "path": "/spec/suspend", "value": False}]
        edit = {"object": target, "apply": "patch", "patch": patch}
        change = PossibleChange("Resume the job: set suspend to false", "gate", [edit])
        return _refused(session, key, message, [] if owners else [change])


def _list_replica_sets(session: Session) -> Iterator[Mapping[str, Any]]:
    return (content for content in session.objects.contents() if content.get("kind") == "ReplicaSet")


def _edit_template(explained: PodExplanation, workload: NamedWorkload, pods: AbstractSet[str]) -> PodExplanation:
    """Replace changes of pods that do not exist yet, or are all equal, by changes of their template."""
    owner, is_job = workload.id.as_data(str(workload.content.get("apiVersion", ""))), workload.id.kind == "Job"

    def convert_change(change: PossibleChange) -> PossibleChange:
        edits: list[dict[str, Any]] = []
        for edit in change.edits:
            target = edit.get("object", {})
            if target.get("kind") == "Pod" and f"{target.get('namespace')}/{target.get('name')}" in pods:
                patch = _on_template(edit["patch"], workload)
                template_edit = {"object": owner, "apply": "replace" if is_job else "patch", "patch": patch}
                # An edit of all pods of a group is one edit of the template.
                edits += [template_edit] if template_edit not in edits else []
            elif target.get("kind") == "PodGroup" and is_job:
                operations = edit["patch"]
                patch = [{**operation, "path": f"/spec/scheduling{operation['path'][5:]}"} for operation in operations]
                edits.append({"object": owner, "apply": "replace", "patch": patch})
            else:
                edits.append(edit)
        return replace(change, edits=edits)

    return replace(explained, changes=tuple(map(convert_change, explained.changes)))


def _on_template(operations: Sequence[Mapping[str, Any]], workload: NamedWorkload) -> list[Operation]:
    """Apply a patch of a pod to its template; the pod may have more fields: limit ranges set default requests."""
    draft = Draft(workload.id, workload.content)
    for operation in operations:
        path = f"/spec/template{operation['path']}"
        try:
            draft.do({**operation, "path": path})
        except InputError:
            if "value" in operation:
                steps = [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]
                draft.put([int(step) if step.isdecimal() else step for step in steps], operation["value"])
    return draft.operations


def _explain_group(session: Session, key: str, title: str, seconds: float) -> WorkloadExplanation:
    """Try a group as a unit; without group scheduling, try its members one by one."""
    groups = session.scheduler.cache.groups
    if groups is None:
        members = [pod for pod in list_active_pods(session) if pod.group_key == key]
        fits = sum(1 for pod in members if pod.node_name)
        with session.branch():
            for pod in members:
                if not pod.node_name:
                    if not session.place(pod.key, preempts=False).node:
                        explained = explain_pod(session, pod.key, seconds=seconds)
                        return WorkloadExplanation(title, fits, len(members), explained)
                    fits += 1
        return WorkloadExplanation(title, fits, len(members))
    group_members = groups.members(key)
    if group_members is None or not group_members.known_count:
        return WorkloadExplanation(title, 0, 0)
    with session.branch():
        view = view_group(session, key)
        stuck = session.pod(view.blocked) if view.blocked else None
        member = None if stuck is None else explain_member(session, stuck, view, seconds)
    return WorkloadExplanation(title, view.most, view.members, member, view.facts())
