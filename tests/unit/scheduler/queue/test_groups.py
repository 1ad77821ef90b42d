"""Groups in the queue: where each member is, which events move the group, and the effects of an attempt."""

from random import Random

import pytest
from msgspec.structs import replace
from tests.support.groups import composite, gang, member
from tests.unit.scheduler.queue.queue_bench import LABELS, POD_DELETE, Bench

from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup
from moorage.scheduler.framework.status import Code
from moorage.scheduler.queue.entities import QueuedPodGroupInfo
from moorage.scheduler.queue.observer import Story
from moorage.scheduler.state.pod_groups import PodGroups


class GroupedBench(Bench):
    """A queue with groups that are added and deleted as the event handlers do."""

    def __init__(self) -> None:
        self.state = PodGroups(with_composites=True)
        self.story = Story()
        super().__init__(groups=self.state, observer=self.story)
        assert self.queue.groups is not None
        self.groups = self.queue.groups

    def put_group(self, group: PodGroup | CompositePodGroup) -> None:
        self.state.put(group)
        self.groups.group_added(group)
        self.check()

    def drop_group(self, group: PodGroup | CompositePodGroup) -> None:
        self.groups.group_deleted(group)
        self.state.drop(group)
        self.check()

    def add_members(self, *pods: Pod) -> None:
        for pod in pods:
            self.queue.add(pod)
            self.check()

    def pop_group(self) -> QueuedPodGroupInfo:
        entity = self.queue.pop()
        assert isinstance(entity, QueuedPodGroupInfo)
        self.check()
        return entity

    def fail_group(self, entity: QueuedPodGroupInfo, *plugins: str, code: Code = Code.UNSCHEDULABLE) -> None:
        for info in entity.members:
            info.rejected_by({*plugins})
            self.queue.add_unschedulable(info, info.pod)
        self.groups.finish(entity, code)
        self.check()

    def places(self, *pods: Pod) -> list[str | None]:
        return [self.queue.where(pod) for pod in pods]


A, B, C = (member(name) for name in "abc")
OTHER = member("other", "h")


@pytest.fixture
def bench() -> GroupedBench:
    return GroupedBench()


def test_members_are_incomplete_until_their_group_exists(bench: GroupedBench) -> None:
    bench.add_members(A, B, OTHER)
    assert bench.places(A, B, OTHER) == ["incomplete"] * 3
    assert (len(bench.queue), bench.queue.pop()) == (3, None)
    bench.put_group(gang())
    assert bench.places(A, B, OTHER) == ["active", "active", "incomplete"]
    assert [(step.queue, step.event) for step in bench.story.of(A)] == [("active", "scheduling.k8s.io/PodGroupAdd")]
    assert bench.queue.sizes() == (2, 0, 0, 0, 0, 1, 0)


def test_members_of_a_tree_are_one_entity_under_its_root(bench: GroupedBench) -> None:
    bench.add_members(A, OTHER)
    bench.put_group(gang("g", parent="top"))
    bench.put_group(gang("h", parent="top"))
    assert bench.places(A, OTHER) == ["incomplete", "incomplete"]
    bench.put_group(composite("top"))
    assert bench.places(A, OTHER) == ["active", "active"]
    assert bench.groups.find_entity_key(A) == bench.groups.find_entity_key(OTHER) == "podgroup/default/top"
    assert bench.groups.find_entity_key(member("x", "unknown")) is None
    bench.drop_group(gang("h", parent="top"))
    assert bench.places(A, OTHER) == ["active", "incomplete"], "the rest of the tree stays"
    assert [info.pod.name for info in bench.pop_group().members] == ["a"]


def test_members_that_arrive_during_an_attempt_are_pending_until_it_ends(bench: GroupedBench) -> None:
    bench.put_group(gang())
    bench.add_members(A)
    entity = bench.pop_group()
    bench.add_members(B)
    assert bench.places(A, B) == ["in-flight", "pending"]
    assert (bench.groups.where(B.key), bench.groups.where(A.key)) == ("pending", None)
    assert len(bench.queue) == 1
    bench.fail_group(entity, "Taint")
    assert bench.places(A, B) == ["backoff", "backoff"]
    assert [info.pod.name for info in bench.queue] == ["a", "b"]


def test_group_without_members_leaves_the_queue(bench: GroupedBench) -> None:
    bench.put_group(gang())
    bench.add_members(A, B)
    bench.queue.delete(A)
    bench.check()
    assert (bench.places(A, B), len(bench.queue)) == ([None, "active"], 1)
    bench.queue.delete(B)
    bench.check()
    assert (len(bench.queue), bench.queue.pop()) == (0, None)


@pytest.mark.parametrize("during_attempt", [False, True])
def test_members_without_a_queued_group_can_be_deleted(bench: GroupedBench, during_attempt: bool) -> None:
    if during_attempt:
        bench.put_group(gang())
        bench.add_members(A)
        bench.pop_group()
    bench.add_members(B, C)
    bench.queue.delete(B)
    bench.check()
    assert bench.places(B, C) == [None, "pending" if during_attempt else "incomplete"]


ATTEMPTS = {
    "a rejection counts": (Code.UNSCHEDULABLE, (1, 0)),
    "an error counts separately": (Code.ERROR, (0, 1)),
    "a partial success is treated as no failure": (Code.SUCCESS, (0, 0)),
}


@pytest.mark.parametrize(("code", "failures"), ATTEMPTS.values(), ids=ATTEMPTS)
def test_the_failures_of_a_group_are_those_of_its_attempts(
    bench: GroupedBench, code: Code, failures: tuple[int, int]
) -> None:
    bench.put_group(gang())
    bench.add_members(A, B)
    bench.clock.advance(5.0)
    entity = bench.pop_group()
    bench.clock.advance(5.0)
    bench.fail_group(entity, "Taint", code=code)
    (queued,) = bench.queue.entries()
    assert (queued.unschedulable_count, queued.consecutive_errors, queued.attempts) == (*failures, 1)
    assert queued.initial_attempt_timestamp == entity.initial_attempt_timestamp
    assert queued.timestamp == (entity.timestamp if code is Code.SUCCESS else bench.clock.now())


def test_group_deleted_during_an_attempt_leaves_its_members_incomplete(bench: GroupedBench) -> None:
    bench.put_group(gang())
    bench.add_members(A)
    entity = bench.pop_group()
    bench.add_members(B)
    bench.drop_group(gang())
    assert bench.places(B) == ["incomplete"]
    bench.fail_group(entity, "Taint")
    assert bench.places(A, B) == ["incomplete", "incomplete"]


def test_updated_member_keeps_its_group_and_an_updated_group_its_members(bench: GroupedBench) -> None:
    bench.put_group(gang())
    bench.add_members(A, B, OTHER)
    for pod in (A, OTHER):
        newer = replace(pod, metadata=replace(pod.metadata, labels={"version": "2"}))
        bench.update(pod, newer)
        info = bench.groups.find(pod.key)
        assert info is not None
        assert info.pod is newer
    bench.groups.group_updated(gang(priority=77))
    entity = bench.pop_group()
    assert (entity.priority, entity.root.priority) == (77, 77)
    assert [info.pod.labels.get("version") for info in entity.members] == ["2", None]


def test_only_events_about_its_tree_reconsider_a_group_with_a_gated_member(bench: GroupedBench) -> None:
    bench.first.close("b")
    bench.put_group(gang())
    bench.add_members(A, B)
    assert bench.places(A, B) == ["gated", "gated"], "one gated member gates the group"
    (entity,) = bench.queue.entries()
    entity.needs_own_event = True
    plugins = [("default-scheduler", "FirstDoor")]
    for about in (A, gang()):
        assert bench.groups.find_gated(plugins, about) == [entity]
        assert bench.groups.find_gated([("default-scheduler", "SecondDoor")], about) == []
    for about in (OTHER, gang("h"), None):
        assert bench.groups.find_gated(plugins, about) == []
    entity.needs_own_event = False
    assert bench.groups.find_gated(plugins, A) == []


@pytest.mark.parametrize("seed", range(8))
def test_every_member_is_in_one_place_after_any_history(seed: int) -> None:
    """Recompute where members must be from the groups that exist and the attempt in progress."""
    chance, bench = Random(seed), GroupedBench()
    pods = {name: member(name, group) for name, group in zip("abcdef", "gggghh", strict=True)}
    groups, existing, present = {name: gang(name) for name in "gh"}, set[str](), set[str]()
    attempt: QueuedPodGroupInfo | None = None
    for _ in range(150):
        bench.clock.advance(chance.choice((0.1, 3.0)))
        bench.queue.flush(bench.clock.now())
        action, name, group = chance.randrange(6), chance.choice("abcdef"), chance.choice("gh")
        attempted = set() if attempt is None else {info.pod.name for info in attempt.members}
        if action == 0 and name not in present:
            present.add(name)
            bench.add_members(pods[name])
        elif action == 1 and name in present - attempted:
            present.discard(name)
            bench.queue.delete(pods[name])
        elif action == 2 and group not in existing:
            existing.add(group)
            bench.put_group(groups[group])
        elif action == 3 and group in existing and chance.random() < 0.3:
            existing.discard(group)
            bench.drop_group(groups[group])
        elif action == 4 and attempt is None and (popped := bench.queue.pop()) is not None:
            assert isinstance(popped, QueuedPodGroupInfo)
            attempt = popped
        elif action == 5 and attempt is not None:
            bench.fail_group(attempt, *chance.choice((("Taint",), ())), code=chance.choice((Code.SUCCESS, Code.ERROR)))
            attempt = None
        bench.move(chance.choice((POD_DELETE, LABELS)), pods[name], None)
        attempted = set() if attempt is None else {info.pod.name for info in attempt.members}
        for key, pod in pods.items():
            where = bench.queue.where(pod)
            if key not in present:
                assert where is None
            elif key in attempted:
                assert where == "in-flight"
            elif pod.spec.scheduling_group.pod_group_name not in existing:
                assert where == "incomplete"
            else:
                assert where in ("active", "backoff", "unschedulable", "pending")
        assert len(bench.queue) == len(present - attempted)
