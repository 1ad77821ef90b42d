"""Queued pods and groups: copies with an updated pod, and the order of members."""

from random import Random

from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod, SchedulingGroup
from moorage.kube.api.pod_groups import PodGroup
from moorage.scheduler.queue.entities import EntityState, QueuedPodGroupInfo, QueuedPodInfo
from moorage.testing import make_pod


def member(
    name: str, *, leaf: str = "g", priority: int = 0, timestamp: float = 0.0, attempts: int = 0
) -> QueuedPodInfo:
    pod = make_pod(name, priority=priority, scheduling_group=SchedulingGroup(pod_group_name=leaf))
    info = QueuedPodInfo(pod, timestamp)
    info.attempts = attempts
    return info


def get_group(*members: QueuedPodInfo) -> QueuedPodGroupInfo:
    first, *peers = members
    group = QueuedPodGroupInfo(PodGroup(metadata=ObjectMeta(name="g", namespace="default")), first)
    for info in peers:
        group.insert(info)
    return group


def test_updated_copy_differs_only_in_the_pod() -> None:
    info = QueuedPodInfo(make_pod("p", priority=1), 5.0)
    for number, field in enumerate(sorted(set(EntityState.__slots__) - {"key", "pod", "priority"})):
        setattr(info, field, number)
    changed = make_pod("p", priority=7, labels={"a": "b"})
    copy = info.with_pod(changed)
    assert (copy.pod, copy.key, copy.priority) == (changed, "default/p", 7)
    same = set(EntityState.__slots__) - {"key", "pod", "priority"}
    assert all(getattr(copy, field) == getattr(info, field) for field in same)
    assert info.pod.priority == 1


def test_members_are_sorted_by_priority_attempts_time_and_name() -> None:
    members = [
        member("high", priority=9, timestamp=9.0),
        member("retried", attempts=2, timestamp=8.0),
        member("old", timestamp=1.0),
        member("a", timestamp=2.0),
        member("b", timestamp=2.0),
    ]
    shuffled = Random(4).sample(members, len(members))
    assert [info.pod.name for info in get_group(*shuffled).members] == ["high", "retried", "old", "a", "b"]


def test_a_replaced_member_keeps_its_position_and_an_inserted_one_does_not() -> None:
    group = get_group(member("a", timestamp=1.0), member("b", timestamp=2.0))
    group.replace(member("a", timestamp=1.0).with_pod(make_pod("a", priority=-5)))
    assert [(info.pod.name, info.priority) for info in group.members] == [("a", -5), ("b", 0)]
    group.insert(member("a", timestamp=3.0))
    assert [info.pod.name for info in group.members] == ["b", "a"]


def test_members_leave_one_by_one_or_with_their_pod_group() -> None:
    group = get_group(member("a"), member("b"), member("c", leaf="other"))
    assert group.remove("default/nobody") is None
    removed = group.remove("default/a")
    assert removed is not None
    assert (removed.pod.name, group.size) == ("a", 2)
    assert [info.pod.name for info in group.take_leaf("default/other")] == ["c"]
    assert group.remove("default/b") is not None
    assert (group.size, group.by_leaf) == (0, {})


def test_the_unschedulable_time_starts_at_the_last_attempt_or_flush() -> None:
    info = QueuedPodInfo(Pod(), 10.0)
    assert info.rejection_time == 10.0
    info.flush_timestamp = 25.0
    assert info.rejection_time == 25.0
    info.timestamp = 30.0
    assert info.rejection_time == 30.0


def test_the_rejector_of_a_gated_group_counts_unless_only_its_own_events_help() -> None:
    group = get_group(member("a"))
    assert group.rejectors == frozenset()
    group.gating_plugin = "Gate"
    assert group.rejectors == {"Gate"}
    group.needs_own_event = True
    assert group.rejectors == frozenset()


def test_representation_names_the_entity_and_its_attempts() -> None:
    assert repr(member("a", timestamp=2.5, attempts=3)) == "QueuedPodInfo('default/a', attempts=3, timestamp=2.5)"
    assert (
        repr(get_group(member("a", timestamp=2.5)))
        == "QueuedPodGroupInfo('podgroup/default/g', attempts=0, timestamp=2.5)"
    )


def test_equal_members_are_in_the_order_of_insertion() -> None:
    twins = [member("same", leaf="g"), member("same", leaf="h")]
    for namespace, info in zip(("x", "y"), twins, strict=True):
        info.key = f"{namespace}/same"
    group = get_group(*twins)
    group.insert(member("same"))
    assert [info.key for info in group.members] == ["x/same", "default/same", "y/same"]


def test_new_entity_has_no_history() -> None:
    info = member("a", timestamp=2.5)
    assert (info.attempts, info.unschedulable_count, info.consecutive_errors) == (0, 0, 0)
    assert (info.was_flushed, info.is_gated, info.rejectors) == (False, False, frozenset())
