"""`plan drain`: empty nodes in steps that respect all budgets, and explain which pods cannot leave."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from moorage.cluster import parse_labels
from moorage.common.errors import ApiError, InputError
from moorage.insight.plan.mobility import UNLIMITED, Constraints, MoveRefusal
from moorage.insight.plan.plan_model import ExtraNodes, ImmovablePod, Plan
from moorage.insight.plan.plan_run import MoveUnit, PlanRun, describe_cluster
from moorage.insight.whatif.changes import cloned_node, evicted
from moorage.insight.whatif.edits import CreateObject, DeleteObject, ObjectId
from moorage.insight.whatif.session import Session

MAX_EXTRA_NODES: Final = 20
NO_ROOM: Final = "no-node"


def plan_drain(
    session: Session,
    nodes: Sequence[str] = (),
    *,
    selector: str = "",
    rolling: int | None = None,
    constraints: Constraints = UNLIMITED,
    taken_at: float | None = None,
) -> Plan:
    """Plan how to drain nodes: all together, or ``rolling`` nodes at a time, which are uncordoned after they are empty.

    Nodes are selected by name or by label. Nothing is written, and the session remains unchanged.
    """
    with session.branch():
        run = PlanRun(session, constraints, taken_at)
        targets = _select_nodes(run, nodes, selector)
        drain = Drain(run)
        size = len(targets) if rolling is None else rolling
        for start in range(0, len(targets), size):
            drain.empty(targets[start : start + size], uncordons=rolling is not None)
        stuck = tuple(drain.immovable())
        extra = _find_extra_nodes(run, drain, targets) if stuck else None
        return Plan(
            goal="drain",
            arguments=_arguments(nodes, selector, rolling, constraints),
            cluster=describe_cluster(session, taken_at),
            feasible=not stuck and not run.pending,
            reason=_explain(run, stuck),
            steps=tuple(run.steps),
            pending=tuple(run.pending.values()),
            cannot_move=stuck,
            waits=tuple(sorted(drain.waits)),
            extra_nodes=extra,
            nodes=run.node_changes(),
            notes=run.notes,
            summary=run.summary(),
        )


def _arguments(nodes: Sequence[str], selector: str, rolling: int | None, constraints: Constraints) -> dict[str, Any]:
    arguments: dict[str, Any] = {"nodes": list(nodes), **constraints.as_data()}
    return arguments | ({"selector": selector} if selector else {}) | ({} if rolling is None else {"rolling": rolling})


def _select_nodes(run: PlanRun, names: Sequence[str], selector: str) -> list[str]:
    run.check_nodes(names)
    selected = list(dict.fromkeys(names))
    if selector:
        try:
            matcher = parse_labels(selector)
        except ApiError as error:
            raise InputError(f"--selector {selector}", str(error), hint="use a form such as pool=old") from error
        labels = {
            name: run.session.objects.content(ObjectId("Node", "", name))["metadata"].get("labels") or {}
            for name in run.node_names()
        }
        matching = [name for name in run.node_names() if matcher.matches(labels[name])]
        if not matching:
            raise InputError(
                f"--selector {selector}", "no node has these labels", hint="use a label of the nodes, such as pool=old"
            )
        selected = list(dict.fromkeys((*selected, *matching)))
    if not selected:
        raise InputError(
            "plan drain", "no nodes specified", hint="add node names, or a label such as --selector pool=old"
        )
    targets = [name for name in selected if not run.rules.constraints.excludes(name)]
    if not targets:
        raise InputError("plan drain", "--exclude excludes every node to drain", hint="change --exclude or the nodes")
    return targets


def _explain(run: PlanRun, stuck: Sequence[ImmovablePod]) -> str:
    if not stuck and not run.pending:
        return ""
    if not stuck:
        count = len(run.pending)
        return f"{count} evicted {'pod remains' if count == 1 else 'pods remain'} pending"
    first = stuck[0]
    other_count = len(stuck) - 1
    suffix = f"; {other_count} more {'pod' if other_count == 1 else 'pods'} cannot move" if other_count else ""
    return f"{first.pod} cannot leave {first.node}: {first.reason.rstrip('., ')}{suffix}"


class Drain:
    """Empties nodes in a plan, and records the units that cannot move."""

    def __init__(self, run: PlanRun) -> None:
        self._run = run
        self.refusals: dict[str, tuple[MoveUnit, MoveRefusal]] = {}
        self.waits: set[str] = set()

    def immovable(self) -> list[ImmovablePod]:
        """Return the pods that should have moved."""
        return [
            ImmovablePod(pod.key, pod.node_name, refusal.kind, refusal.reason)
            for unit, refusal in self.refusals.values()
            for pod in unit.pods
        ]

    def empty(self, nodes: Sequence[str], *, uncordons: bool = False) -> bool:
        """Cordon nodes and evict their pods in as many steps as the budgets need. Return whether all pods left."""
        run, count = self._run, len(self._run.steps)
        cordon = [name for name in nodes if name not in run.cordoned]
        units = run.list_node_units(nodes)
        retried = self._evict(nodes, cordon, units)
        if retried:
            # Other pods have moved: a pod that depends on them may have a node now.
            for unit in retried:
                del self.refusals[unit.key]
            hopeless = self._evict(nodes, [name for name in cordon if name not in run.cordoned], retried)
            if hopeless and run.rules.constraints.allow_pending:
                self._evict_anyway(nodes, [name for name in cordon if name not in run.cordoned], hopeless)
        if cordon and len(run.steps) == count:
            run.take_step(cordon, ())
        if cordon and uncordons:
            run.set_cordon(cordon, False)
            run.steps[-1] = replace(run.steps[-1], uncordon=tuple(cordon))
        is_empty = {name: not run.list_node_pods(name) for name in nodes}
        run.emptied |= {name: None for name in nodes if is_empty[name]}
        return all(is_empty.values())

    def _evict(self, nodes: Sequence[str], cordon: Sequence[str], units: Sequence[MoveUnit]) -> list[MoveUnit]:
        """Evict units in steps. Return the units that fit on no other node."""
        run, remaining_units, hopeless = self._run, list(units), list[MoveUnit]()
        while remaining_units:
            remaining_units = [unit for unit in remaining_units if not self._is_refused(unit)]
            selected, later = self._choose(remaining_units)
            if not selected:
                break
            mark = run.mark()
            steps = run.take_steps([name for name in cordon if name not in run.cordoned], selected)
            recreated = (item for step in steps for item in step.evict if item.recreated)
            failed_keys = {item.pod for item in recreated if not item.node or item.node in nodes}
            if not failed_keys:
                remaining_units = later
                self.waits |= {key for unit in later for key in run.ledger.count(unit.pods)}
                continue
            messages = {pod: run.pending[pod].message if pod in run.pending else "" for pod in failed_keys}
            run.roll_back(mark)
            for unit in selected:
                pod = next((pod for pod in unit.pods if pod.key in failed_keys), None)
                if pod is not None:
                    returns = "it tolerates the cordon, and the scheduler returns it to a node that is drained"
                    self.refusals[unit.key] = unit, MoveRefusal(NO_ROOM, messages[pod.key] or returns)
                    hopeless.append(unit)
            remaining_units = [unit for unit in remaining_units if unit.key not in self.refusals]
        return hopeless

    def _is_refused(self, unit: MoveUnit) -> bool:
        refusal = self._run.find_refusal(unit)
        if refusal is not None:
            self.refusals[unit.key] = unit, refusal
        return refusal is not None

    def _choose(self, candidates: Sequence[MoveUnit]) -> tuple[list[MoveUnit], list[MoveUnit]]:
        """Select the units of the next step, and the units of later steps; reject units beyond the limit of moves."""
        selected, later = self._run.split_by_budgets(candidates)
        limit = self._run.rules.constraints.max_moves
        if limit is None:
            return selected, later
        quota, accepted = limit - self._run.moves, list[MoveUnit]()
        for unit in selected:
            if len(unit.pods) <= quota:
                accepted.append(unit)
                quota -= len(unit.pods)
            else:
                self.refusals[unit.key] = unit, MoveRefusal("max-moves", f"--max-moves {limit} is reached")
        return accepted, later

    def _evict_anyway(self, nodes: Sequence[str], cordon: Sequence[str], units: Sequence[MoveUnit]) -> None:
        """Evict units that will remain pending, except units that would return to a drained node."""
        run = self._run
        for unit in units:
            if run.find_refusal(unit) is not None:
                continue
            mark = run.mark()
            step = run.take_step([name for name in cordon if name not in run.cordoned], (unit,))
            if any(item.node in nodes for item in step.evict if item.node):
                run.roll_back(mark)
            else:
                del self.refusals[unit.key]


def _find_extra_nodes(run: PlanRun, drain: Drain, targets: Sequence[str]) -> ExtraNodes | None:
    """Return how many copies of the drained nodes would hold all infeasible pods, or ``None`` if copies do not help."""
    units = [unit for unit, refusal in drain.refusals.values() if refusal.kind == NO_ROOM]
    counts: dict[str, int] = {}
    with run.session.branch():
        nodes = {pod.node_name for unit in units for pod in unit.pods}
        run.set_cordon([name for name in targets if name in nodes and name not in run.cordoned], True)
        contents = {
            pod.key: run.session.objects.content(ObjectId("Pod", pod.namespace, pod.name))
            for unit in units
            for pod in unit.pods
        }
        run.session.apply(*(DeleteObject(ObjectId.of(content)) for content in contents.values()))
        for unit in units:
            run.session.apply(*(CreateObject(evicted(contents[pod.key])) for pod in unit.pods))
            if not _add_nodes_for(run, unit, counts):
                return None
    if not counts:
        return None
    first, count = next(iter(counts)), sum(counts.values())
    nodes_text = f"{count} more node{'' if count == 1 else 's'}"
    shapes = f"like {first}"
    if len(counts) > 1:
        shapes = f"({', '.join(f'{number} like {name}' for name, number in counts.items())})"
    return ExtraNodes(count, first, f"{nodes_text} {shapes} would hold the pods without a node")


def _add_nodes_for(run: PlanRun, unit: MoveUnit, counts: dict[str, int]) -> bool:
    """Place a unit after adding copies of its nodes, one by one. Return whether it fits with few copies."""
    session = run.session
    likes = list(dict.fromkeys(pod.node_name for pod in unit.pods))
    for number in range(MAX_EXTRA_NODES + 1):
        if _place_unit(session, unit):
            return True
        like = likes[number % len(likes)]
        if sum(counts.values()) >= MAX_EXTRA_NODES or (not unit.group and number):
            return False
        counts[like] = counts.get(like, 0) + 1
        node = cloned_node(session.objects.content(ObjectId("Node", "", like)), f"{like}-extra-{counts[like]}")
        session.apply(CreateObject(node))
    return False


def _place_unit(session: Session, unit: MoveUnit) -> bool:
    """Place the pods of a unit. Return whether all have a node."""
    if not unit.group:
        return bool(session.place(unit.pods[0].key, preempts=False).node)
    mark = session.mark()
    placed = session.place_group(unit.group, preempts=False).placed
    if all(placed.get(pod.key) for pod in unit.pods):
        return True
    session.roll_back(mark)
    return False
