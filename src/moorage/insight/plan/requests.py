"""The requested pods of a plan: from manifests, by name, or all pending pods of the cluster."""

from collections.abc import Iterable, Mapping, Sequence
from os.path import isfile
from typing import Any, Final

from msgspec import Struct

from moorage.common.errors import InputError
from moorage.insight.plan.plan_model import PlacedPod
from moorage.insight.whatif.changes import evicted
from moorage.insight.whatif.edits import DEFAULT_NAMESPACE, CreateObject, ObjectId
from moorage.insight.whatif.session import Session
from moorage.insight.whatif.workload_pods import (
    WORKLOADS,
    NamedWorkload,
    belongs_to_workload,
    check_pod_count,
    create_gang,
    create_workload_pod,
    find_workload,
)
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.pod import Pod
from moorage.kube.manifests import read_files

FILE_EXTENSIONS: Final = (".yaml", ".yml", ".json")


class RequestUnit(Struct, frozen=True):
    """Requested pods that are scheduled together: one pod, or the pending members of a pod group."""

    pods: tuple[str, ...]
    group: str = ""


def create_request(
    session: Session, items: Sequence[str | Mapping[str, Any]], *, reads_files: bool = True
) -> list[RequestUnit]:
    """Create the requested pods that do not exist. Each item is a manifest, a file, or the name of a pod or workload.

    Without items, the request consists of all pending pods of the cluster.
    """
    if not items:
        pending_pods = [pod for pod in find_pending(session) if pod.scheduler_name in session.scheduler.runners]
        # The order of the scheduling queue; ISO timestamps sort as text.
        pending_pods.sort(key=lambda pod: (-pod.priority, pod.metadata.creation_timestamp or "~"))
        return group_request(session, pending_pods)
    pods: dict[str, Pod] = {}
    for item in items:
        if not isinstance(item, str):
            requested = _from_manifest(session, [item])
        elif item == "-" or item.endswith(FILE_EXTENSIONS) or (reads_files and isfile(item)):
            if not reads_files:
                raise InputError(item, "file names are not supported", hint="send the manifest, or the name of a pod")
            requested = _from_manifest(session, [document.content for document in read_files([item])], source=item)
        else:
            requested = _from_name(session, item)
        pods |= {pod.key: pod for pod in requested}
    if not pods:
        raise InputError("the request", "no pending pod", hint="name a pending pod, or a file with a Pod or a workload")
    return group_request(session, list(pods.values()))


def find_pending(session: Session) -> Iterable[Pod]:
    """Yield the pods that wait for a node."""
    for target in session.objects.known("Pod"):
        pod = session.objects.find(target)
        if isinstance(pod, Pod) and not pod.node_name and not pod.is_finished and not pod.is_terminating:
            yield pod


def _from_name(session: Session, text: str) -> list[Pod]:
    namespace, name = DEFAULT_NAMESPACE, text
    if text.count("/") == 2:
        kind, namespace, name = text.split("/")
        name = f"{kind}/{name}"
    workload = find_workload(session, name, namespace)
    if workload is None:
        name = name.removeprefix("pod/")
        pod = session.pod(name if "/" in name else f"{namespace}/{name}")
        if pod.node_name:
            raise InputError(f"Pod {pod.key}", f"already on node {pod.node_name}", hint="name a pending pod")
        return [pod]
    return _of_workload(session, workload)


def _of_workload(session: Session, workload: NamedWorkload) -> list[Pod]:
    """Return the pending pods of a workload, after creating the pods that its controller has not created yet."""
    if workload.id.kind == "PodGroup":
        return [pod for pod in find_pending(session) if pod.group_key == workload.id.key]
    pending_pods = [pod for pod in find_pending(session) if belongs_to_workload(pod, workload)]
    title = f"{workload.id.kind} {workload.id.key}"
    check_pod_count(title, workload.wanted)
    all_pods = [session.objects.find(target) for target in session.objects.known("Pod")]
    own = [
        pod for pod in all_pods if isinstance(pod, Pod) and not pod.is_finished and belongs_to_workload(pod, workload)
    ]
    created = create_gang(session, workload, title) if not own else []
    if not created:
        numbers = range(len(own), workload.wanted)
        created = [session.pod(create_workload_pod(session, workload, number)) for number in numbers]
    return [*pending_pods, *created]


def _from_manifest(session: Session, contents: Sequence[Mapping[str, Any]], source: str = "the request") -> list[Pod]:
    """Create the objects of manifests. Return their pods and the pods of their workloads."""
    pods: list[Pod] = []
    dependencies = [content for content in contents if content.get("kind") not in ("Pod", *WORKLOADS[:-1])]
    for content in dependencies:
        target = ObjectId.of(content)
        if target.kind in BY_NAME and target not in session.objects:
            session.apply(CreateObject(content))
    for content in contents:
        target = ObjectId.of(content)
        if target.kind == "Pod":
            if target not in session.objects:
                metadata = {"name": "pod", **(content.get("metadata") or {})}
                session.apply(CreateObject(evicted({**content, "metadata": metadata})))
                target = ObjectId.of({**content, "metadata": metadata})
            pods += _from_name(session, f"pod/{target.namespace}/{target.name}")
        elif target.kind in WORKLOADS[:-1]:
            pods += _of_workload(session, NamedWorkload(target, dict(content)))
    if not pods:
        raise InputError(source, "contains no Pod or workload", hint="use a Pod, a Job or a Deployment")
    return pods


def group_request(session: Session, pods: Sequence[Pod]) -> list[RequestUnit]:
    """Combine members of pod groups. Units are in the order of the pods."""
    groups = session.scheduler.cache.groups
    units: dict[str, list[str]] = {}
    keys: dict[str, str] = {}
    for pod in pods:
        group = pod.group_key if groups is not None and groups.find_root(pod) is not None else ""
        units.setdefault(group or pod.key, []).append(pod.key)
        keys[group or pod.key] = group or ""
    return [RequestUnit(tuple(members), keys[name]) for name, members in units.items()]


def place_request(session: Session, request: Sequence[RequestUnit]) -> tuple[PlacedPod, ...]:
    """Schedule the requested pods one after another, without preemption. They remain on their nodes."""
    placed: list[PlacedPod] = []
    for unit in request:
        if unit.group:
            outcome = session.place_group(unit.group, preempts=False)
            reasons = {key: decision.message for key, decision in outcome.decisions.items()}
            placed += [
                PlacedPod(key, node, "" if node else outcome.message or reasons.get(key, ""))
                for key in unit.pods
                for node in (outcome.placed.get(key) or None,)
            ]
            continue
        mark = session.mark()
        attempt = session.place(unit.pods[0], preempts=False)
        if attempt.gates:
            session.roll_back(mark)  # the attempt ignores the gates
        message = "; ".join(status.message for status in attempt.gates) or attempt.decision.message
        placed.append(PlacedPod(unit.pods[0], attempt.node or None, "" if attempt.node else message))
    return tuple(placed)
