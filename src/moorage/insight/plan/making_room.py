"""`plan defragment` and `plan fit`: the fewest and cheapest moves that make pods fit, without preemption.

For each infeasible pod of the request, the search removes sets of pods from single nodes, the smallest and cheapest
sets first. If a removed pod fits on no other node, the search continues recursively with that pod. The resulting steps
are then repeated without the requested pods, because requested pods are scheduled after the last step.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from moorage.insight.plan.mobility import UNLIMITED, Constraints
from moorage.insight.plan.plan_model import PlacedPod, Plan
from moorage.insight.plan.plan_run import MAX_NAMED, MoveUnit, PlanRun, describe_cluster
from moorage.insight.plan.requests import RequestUnit, create_request, find_pending, place_request
from moorage.insight.whatif.edits import CreateObject, DeleteObject, ObjectId
from moorage.insight.whatif.packing_model import (
    STATIC_PLUGINS,
    Bound,
    NoAssignment,
    find_fewest_moves,
    find_rejections,
    model_packing,
)
from moorage.insight.whatif.session import Session
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import format_nanos
from moorage.kube.api.requests import PODS
from moorage.scheduler.framework.nodeinfo import NodeInfo

MAX_DEPTH: Final = 2
"""Maximum depth of the search: moves that are made for other moved pods."""
MAX_SET: Final = 3
"""Sets up to this size are enumerated. Larger ones are reduced greedily."""
MAX_SETS: Final = 8
"""Accepted sets per node."""
MAX_CHECKS: Final = 40
"""Sets per node that are checked by the plugins."""
MAX_NODES: Final = 40
MAX_TRIALS: Final = 400
"""Maximum number of steps that one search tries."""
MAX_SINGLE: Final = 200
MAX_COMPETITORS: Final = 100
MAX_SUGGESTED_NODES: Final = 500
MAX_SUGGESTED_TRIALS: Final = 30


def plan_room(
    session: Session,
    request: Sequence[str | Mapping[str, Any]] = (),
    *,
    goal: str = "defragment",
    constraints: Constraints = UNLIMITED,
    taken_at: float | None = None,
    trials: int = MAX_TRIALS,
    reads_files: bool = True,
) -> Plan:
    """Plan moves after which the requested pods fit: manifests, files, or names of pods and workloads.

    The default request is all pending pods. Nothing is written, and the session remains unchanged.
    """
    with session.branch():
        units = create_request(session, request, reads_files=reads_files)
        run = PlanRun(session, constraints, taken_at)
        search = RoomSearch(run, units, is_partial=goal == "fit", trials=trials)
        placed, reason = search.find()
        side_effects = ("no pod is pending",) if not units else tuple(search.find_competitors())
        return Plan(
            goal=goal,
            arguments={"for": list(request)} | constraints.as_data(),
            cluster=describe_cluster(session, taken_at),
            feasible=not reason,
            reason=reason,
            steps=tuple(run.steps),
            placed=placed,
            nodes=run.node_changes(),
            notes=(*run.notes, *side_effects),
            summary=run.summary(),
            bound=search.bound(),
        )


def suggest_moves(session: Session, pod: str) -> str:
    """Describe the moves after which a pending pod fits. Return an empty string if a short search finds none."""
    if len(session.scheduler.cache.nodes) > MAX_SUGGESTED_NODES:
        return ""
    plan = plan_room(session, [pod], trials=MAX_SUGGESTED_TRIALS)
    if not plan.feasible or not plan.summary.moves:
        return ""
    pods = "1 pod" if plan.summary.moves == 1 else f"{plan.summary.moves} pods"
    return f"moving {pods} would make room on {plan.placed[0].node}, without preemption: moorage plan fit {pod}"


class Clearing(Struct, frozen=True):
    """Units that leave a node together. The node remains cordoned until they have left."""

    node: str
    units: tuple[MoveUnit, ...]
    cost: float = 0.0

    @property
    def rank(self) -> tuple[int, float]:
        """The order of preference: fewer moves, then lower cost."""
        return sum(len(unit.pods) for unit in self.units), self.cost


class RoomSearch:
    """Searches for steps after which a request fits, and adds them to the run."""

    def __init__(
        self, run: PlanRun, request: Sequence[RequestUnit], *, is_partial: bool = False, trials: int = MAX_TRIALS
    ) -> None:
        self._run = run
        self._session = run.session
        self._request = request
        self._is_partial = is_partial
        """Whether a plan is useful if only some of the requested pods fit."""
        self._trials = trials
        self._is_thorough = trials >= MAX_TRIALS
        self._hopeless: set[str] = set()
        self._fewest: int | None = None

    def find_competitors(self) -> Iterator[str]:
        """Yield a message for pending pods outside the request that may be scheduled first and take the space."""
        requested = [self._session.pod(key) for unit in self._request for key in unit.pods]
        if not self._run.moves:
            return
        lowest = min(pod.priority for pod in requested)
        names = {pod.key for pod in requested}
        other_pods = (
            pod
            for pod in find_pending(self._session)
            if pod.key not in names and pod.priority >= lowest and pod.scheduler_name in self._session.scheduler.runners
        )
        rivals = [pod.key for pod in islice(other_pods, MAX_COMPETITORS) if self._fits(pod.key)]
        if rivals:
            pods = "1 other pending pod" if len(rivals) == 1 else f"{len(rivals)} other pending pods"
            yield f"{pods} of the same or a higher priority may use the free capacity: {', '.join(rivals[:MAX_NAMED])}"

    def find(self) -> tuple[tuple[PlacedPod, ...], str]:
        """Return the final nodes of the requested pods, and why the request does not fit (empty if it fits)."""
        placed = self._try_request()
        if all(item.node for item in placed):
            return placed, ""
        proof = self._prove_impossible(placed)
        if proof and not self._is_partial:
            return placed, proof
        clearings = self._search()
        if clearings is None or len(clearings) > 1:
            proof = proof or self._solve()
        if clearings:
            for is_kept, with_reserved in ((False, False), (True, False), (True, True)):
                final = self._repeat(clearings, is_kept=is_kept, with_reserved=with_reserved)
                if final is not None:
                    return final, self._explain(final, proof)
        return placed, self._explain(placed, proof)

    def bound(self) -> Bound | None:
        """Return the least number of moves, or ``None`` without moves."""
        moves = self._run.moves
        if moves <= 1:
            # The request does not fit without moves, so one move is the minimum.
            return Bound(1, "moves", True, "exhaustive") if moves else None
        is_solved = self._fewest is not None
        return Bound(moves, "moves", moves == self._fewest, "cp-sat" if is_solved else "heuristic")

    def _solve(self) -> str:
        """Compute the least number of moves. Return a proof if no assignment of the pods exists."""
        run = self._run
        if run.rules.constraints.force or self._is_partial or not self._is_thorough:
            return ""  # deleted pods need no node, and some pods may remain pending
        units = run.list_node_units(run.node_names())
        movable = [pod for unit in units if run.find_refusal(unit) is None for pod in unit.pods]
        requested = [self._session.pod(key) for unit in self._request for key in unit.pods]
        try:
            self._fewest = find_fewest_moves(model_packing(self._session, [*movable, *requested]))
        except NoAssignment:
            return "impossible: no assignment of the pods to the nodes exists (proven by CP-SAT)"
        return ""

    def _explain(self, placed: Sequence[PlacedPod], proof: str) -> str:
        first = next((item for item in placed if not item.node), None)
        if first is None or proof:
            return proof if first is not None else ""
        limit, least = self._run.rules.constraints.max_moves, max(1, self._fewest or 0)
        if limit is not None and least > limit and not self._is_partial:
            return f"impossible: --max-moves is {limit}, and at least {least} moves are needed (proven)"
        limited = "" if limit is None else f" with at most {limit} {'move' if limit == 1 else 'moves'}"
        return f"no sequence of moves{limited} was found for {first.pod}; not proven to be impossible"

    def _try_request(self) -> tuple[PlacedPod, ...]:
        with self._session.branch():
            return place_request(self._session, self._request)

    def _prove_impossible(self, placed: Sequence[PlacedPod]) -> str:
        """Return a proof that no moves make the request fit, or an empty string if there is no proof."""
        session = self._session
        nodes = [info for info in session.scheduler.cache.nodes if info.name not in self._run.cordoned]
        pods = [session.pod(item.pod) for item in placed]
        unplaced = [item for item in placed if not item.node and "Insufficient" in item.message]
        for name, nanos in (("cpu", 10**6), ("memory", 10**9)):
            requested = sum(pod.requests.get(name, 0) for pod in pods)
            free = sum(max(0, info.allocatable.get(name, 0) - info.requested.get(name, 0)) for info in nodes)
            if requested > free and any(f"Insufficient {name}" in item.message for item in unplaced):
                needs, has = (format_nanos(number * nanos, is_binary=name == "memory") for number in (requested, free))
                return f"impossible: the request needs {needs} {name}, and all nodes together have {has} free"
        for item in unplaced:
            rejections = find_rejections(session, item.pod)
            possible = [info for info in nodes if rejections.get(info.name) not in STATIC_PLUGINS]
            if not any(self._is_ever_feasible(session.pod(item.pod), info) for info in possible):
                return f"impossible: {item.pod} fits on no node, even without the pods that can move ({item.message})"
        gated = next((pod for pod in pods if pod.spec.scheduling_gates), None)
        return f"impossible: {gated.key} has scheduling gates, which moves do not remove" if gated is not None else ""

    def _is_ever_feasible(self, pod: Pod, info: NodeInfo) -> bool:
        """Return whether the resources of a node without its movable pods are enough for a pod."""
        movable = [member for unit in self._movable_units(info.name) for member in unit.pods]
        return not _shortages(pod, info, [member for member in movable if member.node_name == info.name])

    def _movable_units(self, node: str) -> list[MoveUnit]:
        return [unit for unit in self._run.list_node_units([node]) if self._run.find_refusal(unit) is None]

    def _search(self) -> list[Clearing] | None:
        """Find the clearings for the requested units, one by one."""
        run, mark = self._run, self._run.mark()
        self._clearings: list[Clearing] = []
        self._reserved: dict[str, None] = {}
        try:
            for unit in self._request:
                unit_mark, count, reserved = run.mark(), len(self._clearings), dict(self._reserved)
                if all(map(self._reserve, unit.pods)):
                    continue
                if not self._is_partial:
                    return None
                run.roll_back(unit_mark)
                del self._clearings[count:]
                self._reserved = reserved
                self._hopeless |= set(unit.pods)
            return self._clearings
        finally:
            run.roll_back(mark)

    def _reserve(self, key: str) -> bool:
        """Place a requested pod, after moving other pods if necessary."""
        self._drop_group(key)
        if not self._fits(key) and not self._make_room(key, (), MAX_DEPTH):
            return False
        node = self._session.place(key, preempts=False).node
        self._reserved[node] = None
        return bool(node)

    def _drop_group(self, key: str) -> None:
        """Replace a member of a pod group by a single pod, because the search handles one member after another."""
        if self._session.pod(key).group_key:
            target = ObjectId("Pod", *key.split("/", 1))
            content = self._session.objects.content(target)
            spec = {name: item for name, item in content["spec"].items() if name != "schedulingGroup"}
            self._session.apply(DeleteObject(target), CreateObject({**content, "spec": spec}))

    def _fits(self, key: str) -> bool:
        return bool(self._session.try_pod(key, preempts=False).node)

    def _make_room(self, key: str, cleared: tuple[str, ...], depth: int) -> bool:
        """Take the steps with the fewest moves and the lowest cost after which a pending pod fits."""
        candidates = sorted(self._candidates(self._session.pod(key), cleared), key=lambda item: item.rank)
        return self._take_best(candidates, lambda: self._fits(key), cleared, depth)

    def _take_best(self, candidates: Sequence[Clearing], is_reached: Any, cleared: tuple[str, ...], depth: int) -> bool:
        run, best, winner = self._run, None, None
        for candidate in candidates:
            if best is not None and candidate.rank >= best:
                break
            mark, count, clearing_count = run.mark(), len(run.steps), len(self._clearings)
            if self._clear(candidate, cleared, depth) and is_reached():
                evictions = [item for step in run.steps[count:] for item in step.evict]
                rank = len(evictions), sum(item.cost for item in evictions)
                if best is None or rank < best:
                    best, winner = rank, candidate
            run.roll_back(mark)
            del self._clearings[clearing_count:]
        # The search is deterministic, so a repetition produces the same steps.
        return winner is not None and self._clear(winner, cleared, depth) and is_reached()

    def _clear(self, clearing: Clearing, cleared: tuple[str, ...], depth: int) -> bool:
        """Evict units from a node in as many steps as the budgets need. Return whether all have another node."""
        run, remaining_units = self._run, list(clearing.units)
        limit = run.rules.constraints.max_moves
        while remaining_units:
            self._trials -= 1
            selected, later = run.split_by_budgets(remaining_units)
            if not selected or any(run.find_refusal(unit) for unit in remaining_units) or self._trials < 0:
                return False
            mark = run.mark()
            cordon = [name for name in (*cleared, clearing.node) if name not in run.cordoned]
            step = run.take_step(cordon, selected)
            if limit is not None and run.moves > limit:
                return False
            failed_keys = [item.pod for item in step.evict if item.recreated and not item.node]
            if failed_keys:
                run.roll_back(mark)
                if not depth or not self._make_room_elsewhere(failed_keys[0], (*cleared, clearing.node), depth - 1):
                    return False
                continue
            self._clearings.append(Clearing(clearing.node, tuple(selected)))
            remaining_units = later
        if clearing.node in run.cordoned and clearing.node not in cleared:
            run.set_cordon([clearing.node], False)
            run.steps[-1] = replace(run.steps[-1], uncordon=(*run.steps[-1].uncordon, clearing.node))
        return True

    def _make_room_elsewhere(self, key: str, cleared: tuple[str, ...], depth: int) -> bool:
        """Move other pods to make a running pod fit on a node that is not being cleared."""
        run, pod = self._run, self._session.pod(key)
        unit = run.find_unit(pod)

        def has_node() -> bool:
            mark = run.mark()
            step = run.take_step([name for name in cleared if name not in run.cordoned], (unit,))
            run.roll_back(mark)
            return all(item.node for item in step.evict)

        candidates = sorted(self._candidates(pod, cleared), key=lambda item: item.rank)
        return self._take_best(candidates, has_node, cleared, depth)

    def _candidates(self, pod: Pod, cleared: Sequence[str]) -> Iterator[Clearing]:
        """Yield sets of units that must leave a node to make the pod fit there."""
        run, count = self._run, 0
        infos = {
            info.name: info
            for info in self._session.scheduler.cache.nodes
            if info.name not in cleared
            and info.name not in run.cordoned
            and not run.rules.constraints.excludes(info.name)
        }
        movable = {name: self._movable_units(name) for name in infos}
        # The nodes with the smallest shortage first.
        for name, _ in sorted(
            infos.items(), key=lambda item: (sum(_shares(pod, item[1])), len(movable[item[0]]), item[0])
        ):
            if count >= MAX_NODES:
                break
            sets = list(islice(self._sets(pod, infos[name], movable[name]), MAX_SETS))
            count += bool(sets)
            yield from (self._clearing(name, units) for units in sets)
        if not count:
            # A pod on another node may be the obstacle, for example with affinity or topology spread over zones.
            singles = islice(((name, unit) for name, units in movable.items() for unit in units), MAX_SINGLE)
            yield from (
                self._clearing(name, (unit,)) for name, unit in singles if self._fits_after_removal(pod, (unit,))
            )

    def _clearing(self, node: str, units: Sequence[MoveUnit]) -> Clearing:
        rules, now = self._run.rules, self._run.now
        return Clearing(node, tuple(units), sum(rules.restart_cost(pod, now) for unit in units for pod in unit.pods))

    def _sets(self, pod: Pod, info: NodeInfo, movable: Sequence[MoveUnit]) -> Iterator[tuple[MoveUnit, ...]]:
        """Yield the smallest sets of units without which a node accepts the pod, the cheapest first."""
        own = {unit.key: [member for member in unit.pods if member.node_name == info.name] for unit in movable}
        if _shortages(pod, info, [member for members in own.values() for member in members]):
            return
        cost = {unit.key: self._clearing(info.name, (unit,)).cost for unit in movable}
        ordered = sorted(movable, key=lambda unit: (len(unit.pods), cost[unit.key]))
        checks = 0
        for size in range(1, MAX_SET + 1):
            is_found = False
            for units in combinations(ordered, size):
                if _shortages(pod, info, [member for unit in units for member in own[unit.key]]):
                    continue
                checks += 1
                if checks > MAX_CHECKS:
                    return
                if self._fits_after_removal(pod, units, info.row):
                    is_found = True
                    yield units
            if is_found:
                return
        remaining = list(ordered)
        if not self._fits_after_removal(pod, remaining, info.row):
            return
        for unit in reversed(ordered):
            smaller = [item for item in remaining if item is not unit]
            if self._fits_after_removal(pod, smaller, info.row):
                remaining = smaller
        yield tuple(remaining)

    def _fits_after_removal(self, pod: Pod, units: Sequence[MoveUnit], row: int | None = None) -> bool:
        """Return whether a pod fits, on any node or on one, without some units. A running pod is treated as pending."""
        session = self._session
        with session.branch():
            for member in (member for unit in units for member in unit.pods if member.key != pod.key):
                session.apply(DeleteObject(ObjectId("Pod", member.namespace, member.name)))
            if pod.node_name:
                session.unplace(pod)
            attempt = session.try_pod(pod.key, preempts=False)
        return bool(attempt.node) if row is None else attempt.fits_row(row)

    def _repeat(
        self, clearings: Sequence[Clearing], *, is_kept: bool, with_reserved: bool
    ) -> tuple[PlacedPod, ...] | None:
        """Take the steps, then place the requested pods. Undo all steps and return ``None`` if a pod has no node.

        With ``is_kept``, cleared nodes remain cordoned until the last step. With ``with_reserved``, the nodes that are
        reserved for requested pods are also cordoned.
        """
        run, mark = self._run, self._run.mark()
        extra = [name for name in self._reserved if with_reserved]
        last = {clearing.node: number for number, clearing in enumerate(clearings)}
        own: list[str] = []
        for number, clearing in enumerate(clearings):
            units = [run.find_unit(self._session.pod(unit.pods[0].key)) for unit in clearing.units]
            later = [item.node for item in clearings[number:]] if is_kept else [clearing.node]
            cordon = [name for name in dict.fromkeys((*extra, *later)) if name not in run.cordoned]
            own += cordon
            is_last = number == len(clearings) - 1
            uncordon = own if is_last else [clearing.node] if not is_kept and last[clearing.node] == number else []
            disruptions = run.ledger.count(pod for unit in units for pod in unit.pods)
            if run.ledger.exceeded(disruptions) or any(run.find_refusal(unit) for unit in units):
                run.roll_back(mark)
                return None
            steps = run.take_steps(cordon, units, [name for name in dict.fromkeys(uncordon) if name in own])
            own = [name for name in own if name not in steps[-1].uncordon]
            if any(item.recreated and not item.node for step in steps for item in step.evict):
                run.roll_back(mark)
                return None
        placed = self._try_request()
        if not all(item.node or item.pod in self._hopeless for item in placed):
            run.roll_back(mark)
            return None
        return placed


def _shortages(pod: Pod, info: NodeInfo, removed: Sequence[Pod]) -> bool:
    """Return whether a resource of a node is insufficient for a pod, even without the removed pods."""
    freed: dict[str, int] = {}
    for member in removed:
        for name, amount in member.requests_on_node.items():
            freed[name] = freed.get(name, 0) + amount
    if len(info.pods) + 1 - len(removed) > info.allocatable.get(PODS, len(info.pods) + 1):
        return True
    return any(
        amount > info.allocatable[name] - info.requested.get(name, 0) + freed.get(name, 0)
        for name, amount in pod.requests.items()
        if amount and name in info.allocatable  # devices may provide the others
    )


def _shares(pod: Pod, info: NodeInfo) -> list[float]:
    """Return how much of each resource a node lacks for a pod, as a share of its size."""
    return [
        max(0.0, (amount - info.allocatable.get(name, 0) + info.requested.get(name, 0)) / info.allocatable[name])
        for name, amount in pod.requests.items()
        if info.allocatable.get(name)
    ]
