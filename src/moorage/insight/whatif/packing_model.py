"""The least number of nodes as an optimization problem, solved by OR-Tools CP-SAT (``moorage[solver]``).

The model has the constraints that hold in every state of a cluster: resources, node selectors and affinity, taints,
host ports, and anti-affinity between pods of a node. All other constraints are omitted. Its optimum is therefore a
lower bound for the real plugins. The caller verifies the assignment.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from math import ceil
from typing import Any, Final

from msgspec import Struct

from moorage.common.errors import MoorageError, PluginError
from moorage.insight.whatif.changes import evicted
from moorage.insight.whatif.edits import CreateObject, DeleteObject, ObjectId
from moorage.insight.whatif.session import Session
from moorage.kube.api.pod import Pod
from moorage.kube.api.requests import PODS
from moorage.scheduler.framework.nodeinfo import NodeInfo

STATIC_PLUGINS: Final = ("NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity")
"""Their results do not depend on other pods."""
EXCLUSIVE_PLUGINS: Final = ("NodePorts", "InterPodAffinity")
FIT: Final = "NodeResourcesFit"
MAX_VARIABLES: Final = 400_000
MAX_EXCLUSIVE: Final = 100
"""Limit of pods with host ports or anti-affinity: each pod is compared with all other pods."""
ROUNDING: Final = 1e-6
SMALL: Final = 2000
PRICE_UNITS: Final = 10_000
"""The solver needs integers: prices have four decimals."""
SOLVER_SECONDS: Final = 20.0
MOVES_SECONDS: Final = 5.0


def find_rejections(session: Session, pod: str, plugin: str = "") -> dict[str, str]:
    """Return the nodes that the profile or one plugin rejects, and the rejecting plugin, or none if a plugin raises."""
    try:
        return {row["node"]: row["plugin"] for row in session.filter(pod, plugin) if not row["fits"]}
    except PluginError:
        return {}  # its attempt fails, too, and reports the error


class Bound(Struct, frozen=True):
    """The least possible value, and whether it is proven."""

    value: int
    unit: str
    proven: bool
    by: str


class PackedItem(Struct, frozen=True):
    """A pod that can be on some nodes."""

    key: str
    requests: Mapping[str, int]
    nodes: frozenset[str]
    current: str = ""


class PackingProblem(Struct, frozen=True):
    """Pods and the free capacity of nodes. ``forced`` nodes are in use in any case."""

    room: Mapping[str, Mapping[str, int]]
    items: Sequence[PackedItem]
    forced: frozenset[str] = frozenset()
    conflicts: Sequence[tuple[str, str]] = ()
    """Pods that cannot share a node."""


class PackingSolution(Struct, frozen=True):
    """The nodes in use and the node of each pod; fewer than ``bound`` nodes are impossible."""

    used: int
    bound: int
    nodes: Mapping[str, str]

    @property
    def is_optimal(self) -> bool:
        """Whether no other assignment uses fewer nodes."""
        return self.used == self.bound


def has_solver() -> bool:
    """Return whether OR-Tools is installed."""
    try:
        import ortools.sat.python.cp_model  # noqa: F401
    except ImportError:
        return False
    return True


def solve_packing(
    problem: PackingProblem,
    seconds: float = SOLVER_SECONDS,
    *,
    prices: Mapping[str, float] | None = None,
    max_moves: int | None = None,
) -> PackingSolution | None:
    """Minimize the number of used nodes, then of moves. Return ``None`` without a solver, or if it is too large.

    With ``prices``, the price of the used nodes is minimized instead, and ``bound`` is the least number at that price.
    """
    if not has_solver() or sum(len(item.nodes) for item in problem.items) > MAX_VARIABLES:
        return None
    from ortools.sat.python import cp_model

    model, on, is_used = _build(problem)
    if max_moves is not None:
        model.add(sum(_moves(problem, on)) <= max_moves)
    if prices is not None:
        price = sum(round(prices[name] * PRICE_UNITS) * variable for name, variable in is_used.items())
        model.minimize(price)
        solver = _solver(seconds, len(on))
        if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        model.add(price <= round(solver.objective_value))
    model.minimize(sum(is_used.values()))
    solver = _solver(seconds, len(on))
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    count = sum(solver.boolean_value(variable) for variable in is_used.values())
    lower_bound = count if status == cp_model.OPTIMAL else ceil(float(solver.best_objective_bound) - ROUNDING)
    nodes = {key: name for (key, name), variable in on.items() if solver.boolean_value(variable)}
    # Of the assignments to so few nodes, one with few moves.
    model.add(sum(is_used.values()) <= count)
    model.minimize(sum(_moves(problem, on)))
    second = _solver(MOVES_SECONDS, len(on))
    if second.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        nodes = {key: name for (key, name), variable in on.items() if second.boolean_value(variable)}
    return PackingSolution(count, max(0, lower_bound), nodes)


def find_fewest_moves(problem: PackingProblem, seconds: float = SOLVER_SECONDS) -> int | None:
    """Return a lower bound for the moves after which all pods fit, or ``None`` without a solver.

    Raise NoAssignment if it is proven that no assignment exists.
    """
    if not has_solver() or sum(len(item.nodes) for item in problem.items) > MAX_VARIABLES:
        return None
    from ortools.sat.python import cp_model

    model, on, _ = _build(problem)
    moves = _moves(problem, on)
    model.minimize(sum(moves))
    solver = _solver(seconds, len(on))
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        raise NoAssignment
    return max(0, ceil(float(solver.best_objective_bound) - ROUNDING))


class NoAssignment(MoorageError):
    """The pods do not fit on the nodes, regardless of where they are."""


def _build(problem: PackingProblem) -> tuple[Any, dict[tuple[str, str], Any], dict[str, Any]]:
    """Return the model, a variable for each pod and permitted node, and one for each node in use."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    is_used = {name: model.new_bool_var(f"used {name}") for name in problem.room}
    on = {(item.key, name): model.new_bool_var("") for item in problem.items for name in item.nodes}
    guests: dict[str, list[PackedItem]] = {name: [] for name in problem.room}
    for item in problem.items:
        model.add_exactly_one(on[item.key, name] for name in item.nodes)
        for name in item.nodes:
            guests[name].append(item)
            model.add_implication(on[item.key, name], is_used[name])
    for name, room in problem.room.items():
        if name in problem.forced:
            model.add(is_used[name] == 1)
        for resource, amount in room.items():
            requests = [item.requests.get(resource, 0) * on[item.key, name] for item in guests[name]]
            if requests:
                model.add(sum(requests) <= max(0, amount) * is_used[name])
    for first, second in problem.conflicts:
        for name in problem.room:
            if (first, name) in on and (second, name) in on:
                model.add_at_most_one(on[first, name], on[second, name])
    return model, on, is_used


def _moves(problem: PackingProblem, on: Mapping[tuple[str, str], Any]) -> list[Any]:
    return [on[item.key, item.current].negated() for item in problem.items if (item.key, item.current) in on]


def _solver(seconds: float, variables: int) -> Any:
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1 if variables < SMALL else 2
    solver.parameters.random_seed = 1
    return solver


def model_packing(session: Session, movable: Sequence[Pod], forced: Collection[str] = ()) -> PackingProblem:
    """Describe the nodes of a session and its movable pods. All other pods remain on their nodes."""
    infos = list(session.scheduler.cache.nodes)
    moving = {pod.uid for pod in movable}
    resources = {name for pod in movable for name in pod.requests} | {PODS}
    has_classes = bool(session.objects.known("DeviceClass"))
    room = {info.name: _room(info, moving, resources, has_classes=has_classes) for info in infos}
    allowed_nodes = _AllowedNodes(session, [info.name for info in infos])
    items = [
        PackedItem(pod.key, {**_requests(session, pod), PODS: 1}, allowed_nodes.find(pod), pod.node_name)
        for pod in movable
    ]
    return PackingProblem(room, items, frozenset(forced), list(_find_conflicts(session, movable)))


def _requests(session: Session, pod: Pod) -> Mapping[str, int]:
    runner = session.scheduler.runners.get(pod.scheduler_name)
    names = {plugin.name for plugin in runner.profile.node_plugins} if runner is not None else set()
    return pod.requests if FIT in names else {}


def _room(info: NodeInfo, moving: set[str], resources: Iterable[str], *, has_classes: bool) -> dict[str, int]:
    """Return the capacity of a node for movable pods. An overcommitted node can at least keep its pods."""
    fixed = [pod for pod in info.pods.values() if pod.uid not in moving]
    room = {}
    for name in resources:
        if has_classes and name not in info.allocatable:
            continue  # devices may provide it
        fixed_amount = len(fixed) if name == PODS else sum(pod.requests_on_node.get(name, 0) for pod in fixed)
        now = len(info.pods) if name == PODS else info.requested.get(name, 0)
        room[name] = max(info.allocatable.get(name, 0), now) - fixed_amount
    return room


class _AllowedNodes:
    """The nodes that the static plugins permit for a pod. Equal pods are evaluated once."""

    def __init__(self, session: Session, names: Sequence[str]) -> None:
        self._session, self._names = session, names
        self._known: dict[Any, frozenset[str]] = {}

    def find(self, pod: Pod) -> frozenset[str]:
        """Return the permitted nodes, including the current one."""
        spec = pod.spec
        node_affinity = None if spec.affinity is None else spec.affinity.node_affinity
        key = repr((pod.scheduler_name, spec.node_selector, node_affinity, spec.tolerations))
        if key not in self._known:
            plugins = self._plugins(pod)
            rejected = {name for plugin in plugins for name in find_rejections(self._session, pod.key, plugin)}
            self._known[key] = frozenset(name for name in self._names if name not in rejected)
        return self._known[key] | ({pod.node_name} if pod.node_name else set())

    def _plugins(self, pod: Pod) -> list[str]:
        plugins = self._session.find_runner(pod).profile.node_plugins
        # Whether a pod is bound is not part of the key, and NodeName rejects all nodes but the current one.
        return [plugin.name for plugin in plugins if plugin.name in STATIC_PLUGINS[1:]]


def _find_conflicts(session: Session, movable: Sequence[Pod]) -> Iterable[tuple[str, str]]:
    """Yield pairs of pods that cannot share a node, each found by the plugins on a cluster without movable pods."""

    def is_exclusive(pod: Pod) -> bool:
        affinity = pod.spec.affinity
        away = affinity.pod_anti_affinity if affinity is not None else None
        return bool(pod.host_ports or (away is not None and away.required))

    exclusive = [pod for pod in movable if is_exclusive(pod)]
    if not exclusive or len(exclusive) > MAX_EXCLUSIVE:
        return
    contents = {pod.key: session.objects.content(ObjectId("Pod", pod.namespace, pod.name)) for pod in movable}
    with session.branch():
        for pod in movable:
            session.apply(DeleteObject(ObjectId("Pod", pod.namespace, pod.name)))
        for content in contents.values():
            session.apply(CreateObject(evicted(content)))
        node = next((info.name for info in session.scheduler.cache.nodes), "")
        alone = {pod.key: _is_rejected(session, pod, node) for pod in movable}
        names = {pod.key for pod in exclusive}
        pairs = [(a, b) for a, b in combinations(movable, 2) if a.key in names or b.key in names]
        by_guest: dict[str, list[Pod]] = {}
        for first, second in pairs:
            holder, guest = (first, second) if first.key in names else (second, first)
            by_guest.setdefault(holder.key, []).append(guest)
        for key, guests in by_guest.items():
            with session.branch():
                fresh = evicted(contents[key])
                session.apply(DeleteObject(ObjectId.of(fresh)))
                session.apply(CreateObject({**fresh, "spec": {**fresh["spec"], "nodeName": node}}))
                for guest in guests:
                    if not alone[guest.key] and _is_rejected(session, guest, node):
                        yield key, guest.key


def _is_rejected(session: Session, pod: Pod, node: str) -> bool:
    """Return whether host ports or affinity keep a pending pod from a node."""
    plugins = {plugin.name for plugin in session.find_runner(pod).profile.node_plugins}
    return any(node in find_rejections(session, pod.key, name) for name in EXCLUSIVE_PLUGINS if name in plugins)
