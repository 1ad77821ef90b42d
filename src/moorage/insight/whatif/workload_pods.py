"""Workloads of a session by name, and the pods that their controllers would create from the template."""

import copy
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from moorage.common.errors import InputError
from moorage.insight.whatif.changes import find_named_kind
from moorage.insight.whatif.edits import CreateObject, ObjectId
from moorage.insight.whatif.objects import missing
from moorage.insight.whatif.session import Session
from moorage.kube.api.codec import convert
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import LabelMatcher, LabelSelector, label_matcher, label_set_matcher

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


def check_pod_count(title: str, pod_count: int) -> None:
    """Raise InputError for a workload with too many pods."""
    if pod_count > MAX_PODS:
        raise InputError(title, f"too many pods: {pod_count}", hint=f"the limit is {MAX_PODS}")


def belongs_to_workload(pod: Pod, workload: NamedWorkload) -> bool:
    """Return whether a pod belongs to a workload: by its controller, or else by its labels."""
    if pod.namespace != workload.id.namespace:
        return False
    controller = pod.metadata.controller
    if controller is not None and workload.id.kind != "Deployment":
        return (controller.kind, controller.name) == (workload.id.kind, workload.id.name)
    if controller is not None and controller.kind != "ReplicaSet":
        return False
    return workload.has_labels and workload.matcher.matches(pod.labels)


def create_gang(session: Session, workload: NamedWorkload, title: str) -> list[Pod]:
    """Create the group and the pods of a Job with gang scheduling; none if groups are disabled."""
    scheduling = workload.spec.get("scheduling") if workload.id.kind == "Job" else None
    if not scheduling or session.scheduler.cache.groups is None:
        return []
    check_pod_count(title, workload.wanted)
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
    keys = [create_workload_pod(session, workload, number, group_reference) for number in range(workload.wanted)]
    return [session.pod(key) for key in keys]


def create_workload_pod(
    session: Session, workload: NamedWorkload, number: int, more: Mapping[str, Any] | None = None
) -> str:
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
