"""Pods that the API server does not admit: quotas, limit ranges, and the reports of workloads."""

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Final

from moorage.cluster import AdmissionCheck
from moorage.common.errors import Forbidden
from moorage.insight.explain.explanation import PossibleChange
from moorage.insight.explain.subject import Draft
from moorage.insight.whatif.edits import ObjectId, pointer
from moorage.insight.whatif.session import Session
from moorage.insight.whatif.workload_pods import NamedWorkload
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import NANO, format_nanos, nano_value

PODS: Final = "pods"
FALLBACKS: Final = {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "1Gi"}
OF_RUNTIME_CLASS: Final = ("nodeSelector", "tolerations", "overhead")
"""Fields of a pod that its runtime class sets."""
BOUNDS: Final = {"min": "minimum", "max": "maximum", "maxLimitRequestRatio": "maximum ratio of limit to request of"}
LIMITED: Final = re.compile(
    "exceeded quota|failed quota|(max|min)imum .* usage per|max limit to request ratio per|must be less .* limit of"
)
"""Messages of quotas and limit ranges."""
CLAIM_REFUSED: Final = re.compile(
    r"persistentvolumeclaims .* exceeded quota: ([^,\s]+), requested: (\S+), used: (\S+), limited: (\S+)"
)
CLAIM_LIMITED: Final = re.compile(
    r'persistentvolumeclaims "(\S+)" is forbidden: (?:maximum|minimum) storage usage per PersistentVolumeClaim '
    r"is (\S+), but request is (\S+)"
)
EXCEEDED: Final = re.compile(r"(max|min)imum (\S+) usage per (Pod|Container) is [^,]+, but \w+ is ([^,\s\]]+)")
RATIO: Final = re.compile(
    r"(\S+) max limit to request ratio per (Pod|Container) is [^,]+, but provided ratio is ([\d.]+)"
)
Content = Mapping[str, Any]


class Refusals:
    """The admission of a namespace's new pods."""

    def __init__(self, session: Session, namespace: str) -> None:
        self._session = session
        self._namespace = namespace
        objects = session.objects
        shaping = session.objects.given.shaping
        self._shaping = [item for item in shaping if item["metadata"].get("namespace") in (None, "", namespace)]
        has_quota = any(item["kind"] == "ResourceQuota" for item in self._shaping)
        pods = (objects.find(target) for target in objects.known("Pod") if target.namespace == namespace)
        self._pods = [pod for pod in pods if isinstance(pod, Pod)] if has_quota else []
        self._check = self._open(self._shaping)

    def _open(self, shaping: Iterable[Content]) -> AdmissionCheck:
        return AdmissionCheck(self._session.policy.features, shaping, self._pods)

    def admit(self, pod: Content) -> tuple[Content, str]:
        """Count a new pod. Return it as it is stored, and why it is rejected or an empty text."""
        if not self._check.limits(self._namespace) and not self._has_class(pod):
            return pod, ""
        try:
            admitted = self._check.create(pod).data["spec"]
        except Forbidden as error:
            return pod, str(error)
        if refusal := self._find_conflict(pod):
            return pod, refusal
        spec = dict(pod["spec"])
        for kind in ("containers", "initContainers"):
            pairs = zip(spec.get(kind) or (), admitted.get(kind) or (), strict=True)
            if spec.get(kind):
                spec[kind] = [{**item, "resources": after.get("resources") or {}} for item, after in pairs]
        if self._has_class(pod):
            spec |= {name: admitted[name] for name in OF_RUNTIME_CLASS if admitted.get(name)}
        return {**pod, "spec": spec}, ""

    def _has_class(self, pod: Content) -> bool:
        """Return whether the runtime class of a pod is known. Files often omit it."""
        name = pod["spec"].get("runtimeClassName")
        return any(item["kind"] == "RuntimeClass" and item["metadata"]["name"] == name for item in self._shaping)

    def _find_conflict(self, pod: Content) -> str:
        """Return why a pod contradicts its runtime class, or the defaults of limit ranges.

        Other rules are not checked: an object of a snapshot has only the fields that affect scheduling.
        """
        spec = dict(pod["spec"])
        if not self._has_class(pod):
            spec.pop("runtimeClassName", None)
        refusal = self._check.find_refusal({**pod, "spec": spec})
        if not refusal:
            return ""
        plain = {name: value for name, value in spec.items() if name not in ("runtimeClassName", "overhead")}
        return "" if AdmissionCheck(self._session.policy.features).find_refusal({**pod, "spec": plain}) else refusal

    def covers(self, message: str) -> bool:
        """Return whether a message is about quotas or limit ranges, which are checked here: it may be outdated.

        Quotas of volume claims are not checked.
        """
        is_checked = LIMITED.search(message) is not None and "persistentvolumeclaims " not in message
        return self._check.limits(self._namespace) and is_checked

    def changes(self, pod: Content, workload: NamedWorkload, pod_count: int, message: str) -> list[PossibleChange]:
        """Return changes with which all ``missing`` pods are admitted: to the template, or to the quotas."""
        changes = [*_fit_claim_limit(workload, message), *self._raise_claim_quota(message, pod_count)]
        for raises_requests in (True, False):
            draft, text = self._complete(pod, workload, raises_requests)
            path = pointer(*workload.path)
            operations = [{**item, "path": f"{path}{item['path']}"} for item in draft.operations]
            target = workload.id.as_data(str(workload.content.get("apiVersion", "")))
            # The template of a job is immutable.
            edit = {"object": target, "apply": "replace" if workload.id.kind == "Job" else "patch", "patch": operations}
            is_admitted = self._admits(self._shaping, draft.content, 1) and not self._find_conflict(draft.content)
            if operations and is_admitted:
                changes.append(PossibleChange(text, "request", [edit]))
                break
        if raised := self._raise_quotas(pod, pod_count):
            text, edits, shaping = raised
            if self._admits(shaping, pod, pod_count):
                changes.append(PossibleChange(text, "quota", edits))
        return [*changes, *self._relax_ranges(pod, message)]

    def _relax_ranges(self, pod: Content, message: str) -> Iterator[PossibleChange]:
        """Change the limit range that rejects a pod or a container."""
        for index, item in enumerate(self._shaping):
            name, texts = item["metadata"]["name"], list[str]()
            draft = Draft(ObjectId(item["kind"], self._namespace, name), {**item, "apiVersion": "v1"})
            entries = item["spec"].get("limits") or () if item["kind"] == "LimitRange" else ()
            for field, resource, kind, amount in _list_exceeded(message):
                for number, entry in enumerate(entries):
                    old = (entry.get(field) or {}).get(resource) if entry.get("type") == kind else None
                    if old is not None:
                        draft.put(("spec", "limits", number, field, resource), amount)
                        texts.append(f"the {BOUNDS[field]} {resource} per {kind} from {old} to {amount}")
            shaping = [*self._shaping[:index], draft.content, *self._shaping[index + 1 :]]
            if texts and self._admits(shaping, pod, 1):
                text = f"Change {' and '.join(texts)} in the limit range {name}"
                yield PossibleChange(text, "quota", [draft.edit().as_data()])

    def _raise_claim_quota(self, message: str, claim_count: int) -> list[PossibleChange]:
        """Raise the quota that rejects a volume claim, so that the claims of all missing pods are allowed."""
        match = CLAIM_REFUSED.search(message)
        name, requested = (match[1], _parse_amounts(match[2])) if match else ("", {})
        quota = next((q for q in self._shaping if (q["kind"], q["metadata"]["name"]) == ("ResourceQuota", name)), None)
        if match is None or quota is None:
            return []
        usage, limits = _parse_amounts(match[3]), _parse_amounts(match[4])
        draft, texts = Draft(ObjectId("ResourceQuota", self._namespace, name), {**quota, "apiVersion": "v1"}), []
        for resource, amount in requested.items():
            required_nanos = nano_value(usage.get(resource, "0")) + nano_value(amount) * claim_count
            text = format_nanos(required_nanos, is_binary=resource.endswith("storage"))
            draft.put(("spec", "hard", resource), text)
            texts.append(f"{resource} from {limits.get(resource)} to {text}")
        change = f"Raise {' and '.join(texts)} in the quota {name}, which rejects the volume claims"
        return [PossibleChange(change, "quota", [draft.edit().as_data()])]

    def _admits(self, shaping: Sequence[Content], pod: Content, count: int) -> bool:
        check = self._open(shaping)
        try:
            for number in range(count):
                check.create({**pod, "metadata": {**pod["metadata"], "name": f"{pod['metadata']['name']}-{number}"}})
        except Forbidden:
            return False
        return True

    def _raise_quotas(self, pod: Content, pod_count: int) -> tuple[str, list[dict[str, Any]], list[Content]] | None:
        """Raise the exceeded amounts of all quotas, so that all missing pods are allowed."""
        try:
            entry = AdmissionCheck(self._session.policy.features, self._ranges()).create(pod)
        except Forbidden:
            return None
        texts, edits, shaping = [], [], list(self._shaping)
        for ledger in self._check.quotas(self._namespace):
            share = ledger.compute_share(PODS, entry)
            required_amounts = {name: ledger.used[name] + amount * pod_count for name, amount in share.items()}
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

    def _complete(self, pod: Content, workload: NamedWorkload, raises_requests: bool) -> tuple[Draft, str]:
        """Set amounts that a quota requires, and move amounts into the limit ranges of containers.

        A ratio of limits to requests is met by higher requests, or else by lower limits.
        """
        required = {name for ledger in self._check.quotas(self._namespace) for name in ledger.hard}
        template = copy.deepcopy(dict(workload.spec.get("template") or {}))
        draft = Draft(ObjectId.of(pod), {**template, "kind": "Pod", "apiVersion": "v1", "metadata": pod["metadata"]})
        spec = template.get("spec") or {}
        # The only container of a pod is as large as the pod.
        is_single = len(spec.get("containers") or ()) == 1 and not spec.get("initContainers")
        ranges = [
            item
            for item in self._check.ranges(self._namespace)
            if item.get("type") in ("Container", *["Pod"] * is_single)
        ]
        texts = []
        for kind in ("containers", "initContainers"):
            for index, container in enumerate(spec.get(kind) or ()):
                resources = container.get("resources") or {}
                for field, resource, amount in _amounts(resources, required, ranges, raises_requests):
                    draft.put(("spec", kind, index, "resources", field, resource), amount)
                    texts.append(f"{field}.{resource} of container {container.get('name')} to {amount}")
        return draft, f"Set {' and '.join(texts)}, as the namespace requires"


def _list_exceeded(message: str) -> Iterator[tuple[str, str, str, str]]:
    """List the bounds of limit ranges that a message names: field, resource, type, and the sufficient amount.

    >>> list(_list_exceeded("cpu max limit to request ratio per Container is 4, but provided ratio is 9.500000"))
    [('maxLimitRequestRatio', 'cpu', 'Container', '10')]
    """
    for bound, resource, kind, amount in EXCEEDED.findall(message):
        yield bound, resource, kind, amount
    for resource, kind, ratio in RATIO.findall(message):
        yield "maxLimitRequestRatio", resource, kind, str(ceil(float(ratio)))


def _fit_claim_limit(workload: NamedWorkload, message: str) -> Iterator[PossibleChange]:
    """Request as much storage in the claim template as the limit range of the namespace permits."""
    match = CLAIM_LIMITED.search(message)
    for index, template in enumerate(workload.spec.get("volumeClaimTemplates") or () if match else ()):
        name = template["metadata"]["name"]
        if match is not None and match[1].startswith(f"{name}-{workload.id.name}-"):
            path = ("spec", "volumeClaimTemplates", index, "spec", "resources", "requests", "storage")
            edit = Draft(workload.id, workload.content, must_replace=True).put(path, match[2]).edit()
            text = f"Request {match[2]} instead of {match[3]} in the volume claim template {name}"
            yield PossibleChange(f"{text}, as the limit range of the namespace requires", "claim", [edit.as_data()])


def _parse_amounts(text: str) -> dict[str, str]:
    """Return the amounts in the message of a quota.

    >>> _parse_amounts("requests.storage=10Gi,persistentvolumeclaims=1")
    {'requests.storage': '10Gi', 'persistentvolumeclaims': '1'}
    """
    return {name: amount for name, _, amount in (part.partition("=") for part in text.split(","))}


def _amounts(
    resources: Content, required: set[str], ranges: Sequence[Content], raises_requests: bool
) -> list[tuple[str, str, str]]:
    """Return the amounts to set for a container, as field, resource and quantity."""
    amounts = []
    for resource, fallback in FALLBACKS.items():
        requests, limits = (resources.get(field) or {} for field in ("requests", "limits"))
        least = max(_bounds(ranges, "min", resource), default=0)
        most = min(_bounds(ranges, "max", resource), default=0)
        ratio = min(_bounds(ranges, "maxLimitRequestRatio", resource), default=0)
        default = next(iter(_bounds(ranges, "default", resource)), 0)
        bounded = bool(least or most)
        original_values = {"requests": requests.get(resource), "limits": limits.get(resource)}
        values: dict[str, int] = {}
        for field in ("requests", "limits"):
            names = {f"{field}.{resource}", *([resource] if field == "requests" else [])}
            is_required = bool(names & required) or (bounded and field == ("requests" if least else "limits"))
            original = original_values[field]
            # A default limit applies although the request is higher.
            is_required |= bool(default) and field == "limits" and nano_value(requests.get(resource, 0)) > default
            if original is None and not is_required and not ratio:
                continue
            basis = original or original_values["limits"] or original_values["requests"] or fallback
            nanos = max(nano_value(basis), least)
            values[field] = min(nanos, most) if most else nanos
        if ratio:
            step = NANO // 1000 if resource == "cpu" else NANO
            if raises_requests:
                lowest = -(-values["limits"] * NANO // (ratio * step)) * step
                values["requests"] = max(values["requests"], lowest)
            else:
                values["limits"] = min(values["limits"], values["requests"] * ratio // (NANO * step) * step)
        for field, nanos in values.items():
            original = original_values[field]
            if original is None or nanos != nano_value(original):
                amounts.append((field, resource, format_nanos(nanos, is_binary=resource != "cpu")))
    return amounts


def _bounds(ranges: Sequence[Content], bound: str, resource: str) -> list[int]:
    return [nano_value(item[bound][resource]) for item in ranges if resource in (item.get(bound) or {})]


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
