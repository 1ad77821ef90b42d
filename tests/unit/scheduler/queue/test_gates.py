"""PreEnqueue plugins: the gating plugin, the order of calls, and the effect of failures."""

from collections.abc import Collection

from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod, SchedulingGroup
from moorage.kube.api.pod_groups import PodGroup
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, Resource
from moorage.scheduler.framework.plugin import PreEnqueuePlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.queue.entities import QueuedPodGroupInfo, QueuedPodInfo
from moorage.scheduler.queue.gates import Gates, ProfileQueueing
from moorage.scheduler.queue.observer import QueueObserver
from moorage.testing import make_pod

PROFILE = "default-scheduler"


class Door(PreEnqueuePlugin):
    """Rejects the pods that are named."""

    def __init__(self, calls: list[str], *closed_to: str) -> None:
        self.calls, self.closed_to = calls, set(closed_to)
        self.failure: Exception | None = None

    def pre_enqueue(self, pod: Pod) -> Status | None:
        self.calls.append(f"{self.name} {pod.name}")
        if self.failure is not None:
            raise self.failure
        return Status.unschedulable("closed") if pod.name in self.closed_to else None

    def reconsidered(self) -> Collection[str] | None:
        if self.failure is not None:
            raise self.failure
        return ["default/a"]


class SecondDoor(Door):
    pass


class Rejections(QueueObserver):
    def __init__(self) -> None:
        self.rejections: list[tuple[str, str, int]] = []
        self.failures: list[str] = []

    def on_rejection(self, plugin: str, profile: str, delta: int) -> None:
        self.rejections.append((plugin, profile, delta))

    def on_plugin_failure(self, plugin: str, pod: Pod, problem: BaseException | str) -> None:
        self.failures.append(f"{plugin} {pod.name}: {problem}")


def gates(*doors: Door, observer: QueueObserver | None = None, same_group: bool = False) -> Gates:
    registration = EventRegistration(ClusterEvent(Resource.POD_GROUP, Action.ALL), same_group=same_group)
    return Gates({PROFILE: ProfileQueueing(doors, {door.name: (registration,) for door in doors})}, observer)


def queued(name: str, **fields: SchedulingGroup) -> QueuedPodInfo:
    return QueuedPodInfo(make_pod(name, **fields), 0.0)


def test_the_first_rejecting_plugin_gates_the_pod_and_is_called_first_afterward() -> None:
    calls: list[str] = []
    observer = Rejections()
    first, second = Door(calls), SecondDoor(calls, "p")
    doors, info = gates(first, second, observer=observer), queued("p")
    assert not doors.admit(info)
    assert (info.gating_plugin, info.unschedulable_plugins) == ("SecondDoor", {"SecondDoor"})
    assert not doors.admit(info)
    assert calls == ["Door p", "SecondDoor p", "SecondDoor p"]
    assert observer.rejections == [("SecondDoor", PROFILE, 1)]
    second.closed_to.clear()
    assert doors.admit(info)
    assert (info.gating_plugin, calls[3:]) == ("", ["SecondDoor p", "Door p"])


def test_a_plugin_that_raises_gates_the_pod_and_is_reported() -> None:
    observer, door, info = Rejections(), Door([]), queued("p")
    door.failure = ValueError("no route")
    assert not gates(door, observer=observer).admit(info)
    assert (info.gating_plugin, observer.failures) == (
        "Door",
        ["Door p: Door.pre_enqueue raised ValueError: no route (test_gates.py:29)"],
    )


def test_pods_of_other_profiles_are_admitted() -> None:
    info = QueuedPodInfo(make_pod("p", scheduler_name="other"), 0.0)
    assert gates(Door([], "p")).admit(info)


def test_a_group_is_gated_by_its_first_gated_member() -> None:
    for same_group in (True, False):
        calls: list[str] = []
        door = Door(calls, "b")
        doors = gates(door, same_group=same_group)
        membership = SchedulingGroup(pod_group_name="g")
        root = PodGroup(metadata=ObjectMeta(name="g", namespace="default"))
        group = QueuedPodGroupInfo(root, queued("a", scheduling_group=membership))
        group.insert(queued("b", scheduling_group=membership))
        assert not doors.admit(group)
        assert (group.pod.name, group.gating_plugin, group.needs_own_event) == ("b", "Door", same_group)
        door.closed_to.clear()
        calls.clear()
        assert doors.admit(group)
        assert (group.gating_plugin, calls) == ("", ["Door b", "Door a"])


def test_only_the_gating_plugin_rechecks_a_gated_pod() -> None:
    calls: list[str] = []
    first, second = Door(calls), SecondDoor(calls, "p")
    doors, info = gates(first, second), queued("p")
    doors.admit(info)
    calls.clear()
    assert doors.is_still_closed(info)
    second.closed_to.clear()
    assert not doors.is_still_closed(info)
    second.failure = ValueError("no route")
    assert not doors.is_still_closed(info)
    assert calls == ["SecondDoor p"] * 3
    info.gating_plugin = "Removed"
    assert not doors.is_still_closed(info)


def test_reconsidered_keys_are_unknown_if_the_plugin_fails_or_is_deleted() -> None:
    door = Door([])
    doors = gates(door)
    assert doors.reconsidered(PROFILE, "Door") == {"default/a"}
    assert doors.reconsidered(PROFILE, "Removed") is None
    door.failure = ValueError("no route")
    assert doors.reconsidered(PROFILE, "Door") is None
