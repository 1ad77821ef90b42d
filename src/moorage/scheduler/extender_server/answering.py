"""The verbs of an extender, served by the plugins of a profile on the cache of a scheduler that never schedules.

A request is handled without interruption: nothing changes during it. Pods that kube-scheduler has assumed but
not bound are not in the cache: their bindings report them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Raw, Struct

from moorage.common.errors import ApiError, InputError, PluginError
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.codec import UNREADABLE, decode
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.originals import pod_adapter
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.binding.binding_phases import BindingPhases, PendingBinding, Undo
from moorage.scheduler.engine.cycle.filter import SearchRequest
from moorage.scheduler.engine.cycle.search_result import SeveralNodes, is_feasible
from moorage.scheduler.engine.outcomes import Diagnosis, NodeScope
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.plugins.default_preemption.budgets import Budgets
from moorage.scheduler.plugins.default_preemption.dry_run import WhatIf, start_time
from moorage.scheduler.queue.entities import QueuedPodInfo

NOT_CAPABLE: Final = "set nodeCacheCapable: true for this extender: it has its own cache and accepts only names"
MAX_SHOWN: Final = 200


class NodeQuestion(Struct, frozen=True):
    """A pod and its candidate nodes: the request of filter and prioritize."""

    pod: Pod
    nodes: tuple[str, ...]


class ProposedVictims(Struct, frozen=True):
    """The victims on a node by uid, and how many a budget protects."""

    uids: tuple[str, ...]
    violations: int = 0


class VictimQuestion(Struct, frozen=True):
    """An infeasible pod, and the proposed victims by node."""

    pod: Pod
    victims: Mapping[str, ProposedVictims]


class BindRequest(Struct, frozen=True):
    """A pod and the node to bind it to."""

    name: str
    namespace: str
    uid: str
    node: str


def node_question(body: bytes) -> NodeQuestion:
    """Read a request of filter or prioritize. Raise InputError if it is invalid."""
    fields = _fields(body)
    names = _decode_part(fields, "nodenames", list[str] | None)
    if names is None:
        raise InputError("NodeNames", "missing", hint=NOT_CAPABLE)
    return NodeQuestion(_pod(fields), tuple(dict.fromkeys(names)))


def victim_question(body: bytes) -> VictimQuestion:
    """Read a request of preempt. Raise InputError if it is invalid."""
    fields = _fields(body)
    victims_by_node = _decode_part(fields, "nodenametometavictims", dict[str, dict[str, Any] | None] | None)
    if victims_by_node is None:
        raise InputError("NodeNameToMetaVictims", "missing", hint=NOT_CAPABLE)
    return VictimQuestion(_pod(fields), {name: _propose(name, content) for name, content in victims_by_node.items()})


def bind_request(body: bytes) -> BindRequest:
    """Read a request of bind. Raise InputError if it is invalid."""
    fields = _fields(body)
    texts = [_decode_part(fields, name, str | None) or "" for name in ("podname", "podnamespace", "poduid", "node")]
    for name, text in zip(("PodName", "PodNamespace", "PodUID", "Node"), texts, strict=True):
        if not text:
            raise InputError(name, "it is missing")
    return BindRequest(*texts)


def _propose(node: str, content: Mapping[str, Any] | None) -> ProposedVictims:
    folded = {key.lower(): item for key, item in (content or {}).items()}
    pods, violations = folded.get("pods") or [], folded.get("numpdbviolations") or 0
    location = f"NodeNameToMetaVictims[{node[:MAX_SHOWN]}]"
    if not isinstance(pods, list) or not all(isinstance(pod, dict) for pod in pods) or not isinstance(violations, int):
        raise InputError(location, "this is not {Pods: [{UID: …}], NumPDBViolations: …}")
    uids = [next((item for key, item in pod.items() if key.lower() == "uid"), None) for pod in pods]
    if not all(isinstance(uid, str) for uid in uids):
        raise InputError(location, "a victim has no UID")
    return ProposedVictims(tuple(uids), violations)  # type: ignore[arg-type]


def _fields(body: bytes) -> dict[str, Raw]:
    try:
        fields = msgspec.json.decode(body, type=dict[str, Raw])
    except UNREADABLE as error:
        raise InputError("the body", f"it is not a JSON object: {error}") from error
    return {key.lower(): item for key, item in fields.items()}


def _decode_part(fields: Mapping[str, Raw], name: str, kind: Any) -> Any:
    if name not in fields:
        return None
    try:
        return msgspec.json.decode(fields[name], type=kind)
    except UNREADABLE as error:
        raise InputError(name, f"it cannot be read: {error}") from error


def _pod(fields: Mapping[str, Raw]) -> Pod:
    if "pod" not in fields or bytes(fields["pod"]) == b"null":
        raise InputError("Pod", "it is missing")
    try:
        pod = decode(Pod, bytes(fields["pod"]))
    except UNREADABLE as error:
        raise InputError("Pod", f"it cannot be read: {error}") from error
    if not pod.name:
        raise InputError("Pod", "it has no name")
    return pod


def filter_result(feasible: Iterable[str], failed_nodes: Mapping[str, str], unresolvable: Mapping[str, str]) -> bytes:
    """Write the response of filter: the names of feasible nodes, and the reasons of the other nodes."""
    result = {
        "Nodes": None,
        "NodeNames": list(feasible),
        "FailedNodes": failed_nodes,
        "FailedAndUnresolvableNodes": unresolvable,
        "Error": "",
    }
    return msgspec.json.encode(result)


def filter_error(message: str) -> bytes:
    """Write that filtering failed: users find it in the events of the pod."""
    return msgspec.json.encode({"Nodes": None, "NodeNames": None, "FailedNodes": None, "Error": message})


def priorities(scores: Iterable[tuple[str, int]]) -> bytes:
    """Write the scores of nodes."""
    return msgspec.json.encode([{"Host": name, "Score": score} for name, score in scores])


def preemption_result(victims: Mapping[str, ProposedVictims]) -> bytes:
    """Write the accepted nodes and their victims."""
    victims_by_node = {
        name: {"Pods": [{"UID": uid} for uid in agreed.uids], "NumPDBViolations": agreed.violations}
        for name, agreed in victims.items()
    }
    return msgspec.json.encode({"NodeNameToMetaVictims": victims_by_node})


def bind_result(problem: str = "") -> bytes:
    """Write whether a pod was bound."""
    return msgspec.json.encode({"Error": problem})


UNKNOWN_NODE: Final = Status.unschedulable("node(s) were not yet in the cache of the extender")


class Answering:
    """Handles kube-scheduler's requests about pods and nodes."""

    def __init__(self, scheduler: Scheduler) -> None:
        ((_, self._cycle),) = scheduler.runners.items()
        self._profile = self._cycle.profile
        self._cache = scheduler.cache
        self._pods = scheduler.objects[Pod]
        self._clock = scheduler.services.clock
        self._adapt = pod_adapter(scheduler.services.features) or (lambda pod: pod)
        self._handle = next(iter(self._cycle.handles.made.values()))
        is_listed = PodDisruptionBudget in scheduler.objects.kinds()
        features = scheduler.services.features
        self._budgets = Budgets(scheduler.objects[PodDisruptionBudget], features) if is_listed else None
        self._phases = BindingPhases(self._profile, ())

    def filter(self, question: NodeQuestion) -> tuple[list[str], dict[str, Status]]:
        """Return feasible nodes in request order, and the status of each rejected node. Raise PluginError on failure.

        A node that the cache does not have yet is rejected for now: kube-scheduler retries the pod.
        """
        rows = self._rows(question.nodes)
        if not rows:
            return [], dict.fromkeys(question.nodes, UNKNOWN_NODE)
        request = SearchRequest(self._scope([*rows.values()]), evaluates_all=True)
        result = self._cycle.filtering.find(self._adapt(question.pod), request)
        feasible: list[str] = []
        rejected: dict[str, Status] = {}
        for name in question.nodes:
            if name not in rows:
                rejected[name] = UNKNOWN_NODE
            elif is_feasible(result, rows[name]):
                feasible.append(name)
            else:
                rejected[name] = result.diagnosis.statuses[name]
        return feasible, rejected

    def is_behind(self, question: NodeQuestion) -> bool:
        """Return whether the request names a node, or a version of the pod, that the cache does not have yet."""
        cached_pod, version = self._pods.find(question.pod.key), question.pod.metadata.resource_version
        cached_version = "" if cached_pod is None else cached_pod.metadata.resource_version
        if version.isdecimal() and int(version) > int(cached_version or 0):
            return True
        return any(self._cache.node(name) is None for name in question.nodes)

    def prioritize(self, question: NodeQuestion) -> list[tuple[str, int]]:
        """Score nodes by all score plugins, each from 0 to 100 times its weight. Raise PluginError if a plugin fails.

        The filters do not run: all of these nodes are feasible. A node missing from the cache scores zero.
        """
        rows_by_name, pod = self._rows(question.nodes), self._adapt(question.pod)
        pre = self._cycle.filtering.pre_filter(pod)
        scores: dict[str, int] = {}
        if rows_by_name and self._profile.score and pre.rejection is None:
            rows = np.fromiter(rows_by_name.values(), np.int64, len(rows_by_name))
            feasible = np.zeros(len(self._cache), dtype=np.bool_)
            feasible[rows] = True
            pre.cached.filter(pod, self._cache.nodes)
            result = SeveralNodes(
                pod, pre.cycle, Diagnosis(len(rows_by_name)), pre.cached, feasible, len(rows_by_name), 0
            )
            totals = self._cycle.scoring.totals(result, rows).at(rows)
            scores = dict(zip(rows_by_name, totals.tolist(), strict=True))
        return [(name, scores.get(name, 0)) for name in question.nodes]

    def preempt(self, question: VictimQuestion) -> dict[str, ProposedVictims]:
        """Keep the proposals after which the plugins accept the pod, with more victims where needed.

        Raise PluginError if a plugin fails.
        """
        pod = self._adapt(question.pod)
        pre = self._cycle.filtering.pre_filter(pod)
        if pre.rejection is not None:
            return {}
        agreed: dict[str, ProposedVictims] = {}
        for name, proposed in question.victims.items():
            info = self._cache.node(name)
            if info is not None and (pre.names is None or name in pre.names):
                victims = self._agree(pre.cycle, pod, info, proposed)
                if victims is not None:
                    agreed[name] = victims
        return agreed

    async def bind(self, request: BindRequest) -> str:
        """Bind a pod with the plugins. Return the error, if any."""
        cached_pod = self._pods.find(f"{request.namespace}/{request.name}")
        if cached_pod is not None and cached_pod.uid != request.uid:
            return f"pod {request.namespace}/{request.name} has been recreated: its uid is {cached_pod.uid}"
        metadata = ObjectMeta(name=request.name, namespace=request.namespace, uid=request.uid)
        pod = (Pod(metadata=metadata) if cached_pod is None else cached_pod).on_node(request.node)
        queued = QueuedPodInfo(pod, self._clock.now())
        binding = PendingBinding(queued, pod, CycleState(), self._phases, Undo(), request.node)
        try:
            status = await self._phases.bind(binding)
        except (ApiError, PluginError) as error:
            return str(error) or type(error).__name__
        if status is not None:
            return status.message
        await self._phases.post_bind(binding)
        return ""

    def _rows(self, names: tuple[str, ...]) -> dict[str, int]:
        """Find the rows of the nodes that are known, by name."""
        infos = ((name, self._cache.node(name)) for name in names)
        return {name: info.row for name, info in infos if info is not None}

    def _scope(self, rows: list[int]) -> NodeScope | None:
        """Return the requested part of the cluster. ``None`` is all of it, which has cached results."""
        if len(rows) == len(self._cache):
            return None
        mask = np.zeros(len(self._cache), dtype=np.bool_)
        mask[rows] = True
        order = self._cache.order
        return NodeScope(mask, len(rows), order[mask[order]])

    def _agree(self, cycle: CycleState, pod: Pod, info: NodeInfo, proposed: ProposedVictims) -> ProposedVictims | None:
        """Return the victims on one node: the proposed ones, and candidates that the plugins do not accept."""
        leaving = {uid for uid in proposed.uids if uid in info.pods}
        pool = [
            candidate
            for candidate in info.pods.values()
            if candidate.priority < pod.priority or candidate.uid in leaving
        ]
        what_if = WhatIf(self._handle, cycle, pod, info, pool)
        if what_if.run_filters() is not None:
            return None
        now = self._clock.wall()
        pool.sort(key=lambda candidate: (-candidate.priority, start_time(candidate, now)))
        candidates = [candidate for candidate in pool if candidate.uid not in leaving]
        protected, free = ([], candidates) if self._budgets is None else self._budgets.split(candidates)
        violating = [candidate.uid for candidate in protected if not what_if.reprieve(candidate)]
        more = [*violating, *(candidate.uid for candidate in free if not what_if.reprieve(candidate))]
        return ProposedVictims((*proposed.uids, *more), proposed.violations + len(violating))


def split_by_code(rejected: dict[str, Status]) -> tuple[dict[str, str], dict[str, str]]:
    """Divide rejections by whether preemption could resolve them, each with its message."""
    failed_nodes = {name: status.message for name, status in rejected.items() if status.code == Code.UNSCHEDULABLE}
    unresolvable = {name: status.message for name, status in rejected.items() if name not in failed_nodes}
    return failed_nodes, unresolvable
