"""The obstacles of a pod on each node: the results of all plugins, not only of the first that rejects.

A scheduler stops at the first plugin that rejects a node. A suggestion needs to know whether that plugin is the only
one.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from moorage.common.errors import PluginError
from moorage.insight.whatif.attempts import Attempt
from moorage.insight.whatif.session import Session
from moorage.kube.api.container import Container
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import Quantity
from moorage.kube.api.requests import PODS
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes
from moorage.scheduler.engine.extension_points import pre_filter
from moorage.scheduler.engine.outcomes import NOT_EXAMINED
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.statuses import StatusTable, rejected_rows
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.plugin import FilterPlugin, NodeNames, PreFilterAnswer, PreFilterPlugin
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.plugins.dynamic_resources.filter import CANNOT_FIT

FIT: Final = "NodeResourcesFit"
DEVICES: Final = "DynamicResources"
INSUFFICIENT: Final = "Insufficient "
TOO_MANY_PODS: Final = "Too many pods"
NARROWED: Final = Status.unresolvable("node(s) didn't match the names that the pod requires")


class Obstacles(Struct):
    """The rejections of each row by plugin. ``everywhere`` are the rejections of the pod itself."""

    rows: list[dict[str, Status]]
    everywhere: dict[str, Status] = field(default_factory=dict)

    def plugins(self) -> list[str]:
        """List all plugins that reject a node, in the order of their first rejection."""
        names = dict.fromkeys(self.everywhere)
        for row in self.rows:
            names.update(dict.fromkeys(row))
        return list(names)

    def of(self, row: int) -> dict[str, Status]:
        """Return the obstacles of a row, including those of all rows."""
        return {**self.everywhere, **self.rows[row]}

    def where_only(self, names: Iterable[str], *, but_for_preemption: bool = False) -> list[int]:
        """Find the rows that only these plugins reject. Preemption may remove obstacles that are not unresolvable."""
        expected = frozenset(names)
        if not self.everywhere.keys() <= expected:
            return []
        return [
            row
            for row, statuses in enumerate(self.rows)
            if all(
                name in expected or (but_for_preemption and status.code == Code.UNSCHEDULABLE)
                for name, status in statuses.items()
            )
        ]


def find_obstacles(session: Session, pod: Pod, attempt: Attempt) -> Obstacles:
    """Run every filter on every node."""
    profile, nodes = session.find_runner(pod).profile, session.scheduler.cache.nodes
    obstacles = Obstacles([{} for _ in range(len(nodes))])
    state = CycleState()
    skipped_plugins: set[str] = set()
    for preparing in profile.pre_filter:
        result = _run_pre_filter(preparing, state, pod, nodes)
        if isinstance(result, NodeNames):
            for row, info in enumerate(nodes):
                if info.name not in result.names:
                    obstacles.rows[row].setdefault(preparing.name, NARROWED.by(preparing.name))
        elif isinstance(result, Status):
            skipped_plugins.add(preparing.name)
            if result.code == Code.SKIP:
                state.skipped_filters.add(preparing.name)
            else:
                obstacles.everywhere[preparing.name] = result.by(preparing.name)
    for plugin in profile.filter:
        if plugin.name not in skipped_plugins:
            for row, status in _run_filter(plugin, state, pod, nodes, np.arange(len(nodes))):
                obstacles.rows[row].setdefault(plugin.name, status)
    _check_devices_again(obstacles, profile, pod, nodes)
    _add_nominated(obstacles, nodes, attempt)
    return obstacles


def _run_pre_filter(plugin: PreFilterPlugin, state: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
    try:
        return pre_filter(plugin, state, pod, nodes)
    except PluginError as error:
        return Status.error(str(error))


def _run_filter(
    plugin: FilterPlugin, state: CycleState, pod: Pod, nodes: NodeTable, rows: RowArray
) -> Iterator[tuple[int, Status]]:
    """Run a filter on some rows. If it fails, find the failing rows by bisection."""
    alive = None if len(rows) == len(nodes) else np.isin(np.arange(len(nodes)), rows)
    table = StatusTable()
    try:
        rejections = list(rejected_rows(plugin, state, pod, nodes, table, alive))
    except PluginError as error:
        if len(rows) == 1:
            yield int(rows[0]), Status.error(str(error)).by(plugin.name)
            return
        for half in np.array_split(rows, 2):
            yield from _run_filter(plugin, state, pod, nodes, half)
        return
    for rejected, number in rejections:
        status = table[number]
        assert status is not None
        yield from ((int(row), status) for row in np.flatnonzero(rejected))


def _check_devices_again(obstacles: Obstacles, profile: Profile, pod: Pod, nodes: NodeTable) -> None:
    """Run DynamicResources without the extended resources that a node does not have.

    The plugin rejects such nodes without examining their devices. In a scheduler, NodeResourcesFit rejects them first
    for the same reason: that must not be treated as two obstacles.
    """
    groups: dict[frozenset[str], list[int]] = {}
    for row, statuses in enumerate(obstacles.rows):
        fit, devices = statuses.get(FIT), statuses.get(DEVICES)
        if fit is not None and devices is not None and devices.reasons == CANNOT_FIT.reasons:
            absent = {name for name in list_short_resources(fit) if "/" in name and name not in nodes[row].allocatable}
            groups.setdefault(frozenset(absent), []).append(row)
    for names, rows in groups.items():
        if names:
            for row in rows:
                del obstacles.rows[row][DEVICES]
            reduced_pod, state = without_resources(pod, names), CycleState()
            preparing = next(item for item in profile.pre_filter if item.name == DEVICES)
            if _run_pre_filter(preparing, state, reduced_pod, nodes) is None:
                plugin = next(item for item in profile.filter if item.name == DEVICES)
                for row, status in _run_filter(plugin, state, reduced_pod, nodes, np.array(rows, dtype=np.int64)):
                    obstacles.rows[row][DEVICES] = status


def list_short_resources(status: Status) -> tuple[str, ...]:
    """Return the insufficient resources of a rejection."""
    resources = [reason.removeprefix(INSUFFICIENT) for reason in status.reasons if reason.startswith(INSUFFICIENT)]
    return tuple(resources + [PODS for reason in status.reasons if reason == TOO_MANY_PODS])


def without_resources(pod: Pod, names: AbstractSet[str]) -> Pod:
    """Return a copy of a pod without the requests for some resources."""

    def kept(amounts: Mapping[str, Quantity]) -> dict[str, Quantity]:
        return {name: amount for name, amount in amounts.items() if name not in names}

    def less(container: Container) -> Container:
        resources = container.resources
        resources = replace(resources, requests=kept(resources.requests), limits=kept(resources.limits))
        return replace(container, resources=resources)

    spec = pod.spec
    containers, init_containers = (tuple(map(less, items)) for items in (spec.containers, spec.init_containers))
    return replace(pod, spec=replace(spec, containers=containers, init_containers=init_containers))


def _add_nominated(obstacles: Obstacles, nodes: NodeTable, attempt: Attempt) -> None:
    """Add obstacles of the attempt itself: nodes that are nominated for other pods, and rejections of extenders."""
    result = attempt.found.result if isinstance(attempt.found, ExtendedNodes) else attempt.found
    if result is None or result.diagnosis.pre_filter is not None:
        return
    statuses = result.diagnosis.statuses
    for row, row_statuses in enumerate(obstacles.rows):
        if not row_statuses and not attempt.fits_row(row):
            status = statuses[nodes[row].name]
            if status is not NOT_EXAMINED:
                row_statuses[status.plugin] = status
