"""Whole workloads: how many of their pods fit, and what stops the next one."""

import copy
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from moorage.api.codec import convert
from moorage.api.kinds import BY_NAME, Kind
from moorage.api.pod import Pod
from moorage.api.selectors import LabelMatcher, LabelSelector, label_matcher, label_set_matcher
from moorage.errors import InputError
from moorage.whatif.edits import CreateObject, ObjectId
from moorage.whatif.objects import missing
from moorage.whatif.session import Session
from moorage.why.explain import explain_pod
from moorage.why.explanation import PodExplanation, PossibleChange, WorkloadExplanation
from moorage.why.groups import group_of, pods_that_count
from moorage.why.subject import DEFAULT_SECONDS

WORKLOADS: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job", "PodGroup")
MAX_PODS: Final = 100_000


class NamedWorkload(Struct, frozen=True):
    """A workload that was asked for, as it is written."""

    id: ObjectId
    content: dict[str, Any]

    @property
    def spec(self) -> dict[str, Any]:
        """What it asks for."""
        spec: dict[str, Any] = self.content.get("spec") or {}
        return spec

    @property
    def wanted(self) -> int:
        """How many pods it wants at once."""
        if self.id.kind == "Job":
            parallel = int(self.spec.get("parallelism", 1))
            return min(parallel, int(self.spec.get("completions") or parallel))
        return int(self.spec.get("replicas", 1))

    @property
    def matcher(self) -> LabelMatcher:
        """What its pods are known by."""
        selector = self.spec.get("selector")
        labels = ((self.spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        if self.id.kind == "ReplicationController":
            return label_set_matcher(selector or labels)
        return label_matcher(convert(LabelSelector, selector)) if selector else label_set_matcher(labels)


def workload_named(session: Session, wanted: str, namespace: str) -> NamedWorkload | None:
    """Find a workload by what a user wrote, ``deployment/web``; ``None`` if that names a pod."""
    word, slash, name = wanted.partition("/")
    kind = _kind(word) if slash else None
    if kind is None:
        return None
    target = ObjectId(kind.name, namespace, name)
    known = [ObjectId.of(content) for content in session.objects.contents() if content.get("kind") == kind.name]
    if target not in known:
        raise missing(target, (found.key for found in known))
    return NamedWorkload(target, session.objects.content(target))


def _kind(word: str) -> Kind | None:
    for name in WORKLOADS:
        kind = BY_NAME[name]
        if word.lower() in (kind.name.lower(), kind.plural, *kind.short_names):
            return kind
    return None


def explain_workload(
    session: Session, workload: NamedWorkload, *, seconds: float = DEFAULT_SECONDS
) -> WorkloadExplanation:
    """Place the pods of a workload one after the other, until one does not fit."""
    if workload.id.kind == "PodGroup":
        return _explain_group(session, workload, seconds)
    title = f"{workload.id.kind.lower()}/{workload.id.name}"
    own = [pod for pod in pods_that_count(session) if _is_of(pod, workload)]
    running = [pod for pod in own if pod.node_name]
    waiting = [pod.key for pod in own if not pod.node_name]
    wanted = max(workload.wanted, len(running))
    if wanted > MAX_PODS:
        raise InputError(title, f"{wanted} pods are more than can be tried", hint=f"the limit is {MAX_PODS}")
    fits = len(running)
    with session.branch():
        while fits < wanted:
            is_made = not waiting
            key = waiting.pop(0) if waiting else _make(session, workload, fits)
            if not session.place(key, preempts=False).node:
                explained = explain_pod(session, key, seconds=seconds)
                return WorkloadExplanation(
                    title, fits, wanted, _of_template(explained, workload) if is_made else explained
                )
            fits += 1
    return WorkloadExplanation(title, fits, wanted)


def _is_of(pod: Pod, workload: NamedWorkload) -> bool:
    return pod.namespace == workload.id.namespace and workload.matcher.matches(pod.labels)


def _make(session: Session, workload: NamedWorkload, number: int) -> str:
    """Make the next pod from the template, with the claims that a stateful set makes for it."""
    template = copy.deepcopy(workload.spec.get("template") or {})
    name = f"{workload.id.name}-{number}"
    while ObjectId("Pod", workload.id.namespace, name) in session.objects:
        name += "-new"
    metadata = {**(template.get("metadata") or {}), "name": name, "namespace": workload.id.namespace}
    spec = template.get("spec") or {}
    for claim in workload.spec.get("volumeClaimTemplates") or ():
        volume = claim["metadata"]["name"]
        target = ObjectId("PersistentVolumeClaim", workload.id.namespace, f"{volume}-{name}")
        if target not in session.objects:
            head = {"apiVersion": "v1", "kind": target.kind}
            named = {"name": target.name, "namespace": target.namespace}
            session.apply(CreateObject({**head, "metadata": named, "spec": claim.get("spec") or {}}))
        source = {"name": volume, "persistentVolumeClaim": {"claimName": target.name}}
        spec["volumes"] = [*(item for item in spec.get("volumes") or () if item.get("name") != volume), source]
    session.apply(CreateObject({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
    return f"{workload.id.namespace}/{name}"


def _of_template(explained: PodExplanation, workload: NamedWorkload) -> PodExplanation:
    """Have changes of a pod that was only thought of be changes of the template that it is made from."""
    changes = tuple(_change_of_template(change, explained.decision.pod, workload) for change in explained.changes)
    return replace(explained, changes=changes)


def _change_of_template(change: PossibleChange, pod: str, workload: NamedWorkload) -> PossibleChange:
    edits = []
    for edit in change.edits:
        target = edit.get("object", {})
        if target.get("kind") == "Pod" and f"{target.get('namespace')}/{target.get('name')}" == pod:
            patch = [{**operation, "path": f"/spec/template{operation['path']}"} for operation in edit["patch"]]
            owner = workload.id.as_data(str(workload.content.get("apiVersion", "")))
            is_fixed = workload.id.kind == "Job"
            edits.append({"object": owner, "apply": "replace" if is_fixed else "patch", "patch": patch})
        else:
            edits.append(edit)
    return replace(change, edits=edits)


def _explain_group(session: Session, workload: NamedWorkload, seconds: float) -> WorkloadExplanation:
    """Place the members of a group that wait, one after the other; those with a node count as they are."""
    members = [pod for pod in pods_that_count(session) if group_of(pod) == workload.id.key]
    title = f"podgroup/{workload.id.name}"
    fits = sum(1 for pod in members if pod.node_name)
    with session.branch():
        for pod in members:
            if not pod.node_name:
                if not session.place(pod.key, preempts=False).node:
                    return WorkloadExplanation(
                        title, fits, len(members), explain_pod(session, pod.key, seconds=seconds)
                    )
                fits += 1
    return WorkloadExplanation(title, fits, len(members))
