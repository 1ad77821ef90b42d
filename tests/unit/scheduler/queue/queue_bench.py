"""A queue for tests, with a virtual clock, gates that can be closed, queueing hints and a counting observer."""

from collections import Counter
from typing import Any

from moorage.common.clock import VirtualClock
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource
from moorage.scheduler.framework.plugin import PreEnqueuePlugin, QueuedPod, QueueSortPlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.queue.backoff import Backoff
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.gates import ProfileQueueing, Queueing
from moorage.scheduler.queue.observer import QueueObserver
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue
from moorage.testing import make_pod

START = 1000.0
PROFILE = "default-scheduler"

NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
NODE_TAINT = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
POD_ADD = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
CLAIM_ADD = ClusterEvent(Resource.RESOURCE_CLAIM, Action.ADD)
LABELS = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL)
TOLERATIONS = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION)


class ByPriority(QueueSortPlugin):
    def sort_key(self, queued: QueuedPod) -> Any:
        return (-queued.pod.priority, queued.timestamp)


class ByPriorityLess(QueueSortPlugin):
    def less(self, left: QueuedPod, right: QueuedPod) -> bool:
        if left.pod.priority != right.pod.priority:
            return left.pod.priority > right.pod.priority
        return left.timestamp < right.timestamp


class ByNameBackwards(QueueSortPlugin):
    """Another order."""

    def sort_key(self, queued: QueuedPod) -> Any:
        return [-ord(letter) for letter in queued.pod.name]


class Door(PreEnqueuePlugin):
    """Gates the pods with names passed to ``close``; ``calls`` records the calls of all doors in order."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name = name  # type: ignore[misc]
        self.closed_for: dict[str, Status] = {}
        self.news: list[str] | None = None
        self.calls = calls

    def reconsidered(self) -> list[str] | None:
        return self.news

    def pre_enqueue(self, pod: Pod) -> Status | None:
        self.calls.append(self.name)
        return self.closed_for.get(pod.name)

    def close(self, *names: str, status: Status | None = None) -> None:  # type: ignore[override]
        self.closed_for |= dict.fromkeys(names, status or Status.unresolvable("closed"))

    def open(self) -> None:
        self.closed_for.clear()

    def again(self) -> "Door":
        """Build another that is closed for the same pods."""
        door = Door(self.name, self.calls)
        door.closed_for = dict(self.closed_for)
        return door


class Counts(QueueObserver):
    """Counts what upstream's metrics count."""

    def __init__(self) -> None:
        self.incoming: Counter[tuple[str, str]] = Counter()
        self.unschedulable: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.failures: list[tuple[str, str, str]] = []

    def on_move(self, pod: Pod, queue: str, event: str) -> None:
        self.incoming[queue, event] += 1

    def on_rejection(self, plugin: str, profile: str, delta: int) -> None:
        self.unschedulable[plugin] += delta

    def on_in_flight(self, event: str, delta: int) -> None:
        self.events[event] += delta

    def on_plugin_failure(self, plugin: str, pod: Pod, problem: BaseException | str) -> None:
        self.failures.append((plugin, pod.name, str(problem)))


class Bench:
    """A queue with these plugins and the events they are registered for.

    Fit: nodes added (with a hint), pods deleted. Taint: taints, tolerations. Claims: claims. Deaf: no events.
    FirstDoor: labels of the pod. SecondDoor: pods deleted (its hint always skips).
    """

    def __init__(self, *, sort: QueueSortPlugin | None = None, start: float = START, **options: Any) -> None:
        self.clock = VirtualClock(start)
        self.counts = Counts()
        self.hint_results: dict[str, QueueingHint | Exception] = {}
        self.hint_calls: list[tuple[str, str, Any, Any]] = []
        self.calls: list[str] = []
        self.first, self.second = Door("FirstDoor", self.calls), Door("SecondDoor", self.calls)
        self.registrations = {
            "Fit": [EventRegistration(NODE_ADD, self.hint("Fit")), EventRegistration(POD_DELETE)],
            "Taint": [EventRegistration(NODE_TAINT), EventRegistration(TOLERATIONS)],
            "Claims": [EventRegistration(CLAIM_ADD), EventRegistration(POD_DELETE)],
            "Deaf": [],
            "FirstDoor": [EventRegistration(LABELS)],
            "SecondDoor": [EventRegistration(POD_DELETE, lambda *_: QueueingHint.SKIP)],
        }
        self.queue = SchedulingQueue(
            clock=self.clock,
            sort=sort or ByPriority(),
            profiles={PROFILE: ProfileQueueing([self.first, self.second], self.registrations)},
            **{"observer": self.counts, **options},
        )

    def change(self, sort: QueueSortPlugin) -> None:
        """Reconfigure the queue with another order and new instances of the doors."""
        self.first, self.second = self.first.again(), self.second.again()
        profile = ProfileQueueing([self.first, self.second], self.registrations)
        self.queue.reconfigure(Queueing(sort, {PROFILE: profile}, Backoff()))
        self.check()

    def hint(self, plugin: str) -> Any:
        def run_hint(pod: Pod, old: Any, new: Any) -> QueueingHint:
            self.hint_calls.append((plugin, pod.name, old, new))
            result = self.hint_results.get(plugin, QueueingHint.QUEUE)
            if isinstance(result, Exception):
                raise result
            return result

        return run_hint

    def add(self, *names: str, **fields: Any) -> Pod:
        """Add pods; return the last."""
        for name in names:
            pod = make_pod(name, uid=f"uid-{name}", **fields)
            self.queue.add(pod)
            self.check()
        return pod

    def pop(self, expected: str | None = None) -> QueuedPodInfo:
        info = self.queue.pop()
        assert isinstance(info, QueuedPodInfo)
        assert expected in (None, info.pod.name)
        self.check()
        return info

    def fail(self, info: QueuedPodInfo, *plugins: str, pending: tuple[str, ...] = ()) -> str | None:
        """Return a pod to the queue, rejected by plugins or after an error; return the queue that it entered."""
        info.rejected_by({*plugins, *pending}, set(pending))
        assert self.queue.add_unschedulable(info, info.pod)
        self.check()
        return self.queue.where(info.pod)

    def rejected(self, name: str, *plugins: str, pending: tuple[str, ...] = (), **fields: Any) -> QueuedPodInfo:
        """Add a pod, pop it and reject it."""
        self.add(name, **fields)
        info = self.pop(name)
        assert self.fail(info, *plugins, pending=pending) == "unschedulable"
        return info

    def move(self, event: ClusterEvent, old: Any = None, new: Any = None, **options: Any) -> None:
        self.queue.move_all_to_active_or_backoff(event, old, new, **options)
        self.check()

    def update(self, old: Pod, new: Pod) -> None:
        self.queue.update(old, new)
        self.check()

    def wait(self, seconds: float) -> None:
        """Let time pass, flushing at every wakeup of the queue."""
        until = self.clock.now() + seconds
        while (moment := self.queue.next_wakeup()) is not None and moment <= until:
            self.clock.advance_to(moment)
            self.queue.flush(self.clock.now())
            self.check()
        self.clock.advance_to(until)
        self.queue.flush(until)
        self.check()

    def where(self, name: str) -> str | None:
        return self.queue.where(make_pod(name, uid=f"uid-{name}"))

    def check(self) -> None:
        self.queue.check_invariants()


def ref(name: str, uid: str = "") -> Pod:
    """Build something that only names a pod."""
    return Pod(metadata=ObjectMeta(name=name, namespace="default", uid=uid or f"uid-{name}"))


def changed(pod: Pod, **fields: Any) -> Pod:
    """Build another version of a pod."""
    return make_pod(pod.name, uid=pod.uid, **fields)


def put(bench: Bench, name: str, queue_name: str) -> Pod:
    """Bring a new pod to a queue_name."""
    bench.first.open()
    if queue_name == "gated":
        bench.first.close(name)
    pod = bench.add(name, priority=100)
    if queue_name in ("backoff", "unschedulable"):
        info = bench.pop(name)
        if queue_name == "backoff":
            bench.queue.activate([pod])
        bench.fail(info, "Taint")
    assert bench.where(name) == queue_name
    return pod
