"""Explain workloads: how many of their pods fit, and why the next one does not."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.insight.explain.explanation import PodExplanation, PossibleChange, WorkloadExplanation
from moorage.insight.explain.groups import is_scheduled_with_group, list_active_pods, view_group
from moorage.insight.explain.pods import explain_member, explain_pod
from moorage.insight.explain.refusals import Refusals, find_replica_failure
from moorage.insight.explain.subject import DEFAULT_SECONDS, Draft
from moorage.insight.whatif.changes import find_named_kind
from moorage.insight.whatif.edits import CreateObject, DeleteObject, ObjectId, Operation
from moorage.insight.whatif.objects import missing
from moorage.insight.whatif.session import Session
from moorage.kube.api.codec import convert
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import LabelMatcher, LabelSelector, label_matcher, label_set_matcher
from moorage.scheduler.decisions.decision import Result

WORKLOADS: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job", "PodGroup")
MAX_PODS: Final = 100_000


class NamedWorkload(Struct, frozen=True):
    """A workload and its manifest."""

    id: ObjectId
    content: dict[str, Any]

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of the workload."""
        spec: dict[str, Any] = self.content.get("spec") or {}
        return spec

    @property
    def wanted(self) -> int:
        """The number of pods that run in parallel."""
        if self.id.kind == "Job":
            parallel = int(self.spec.get("parallelism", 1))
            return min(parallel, int(self.spec.get("completions") or parallel))
        return int(self.spec.get("replicas", 1))

    @property
    def has_labels(self) -> bool:
        """Whether labels identify the pods of the workload."""
        return bool(self.spec.get("selector") or self._template_labels)

    @property
    def _template_labels(self) -> dict[str, str]:
        labels: dict[str, str] = ((self.spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        return labels

    @property
    def matcher(self) -> LabelMatcher:
        """The matcher of the workload's pods."""
        selector = self.spec.get("selector")
        labels = self._template_labels
        if self.id.kind == "ReplicationController":
            return label_set_matcher(selector or labels)
        return label_matcher(convert(LabelSelector, selector)) if selector else label_set_matcher(labels)


def find_workload(session: Session, text: str, namespace: str) -> NamedWorkload | None:
    """Find a workload such as ``deployment/web``; return ``None`` if the text names a pod."""
    word, slash, name = text.partition("/")
    kind = find_named_kind(word, WORKLOADS) if slash else None
    if kind is None:
        _check_is_pod(session, text)
        return None
    target = ObjectId(kind.name, namespace, name)
    targets = [ObjectId.of(content) for content in session.objects.contents() if content.get("kind") == kind.name]
    if target not in targets:
        raise missing(target, (candidate.key for candidate in targets))
    return NamedWorkload(target, session.objects.content(target))


def _check_is_pod(session: Session, text: str) -> None:
    """Raise InputError for other kinds and unknown namespaces, unless a namespace has the name of the kind."""
    word, slash, name = text.partition("/")
    target = ObjectId("Pod", word, name)
    if not slash or word == "pod" or target in session.objects:
        return
    kind = find_named_kind(word, [name for name in BY_NAME if name != "Pod"])
    kinds = ", ".join(sorted(kinds.lower() for kinds in WORKLOADS))
    if kind is not None:
        hint = f"use a pod (NAME or NAMESPACE/NAME) or KIND/NAME, where KIND is one of {kinds}"
        raise InputError(text, f"a {kind.name} cannot be scheduled", hint=hint)
    pods = session.objects.known("Pod")
    error = missing(target, (pod.key for pod in pods))
    if not error.hint and all(pod.namespace != word for pod in pods):
        raise InputError(error.where, error.problem, hint=f"{word} is read as a namespace; kinds are {kinds}")


def explain_workload(
    session: Session, workload: NamedWorkload, *, seconds: float = DEFAULT_SECONDS
) -> WorkloadExplanation:
    """Place the pods of a workload one after the other, until one does not fit."""
    title = f"{workload.id.kind.lower()}/{workload.id.name}"
    if workload.id.kind == "PodGroup":
        return _explain_group(session, workload.id.key, title, seconds)
    own = [pod for pod in list_active_pods(session) if _belongs_to(pod, workload)]
    with session.branch():
        own += _create_gang(session, workload, title) if not own else []
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
    _check_count(title, pod_count)
    fits = len(running)
    refusals = Refusals(session, workload.id.namespace)
    failure = find_replica_failure(workload.content, _list_replica_sets(session)) if len(own) < pod_count else ""
    with session.branch():
        while fits < pod_count:
            is_made = not waiting
            key = waiting.pop(0) if waiting else _create_pod(session, workload, fits)
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


def _list_replica_sets(session: Session) -> Iterator[Mapping[str, Any]]:
    return (content for content in session.objects.contents() if content.get("kind") == "ReplicaSet")


def _check_count(title: str, pod_count: int) -> None:
    if pod_count > MAX_PODS:
        raise InputError(title, f"too many pods: {pod_count}", hint=f"the limit is {MAX_PODS}")


def _belongs_to(pod: Pod, workload: NamedWorkload) -> bool:
    """Return whether a pod belongs to a workload: by its controller, or else by its labels."""
    if pod.namespace != workload.id.namespace:
        return False
    controller = pod.metadata.controller
    if controller is not None and workload.id.kind != "Deployment":
        return (controller.kind, controller.name) == (workload.id.kind, workload.id.name)
    if controller is not None and controller.kind != "ReplicaSet":
        return False
    return workload.has_labels and workload.matcher.matches(pod.labels)


def _create_gang(session: Session, workload: NamedWorkload, title: str) -> list[Pod]:
    """Create the group and the pods of a Job with gang scheduling; none if groups are disabled."""
    scheduling = workload.spec.get("scheduling") if workload.id.kind == "Job" else None
    if not scheduling or session.scheduler.cache.groups is None:
        return []
    _check_count(title, workload.wanted)
    target = ObjectId("PodGroup", workload.id.namespace, workload.id.name)
    metadata = {"name": target.name, "namespace": target.namespace}
    head = {"apiVersion": BY_NAME[target.kind].api_version, "kind": target.kind, "metadata": metadata}
    policy = scheduling.get("schedulingPolicy") or {"basic": {}}
    if "gang" in policy:
        policy = {"gang": {"minCount": (policy["gang"] or {}).get("minCount") or max(1, workload.wanted)}}
    spec = {name: scheduling[name] for name in ("schedulingConstraints", "disruptionMode") if name in scheduling}
    if priority := ((workload.spec.get("template") or {}).get("spec") or {}).get("priorityClassName"):
        spec["priorityClassName"] = priority
    session.apply(CreateObject({**head, "spec": {"schedulingPolicy": policy, **spec}}))
    group_reference = {"schedulingGroup": {"podGroupName": target.name}}
    keys = [_create_pod(session, workload, number, group_reference) for number in range(workload.wanted)]
    return [session.pod(key) for key in keys]


def _create_pod(session: Session, workload: NamedWorkload, number: int, more: Mapping[str, Any] | None = None) -> str:
    """Create the next pod from the template, with the claims that a StatefulSet creates for it."""
    template = copy.deepcopy(workload.spec.get("template") or {})
    name = f"{workload.id.name}-{number}"
    while ObjectId("Pod", workload.id.namespace, name) in session.objects:
        name += "-new"
    metadata = {**(template.get("metadata") or {}), "name": name, "namespace": workload.id.namespace}
    spec = {**(template.get("spec") or {}), **(more or {})}
    for claim in workload.spec.get("volumeClaimTemplates") or ():
        volume = claim["metadata"]["name"]
        target = ObjectId("PersistentVolumeClaim", workload.id.namespace, f"{volume}-{name}")
        if target not in session.objects:
            head = {"apiVersion": "v1", "kind": target.kind}
            claim_metadata = {"name": target.name, "namespace": target.namespace}
            session.apply(CreateObject({**head, "metadata": claim_metadata, "spec": claim.get("spec") or {}}))
        source = {"name": volume, "persistentVolumeClaim": {"claimName": target.name}}
        spec["volumes"] = [*(item for item in spec.get("volumes") or () if item.get("name") != volume), source]
    session.apply(CreateObject({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
    return f"{workload.id.namespace}/{name}"


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
