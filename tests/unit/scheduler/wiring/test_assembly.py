"""The parts of an assembled scheduler: the connection, observers and closing."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from moorage.cluster.offline import DiscardingApi, NoBackground
from moorage.common.clock import VirtualClock
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node, NodeStatus
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import StorageClass
from moorage.kube.client.informer import InformerObserver, OnChanges
from moorage.kube.client.list_watch import Change
from moorage.scheduler.config.types import ExtenderConfig
from moorage.scheduler.engine.observing import Apply, ApplyObserver
from moorage.scheduler.engine.task_pool import TaskBackground
from moorage.scheduler.framework.handle import ClusterApi
from moorage.scheduler.state.objects import Objects
from moorage.scheduler.wiring.assembly import AssembledScheduler, Keeps, Tuning, assemble, find_watched_kinds
from moorage.scheduler.wiring.http_extender import HttpExtender
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing.builders import make_node, make_pod

NODES, PODS = BY_TYPE[Node], BY_TYPE[Pod]
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
TWO_EXTENDERS = HEAD + (
    "extenders:\n"
    "- {urlPrefix: 'http://127.0.0.1:1/a', filterVerb: filter, weight: 1}\n"
    "- {urlPrefix: 'http://127.0.0.1:1/b', filterVerb: filter, weight: 1, nodeCacheCapable: true}\n"
)
BAD_NODE = replace(make_node("bad"), status=NodeStatus(allocatable={"cpu": "a lot"}))


class Connection:
    """An API without objects, which the test delivers."""

    def __init__(self) -> None:
        self.cluster: ClusterApi = DiscardingApi()
        self.relisted: list[tuple[Kind, str]] = []
        self.closed = 0

    def follow(self, objects: Objects, on_changes: OnChanges, keeps: Keeps, observer: InformerObserver | None) -> None:
        self.objects, self.deliver, self.keeps, self.observer = objects, on_changes, keeps, observer

    def relist(self, kind: Kind, key: str) -> None:
        self.relisted.append((kind, key))

    def close(self) -> None:
        self.closed += 1


class ClosedExtender(HttpExtender):
    """Records that it was closed."""

    closed: list[str]

    def close(self) -> None:
        self.closed.append(self.name)
        super().close()


class Witness(ApplyObserver, InformerObserver):
    """Records applied changes and failures."""

    def __init__(self) -> None:
        self.applied: list[str] = []
        self.failures: list[str] = []

    def wrap_apply(self, apply: Apply) -> Apply:
        def record(before: KubeObject | None, after: KubeObject | None, *, is_final: bool = True) -> None:
            self.applied.append((after or before).name)
            apply(before, after, is_final=is_final)

        return record

    def apply_failed(self, resource: str) -> None:
        self.failures.append(resource)


def assembled(
    use: Callable[[AssembledScheduler[Connection]], None],
    config: str = HEAD,
    observers: tuple[Witness, ...] = (),
    tuning: Tuning | None = None,
) -> None:
    async def work() -> None:
        parts = assemble(
            load_policy(collect_plugins(), config),
            Connection(),
            VirtualClock(),
            observers=observers,
            background=NoBackground(),
            tuning=tuning,
        )
        use(parts)
        parts.close()

    asyncio.run(work())


def test_delivered_changes_reach_cache_and_queue() -> None:
    def use(parts: AssembledScheduler[Connection]) -> None:
        connection, scheduler = parts.connection, parts.scheduler
        assert connection.objects is scheduler.objects
        connection.deliver(NODES, [Change(None, make_node("n"))])
        connection.deliver(PODS, [Change(None, make_pod("p")), Change(None, make_pod("q", node="n"))])
        assert (len(scheduler.cache), scheduler.cache.pod_count, len(scheduler.queue)) == (1, 1, 1)

    assembled(use)


@pytest.mark.parametrize("is_observed", [False, True])
def test_object_that_cannot_be_applied_is_relisted(is_observed: bool) -> None:
    witness = Witness()

    def use(parts: AssembledScheduler[Connection]) -> None:
        parts.connection.deliver(NODES, [Change(None, BAD_NODE), Change(None, make_node("n"))])
        assert parts.connection.relisted == [(NODES, "bad")]
        assert parts.connection.observer is (witness if is_observed else None)

    assembled(use, observers=(witness,) if is_observed else ())
    assert witness.failures == (["nodes"] if is_observed else [])
    assert witness.applied == (["bad", "bad", "n"] if is_observed else []), "the partial change is reverted"


def test_close_closes_the_connection_and_all_extenders() -> None:
    closed: list[str] = []

    def make_extender(config: ExtenderConfig) -> HttpExtender:
        extender = ClosedExtender(config)
        extender.closed = closed
        return extender

    connections: list[Connection] = []
    assembled(
        lambda parts: connections.append(parts.connection), TWO_EXTENDERS, tuning=Tuning(make_extender=make_extender)
    )
    assert closed == ["http://127.0.0.1:1/a", "http://127.0.0.1:1/b"]
    assert connections[0].closed == 1


def test_complete_objects_are_kept_only_for_extenders_without_a_node_cache() -> None:
    def use(parts: AssembledScheduler[Connection]) -> None:
        keeps = parts.connection.keeps
        assert {kind.__name__ for kind in keeps} == {"Pod", "Node"}
        assert keeps[Pod](make_pod("p"))
        assert not keeps[Pod](make_pod("q", node="n")), "no extender has a preempt verb"

    assembled(use, TWO_EXTENDERS)
    assembled(lambda parts: _assert_empty(parts.connection.keeps))


def _assert_empty(keeps: Keeps) -> None:
    assert keeps == {}


def test_nodes_pods_and_the_kinds_of_plugins_are_watched_once() -> None:
    objects = Objects()
    assert find_watched_kinds(objects) == (Node, Pod)
    for kind in (StorageClass, Pod):
        objects[kind]
    assert find_watched_kinds(objects) == (Node, Pod, StorageClass)


def test_background_work_runs_in_the_place_of_the_caller() -> None:
    async def work() -> None:
        policy, background = load_policy(collect_plugins()), NoBackground()
        given = assemble(policy, Connection(), VirtualClock(), background=background)
        assert given.background is background
        default = assemble(policy, Connection(), VirtualClock())
        assert isinstance(default.background, TaskBackground)
        assert not isinstance(default.background, NoBackground)

    asyncio.run(work())
