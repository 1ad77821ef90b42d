"""`plan consolidate`: empty as many nodes as possible, and prefer the most expensive nodes if prices are known.

The nodes are emptied in several orders, and the best plan is returned. With ``moorage[solver]``, the search also
empties the nodes that an optimal assignment does not use. The bound is proven if the plugins accept that assignment.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Final, TypeAlias

from msgspec.structs import replace

from moorage.insight.plan.draining import Drain
from moorage.insight.plan.mobility import UNLIMITED, Constraints
from moorage.insight.plan.plan_model import Plan, PlanStep
from moorage.insight.plan.plan_run import PlanRun, describe_cluster, utilization
from moorage.insight.whatif.edits import ObjectId
from moorage.insight.whatif.packing import accepts_assignment, find_lower_bound
from moorage.insight.whatif.packing_model import Bound, PackingSolution, model_packing, solve_packing
from moorage.insight.whatif.session import Session

PRICE: Final = "moorage.io/price-per-hour"
DEFAULT_SECONDS: Final = 60.0
Rank: TypeAlias = tuple[float, int, int]
MAX_STEERED: Final = 50
"""Maximum number of nodes for which cordons direct each moved pod to a selected node."""


def plan_consolidate(
    session: Session,
    *,
    constraints: Constraints = UNLIMITED,
    taken_at: float | None = None,
    seconds: float = DEFAULT_SECONDS,
) -> Plan:
    """Plan how to empty as many nodes as possible. They remain cordoned. The session remains unchanged.

    The annotation ``moorage.io/price-per-hour`` of a node is its price. The search stops after ``seconds``.
    """
    with session.branch():
        consolidation = Consolidation(PlanRun(session, constraints, taken_at), monotonic() + seconds)
        return consolidation.plan(taken_at)


class Consolidation:
    """Tries to empty nodes in several orders."""

    def __init__(self, run: PlanRun, end: float) -> None:
        self._run = run
        self._end = end
        self._prices = {name: self._read_price(name) for name in run.node_names()}
        self._is_stopped = False

    def _read_price(self, name: str) -> float:
        metadata = self._run.session.objects.content(ObjectId("Node", "", name))["metadata"]
        try:
            return max(0.0, float((metadata.get("annotations") or {}).get(PRICE, 0)))
        except ValueError:
            return 0.0

    def plan(self, taken_at: float | None) -> Plan:
        """Return the best plan, with a bound."""
        run, session, mark = self._run, self._run.session, self._run.mark()
        before = self._list_used_nodes()
        lowest, solution, unused = find_lower_bound(session), None, list[str]()
        winner, best = self._choose(self._orders(), lowest, None, self._rank())
        if best[1] > lowest or any(self._prices.values()):
            solution = self._solve()
        if solution is not None:
            lowest = max(lowest, solution.bound)
            unused = [name for name in run.node_names() if name not in self._find_used_nodes(solution)]
            winner, best = self._choose(self._attempts(solution), lowest, winner, best)
            if any(self._prices.values()) and (cheapest := self._solve(self._prices)) is not None:
                winner, best = self._choose(self._attempts(cheapest), lowest, winner, best)
        if winner is not None:
            winner()
        count = len(self._list_used_nodes())
        method = "heuristic" if solution is None else "cp-sat"
        bound = Bound(count, "nodes", count <= lowest, method)
        is_reached = count < len(before) or bound.proven
        stopped = "the time limit ended the search before all nodes were tried" if self._is_stopped else ""
        saved = sum(self._prices[name] for name in set(before) - set(self._list_used_nodes()))
        plan = Plan(
            goal="consolidate",
            arguments=run.rules.constraints.as_data(),
            cluster=describe_cluster(session, taken_at),
            feasible=is_reached,
            reason=stopped if is_reached else stopped or "no node can be emptied",
            steps=_merge_cordons(run.steps),
            pending=tuple(run.pending.values()),
            notes=run.notes,
            nodes=run.node_changes(),
            summary=replace(run.summary(), price_saved=round(saved, 4)),
            bound=bound,
        )
        if solution is None or not solution.is_optimal or bound.proven:
            return plan
        # This check is last because it deletes nodes, which drops the first recorded size of each image from the cache.
        run.roll_back(mark)
        if not accepts_assignment(session, solution.nodes, unused):
            return plan
        return replace(plan, bound=Bound(lowest, "nodes", True, method), feasible=True, reason=stopped)

    def _list_used_nodes(self) -> list[str]:
        return [name for name in self._run.node_names() if self._run.list_node_pods(name)]

    def _rank(self) -> Rank:
        """Return the price and the number of used nodes, and the moves so far."""
        names = self._list_used_nodes()
        return sum(self._prices[name] for name in names), len(names), self._run.moves

    def _solve(self, prices: Mapping[str, float] | None = None) -> PackingSolution | None:
        """Find the fewest or the cheapest nodes for the movable pods. Other pods remain on their nodes."""
        run = self._run
        units = run.list_node_units(run.node_names())
        movable = [pod for unit in units if run.find_refusal(unit) is None for pod in unit.pods]
        moving = {pod.uid for pod in movable}
        forced = [name for name in run.node_names() if any(pod.uid not in moving for pod in run.list_node_pods(name))]
        problem = model_packing(run.session, movable, forced)
        return solve_packing(problem, prices=prices, max_moves=run.rules.constraints.max_moves)

    def _find_used_nodes(self, solution: PackingSolution) -> set[str]:
        moving = set(solution.nodes)
        fixed = {
            name for name in self._run.node_names() if any(p.key not in moving for p in self._run.list_node_pods(name))
        }
        return set(solution.nodes.values()) | fixed

    def _orders(self) -> Iterable[partial[None]]:
        """Yield drains of all nodes: the emptiest first, and the most expensive first."""
        run, by_use = self._run, self._sort_by_use()
        yield partial(self._empty, by_use)
        if any(self._prices.values()):
            yield partial(
                self._empty, sorted(by_use, key=lambda name: (bool(run.list_node_pods(name)), -self._prices[name]))
            )

    def _attempts(self, solution: PackingSolution) -> Iterable[partial[None]]:
        """Yield drains of the nodes that an assignment does not use."""
        used_names = self._find_used_nodes(solution)
        names = self._sort_by_use()
        spare = [name for name in names if name not in used_names]
        yield partial(self._empty, spare)
        if len(names) <= MAX_STEERED:
            yield partial(self._steer, solution.nodes, spare)

    def _sort_by_use(self) -> list[str]:
        run = self._run
        shares = {info.name: utilization(info) for info in run.session.scheduler.cache.nodes}
        names = [name for name in run.node_names() if not run.rules.constraints.excludes(name)]
        return sorted(names, key=lambda name: (bool(run.list_node_pods(name)), shares[name], name))

    def _choose(
        self, attempts: Iterable[partial[None]], lowest: int, winner: partial[None] | None, best: Rank
    ) -> tuple[partial[None] | None, Rank]:
        """Try all attempts and undo them. Return the best one, and its rank."""
        run, mark = self._run, self._run.mark()
        for attempt in attempts:
            if best[1] <= lowest and not any(self._prices.values()):
                break
            attempt()
            rank, emptied = self._rank(), list(run.emptied)
            run.roll_back(mark)
            if rank < best:
                # Repeating only the emptied nodes produces the same steps and needs no time limit.
                best, winner = rank, attempt
                if attempt.func == self._empty:
                    winner = partial(self._empty, emptied, is_limited=False)
                # One node after another, a pod may move to a node that is emptied later; together, it moves once.
                together = partial(self._empty_together, emptied)
                together()
                if self._rank() < best:
                    best, winner = self._rank(), together
                run.roll_back(mark)
        return winner, best

    def _empty_together(self, names: Sequence[str]) -> None:
        """Empty nodes in one step. Undo it if a pod cannot leave."""
        run, mark = self._run, self._run.mark()
        if not Drain(run).empty(names) or run.pending:
            run.roll_back(mark)

    def _empty(self, order: Sequence[str], *, is_limited: bool = True) -> None:
        """Empty one node after another. Undo the steps of a node if a pod cannot leave."""
        run = self._run
        for name in order:
            if is_limited and monotonic() > self._end:
                self._is_stopped = True
                return
            if any(run.find_refusal(unit) is not None for unit in run.list_node_units([name])):
                continue
            mark, drain = run.mark(), Drain(run)
            if not drain.empty([name]) or run.pending:
                run.roll_back(mark)

    def _steer(self, nodes: Mapping[str, str], spare: Sequence[str]) -> None:
        """Move each pod to the node of an assignment. In each step, all other nodes are cordoned."""
        run, mark = self._run, self._run.mark()
        target_nodes = {key: node for key, node in nodes.items() if run.session.pod(key).node_name != node}
        while target_nodes:
            moved_keys = [key for key, node in target_nodes.items() if self._move(key, node, spare)]
            if not moved_keys:
                run.roll_back(mark)
                return
            for key in moved_keys:
                del target_nodes[key]
        run.emptied |= dict.fromkeys(spare)

    def _move(self, key: str, node: str, spare: Sequence[str]) -> bool:
        run = self._run
        unit = run.find_unit(run.session.pod(key))
        limit = run.rules.constraints.max_moves
        if unit.group or run.find_refusal(unit) is not None or (limit is not None and run.moves >= limit):
            return False
        mark = run.mark()
        cordon = [name for name in run.node_names() if name != node and name not in run.cordoned]
        step = run.take_step(cordon, (unit,), [name for name in cordon if name not in spare])
        if step.evict[0].node != node:
            run.roll_back(mark)
            return False
        return True


def _merge_cordons(steps: Sequence[PlanStep]) -> tuple[PlanStep, ...]:
    """Combine steps without evictions with the next step: a step cordons its nodes first."""
    merged_steps: list[PlanStep] = []
    for step in steps:
        if merged_steps and not merged_steps[-1].evict and not merged_steps[-1].uncordon:
            merged_steps[-1] = replace(step, cordon=(*merged_steps[-1].cordon, *step.cordon))
        else:
            merged_steps.append(step)
    return tuple(merged_steps)
