"""Questions to a session: how many more fit, and what another configuration would change."""

from collections.abc import Iterable, Mapping
from math import inf
from time import monotonic
from typing import Any, Final, cast

import msgspec

from moorage.common.errors import InputError
from moorage.common.text import shortened
from moorage.insight.whatif.changes import evicted
from moorage.insight.whatif.edits import DEFAULT_NAMESPACE, CreateObject
from moorage.insight.whatif.session import Session
from moorage.kube.manifests import Document
from moorage.scheduler.decisions.decision import Decision

MAX_REPLICAS: Final = 10_000


class ReplicaCapacity(msgspec.Struct, frozen=True, omit_defaults=True):
    """The number of copies of a pod that fit, by node, and the reason why the next one does not."""

    pod: str
    fits: int
    nodes: dict[str, int] = {}
    message: str = ""


class OutcomeDifference(msgspec.Struct, frozen=True):
    """A pod with different results: its node, or another result, before and after."""

    pod: str
    before: str
    after: str


def template_pods(documents: Iterable[Document], *, source: str) -> list[dict[str, Any]]:
    """Return the Pods and the templates of workloads. Raise InputError if there is neither."""
    pods: list[dict[str, Any]] = []
    for document in documents:
        metadata, spec = _read_part(document, "metadata"), _read_part(document, "spec")
        if document.kind == "Pod":
            pods.append(evicted({**document.content, "metadata": metadata, "spec": spec}))
            continue
        template_path = ("spec", "template") if "template" in spec else ("spec", "jobTemplate", "spec", "template")
        if _read_part(document, *template_path):
            name, namespace = metadata.get("name", "pod"), metadata.get("namespace") or DEFAULT_NAMESPACE
            own = _read_part(document, *template_path, "metadata")
            head = {"apiVersion": "v1", "kind": "Pod", "metadata": {**own, "name": name, "namespace": namespace}}
            pods.append({**head, "spec": _read_part(document, *template_path, "spec")})
    if not pods:
        raise InputError(source, "contains no Pod or workload", hint="use a Pod or a Deployment")
    return pods


def _read_part(document: Document, *path: str) -> Mapping[str, Any]:
    """Return an object inside a document, or an empty one if it is missing."""
    content: Any = document.content
    for number, key in enumerate(path, start=1):
        content = content.get(key) or {}
        if not isinstance(content, dict):
            location = f"{document.title}, {'.'.join(path[:number])}"
            raise InputError(location, f"{shortened(repr(content), 100)} is not an object")
    return cast("Mapping[str, Any]", content)


def count_replicas(
    session: Session, pod: Mapping[str, Any], *, most: int = MAX_REPLICAS, seconds: float = inf
) -> ReplicaCapacity:
    """Place copies of a pod until one does not fit, without preemption; stop after ``seconds``."""
    end = monotonic() + seconds
    original_metadata = pod.get("metadata") or {}
    if not isinstance(original_metadata, Mapping):
        raise InputError("metadata", "not an object")
    metadata = {key: item for key, item in original_metadata.items() if key not in ("uid", "generateName")}
    name, namespace = str(metadata.get("name") or "pod"), str(metadata.get("namespace") or DEFAULT_NAMESPACE)
    node_counts: dict[str, int] = {}
    message = ""
    with session.branch():
        for number in range(most):
            if monotonic() > end:
                message = f"stopped after {seconds:g} s"
                break
            copy = {**metadata, "name": f"{name}-copy-{number}", "namespace": namespace}
            session.apply(CreateObject({**pod, "metadata": copy}))
            attempt = session.place(f"{namespace}/{name}-copy-{number}", preempts=False)
            if not attempt.node:
                message = "; ".join(status.message for status in attempt.gates) or attempt.decision.message
                break
            node_counts[attempt.node] = node_counts.get(attempt.node, 0) + 1
    return ReplicaCapacity(name, sum(node_counts.values()), node_counts, message)


def compare_decisions(before: Iterable[Decision], after: Iterable[Decision]) -> list[OutcomeDifference]:
    """Compare the results of each pod under two configurations."""
    first = {decision.pod: outcome(decision) for decision in before}
    second = {decision.pod: outcome(decision) for decision in after}
    return [
        OutcomeDifference(pod, first.get(pod, "does not exist"), second.get(pod, "does not exist"))
        for pod in dict.fromkeys((*first, *second))
        if first.get(pod) != second.get(pod)
    ]


def outcome(decision: Decision) -> str:
    """Describe the result of a pod in a few words."""
    if decision.node:
        return f"evicted from {decision.node}" if decision.evicted else decision.node
    nominated = decision.nominated_node or (decision.post_filter.nominated_node if decision.post_filter else "")
    return f"nominated to {nominated}" if nominated else str(decision.result.value)
