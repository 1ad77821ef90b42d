"""Pods that the API server does not admit: quotas, limit ranges, and the reports of workloads."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from moorage.cluster import AdmissionCheck
from moorage.common.errors import Forbidden
from moorage.insight.explain.explanation import PossibleChange
from moorage.insight.explain.subject import Draft
from moorage.insight.whatif.edits import ObjectId
from moorage.insight.whatif.session import Session
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import format_nanos, nano_value

PODS: Final = "pods"
FALLBACKS: Final = {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "1Gi"}
Content = Mapping[str, Any]


class Refusals:
    """The admission of a namespace's new pods."""

    def __init__(self, session: Session, namespace: str) -> None:
        self._session = session
        self._namespace = namespace
        objects = session.objects
        pods = (objects.find(target) for target in objects.known("Pod") if target.namespace == namespace)
        self._pods = [pod for pod in pods if isinstance(pod, Pod)]
        shaping = session.objects.given.shaping
        self._shaping = [item for item in shaping if item["metadata"].get("namespace") in (None, "", namespace)]
        self._check = self._open(self._shaping)

    def _open(self, shaping: Iterable[Content]) -> AdmissionCheck:
        return AdmissionCheck(self._session.policy.features, shaping, self._pods)

    def admit(self, pod: Content) -> tuple[Content, str]:
        """Count a new pod; return it with the resources that it gets, and why it is rejected or an empty text."""
        if not self._check.limits(self._namespace):
            return pod, ""
        try:
            admitted = self._check.create(pod).data["spec"]
        except Forbidden as error:
            return pod, str(error)
        spec = dict(pod["spec"])
        for kind in ("containers", "initContainers"):
            pairs = zip(spec.get(kind) or (), admitted.get(kind) or (), strict=True)
            if spec.get(kind):
                spec[kind] = [{**item, "resources": after.get("resources") or {}} for item, after in pairs]
        return {**pod, "spec": spec}, ""

    def changes(self, pod: Content, workload: Content, missing: int) -> list[PossibleChange]:
        """Return changes with which all ``missing`` pods are admitted: to the template, or to the quotas."""
        changes = []
        if completed := self._complete(pod, workload):
            draft, text = completed
            operations = [{**item, "path": f"/spec/template{item['path']}"} for item in draft.operations]
            target = ObjectId.of(workload).as_data(str(workload.get("apiVersion", "")))
            edit = {"object": target, "apply": "patch", "patch": operations}
            if self._admits(self._shaping, draft.content, 1):
                changes.append(PossibleChange(text, "request", [edit]))
        if raised := self._raise_quotas(pod, missing):
            text, edits, shaping = raised
            if self._admits(shaping, pod, missing):
                changes.append(PossibleChange(text, "quota", edits))
        return changes

    def _admits(self, shaping: Sequence[Content], pod: Content, count: int) -> bool:
        check = self._open(shaping)
        try:
            for number in range(count):
                check.create({**pod, "metadata": {**pod["metadata"], "name": f"{pod['metadata']['name']}-{number}"}})
        except Forbidden:
            return False
        return True

    def _raise_quotas(self, pod: Content, missing: int) -> tuple[str, list[dict[str, Any]], list[Content]] | None:
        """Raise the exceeded amounts of all quotas, so that all missing pods are allowed."""
        try:
            entry = AdmissionCheck(self._session.policy.features, self._ranges()).create(pod)
        except Forbidden:
            return None
        texts, edits, shaping = [], [], list(self._shaping)
        for ledger in self._check.quotas(self._namespace):
            share = ledger.compute_share(PODS, entry)
            required_amounts = {name: ledger.used[name] + amount * missing for name, amount in share.items()}
            target = ObjectId("ResourceQuota", self._namespace, ledger.name)
            index = next(
                number
                for number, item in enumerate(shaping)
                if (item["kind"], item["metadata"]["name"]) == (target.kind, target.name)
            )
            draft = Draft(target, {**shaping[index], "apiVersion": "v1"})
            for name, amount in required_amounts.items():
                if amount > ledger.limits[name]:
                    draft.put(("spec", "hard", name), ledger.quantity(name, amount))
                    raised = f"{name} from {ledger.hard[name]} to {ledger.quantity(name, amount)}"
                    texts.append(f"{raised} in the quota {ledger.name}")
            if draft.operations:
                shaping[index] = draft.content
                edits.append(draft.edit().as_data())
        return (f"Raise {' and '.join(texts)}", edits, shaping) if edits else None

    def _ranges(self) -> list[Content]:
        return [item for item in self._shaping if item["kind"] != "ResourceQuota"]

    def _complete(self, pod: Content, workload: Content) -> tuple[Draft, str] | None:
        """Set amounts that a quota requires, and move amounts into the limit ranges of containers."""
        required = {name for ledger in self._check.quotas(self._namespace) for name in ledger.hard}
        template = copy.deepcopy(dict((workload.get("spec") or {}).get("template") or {}))
        draft = Draft(ObjectId.of(pod), {**template, "kind": "Pod", "apiVersion": "v1", "metadata": pod["metadata"]})
        ranges = [item for item in self._check.ranges(self._namespace) if item.get("type") == "Container"]
        texts = []
        for kind in ("containers", "initContainers"):
            for index, container in enumerate((template.get("spec") or {}).get(kind) or ()):
                resources = container.get("resources") or {}
                for field, resource, amount in _amounts(resources, required, ranges):
                    draft.put(("spec", kind, index, "resources", field, resource), amount)
                    texts.append(f"{field}.{resource} of container {container.get('name')} to {amount}")
        text = f"Set {' and '.join(texts)}, as the namespace requires"
        return (draft, text) if texts else None


def _amounts(resources: Content, required: set[str], ranges: Sequence[Content]) -> list[tuple[str, str, str]]:
    """Return the amounts to set for a container, as field, resource and quantity."""
    amounts = []
    for resource, fallback in FALLBACKS.items():
        requests, limits = (resources.get(field) or {} for field in ("requests", "limits"))
        least = max(
            (nano_value(item["min"][resource]) for item in ranges if resource in item.get("min", {})), default=0
        )
        most = min((nano_value(item["max"][resource]) for item in ranges if resource in item.get("max", {})), default=0)
        bounded = bool(least or most)
        original_values = {"requests": requests.get(resource), "limits": limits.get(resource)}
        for field in ("requests", "limits"):
            names = {f"{field}.{resource}", *([resource] if field == "requests" else [])}
            is_required = bool(names & required) or (bounded and field == ("requests" if least else "limits"))
            original = original_values[field]
            if original is None and not is_required:
                continue
            basis = original or original_values["limits"] or original_values["requests"] or fallback
            nanos = max(nano_value(basis), least)
            nanos = min(nanos, most) if most else nanos
            if original is None or nanos != nano_value(original):
                amounts.append((field, resource, format_nanos(nanos, is_binary=resource != "cpu")))
    return amounts


def find_replica_failure(workload: Content, objects: Iterable[Content]) -> str:
    """Return the message of the ReplicaFailure condition of a workload, or of one of its ReplicaSets."""
    name = (workload.get("metadata") or {}).get("name")
    owned = [
        item
        for item in objects
        if any(
            (owner.get("kind"), owner.get("name")) == (workload.get("kind"), name)
            for owner in (item.get("metadata") or {}).get("ownerReferences") or ()
        )
    ]
    for item in (workload, *owned):
        for condition in (item.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
                return str(condition.get("message") or condition.get("reason") or "")
    return ""
