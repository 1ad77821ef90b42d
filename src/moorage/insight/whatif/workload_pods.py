"""Workloads of a session by name, and the pods that their controllers would create from the template."""

import copy
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from msgspec import Struct

from moorage.common.errors import InputError, did_you_mean
from moorage.insight.whatif.changes import find_named_kind
from moorage.insight.whatif.edits import CreateObject, Edit, ObjectId, Operation, PatchObject, append
from moorage.insight.whatif.objects import missing
from moorage.insight.whatif.session import Session
from moorage.kube.api.codec import convert
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import (
    NODE_NAME_FIELD,
    LabelMatcher,
    LabelSelector,
    label_matcher,
    label_set_matcher,
)
from moorage.kube.api.storage import StorageClass, find_default_class
from moorage.kube.patches import json_patch

WORKLOADS: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job", "PodGroup")
EXPLAINED: Final = (*WORKLOADS, "DaemonSet", "CronJob")
"""Workloads that can be explained, but not planned: their pods belong to a node, or do not exist yet."""
MAX_PODS: Final = 100_000
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
DAEMON_TOLERATIONS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
MADE_FOR: Final = "resource.kubernetes.io/pod-claim-name"
"""The annotation of a claim from a template: the name of the claim in the pod."""


class NamedWorkload(Struct, frozen=True):
    """A workload and its manifest."""

    id: ObjectId
    content: dict[str, Any]

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of the workload; of the jobs that a cron job creates."""
        content: dict[str, Any] = self.content
        for step in self.path[:-1]:
            content = content.get(step) or {}
        return content

    @property
    def path(self) -> tuple[str, ...]:
        """The path of the pod template."""
        return ("spec", *(("jobTemplate", "spec") if self.id.kind == "CronJob" else ()), "template")

    @property
    def wanted(self) -> int:
        """The number of pods that run in parallel."""
        if self.id.kind in ("Job", "CronJob"):
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


def find_workload(
    session: Session, text: str, namespace: str, *, kinds: tuple[str, ...] = WORKLOADS
) -> NamedWorkload | None:
    """Find a workload such as ``deployment/web``. Return ``None`` if the text names a pod."""
    word, slash, name = text.partition("/")
    kind = find_named_kind(word, kinds) if slash else None
    if kind is None:
        _check_is_pod(session, text, kinds)
        return None
    target = ObjectId(kind.name, namespace, name)
    targets = [ObjectId.of(content) for content in session.objects.contents() if content.get("kind") == kind.name]
    if target not in targets:
        raise missing(target, (candidate.key for candidate in targets))
    return NamedWorkload(target, session.objects.content(target))


def _check_is_pod(session: Session, text: str, workloads: tuple[str, ...]) -> None:
    """Raise InputError for other kinds and unknown namespaces, unless a namespace has the name of the kind."""
    word, slash, name = text.partition("/")
    target = ObjectId("Pod", word, name)
    if not slash or word == "pod" or target in session.objects:
        return
    kind = find_named_kind(word, [name for name in BY_NAME if name != "Pod"])
    kinds = ", ".join(sorted(kinds.lower() for kinds in workloads))
    if kind is not None:
        hint = f"use a pod (NAME or NAMESPACE/NAME) or KIND/NAME, where KIND is one of {kinds}"
        raise InputError(text, f"a {kind.name} cannot be scheduled", hint=hint)
    pods = session.objects.known("Pod")
    error = missing(target, (pod.key for pod in pods))
    namesake = error.hint if name in {pod.name for pod in pods} else ""
    if all(pod.namespace != word for pod in pods) and not error.hint.startswith("did you mean"):
        hint = (
            did_you_mean(word, [name.lower() for name in WORKLOADS]) or namesake or f"use one of these kinds: {kinds}"
        )
        raise InputError(text, f"{word!r} is neither a workload kind nor a namespace with pods", hint=hint)


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
    """Create the group and the pods of a Job with gang scheduling. Create nothing if groups are disabled."""
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
            claim_spec = _with_default_class(session, claim.get("spec") or {})
            session.apply(CreateObject({**head, "metadata": claim_metadata, "spec": claim_spec}))
        source = {"name": volume, "persistentVolumeClaim": {"claimName": target.name}}
        spec["volumes"] = [*(item for item in spec.get("volumes") or () if item.get("name") != volume), source]
    session.apply(CreateObject({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
    key = f"{workload.id.namespace}/{name}"
    session.apply(*make_template_claims(session, session.pod(key)).edits)
    return key


def _with_default_class(session: Session, claim: Mapping[str, Any]) -> dict[str, Any]:
    """Set the default storage class of the cluster in the spec of a claim without a class, as admission does."""
    default = find_default_class(session.scheduler.objects[StorageClass].list())
    return {**({"storageClassName": default} if default else {}), **claim}


def create_daemon_pod(session: Session, workload: NamedWorkload, number: int, node: str) -> str:
    """Create the pod of a daemon set for one node, with the affinity and the tolerations that the controller adds."""
    spec = (workload.spec.get("template") or {}).get("spec") or {}
    field = {"matchFields": [{"key": NODE_NAME_FIELD, "operator": "In", "values": [node]}]}
    affinity = copy.deepcopy(spec.get("affinity") or {})
    required = affinity.setdefault("nodeAffinity", {}).setdefault(REQUIRED, {})
    # The controller replaces the field requirements of every term.
    terms: list[dict[str, Any]] = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [{**term, **field} for term in terms]
    daemon_tolerations = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in DAEMON_TOLERATIONS]
    tolerations = [*(spec.get("tolerations") or ()), *daemon_tolerations]
    return create_workload_pod(session, workload, number, {"affinity": affinity, "tolerations": tolerations})


class TemplateClaims(NamedTuple):
    """The resource claims of a pod that do not exist yet, and their templates."""

    edits: list[Edit]
    """Creates the claims, and names them in the status of the pod."""
    templates: dict[ObjectId, ObjectId]
    """The template of each claim."""


def find_template_claims(session: Session, pods: AbstractSet[str]) -> dict[ObjectId, ObjectId]:
    """Find the claims of pods that were created from templates, with their templates."""
    template_ids: dict[ObjectId, ObjectId] = {}
    for pod in (session.pod(key) for key in pods if ObjectId("Pod", *key.split("/")) in session.objects):
        templates = {entry.name: entry.resource_claim_template_name for entry in pod.spec.resource_claims}
        for item in pod.status.resource_claim_statuses:
            if item.resource_claim_name and (template := templates.get(item.name)):
                claim = ObjectId("ResourceClaim", pod.namespace, item.resource_claim_name)
                template_ids[claim] = ObjectId("ResourceClaimTemplate", pod.namespace, template)
    return template_ids


def make_template_claims(session: Session, pod: Pod) -> TemplateClaims:
    """Create the resource claims that the claim controller of Kubernetes would create for a pod."""
    target, existing_names = (
        ObjectId("Pod", pod.namespace, pod.name),
        {item.name for item in pod.status.resource_claim_statuses},
    )
    edits, templates, statuses = list[Edit](), dict[ObjectId, ObjectId](), list[dict[str, str]]()
    for entry in pod.spec.resource_claims:
        template = ObjectId("ResourceClaimTemplate", pod.namespace, entry.resource_claim_template_name or "")
        if entry.name in existing_names or template not in session.objects:
            continue
        claim, number = ObjectId("ResourceClaim", pod.namespace, f"{pod.name}-{entry.name}"), 1
        while claim in session.objects:
            claim, number = claim._replace(name=f"{pod.name}-{entry.name}-{number}"), number + 1
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
        metadata = {
            "name": claim.name,
            "namespace": claim.namespace,
            "annotations": {MADE_FOR: entry.name},
            "ownerReferences": [owner],
        }
        spec = (session.objects.content(template).get("spec") or {}).get("spec") or {}
        head = {"apiVersion": BY_NAME[claim.kind].api_version, "kind": claim.kind, "metadata": metadata}
        edits.append(CreateObject({**head, "spec": copy.deepcopy(spec)}))
        templates[claim] = template
        statuses.append({"name": entry.name, "resourceClaimName": claim.name})
    if statuses:
        content, operations = session.objects.content(target), list[Operation]()
        for status in statuses:
            operations.append(append(content, ("status", "resourceClaimStatuses"), status))
            content = json_patch(content, operations[-1:])
        edits.append(PatchObject(target, tuple(operations), api_version="v1"))
    return TemplateClaims(edits, templates)
