"""The history of a simulation: the lifecycle of each pod and the utilization of the nodes, from the store's changes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from moorage.cluster.apiserver.storage.store import Entry, Store, StoredChange
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.requests import CPU
from moorage.scheduler.decisions.decision import Decision

PODS: Final = "pods"
NODES: Final = "nodes"
_MILLI: Final = 1000


class PodHistory(Struct, rename="camel", omit_defaults=True):
    """The lifecycle of a pod. Times are seconds since the start of the simulation.

    ``waited`` is the time without a node, until the end if the pod never got one. Pods that had a node from the start
    have no ``waited`` and no ``bound``.
    """

    pod: str
    created: float
    waited: float | None = None
    node: str = ""
    bound: float | None = None
    finished: float | None = None
    phase: str = ""
    evicted: float | None = None
    evicted_by: str = ""
    deleted: float | None = None


class Utilization(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The requested amount of a resource: CPUs, bytes, or plain counts.

    ``requested`` is the amount at the end, ``peak`` the maximum, ``mean`` the mean over virtual time.
    """

    resource: str
    allocatable: float
    requested: float
    peak: float
    mean: float
    group: str = ""


class Run(Struct, frozen=True):
    """The result of a simulation: decisions in order of the attempts, pods in order of creation."""

    decisions: list[Decision]
    timeline: list[PodHistory]
    utilisation: list[Utilization]
    seconds: float
    """Virtual time that passed."""
    is_quiet: bool
    """Whether it ended because nothing would have changed any more."""
    refusals: Mapping[str, str] = {}
    """Writes of controllers that the API rejected, by controller and object."""
    faults: Sequence[str] = ()
    """Exceptions, invalid results and timeouts of plugins, each once for each place in their code."""

    def more(self) -> dict[str, Any]:
        """Return the fields that are printed after the decisions."""
        return {
            "simulated": {"seconds": self.seconds, "quiet": self.is_quiet},
            "timeline": self.timeline,
            "utilisation": self.utilisation,
        }


class RunHistory:
    """Observes the store of a simulation. ``group_by`` is a node label."""

    def __init__(self, store: Store, now: Callable[[], float], *, group_by: str = "") -> None:
        self._now = now
        self._start = now()
        self._last_change = self._start
        self._group_by = group_by
        self._pods: dict[str, PodHistory] = {}
        self._nodes: dict[str, Node] = {}
        self._placed: dict[str, tuple[str, dict[str, int]]] = {}
        self._levels: dict[tuple[str, str], Level] = {}
        store.subscribe(self._on_change)

    @property
    def seconds(self) -> float:
        """Seconds until the last change, or the last attempt that failed with an error."""
        return _round(self._last_change - self._start)

    def end_at(self, seconds: float) -> None:
        """Set the end of the history, in seconds after its start."""
        self._last_change = self._start + seconds

    def timeline(self, evictors: Mapping[str, str]) -> list[PodHistory]:
        """Return the lifecycle of each pod in order of creation. ``evictors`` maps uids of victims to preemptors."""
        end = self.seconds
        for uid, by in evictors.items():
            if uid in self._pods:
                self._pods[uid].evicted_by = by
        for record in self._pods.values():
            if record.waited is None and not record.node:
                waited_until = record.deleted if record.deleted is not None else end
                record.waited = _round(waited_until - record.created)
        return list(self._pods.values())

    def note_eviction(self, uid: str) -> None:
        """Record that the scheduler has just evicted a pod."""
        if uid in self._pods and self._pods[uid].evicted is None:
            self._pods[uid].evicted = self._moment()

    def note_failure(self) -> None:
        """Record a failed attempt, which the store may not show."""
        self._last_change = self._now()

    def utilisation(self) -> list[Utilization]:
        """Return the utilization of the nodes by group and resource, without resources that no node offers."""
        offered: dict[tuple[str, str], int] = {}
        for node in self._nodes.values():
            for resource, amount in node.allocatable.items():
                key = (self._group(node.name), resource)
                offered[key] = offered.get(key, 0) + amount
        end = self._last_change
        rows = []
        for group, resource in sorted(offered, key=_order):
            level, unit = self._levels.get((group, resource), Level(self._start)), _MILLI if resource == CPU else 1
            level.settle(end)
            mean = level.area / (end - self._start) if end > self._start else level.amount
            rows.append(
                Utilization(
                    resource=resource,
                    allocatable=_round(offered[group, resource] / unit),
                    requested=_round(level.amount / unit),
                    peak=_round(level.peak / unit),
                    mean=_round(mean / unit),
                    group=group,
                )
            )
        return rows

    def _moment(self) -> float:
        return _round(self._now() - self._start)

    def _on_change(self, resource: str, change: StoredChange) -> None:
        self._last_change = self._now()
        if resource == PODS:
            self._pod_changed(change.before, change.after)
        elif resource == NODES:
            entry = change.after or change.before
            assert entry is not None
            if change.after is not None:
                self._nodes[entry.key] = entry.typed(Node)
            else:
                self._nodes.pop(entry.key, None)

    def _pod_changed(self, before: Entry | None, after: Entry | None) -> None:
        if after is None:
            assert before is not None
            uid = before.typed(Pod).uid
            self._free(uid)
            if uid in self._pods:
                self._pods[uid].deleted = self._moment()
            return
        pod = after.typed(Pod)
        uid, node = pod.metadata.uid, pod.spec.node_name
        record = self._pods.get(uid)
        if record is None:
            record = self._pods[uid] = PodHistory(after.key, self._moment(), node=node)
        elif node and not record.node:
            record.node, record.bound = node, self._moment()
            record.waited = _round(record.bound - record.created)
        if pod.is_finished:
            if record.finished is None and before is not None:
                record.finished, record.phase = self._moment(), pod.status.phase
            self._free(uid)
        elif node and uid not in self._placed:
            group, requests = self._group(node), {**pod.requests_on_node, PODS: 1}
            self._placed[uid] = (group, requests)
            self._add(group, requests, 1)

    def _free(self, uid: str) -> None:
        group, requests = self._placed.pop(uid, ("", {}))
        self._add(group, requests, -1)

    def _add(self, group: str, requests: dict[str, int], sign: int) -> None:
        now = self._now()
        for resource, amount in requests.items():
            level = self._levels.get((group, resource))
            if level is None:
                level = self._levels[group, resource] = Level(self._start)
            level.settle(now)
            level.amount += sign * amount
            level.peak = max(level.peak, level.amount)

    def _group(self, node_name: str) -> str:
        node = self._nodes.get(node_name)
        return node.labels.get(self._group_by, "") if node is not None and self._group_by else ""


class Level:
    """An amount over time: its current value, its peak, and its integral."""

    __slots__ = ("amount", "area", "peak", "since")

    def __init__(self, since: float) -> None:
        self.amount = 0
        self.peak = 0
        self.area = 0.0
        self.since = since

    def settle(self, now: float) -> None:
        """Add the time since the last change to the area."""
        self.area += self.amount * (now - self.since)
        self.since = now


def _round(seconds: float) -> float:
    return round(seconds, 3)


def _order(key: tuple[str, str]) -> tuple[str, int, str]:
    group, resource = key
    first = (CPU, "memory", "ephemeral-storage", PODS)
    return group, first.index(resource) if resource in first else len(first), resource
