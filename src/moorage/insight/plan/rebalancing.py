"""`plan rebalance`: move misplaced pods, duplicates, and pods of hot nodes.

A pod is misplaced if the plugins would reject its node now: taints, affinity, anti-affinity or topology spread have
changed since it was scheduled. Duplicates are pods of a controller on one node while another node has none. A node
is hot if the requests exceed a share of a resource. Moves that do not improve the placement are undone.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from moorage.common.errors import InputError, SelectorError
from moorage.insight.plan.mobility import UNLIMITED, Constraints, MoveRefusal
from moorage.insight.plan.plan_model import ImmovablePod, Plan, PlanStep
from moorage.insight.plan.plan_run import MoveUnit, PlanRun, describe_cluster, utilization
from moorage.insight.whatif.packing_model import find_rejections
from moorage.insight.whatif.session import Session
from moorage.kube.api.pod import Pod
from moorage.scheduler.plugins.node_affinity import find_node_affinity, parse_preferences

MISPLACED: Final = {
    "TaintToleration": "it does not tolerate the taints of its node",
    "NodeAffinity": "its node affinity or selector does not match its node",
    "InterPodAffinity": "its node violates pod affinity or anti-affinity",
    "PodTopologySpread": "its node violates topology spread constraints",
}
"""Plugins with rejections that the plan corrects, and the reason to print."""
REPLICATED: Final = ("ReplicaSet", "ReplicationController", "StatefulSet")
HOT: Final = 0.8
MAX_PASSES: Final = 3


def plan_rebalance(
    session: Session,
    *,
    hot: float = HOT,
    preferred: bool = False,
    constraints: Constraints = UNLIMITED,
    taken_at: float | None = None,
) -> Plan:
    """Plan moves that correct outdated or uneven placements.

    ``hot`` is the share of a resource above which pods leave a node. With ``preferred``, pods also move to nodes that
    their preferred node affinity favors. Nothing is written, and the session remains unchanged.
    """
    if not 0 < hot <= 1:
        raise InputError(
            "--hot", f"{hot:g} is not between 0 and 1", hint="use a number above 0 and up to 1, such as 0.8"
        )
    with session.branch():
        run = PlanRun(session, constraints, taken_at)
        rebalance = Rebalance(run, hot)
        rebalance.move_misplaced()
        rebalance.move_duplicates()
        if preferred:
            rebalance.move_to_preferred()
        rebalance.cool_nodes()
        stuck = tuple(rebalance.find_remaining())
        return Plan(
            goal="rebalance",
            arguments={"hot": hot, **({"preferred": True} if preferred else {}), **constraints.as_data()},
            cluster=describe_cluster(session, taken_at),
            feasible=not stuck,
            reason=f"{stuck[0].pod} remains on {stuck[0].node}: {stuck[0].reason}" if stuck else "",
            steps=tuple(run.steps),
            pending=tuple(run.pending.values()),
            cannot_move=stuck,
            nodes=run.node_changes(),
            notes=run.notes,
            summary=run.summary(),
        )


class Rebalance:
    """Adds the moves of a plan, kind by kind."""

    def __init__(self, run: PlanRun, hot: float) -> None:
        self._run = run
        self._hot = hot
        self._refusals: dict[str, str] = {}

    def move_misplaced(self) -> None:
        """Move pods if the plugins would reject their node; repeat, because a move may cause or fix rejections."""
        for _ in range(MAX_PASSES):
            count = self._run.moves
            for pod, reason in self._list_misplaced():
                self._try_move(pod, reason, is_cordoned=False)
            if self._run.moves == count:
                return

    def _list_misplaced(self) -> Iterator[tuple[Pod, str]]:
        run, session = self._run, self._run.session
        for pod in [pod for name in run.node_names() for pod in run.list_node_pods(name)]:
            if pod.scheduler_name not in session.scheduler.runners:
                continue
            plugin = find_rejections(session, pod.key).get(pod.node_name, "")
            if plugin in MISPLACED:
                yield pod, MISPLACED[plugin]

    def move_duplicates(self) -> None:
        """Move pods of a controller that share a node to nodes without a pod of this controller."""
        run = self._run
        for name in run.node_names():
            by_owner: dict[str, list[Pod]] = {}
            for pod in run.list_node_pods(name):
                owner = pod.metadata.controller
                if owner is not None and owner.kind in REPLICATED:
                    by_owner.setdefault(owner.uid, []).append(pod)
            for owner_uid, pods in by_owner.items():
                for pod in self._cheapest(pods)[: len(pods) - 1]:
                    has_none = lambda step, uid=owner_uid: all(  # noqa: E731
                        self._count(item.node, uid) == 1 for item in step.evict
                    )
                    self._try_move(pod, f"another pod of its controller is on {name}", has_none)

    def _count(self, node: str, owner_uid: str) -> int:
        owners = (pod.metadata.controller for pod in self._run.list_node_pods(node))
        return sum(owner is not None and owner.uid == owner_uid for owner in owners)

    def move_to_preferred(self) -> None:
        """Move pods to nodes where their preferred node affinity has a larger weight."""
        run, cache = self._run, self._run.session.scheduler.cache
        for pod in [pod for name in run.node_names() for pod in run.list_node_pods(name)]:
            try:
                preferences = parse_preferences(find_node_affinity(pod).preferred or ())
            except SelectorError:
                continue  # the scheduler rejects such a pod
            infos = [info for name in run.node_names() if (info := cache.node(name)) is not None]
            weights = {
                info.name: sum(weight for weight, term in preferences if term.matches(info.labels, info.name))
                for info in infos
            }
            if any(weight > weights[pod.node_name] for weight in weights.values()):
                is_favored = lambda step, pod=pod, weights=weights: all(  # noqa: E731
                    weights[item.node] > weights[pod.node_name] for item in step.evict if item.pod == pod.key
                )
                self._try_move(pod, "its preferred node affinity favors another node", is_favored)

    def cool_nodes(self) -> None:
        """Move pods from hot nodes to nodes that do not become hot."""
        run = self._run
        for name in sorted(run.node_names(), key=self._use, reverse=True):
            for pod in self._cheapest(run.list_node_pods(name)):
                if self._use(name) <= self._hot:
                    break
                is_cool = lambda step: all(self._use(item.node) <= self._hot for item in step.evict)  # noqa: E731
                self._try_move(pod, f"{name} is hot ({self._use(name):.0%} of a resource is requested)", is_cool)

    def _use(self, name: str) -> float:
        info = self._run.session.scheduler.cache.node(name)
        return 0.0 if info is None else utilization(info)

    def _cheapest(self, pods: Sequence[Pod]) -> list[Pod]:
        run = self._run
        return sorted(pods, key=lambda pod: (run.rules.restart_cost(pod, run.now), pod.key))

    def _try_move(
        self, pod: Pod, reason: str, is_better: Callable[[PlanStep], bool] | None = None, *, is_cordoned: bool = True
    ) -> None:
        """Move a pod with its group. Undo the move unless all members have a better node."""
        run = self._run
        unit = run.find_unit(pod)
        refusal = self._find_refusal(unit)
        if refusal is not None:
            self._refusals[pod.key] = refusal.reason
            return
        mark = run.mark()
        cordon = [pod.node_name] if is_cordoned and pod.node_name not in run.cordoned else []
        step = run.take_step(cordon, (unit,), cordon)
        pending_message = next((run.pending[item.pod].message for item in step.evict if item.pod in run.pending), "")
        is_moved = any(item.node != item.source for item in step.evict if item.pod == pod.key)
        if pending_message or not is_moved or (is_better is not None and not is_better(step)):
            self._refusals[pod.key] = pending_message or "the scheduler would choose no better node"
            run.roll_back(mark)
            return
        self._refusals.pop(pod.key, None)
        evict = tuple(replace(item, text=f"{item.text}: {reason}", reason=reason) for item in step.evict)
        run.steps[-1] = replace(step, evict=evict)

    def _find_refusal(self, unit: MoveUnit) -> MoveRefusal | None:
        limit = self._run.rules.constraints.max_moves
        if limit is not None and self._run.moves + len(unit.pods) > limit:
            return MoveRefusal("max-moves", f"--max-moves {limit} is reached")
        return self._run.find_refusal(unit)

    def find_remaining(self) -> Iterator[ImmovablePod]:
        """Yield misplaced pods that the plan does not move, and one such pod of each hot node."""
        for pod, reason in self._list_misplaced():
            refusal = self._refusals.get(pod.key, "no better node")
            yield ImmovablePod(pod.key, pod.node_name, "misplaced", f"{reason}; {refusal}")
        for name in self._run.node_names():
            pods = self._cheapest(self._run.list_node_pods(name))
            if pods and self._use(name) > self._hot:
                refusal = self._refusals.get(pods[0].key, "no better node")
                yield ImmovablePod(pods[0].key, name, "hot", f"{name} is hot ({self._use(name):.0%}); {refusal}")
