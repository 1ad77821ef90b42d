"""Random histories of calls: no pod is lost, and no pod is in two queues."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.scheduler.queue.queue_bench import (
    CLAIM_ADD,
    NODE_ADD,
    NODE_TAINT,
    POD_ADD,
    POD_DELETE,
    Bench,
    ByNameBackwards,
    ByPriority,
)

from moorage.kube.api.pod import Pod, PodStatus
from moorage.scheduler.framework.events import UNSCHEDULABLE_TIMEOUT, QueueingHint
from moorage.scheduler.framework.plugin import QueueSortPlugin
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.testing import make_pod

NAMES = st.sampled_from([f"p{number}" for number in range(6)])
PLUGINS = st.sets(st.sampled_from(["Fit", "Taint", "Claims", "Deaf"]), max_size=3)
EVENTS = st.sampled_from([NODE_ADD, NODE_TAINT, POD_ADD, POD_DELETE, CLAIM_ADD, UNSCHEDULABLE_TIMEOUT])
NODES = st.sampled_from(["", "n1", "n2"])


class Histories(RuleBasedStateMachine):
    """A model next to the queue: which pods exist, and which are being tried."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[str, Pod] = {}
        self.flying: dict[str, QueuedPodInfo] = {}
        self.latest: dict[str, Pod] = {}
        self.numbers = 0

    @initialize(gate=st.booleans())
    def start(self, gate: bool) -> None:
        self.bench = Bench(pop_from_backoff=gate)
        self.queue = self.bench.queue

    def pod(self, name: str, uid: str, priority: int, node: str, labels: dict[str, str]) -> Pod:
        status = PodStatus(nominated_node_name=node)
        return make_pod(name, uid=uid, priority=priority, status=status, labels=labels)

    @rule(name=NAMES, priority=st.integers(0, 2), node=NODES)
    def add(self, name: str, priority: int, node: str) -> None:
        if name in self.waiting or any(info.pod.name == name for info in self.flying.values()):
            return
        self.numbers += 1
        pod = self.pod(name, f"u{self.numbers}", priority, node, {})
        self.queue.add(pod)
        self.waiting[name] = pod

    @rule()
    def pop(self) -> None:
        info = self.queue.pop()
        if info is None:
            sizes = self.queue.sizes()
            assert sizes.active == 0
            return
        assert self.waiting.pop(info.pod.name) is info.pod
        assert isinstance(info, QueuedPodInfo)
        self.flying[info.uid] = info
        self.latest[info.uid] = info.pod

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), unschedulable=PLUGINS, pending=PLUGINS)
    def fail(self, data: Any, unschedulable: set[str], pending: set[str]) -> None:
        uid = data.draw(st.sampled_from(sorted(self.flying)))
        info = self.flying.pop(uid)
        latest = self.latest.pop(uid)
        info.rejected_by(unschedulable | pending, pending)
        assert self.queue.add_unschedulable(info, latest)
        self.waiting[latest.name] = latest

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def place(self, data: Any) -> None:
        uid = data.draw(st.sampled_from(sorted(self.flying)))
        self.queue.done(uid)
        self.queue.delete(self.latest.pop(uid))
        del self.flying[uid]

    @rule(name=NAMES, priority=st.integers(0, 2), node=NODES, label=st.booleans())
    def update(self, name: str, priority: int, node: str, label: bool) -> None:
        flying = next((pod for pod in self.latest.values() if pod.name == name), None)
        old = self.waiting.get(name) or flying
        if old is None:
            return
        new = self.pod(name, old.uid, priority, node, {"x": "y"} if label else {})
        self.queue.update(old, new)
        if old.uid in self.latest:
            self.latest[old.uid] = new
        else:
            self.waiting[name] = new

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        pod = self.waiting.pop(name, None)
        if pod is not None:
            self.queue.delete(pod)
            assert self.queue.where(pod) is None

    @rule(event=EVENTS, answer=st.sampled_from(QueueingHint), priority=st.none() | st.integers(0, 2))
    def happen(self, event: Any, answer: QueueingHint, priority: int | None) -> None:
        self.bench.hint_results["Fit"] = answer
        check = None if priority is None else lambda pod: pod.priority <= priority
        self.queue.move_all_to_active_or_backoff(event, None, None, check)

    @rule(names=st.sets(NAMES))
    def activate(self, names: set[str]) -> None:
        self.queue.activate([pod for pod in (*self.waiting.values(), *self.latest.values()) if pod.name in names])

    @rule(door=st.sampled_from(["first", "second"]), names=st.sets(NAMES))
    def close(self, door: str, names: set[str]) -> None:
        gate = getattr(self.bench, door)
        gate.open()
        gate.close(*names)

    @rule(sort=st.sampled_from([ByPriority, ByNameBackwards]), names=st.sets(NAMES))
    def change(self, sort: type[QueueSortPlugin], names: set[str]) -> None:
        self.bench.first.open()
        self.bench.first.close(*names)
        self.bench.change(sort())

    @rule(seconds=st.sampled_from([0.1, 0.5, 1, 3, 40, 400]))
    def wait(self, seconds: float) -> None:
        self.bench.wait(seconds)
        moment = self.queue.next_wakeup()
        assert moment is None or moment > self.bench.clock.now()

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "queue"):
            return
        self.queue.check_invariants()
        assert {info.pod.name: info.pod for info in self.queue} == self.waiting
        sizes = self.queue.sizes()
        assert sum(sizes[:4]) == len(self.waiting)
        assert sizes.in_flight == len(self.flying)
        for uid, info in self.flying.items():
            assert self.queue.where(info.pod) == "in-flight", uid
        expected: dict[str, int] = {}
        for info in self.queue:
            for plugin in info.rejectors:
                expected[plugin] = expected.get(plugin, 0) + 1
        assert +self.bench.counts.unschedulable == expected
        assert self.bench.counts.events["PodPopped"] == len(self.flying)

    def teardown(self) -> None:
        if not hasattr(self, "queue"):
            return
        # With open gates, every pod is retried within five and a half minutes.
        self.bench.first.open()
        self.bench.second.open()
        for uid in list(self.flying):
            self.queue.done(uid)
        self.bench.wait(400)
        popped = set()
        while (info := self.queue.pop()) is not None:
            popped.add(info.pod.name)
        assert popped == set(self.waiting)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
