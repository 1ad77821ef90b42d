"""Find how few nodes hold all running pods: two packing methods, a lower bound, and an optional solver.

The first method drains nodes, the emptiest first. The second packs all pods from scratch, the largest first, each
into the first node that accepts it, and then also drains nodes. With ``moorage[solver]``, an optimal assignment is
tried, and the bound is proven. The best result counts. The scheduler's plugins accept every placement.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from moorage.insight.whatif.changes import evicted, is_bound_to_node
from moorage.insight.whatif.edits import CreateObject, DeleteObject, ObjectId
from moorage.insight.whatif.packing_model import Bound, model_packing, solve_packing
from moorage.insight.whatif.session import Session
from moorage.kube.api.pod import Pod
from moorage.kube.api.requests import PODS
from moorage.scheduler.framework.nodeinfo import NodeInfo

MAX_REPACKED: Final = 20_000
"""Limit of pods to pack from scratch: each takes an attempt."""


class FewestNodes(msgspec.Struct, frozen=True, rename="camel"):
    """The number of nodes that hold all pods, a lower bound, and the nodes that are not needed."""

    needed: int
    of: int
    at_least: int = 0
    spare: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()
    """Pending pods that fit on no node, even with all nodes."""
    bound: Bound | None = None


def find_fewest_nodes(session: Session) -> FewestNodes:
    """Find the smallest number of nodes that holds all running pods, and all pending pods that fit."""
    with session.branch():
        unplaced = tuple(_place_pending(session))
        return msgspec.structs.replace(_pack(session), unplaced=unplaced)


def _pack(session: Session) -> FewestNodes:
    infos = list(session.scheduler.cache.nodes)
    lowest, pod_count = find_lower_bound(session), sum(len(info.pods) for info in infos)
    with session.branch():
        spare = _drain_nodes(session)
    if len(infos) - len(spare) > lowest and pod_count <= MAX_REPACKED:
        with session.branch():
            unused = _pack_from_scratch(session)
            if unused is not None:
                unused += _drain_nodes(session)
        if unused is not None and len(unused) > len(spare):
            spare = unused
    method = "heuristic"
    if len(infos) - len(spare) > lowest:
        # Undone changes have replaced the node infos.
        solution = solve_packing(model_packing(session, _movable(session, session.scheduler.cache.nodes)))
        if solution is not None:
            method, lowest = "cp-sat", max(lowest, solution.bound)
            unused = [info.name for info in infos if info.name not in set(solution.nodes.values())]
            if len(unused) > len(spare) and accepts_assignment(session, solution.nodes, unused):
                spare = unused
    count = len(infos) - len(spare)
    bound = Bound(count, "nodes", count == lowest, method)
    return FewestNodes(count, len(infos), lowest, tuple(spare), bound=bound)


def _place_pending(session: Session) -> Iterator[str]:
    """Yield the pending pods that fit on no node. Other pods keep the nodes that they get."""
    for pod in session.objects.given.pending:
        if pod.scheduler_name not in session.scheduler.runners:
            continue
        attempt = session.try_pod(pod.key, preempts=False)
        if not attempt.node or attempt.gates:
            yield pod.key
        else:
            _bind(session, session.objects.content(ObjectId("Pod", pod.namespace, pod.name)), attempt.node)


def _drain_nodes(session: Session) -> list[str]:
    """Remove nodes if their pods fit on other nodes, the emptiest first. Return their names."""

    def utilization(info: NodeInfo) -> tuple[float, str]:
        shares = [info.requested.get(name, 0) / amount for name, amount in info.allocatable.items() if amount]
        return max(shares, default=0.0), info.name

    spare: list[str] = []
    for name in [info.name for info in sorted(session.scheduler.cache.nodes, key=utilization)]:
        mark = session.mark()
        if _drain(session, name):
            spare.append(name)
        else:
            session.roll_back(mark)
    return spare


def _drain(session: Session, name: str) -> bool:
    """Remove a node and place its pods elsewhere. Return whether all of them fit."""
    info = session.scheduler.cache.node(name)
    assert info is not None
    contents = _remove_pods(session, sorted(info.pods.values(), key=lambda pod: -pod.requests.get("cpu", 0)))
    if contents is None:
        return False
    session.apply(DeleteObject(ObjectId("Node", "", name)))
    for content in contents:
        if is_bound_to_node(content):
            continue
        fresh = evicted(content)
        session.apply(CreateObject(fresh))
        node = session.try_pod(ObjectId.of(fresh).key, preempts=False).node
        if not node:
            return False
        _bind(session, fresh, node)
    return True


def _remove_pods(session: Session, pods: Iterable[Pod]) -> list[dict[str, Any]] | None:
    """Remove pods from their nodes and return their manifests. Return ``None`` if a manifest is missing."""
    contents = []
    for pod in pods:
        target = ObjectId("Pod", pod.namespace, pod.name)
        if target not in session.objects:
            return None
        contents.append(session.objects.content(target))
        session.apply(DeleteObject(target))
    return contents


def _bind(session: Session, content: Mapping[str, Any], node: str) -> None:
    """Replace a placed pod by one with a node name, so that it can be moved."""
    session.apply(DeleteObject(ObjectId.of(content)))
    session.apply(CreateObject({**content, "spec": {**content["spec"], "nodeName": node}}))


def _pack_from_scratch(session: Session) -> list[str] | None:
    """Pack all pods from scratch, the largest first, each into the first node that accepts it. Return the unused nodes.

    Return ``None`` if a pod does not fit, or does not fit without the unused nodes.
    """
    nodes = session.scheduler.cache.nodes
    largest: dict[str, int] = {}
    for info in nodes:
        largest |= {name: max(amount, largest.get(name, 0)) for name, amount in info.allocatable.items()}

    def share(amounts: Mapping[str, int]) -> float:
        return max((amounts.get(name, 0) / top for name, top in largest.items() if top), default=0.0)

    # Pods with constraints are first: they have fewer candidate nodes.
    def has_constraints(pod: Pod) -> bool:
        spec = pod.spec
        return bool(spec.affinity or spec.node_selector or spec.topology_spread_constraints or spec.volumes)

    def packing_order(pod: Pod) -> tuple[bool, float, str]:
        return not has_constraints(pod), -share(pod.requests), pod.key

    movable = sorted(_movable(session, nodes), key=packing_order)
    order = [info.name for info in sorted(nodes, key=lambda info: (-share(info.allocatable), info.name))]
    contents = _remove_pods(session, movable)
    if contents is None:
        return None
    rows = {info.name: info.row for info in nodes}
    closed, opened = dict.fromkeys(order), list[str]()
    placements: list[tuple[dict[str, Any], str]] = []
    for content in contents:
        fresh = evicted(content)
        session.apply(CreateObject(fresh))
        attempt = session.try_pod(ObjectId.of(fresh).key, preempts=False)
        node = next((name for name in chain(opened, closed) if attempt.fits_row(rows[name])), "")
        if not node:
            return None
        if node in closed:
            del closed[node]
            opened.append(node)
        _bind(session, fresh, node)
        placements.append((fresh, node))
    unused = list(closed)
    return unused if _accepts(session, placements, unused) else None


def _accepts(session: Session, placements: Sequence[tuple[Mapping[str, Any], str]], unused: Sequence[str]) -> bool:
    """Remove nodes, and return whether the plugins accept each placed pod on its node next to all other pods."""
    for name in unused:
        own = session.scheduler.cache.node(name)
        if own is None or _remove_pods(session, list(own.pods.values())) is None:
            return False
        session.apply(DeleteObject(ObjectId("Node", "", name)))
    for content, name in placements:
        with session.branch():
            session.apply(DeleteObject(ObjectId.of(content)))
            session.apply(CreateObject(content))
            attempt = session.try_pod(ObjectId.of(content).key, preempts=False)
            node_info = session.scheduler.cache.node(name)
            if node_info is None or not attempt.fits_row(node_info.row):
                return False
    return True


def accepts_assignment(session: Session, nodes: Mapping[str, str], unused: Sequence[str]) -> bool:
    """Return whether the plugins accept an assignment of pods to nodes, without the unused nodes."""
    with session.branch():
        contents = {key: session.objects.content(ObjectId("Pod", *key.split("/", 1))) for key in nodes}
        assigned_pods = [(evicted(contents[key]), node) for key, node in nodes.items()]
        for content, node in assigned_pods:
            _bind(session, content, node)
        return _accepts(session, assigned_pods, unused)


def _movable(session: Session, infos: Iterable[NodeInfo]) -> list[Pod]:
    """List the pods that their controllers would recreate on another node."""
    pods = (pod for info in infos for pod in info.pods.values())
    content = session.objects.content
    return [pod for pod in pods if not is_bound_to_node(content(ObjectId("Pod", pod.namespace, pod.name)))]


def find_lower_bound(session: Session) -> int:
    """Return a lower bound: for the sum of each resource, and for pods too large to share a node."""
    infos = list(session.scheduler.cache.nodes)

    def request(pod: Pod, name: str) -> int:
        return 1 if name == PODS else pod.requests.get(name, 0)

    movable = _movable(session, infos)
    names = {name for pod in movable for name in pod.requests} | {PODS}
    moving = {pod.uid for pod in movable}
    lowest = 1 if movable else 0
    for name in names:
        fixed_requests = [
            sum(request(pod, name) for pod in info.pods.values() if pod.uid not in moving) for info in infos
        ]
        room = (info.allocatable.get(name, 0) - fixed for info, fixed in zip(infos, fixed_requests, strict=True))
        free = sorted(room, reverse=True)
        total, count = sum(request(pod, name) for pod in movable), 0
        while total > 0 and count < len(free):
            total -= max(0, free[count])
            count += 1
        alone = sum(2 * request(pod, name) > free[0] for pod in movable) if free else 0
        lowest = max(lowest, count, alone)
    return min(lowest, len(infos))
