"""A plan in progress: cordons, evictions and recreated pods on the undoable cluster of a session.

A step deletes all of its pods first. Then it recreates them one by one, without node and status. The configured profile
schedules each pod before the next pod is created.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import InputError, did_you_mean
from moorage.insight.plan.disruptions import DisruptionLedger
from moorage.insight.plan.generated_claims import GeneratedClaims
from moorage.insight.plan.mobility import Constraints, MobilityRules, MoveRefusal, has_local_data, largest_first
from moorage.insight.plan.plan_model import (
    NodeChange,
    PendingPod,
    PlannedCluster,
    PlannedEviction,
    PlanStep,
    PlanSummary,
)
from moorage.insight.whatif.changes import evicted
from moorage.insight.whatif.edits import CreateObject, DeleteObject, ObjectId, PatchObject, put
from moorage.insight.whatif.session import Session
from moorage.kube.api.meta import format_time
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.decisions.decision import Decision
from moorage.scheduler.framework.nodeinfo import NodeInfo

SYSTEM_NAMESPACE: Final = "kube-system"
FINGERPRINT_LENGTH: Final = 16
MAX_HINTED: Final = 5
MAX_NAMED: Final = 5


class MoveUnit(Struct, frozen=True):
    """Pods that move together: one pod, or all members of a pod group."""

    pods: tuple[Pod, ...]
    group: str = ""

    @property
    def key(self) -> str:
        """The name for messages and for sets."""
        return self.group or self.pods[0].key


def _list_names(names: Sequence[str]) -> str:
    """Return a hint with the names of the nodes."""
    more = ", …" if len(names) > MAX_HINTED else ""
    return f"the nodes are {', '.join(names[:MAX_HINTED])}{more}" if names else "the cluster has no nodes"


class PlanRun:
    """The state of a plan: its steps, and the changed cluster. Use it in a branch of the session.

    ``lists_equals`` records all nodes with the same score as the chosen one, which takes longer on large clusters.
    """

    def __init__(
        self, session: Session, constraints: Constraints, taken_at: float | None = None, *, lists_equals: bool = False
    ) -> None:
        constraints.check()
        self.session = session
        self._lists_equals = lists_equals
        self.rules = MobilityRules(session, constraints)
        active_pods = list(_active_pods(session))
        self.ledger = DisruptionLedger(session, active_pods)
        self._unmatched = tuple(constraints.find_unmatched(self.node_names(), active_pods))
        self._claims = GeneratedClaims(session)
        self._with_local_data = {pod.key for pod in active_pods if has_local_data(pod)}
        self.steps: list[PlanStep] = []
        self.pending: dict[str, PendingPod] = {}
        self.emptied: dict[str, None] = {}
        self.cordoned = self._find_cordoned()
        self._before = self._measure_nodes()
        self._lost: list[list[Pod]] = []
        self.now = session.objects.given.now if taken_at is None else taken_at

    @property
    def notes(self) -> tuple[str, ...]:
        """Constraints that match nothing, and evicted pods that lose data."""
        evicted_names = dict.fromkeys(item.pod for step in self.steps for item in step.evict)
        losing = [name for name in evicted_names if name in self._with_local_data]
        if not losing:
            return self._unmatched
        pods = "1 pod loses" if len(losing) == 1 else f"{len(losing)} pods lose"
        names = ", ".join(losing[:MAX_NAMED]) + (" and others" if len(losing) > MAX_NAMED else "")
        return (*self._unmatched, f"{pods} the data of emptyDir volumes: {names}")

    def mark(self) -> tuple[int, int, dict[str, None]]:
        """Return the current state for :meth:`roll_back`."""
        return self.session.mark(), len(self.steps), dict(self.emptied)

    def roll_back(self, mark: tuple[int, int, dict[str, None]]) -> None:
        """Undo all steps and changes since a mark."""
        position, count, emptied = mark
        self.emptied = dict(emptied)
        self.session.roll_back(position)
        while len(self.steps) > count:
            step, pods = self.steps.pop(), self._lost.pop()
            self.ledger.change(pods, 1)
            for eviction in step.evict:
                self.pending.pop(eviction.pod, None)
        self.cordoned = self._find_cordoned()

    @property
    def moves(self) -> int:
        """The number of evictions so far."""
        return sum(len(step.evict) for step in self.steps)

    def _find_cordoned(self) -> set[str]:
        nodes = (self.session.objects.find(target) for target in self.session.objects.known("Node"))
        return {node.name for node in nodes if isinstance(node, Node) and node.spec.unschedulable}

    def node_names(self) -> list[str]:
        """Return the names of all nodes, in order of appearance."""
        return [target.name for target in self.session.objects.known("Node")]

    def check_nodes(self, names: Iterable[str]) -> None:
        """Raise InputError, with a suggestion, for a node that does not exist."""
        existing = self.node_names()
        for name in names:
            if name not in existing:
                hint = did_you_mean(name, existing) or _list_names(existing)
                raise InputError(f"node {name}", "not found", hint=hint)

    def list_node_pods(self, name: str) -> list[Pod]:
        """Return the pods that a drain must move: not DaemonSet, static or terminating pods."""
        info = self.session.scheduler.cache.node(name)
        pods = () if info is None else info.pods.values()
        return [pod for pod in pods if not pod.is_terminating and not self.rules.stays_with_node(pod)]

    def list_node_units(self, names: Iterable[str]) -> list[MoveUnit]:
        """Return the units with pods on some nodes, in the order of the scheduling queue."""
        units: dict[str, MoveUnit] = {}
        for pod in largest_first([pod for name in names for pod in self.list_node_pods(name)]):
            unit = self.find_unit(pod)
            units.setdefault(unit.key, unit)
        return list(units.values())

    def find_unit(self, pod: Pod) -> MoveUnit:
        """Return the unit of a pod. All members of a pod group are one unit."""
        groups = self.session.scheduler.cache.groups
        root = groups.find_root(pod) if groups is not None and pod.group_key else None
        if groups is None or root is None:
            return MoveUnit((pod,))
        leaves = set(groups.leaf_keys(root))
        placed = [member for info in self.session.scheduler.cache.nodes for member in info.pods.values()]
        members = [member for member in placed if member.group_key in leaves and not member.is_terminating]
        return MoveUnit(tuple(largest_first(members)), pod.group_key or "")

    def find_refusal(self, unit: MoveUnit) -> MoveRefusal | None:
        """Return why a unit must not be evicted. Free resources are not checked."""
        for pod in unit.pods:
            refusal = self.rules.find_refusal(pod)
            budgets = self.ledger.find_budgets(pod) if pod.status.phase != "Pending" else []
            if refusal is None and len(budgets) > 1:
                names = " and ".join(budgets)
                refusal = MoveRefusal("budget", f"the eviction API rejects it: two budgets cover it ({names})")
            if refusal is not None:
                prefix = f"pod {pod.key} of its group: " if len(unit.pods) > 1 else ""
                return MoveRefusal(refusal.kind, prefix + refusal.reason)
        if unit.group and self.session.queued_group(unit.group) is not None:
            return MoveRefusal(
                "group", f"its pod group {unit.group} has pending members, which would be placed with it"
            )
        if exceeded := self.ledger.exceeded(self.ledger.count(unit.pods)):
            count = self.ledger.allowed[exceeded[0]]
            limit = "no disruption" if count <= 0 else f"only {count} of {len(unit.pods)} disruptions"
            return MoveRefusal("budget", f"the budget {exceeded[0]} allows {limit}")
        return None

    def split_by_budgets(self, units: Sequence[MoveUnit]) -> tuple[list[MoveUnit], list[MoveUnit]]:
        """Split units into those that the budgets allow in this step, and those of later steps."""
        now: list[MoveUnit] = []
        later: list[MoveUnit] = []
        for unit in units:
            together = [pod for item in (*now, unit) for pod in item.pods]
            (later if self.ledger.exceeded(self.ledger.count(together)) else now).append(unit)
        return now, later

    def set_cordon(self, names: Iterable[str], is_cordoned: bool) -> None:
        """Cordon nodes, or uncordon them."""
        for name in names:
            target = ObjectId("Node", "", name)
            content = self.session.objects.content(target)
            self.session.apply(PatchObject(target, (put(content, ("spec", "unschedulable"), is_cordoned),)))
            (self.cordoned.add if is_cordoned else self.cordoned.discard)(name)

    def take_step(self, cordon: Sequence[str], units: Sequence[MoveUnit], uncordon: Sequence[str] = ()) -> PlanStep:
        """Cordon nodes, evict units, schedule the recreated pods one after another, uncordon nodes; record the step."""
        self.set_cordon(cordon, True)
        pods = [pod for unit in units for pod in unit.pods]
        budgets = self.ledger.uses(pods)
        contents = {pod.key: self.session.objects.content(ObjectId("Pod", pod.namespace, pod.name)) for pod in pods}
        for pod in pods:
            self.session.apply(DeleteObject(ObjectId("Pod", pod.namespace, pod.name)))
        evictions = [item for unit in units for item in self._recreate(unit, contents)]
        self.set_cordon(uncordon, False)
        step = PlanStep(tuple(cordon), tuple(evictions), tuple(uncordon), budgets)
        self.steps.append(step)
        without_node = {item.pod for item in evictions if not item.node}
        self._lost.append([pod for pod in pods if pod.key in without_node])
        self.ledger.change(self._lost[-1], -1)
        return step

    def take_steps(
        self, cordon: Sequence[str], units: Sequence[MoveUnit], uncordon: Sequence[str] = ()
    ) -> list[PlanStep]:
        """Evict units in one step, or one after another if the order of their replacements changes the nodes.

        Controllers recreate the pods of a step in any order.
        """
        mark = self.mark()
        together = self.take_step(cordon, units, uncordon)
        if len(units) == 1 or any(item.recreated and not item.node for item in together.evict):
            return [together]
        self.roll_back(mark)
        reversed_steps = self._take_singly(cordon, units[::-1], uncordon)
        self.roll_back(mark)
        if _count_nodes([together]) == _count_nodes(reversed_steps):
            return [self.take_step(cordon, units, uncordon)]
        return self._take_singly(cordon, units, uncordon)

    def _take_singly(self, cordon: Sequence[str], units: Sequence[MoveUnit], uncordon: Sequence[str]) -> list[PlanStep]:
        last = len(units) - 1
        return [
            self.take_step(() if number else cordon, (unit,), uncordon if number == last else ())
            for number, unit in enumerate(units)
        ]

    def _recreate(self, unit: MoveUnit, contents: dict[str, dict[str, Any]]) -> list[PlannedEviction]:
        if len(unit.pods) == 1 and (loss := self.rules.explain_loss(unit.pods[0])):
            eviction = self._describe(unit.pods[0], contents[unit.pods[0].key])
            return [replace(eviction, recreated=False, text=f"{eviction.pod} is deleted: {loss}")]
        fresh = {pod.key: self._claims.renew(pod, evicted(contents[pod.key]), contents[pod.key]) for pod in unit.pods}
        for content in fresh.values():
            self.session.apply(CreateObject(content))
        if unit.group:
            with self.session.branch():
                outcome = self.session.place_group(unit.group, preempts=False)
                allocations = self._claims.find_allocations(unit.pods)
            nodes = outcome.placed
            results = {
                key: (nodes.get(key, ""), item.tied, outcome.message or item.message)
                for key, item in outcome.decisions.items()
            }
            message = outcome.message
        else:
            with self.session.branch():
                attempt = self.session.place(unit.pods[0].key, in_detail=self._lists_equals, preempts=False)
                allocations = self._claims.find_allocations(unit.pods)
            message = "; ".join(status.message for status in attempt.gates) or attempt.decision.message
            results = {unit.pods[0].key: (attempt.node, _list_equals(attempt.decision), message)}
        self._claims.allocate(allocations)
        evictions = []
        for pod in unit.pods:
            node, alternatives, reason = results.get(pod.key, ("", (), message))
            evictions.append(
                self._land(pod, fresh[pod.key], node, alternatives, reason or "the scheduler chose no node")
            )
        return evictions

    def _land(
        self, pod: Pod, content: dict[str, Any], node: str, alternatives: tuple[str, ...], message: str
    ) -> PlannedEviction:
        """Bind a recreated pod to its node, or record it as pending if it has no node."""
        eviction = self._describe(pod, content)
        if not node:
            self.pending[pod.key] = PendingPod(pod.key, message)
            return replace(eviction, to=None, text=f"{pod.key} leaves {pod.node_name} and remains pending: {message}")
        self.session.apply(DeleteObject(ObjectId("Pod", pod.namespace, pod.name)))
        self.session.apply(CreateObject({**content, "spec": {**content["spec"], "nodeName": node}}))
        other_nodes = tuple(name for name in alternatives if name != node)
        text = f"{pod.key} moves from {pod.node_name} to {node}"
        return replace(eviction, to=node, tied=other_nodes, text=text)

    def _describe(self, pod: Pod, content: Mapping[str, Any]) -> PlannedEviction:
        owner = pod.metadata.controller
        cost = self.rules.restart_cost(pod, self.now)
        uid = str(content["metadata"].get("uid") or "")  # pods in files may have no UID. The session generates one
        return PlannedEviction(pod.key, uid, pod.node_name, "", cost=cost, owner="" if owner is None else owner.uid)

    def _measure_nodes(self) -> dict[str, tuple[int, float]]:
        """Return the number of pods of each node, and the largest share of a resource that they request."""
        return {info.name: (len(info.pods), utilization(info)) for info in self.session.scheduler.cache.nodes}

    def node_changes(self) -> tuple[NodeChange, ...]:
        """Compare the nodes before the plan with the current ones."""
        after = self._measure_nodes()
        before = self._before
        return tuple(
            NodeChange(name, before[name][0], after[name][0], round(before[name][1], 4), round(after[name][1], 4))
            for name in self.node_names()
            if name in before and name in after
        )

    def summary(self) -> PlanSummary:
        """Return the totals of all steps."""
        cost = sum(item.cost for step in self.steps for item in step.evict)
        return PlanSummary(self.moves, tuple(self.emptied), round(cost, 3))


def describe_cluster(session: Session, taken_at: float | None = None) -> PlannedCluster:
    """Return the identity of a cluster: the UID of kube-system; if it is unknown, the names and UIDs of the nodes."""
    document, _ = session.objects.remember(ObjectId("Namespace", "", SYSTEM_NAMESPACE))
    identity = str(((document.content.get("metadata") or {}) if document else {}).get("uid") or "")
    if not identity:
        nodes = (session.objects.content(target)["metadata"] for target in session.objects.known("Node"))
        identity = "\n".join(sorted(f"{metadata['name']} {metadata.get('uid', '')}" for metadata in nodes))
    fingerprint = hashlib.sha256(identity.encode()).hexdigest()[:FINGERPRINT_LENGTH]
    return PlannedCluster(fingerprint, format_time(session.objects.given.now if taken_at is None else taken_at))


def _list_equals(decision: Decision) -> tuple[str, ...]:
    """Return the nodes with the highest total, as far as the decision has details of nodes."""
    winner = decision.nodes.get(decision.node)
    if winner is None or decision.tied:
        return decision.tied
    return tuple(
        name for name, entry in decision.nodes.items() if not entry.is_rejected and entry.total == winner.total
    )


def _count_nodes(steps: Iterable[PlanStep]) -> Counter[tuple[str, str | None]]:
    """Return how many replacements each controller has on each node."""
    return Counter((item.owner or item.pod, item.node) for step in steps for item in step.evict)


def utilization(info: NodeInfo) -> float:
    """Return the largest share of a resource that the pods of a node request."""
    shares = (info.requested.get(name, 0) / amount for name, amount in info.allocatable.items() if amount)
    return max(shares, default=0.0)


def _active_pods(session: Session) -> Iterable[Pod]:
    for target in session.objects.known("Pod"):
        pod = session.objects.find(target)
        if isinstance(pod, Pod) and not pod.is_finished and not pod.is_terminating:
            yield pod
