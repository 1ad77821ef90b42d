"""Extenders in the scheduling cycle: filtering in turn, rating together, binding in our stead."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pytest

from moorage.cluster.offline import DiscardingApi
from moorage.common.clock import VirtualClock
from moorage.common.errors import ExtenderError
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes
from moorage.scheduler.engine.extender import Filtered
from moorage.scheduler.engine.outcomes import Failed, Outcome, Placed, Unschedulable
from moorage.scheduler.engine.reference import score_all
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.engine.task_pool import TaskBackground
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.framework.victims import Victims
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.testing import make_node, make_pod


@dataclass
class Service:
    """An extender without HTTP; what is ``None`` it does not do, and an exception it raises."""

    name: str = "service"
    filtered: Filtered | Exception | None = None
    scores: Mapping[str, int] | Exception | None = None
    binds: bool | Exception = False
    is_ignorable: bool = False
    weight: int = 1
    interested: bool = True
    asked: list[list[str]] = field(default_factory=list)
    bound: list[str] = field(default_factory=list)

    @property
    def is_filter(self) -> bool:
        return self.filtered is not None

    @property
    def is_prioritizer(self) -> bool:
        return self.scores is not None

    @property
    def is_binder(self) -> bool:
        return self.binds is not False

    def is_interested_in(self, pod: Pod) -> bool:
        return self.interested

    def handles_preemption_for(self, pod: Pod) -> bool:
        return False

    async def filter(self, pod: Pod, nodes: Sequence[NodeInfo]) -> Filtered:
        self.asked.append([node.name for node in nodes])
        await asyncio.sleep(0)
        assert self.filtered is not None
        return _or_raise(self.filtered)

    async def prioritize(self, pod: Pod, nodes: Sequence[NodeInfo]) -> Mapping[str, int]:
        self.asked.append([node.name for node in nodes])
        await asyncio.sleep(0)
        assert self.scores is not None
        return _or_raise(self.scores)

    async def process_preemption(
        self, pod: Pod, candidates: Mapping[str, Victims], nodes: NodeTable
    ) -> Mapping[str, Victims]:
        return candidates

    async def bind(self, pod: Pod, node_name: str) -> None:
        if isinstance(self.binds, Exception):
            raise self.binds
        self.bound.append(f"{pod.name} to {node_name}")


T = TypeVar("T")


def _or_raise(answer: T | Exception) -> T:
    if isinstance(answer, Exception):
        raise answer
    return answer


class Bindings(DiscardingApi):
    def __init__(self) -> None:
        self.bound: list[str] = []

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.bound.append(f"{pod.name} to {node_name}")


class Bench:
    """A scheduler with extenders over three nodes, the first with capacity for one pod."""

    def __init__(self, *services: Service) -> None:
        self.cluster = Bindings()
        self.background = TaskBackground()
        self.scheduler = Scheduler(
            default_config(),
            Registry(IN_TREE),
            cluster=self.cluster,
            background=self.background,
            clock=VirtualClock(),
            features=FeatureGates(),
            extenders=services,
        )
        for name in "abc":
            self.scheduler.handlers.apply(None, make_node(name))
        requests = {"cpu": "3"}
        self.scheduler.handlers.pod_added(make_pod("big", node="a", requests=requests))

    def place(self, pod: Pod | None = None) -> Outcome | None:
        async def run() -> Outcome | None:
            self.scheduler.handlers.pod_added(pod or make_pod("web", requests={"cpu": "1"}))
            outcome = await self.scheduler.schedule_next()
            await self.background.drain()
            return outcome

        return asyncio.run(run())


ERROR = ExtenderError("boom")
FILTERS: dict[str, tuple[list[Service], str]] = {
    "one that does not filter changes nothing": ([Service()], "b"),
    "what it leaves is what there is": ([Service(filtered=Filtered(("a",)))], "a"),
    "an uninterested extender is not called": ([Service(filtered=Filtered(()), interested=False)], "b"),
    "one that fails but may be ignored is omitted": ([Service(filtered=ERROR, is_ignorable=True)], "b"),
    "so is one that returns unknown nodes": (
        [Service(filtered=Filtered(("a", "z")), is_ignorable=True)],
        "b",
    ),
    "the second gets the nodes left by the first": (
        [Service(filtered=Filtered(("c", "a"))), Service(filtered=Filtered(("a",)))],
        "a",
    ),
    "ignorable extenders are last": (
        [Service(filtered=ERROR, is_ignorable=True), Service(filtered=Filtered(("c",)))],
        "c",
    ),
}


@pytest.mark.parametrize(("services", "node"), FILTERS.values(), ids=FILTERS)
def test_filtering(services: list[Service], node: str) -> None:
    for service in services:
        service.asked.clear()
    outcome = Bench(*services).place()
    assert isinstance(outcome, Placed)
    # Without a score of an extender's own, equals draw lots.
    assert outcome.node_name in ({"b", "c"} if node == "b" else {node})


def test_each_extender_receives_the_remaining_nodes() -> None:
    first, second = Service(filtered=Filtered(("c", "a"))), Service(filtered=Filtered(("a",)))
    Bench(first, second).place()
    assert (first.asked, second.asked) == ([["a", "b", "c"]], [["c", "a"]])


FAILURES = {
    "an error ends the attempt": (Service(filtered=ERROR), "boom"),
    "an unknown node fails": (
        Service("x", filtered=Filtered(("z",))),
        'extender "x" claims a filtered node "z" which is not found in the input node list',
    ),
}


@pytest.mark.parametrize(("service", "message"), FAILURES.values(), ids=FAILURES)
def test_failing(service: Service, message: str) -> None:
    outcome = Bench(service).place()
    assert outcome == Failed(message)


def test_rejected_nodes_are_reported_with_the_extender_reasons() -> None:
    answer = Filtered((), failed={"a": "too slow", "b": "too slow"}, unresolvable={"b": "never"})
    outcome = Bench(Service(filtered=answer)).place()
    assert isinstance(outcome, Unschedulable)
    assert outcome.message.startswith("0/3 nodes are available: 1 never, 1 too slow.")
    assert outcome.diagnosis.unschedulable_plugins == {"Extender"}


def test_plugins_that_rejected_other_nodes_are_recorded() -> None:
    bench = Bench(Service(filtered=Filtered(())))
    outcome = bench.place(make_pod("huge", requests={"cpu": "2"}))
    assert isinstance(outcome, Unschedulable)
    assert outcome.diagnosis.unschedulable_plugins == {"Extender", "NodeResourcesFit"}


def test_any_event_brings_a_pod_back_that_an_extender_rejected() -> None:
    bench = Bench(Service(filtered=Filtered(())))
    bench.place()
    assert bench.scheduler.queue.pop() is None
    bench.scheduler.handlers.apply(None, make_node("d"))
    bench.scheduler.queue.flush(bench.scheduler.services.clock.now() + 60)
    assert bench.scheduler.queue.pop() is not None


def test_a_promised_node_that_an_extender_rejects_is_given_up() -> None:
    service = Service(filtered=Filtered(("b",)))
    service.filtered = Filtered(("b",))
    promised = make_pod("web", requests={"cpu": "1"}, status=PodStatus(nominated_node_name="b"))
    outcome = Bench(service).place(promised)
    assert outcome == Placed("b")
    assert service.asked == [["b"]], "the promised node is the only one looked at"
    refusing = Service(filtered=Filtered(()))
    assert isinstance(Bench(refusing).place(promised), Unschedulable)
    assert refusing.asked == [["b"], ["a", "b", "c"]]


def test_scores_are_weighted_tenfold_and_added() -> None:
    assert Bench(Service(scores={"a": 10}, weight=100)).place() == Placed("a")


def test_scores_of_extenders_add_up_without_failed_extenders() -> None:
    services = [
        Service(scores={"a": 10, "b": 0}, weight=50),
        Service(scores={"b": 10}, weight=51),
        Service(scores=ERROR),
    ]
    assert Bench(*services).place() == Placed("b")


def test_nodes_sent_back_are_rated_without_their_pods() -> None:
    """Upstream's quirk: the full node a looks empty, so all are equal and draw lots among themselves."""
    stand_ins = {name: make_node(name) for name in "ab"}
    winners = {Bench(Service(filtered=Filtered(("a", "b"), stand_ins=stand_ins))).place() for _ in range(1)}
    by_name = Bench(Service(filtered=Filtered(("a", "b")))).place()
    assert by_name == Placed("b")
    assert winners <= {Placed("a", ("a", "b")), Placed("b", ("a", "b"))}
    bench = Bench(Service(filtered=Filtered(("a", "b"), stand_ins=stand_ins), scores={"a": 0, "b": 0}))

    async def totals() -> dict[str, int]:
        runner = bench.scheduler.runners["default-scheduler"]
        search_result = await runner.find_extended(make_pod("web", requests={"cpu": "1"}))
        assert isinstance(search_result, ExtendedNodes)
        assert search_result.table is not None
        window = search_result.table.take(search_result.rows)
        scores = score_all(runner.profile, search_result.result.cycle, search_result.result.pod, window)
        return dict(zip("ab", scores.totals, strict=True))

    scores = asyncio.run(totals())
    assert scores["a"] == scores["b"]


def test_an_extender_binds_in_our_stead() -> None:
    service = Service(binds=True, filtered=Filtered(("c",)))
    bench = Bench(service)
    assert bench.place() == Placed("c")
    assert (service.bound, bench.cluster.bound) == (["web to c"], [])


def test_a_binder_that_may_be_ignored_leaves_it_to_the_plugins() -> None:
    bench = Bench(Service(binds=ERROR, is_ignorable=True, filtered=Filtered(("c",))))
    bench.place()
    assert bench.cluster.bound == ["web to c"]


def test_a_binder_that_fails_sends_the_pod_back() -> None:
    bench = Bench(Service(binds=ERROR, filtered=Filtered(("c",))))
    bench.place()
    assert bench.cluster.bound == []
    assert not bench.scheduler.cache.is_assumed(make_pod("web"))
