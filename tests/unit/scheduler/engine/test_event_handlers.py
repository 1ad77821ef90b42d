"""Events of the API and their effects (reference § 4.10)."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from moorage.common.clock import VirtualClock
from moorage.kube.api.affinity import Taint
from moorage.kube.api.cluster import Service
from moorage.kube.api.container import ResourceRequirements
from moorage.kube.api.custom import custom_kind
from moorage.kube.api.meta import KubeObject, ObjectMeta
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.api.storage import PersistentVolumeClaim
from moorage.kube.features import FeatureGates
from moorage.scheduler.engine.event_handlers import EventHandlers
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource
from moorage.scheduler.framework.plugin import QueuedPod, QueueSortPlugin
from moorage.scheduler.queue.gates import ProfileQueueing
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue
from moorage.scheduler.state.cache import Cache
from moorage.scheduler.state.objects import Objects
from moorage.testing import make_node, make_pod

EVERYTHING = (
    *(ClusterEvent(resource, Action.ALL) for resource in Resource if resource not in (Resource.WILDCARD, Resource.POD)),
    ClusterEvent("widgets.v1.example.com", Action.ALL),
)


OFF = (
    "PodLevelResources=false,PodLevelResourcesFixDefaulting=false,PodLevelResourcesFixKubeletQOSClass=false,"
    "InPlacePodLevelResourcesVerticalScaling=false"
)


class InOrder(QueueSortPlugin):
    def sort_key(self, queued: QueuedPod) -> float:
        return queued.timestamp


Widget = custom_kind("Widget", "widgets", "example.com/v1").type


@dataclass
class Desk:
    """Handlers with a real cache and queue. A plugin that registers for all events rejects the pod "ear". Its hint
    records all events, and the pod remains unschedulable."""

    waiting: set[str] = field(default_factory=set)
    features: FeatureGates | None = None

    def __post_init__(self) -> None:
        self.heard: list[str] = []
        self.rejections: list[tuple[str, str]] = []
        self.cache, self.objects = Cache(), Objects()
        listening = [EventRegistration(event, self._listen(event)) for event in EVERYTHING]
        self.queue = SchedulingQueue(
            clock=VirtualClock(),
            sort=InOrder(),
            profiles={"default-scheduler": ProfileQueueing(registrations={"Listener": listening})},
            pods=self.objects[Pod],
        )
        self.handlers = EventHandlers(
            cache=self.cache,
            objects=self.objects,
            queue=self.queue,
            profiles=["default-scheduler"],
            waiting=self,
            features=self.features,
        )
        self.handlers.pod_added(make_pod("ear", uid="ear", priority=5))
        info = self.queue.pop()
        assert info is not None
        info.rejected_by({"Listener"})
        self.queue.add_unschedulable(info, info.pod)

    def _listen(self, event: ClusterEvent) -> Any:
        def hint(pod: Pod, old: Any, new: Any) -> QueueingHint:
            objects = "→".join(obj.name for obj in (old, new) if obj is not None)
            sides = ("-" if old is None else "old") + "/" + ("-" if new is None else "new")
            self.heard.append(f"{event.resource} {objects} {sides}")
            return QueueingHint.SKIP

        return hint

    def reject_waiting(self, uid: str, message: str) -> bool:
        if uid not in self.waiting:
            return False
        self.rejections.append((uid, message))
        return True

    def assume(self, pod: Pod, node: str) -> None:
        info = self.queue.pop()
        assert info is not None
        assert info.pod is pod
        self.cache.assume(pod.on_node(node))


def pending(name: str = "p", **fields: Any) -> Pod:
    return make_pod(name, uid=name, **fields)


def bumped(obj: Any, version: str = "2", **fields: Any) -> Any:
    metadata = msgspec.structs.replace(obj.metadata, resource_version=version)
    return msgspec.structs.replace(obj, metadata=metadata, **fields)


def nominated(pod: Pod, node: str) -> Pod:
    return bumped(pod, str(node), status=PodStatus(nominated_node_name=node))


def terminating(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z", resource_version="9")
    return msgspec.structs.replace(pod, metadata=metadata)


# ── pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pending_pod_of_ours_is_queued() -> None:
    desk = Desk()
    desk.handlers.pod_added(pending())
    assert desk.queue.where(pending()) == "active"
    assert desk.objects[Pod].get("p", "default") is not None
    assert desk.heard == []


def test_a_pending_pod_of_another_scheduler_is_only_listed() -> None:
    desk = Desk()
    pod = pending(scheduler_name="other")
    desk.handlers.pod_added(pod)
    desk.handlers.pod_updated(pod, bumped(pod))
    assert desk.queue.where(pod) is None
    assert desk.objects[Pod].get("p", "default") is not None
    desk.handlers.pod_deleted(pod)
    assert desk.objects[Pod].get("p", "default") is None
    assert desk.heard == []


def test_pod_on_a_node_is_counted_for_any_scheduler() -> None:
    desk = Desk()
    desk.handlers.pod_added(pending(node="n", scheduler_name="other"))
    assert desk.cache.pod("p") is not None
    assert desk.heard == ["AssignedPod p -/new"]


def test_a_change_of_a_pod_on_a_node_is_one_event_per_kind_of_change() -> None:
    desk = Desk()
    old, new = pending(node="n", requests={"cpu": 1}), pending(node="n", labels={"a": "b"})
    desk.handlers.pod_added(old)
    desk.heard.clear()
    desk.handlers.pod_updated(old, new)
    assert desk.cache.pod("p") is new
    assert desk.heard == ["AssignedPod p→p old/new"] * 2


def test_a_pod_that_was_bound_leaves_the_queue_for_the_cache() -> None:
    desk = Desk()
    pod = nominated(pending(), "n")
    desk.handlers.pod_added(pod)
    desk.handlers.pod_updated(pod, bumped(pod, "7").on_node("n"))
    assert desk.queue.where(pod) is None
    assert desk.queue.nominator.node_of(pod) == ""
    assert desk.cache.pod("p") is not None
    assert desk.heard == ["AssignedPod p -/new"], "that it is no longer nominated is no event"


def test_binding_confirms_an_assumption() -> None:
    desk = Desk()
    pod = pending()
    desk.handlers.pod_added(pod)
    desk.assume(pod, "n")
    desk.handlers.pod_updated(pod, bumped(pod).on_node("n"))
    assert desk.cache.assumed_count == 0
    assert desk.cache.pod_count == 1


def test_pod_relabeled_while_binding_changes_on_its_node() -> None:
    desk = Desk()
    pod = pending(labels={"app": "web"})
    desk.handlers.pod_added(pod)
    desk.assume(pod, "n")
    metadata = msgspec.structs.replace(pod.metadata, labels={"app": "db"}, resource_version="7")
    desk.handlers.pod_updated(pod, msgspec.structs.replace(pod, metadata=metadata).on_node("n"))
    assert desk.heard == ["AssignedPod p -/new", "AssignedPod p→p old/new"]


@pytest.mark.parametrize(
    ("placed_on", "want"), [("n", []), ("m", ["AssignedPod p old/-"]), ("", ["AssignedPod p old/-"])]
)
def test_a_nomination_that_the_status_never_knew_of_ends(placed_on: str, want: list[str]) -> None:
    desk = Desk()
    pod = pending(priority=5)
    desk.handlers.pod_added(pod)
    desk.queue.nominator.add(pod, "n")
    if placed_on:
        desk.queue.end_nomination(pod, placed_on)
    else:
        desk.handlers.pod_deleted(pod)
    assert desk.queue.nominator.node_of(pod) == ""
    assert desk.heard == want


def test_a_change_of_a_waiting_pod_is_sent_to_the_queue() -> None:
    desk = Desk()
    old = pending()
    desk.handlers.pod_added(old)
    new = bumped(old)
    desk.handlers.pod_updated(old, new)
    queued = desk.queue.find(old)
    assert queued is not None
    assert queued.pod is new
    assert desk.heard == []


def test_a_repeated_version_is_ignored() -> None:
    desk = Desk()
    old = pending()
    desk.handlers.pod_updated(old, pending(labels={"a": "b"}))
    assert desk.queue.where(old) is None


def test_a_change_of_an_assumed_pod_is_ignored() -> None:
    desk = Desk()
    pod = pending()
    desk.handlers.pod_added(pod)
    desk.assume(pod, "n")
    desk.queue.done(pod.uid)
    desk.handlers.pod_updated(pod, bumped(pod))
    assert desk.queue.where(pod) is None
    assert desk.cache.is_assumed(pod)


NOMINATIONS = {
    "a new nomination frees nothing": ("", "n1", 5, []),
    "the same nomination": ("n1", "n1", 5, []),
    "a removed nomination frees resources": ("n1", "", 5, ["AssignedPod p old/-"]),
    "one that moved elsewhere, too": ("n1", "n2", 9, ["AssignedPod p old/-"]),
    "but not for pods of a higher priority": ("n1", "", 4, []),
}


@pytest.mark.parametrize(("before", "after", "priority", "want"), NOMINATIONS.values(), ids=NOMINATIONS)
def test_nominations_that_change(before: str, after: str, priority: int, want: list[str]) -> None:
    desk = Desk()
    old = nominated(pending(priority=priority), before)
    desk.handlers.pod_added(old)
    desk.handlers.pod_updated(old, bumped(nominated(old, after), "9"))
    assert desk.heard == want


@pytest.mark.parametrize(("priority", "want"), [(5, ["AssignedPod p old/-"]), (4, [])])
def test_deleting_a_nominated_pod_frees_resources_up_to_its_priority(priority: int, want: list[str]) -> None:
    desk = Desk()
    pod = nominated(pending(priority=priority), "n1")
    desk.handlers.pod_added(pod)
    desk.handlers.pod_deleted(pod)
    assert desk.queue.where(pod) is None
    assert desk.objects[Pod].get("p", "default") is None
    assert desk.heard == want


def test_deleting_a_pending_pod_activates_no_pods() -> None:
    desk = Desk()
    desk.handlers.pod_added(pending())
    desk.handlers.pod_deleted(pending())
    assert desk.queue.where(pending()) is None
    assert desk.heard == []


def test_deleting_a_pod_on_a_node() -> None:
    desk = Desk()
    pod = pending(node="n")
    desk.handlers.pod_added(pod)
    desk.heard.clear()
    desk.handlers.pod_deleted(pod)
    assert desk.cache.pod_count == 0
    assert desk.heard == ["AssignedPod p old/-"]


@pytest.mark.parametrize("how", ["deletion asked for", "deleted"])
@pytest.mark.parametrize("waits", [True, False])
def test_deleting_an_assumed_pod(how: str, waits: bool) -> None:
    desk = Desk(waiting={"p"} if waits else set())
    pod = pending()
    desk.handlers.pod_added(pod)
    desk.assume(pod, "n")
    if how == "deleted":
        desk.handlers.pod_deleted(pod)
    else:
        desk.handlers.pod_updated(pod, terminating(pod))
    # A pod waiting on permit is rejected and releases its resources itself; otherwise they are released here.
    assert desk.rejections == ([("p", "removed")] if waits else [])
    assert desk.cache.is_assumed(pod) == waits
    assert desk.heard == ["AssignedPod p old/-"]


def test_assumed_pod_with_a_requested_deletion_is_skipped() -> None:
    desk = Desk()
    pod = terminating(pending())
    desk.handlers.pod_added(pod)
    desk.assume(pod, "n")
    desk.handlers.pod_updated(pod, bumped(pod, "10"))
    assert desk.cache.is_assumed(pod)


@pytest.mark.parametrize("is_counted", [True, False])
def test_a_pod_whose_end_was_missed_is_removed_from_everywhere(is_counted: bool) -> None:
    desk = Desk()
    pod = pending()
    desk.handlers.pod_added(pod)
    if is_counted:
        desk.cache.add_pod(pod.on_node("n"))
    desk.handlers.pod_deleted(pod, is_final=False)
    assert desk.queue.where(pod) is None
    assert desk.cache.pod_count == 0
    assert desk.heard == ["AssignedPod p old/-"]


def test_queue_receives_events_that_the_cache_rejects() -> None:
    desk = Desk()
    pod = pending(node="n")
    desk.handlers.pod_updated(pod, pending(node="n", labels={"a": "b"}))
    desk.handlers.pod_deleted(pod)
    desk.handlers.apply(make_node("n"), None)
    assert desk.heard == ["AssignedPod p→p old/new", "AssignedPod p old/-", "Node n old/-"]


# ── nodes and other objects ──────────────────────────────────────────────────────────────────────────────────────────


def test_nodes_are_added_changed_and_removed() -> None:
    desk = Desk()
    old, new = make_node("n"), make_node("n", taints=[Taint(key="k")], labels={"a": "b"})
    desk.handlers.apply(None, old)
    assert len(desk.cache) == 1
    desk.handlers.apply(old, bumped(old))
    desk.handlers.apply(bumped(old), new)
    info = desk.cache.node("n")
    assert info is not None
    assert info.node is new
    assert desk.objects[Node].get("n") is new
    desk.handlers.apply(new, None)
    assert len(desk.cache) == 0
    assert desk.heard == ["Node n -/new", *["Node n→n old/new"] * 2, "Node n old/-"]


OTHERS: dict[str, tuple[type[KubeObject], list[str]]] = {
    "a kind plugins can register for": (
        PersistentVolumeClaim,
        ["PersistentVolumeClaim x -/new", "PersistentVolumeClaim x→x old/new", "PersistentVolumeClaim x old/-"],
    ),
    "a kind they cannot": (Service, []),
    "a custom kind": (
        Widget,
        ["widgets.v1.example.com x -/new", "widgets.v1.example.com x→x old/new", "widgets.v1.example.com x old/-"],
    ),
}


@pytest.mark.parametrize(("kind", "want"), OTHERS.values(), ids=OTHERS)
def test_other_objects(kind: type[KubeObject], want: list[str]) -> None:
    desk = Desk()
    obj = kind(metadata=ObjectMeta(name="x"))
    desk.handlers.apply(None, obj)
    changed = bumped(obj)
    desk.handlers.apply(obj, changed)
    assert desk.objects[kind].get("x") is changed
    desk.handlers.apply(changed, None)
    assert desk.objects[kind].get("x") is None
    assert desk.heard == want


def finished(pod: Pod) -> Pod:
    return bumped(pod, "8", status=PodStatus(phase="Succeeded"))


def deleted(name: str) -> list[str]:
    return [f"AssignedPod {name} old/-"]


NODE, RUNNING, CLAIM = make_node("n"), make_pod("r", uid="r", node="n"), PersistentVolumeClaim(ObjectMeta(name="c"))
DISPATCHED = {
    "a pod that ends is treated as deleted": ([(None, RUNNING), (RUNNING, finished(RUNNING))], deleted("r")),
    "its deletion after its end has no effect": (
        [(None, RUNNING), (RUNNING, finished(RUNNING)), (finished(RUNNING), None)],
        deleted("r"),
    ),
    "a finished pod may be reported by its deletion only": ([(None, RUNNING), (finished(RUNNING), None)], deleted("r")),
    "a pod that had ended before counts for nothing": ([(None, finished(RUNNING))], []),
    "an added, changed and removed node": (
        [(None, NODE), (NODE, bumped(NODE)), (bumped(NODE), None)],
        ["Node n -/new", "Node n old/-"],
    ),
    "an object of any other kind": (
        [(None, CLAIM), (CLAIM, bumped(CLAIM)), (bumped(CLAIM), None)],
        ["PersistentVolumeClaim c -/new", "PersistentVolumeClaim c→c old/new", "PersistentVolumeClaim c old/-"],
    ),
}


@pytest.mark.parametrize(("changes", "received"), DISPATCHED.values(), ids=DISPATCHED)
def test_a_change_of_any_kind_finds_its_reaction(changes: list[tuple[Any, Any]], received: list[str]) -> None:
    desk = Desk()
    for before, after in changes:
        desk.handlers.apply(before, after)
    assert [event for event in desk.heard if event != "AssignedPod r -/new"] == received
    assert desk.cache.pod_count == 0


def test_features_that_are_off_hide_their_fields() -> None:
    pod_resources = ResourceRequirements(requests={"cpu": "3"})
    desk = Desk(features=FeatureGates.parse(OFF))
    desk.handlers.apply(None, make_pod("q", uid="q", requests={"cpu": "1"}, resources=pod_resources))
    (queued,) = (item for item in desk.queue if item.pod.name == "q")
    assert queued.pod.requests["cpu"] == 1000
