"""Evictions in the background or within a cycle, against an API in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace
from tests.support.metering import Tally

from moorage.cluster.simulation.simulated_cluster import SimulatedCluster
from moorage.cluster.simulation.simulation import Simulation
from moorage.common.clock import VirtualClock
from moorage.common.errors import ApiError, Conflict
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.meta import Condition, KubeObject, ObjectMeta
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.engine.waiting import PermitWait
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.framework.plugin import PostFilterResult
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.plugins.default_preemption.eviction import (
    EXECUTIONS,
    SECONDS,
    HeldPods,
    Preemptor,
    disruption_patch,
)
from moorage.scheduler.plugins.default_preemption.plugin import UNDER_WAY, DefaultPreemption
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit
from moorage.scheduler.state.cache import Cache
from moorage.scheduler.wiring.policy import Policy
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig, attempt, make_nominator

T = TypeVar("T")

BIG = make_pod("big", priority=10, requests={"cpu": 4}, uid="uid-of-big")
INLINE = {"SchedulerAsyncPreemption": False}


def low(name: str, **fields: Any) -> Pod:
    started = PodStatus(start_time=f"2025-12-31T12:00:0{fields.pop('second', 0)}Z")
    return make_pod(name, node="n", priority=1, requests={"cpu": 2}, **{"status": started, **fields})


class Scene:
    """A full node, a pod that needs it, and an API that records every write and fails some."""

    def __init__(self, *pods: Pod, fails: str = "", inline: bool = False) -> None:
        self.rig = Rig(make_node("n"), *pods, BIG, features=FeatureGates(INLINE if inline else {}))
        self.rig.filters = [NodeResourcesFit(handle=self.rig)]
        self.world = SimulatedCluster(self.rig.clock, fault=self._write)
        self.world.add(*pods, BIG)
        self.rig.cluster = self.world.cluster
        self.plugin = DefaultPreemption(handle=self.rig)
        self.writes: list[str] = []
        self._fails = fails

    def _write(self, verb: str, obj: KubeObject) -> ApiError | None:
        self.writes.append(f"{verb} {obj.name}")
        return Conflict("changed meanwhile") if self._fails == self.writes[-1] else None

    async def start(self) -> PostFilterResult:
        """Let the plugin decide; what it hands to the background waits for :meth:`finish`."""
        return await self.plugin.post_filter(*self._attempt())

    def _attempt(self) -> Any:
        cycle, statuses = attempt(self.rig, BIG)
        return cycle, BIG, statuses

    async def finish(self) -> None:
        for work in self.rig.background:
            await work

    def play(self, meanwhile: Callable[[], None] = lambda: None) -> PostFilterResult:
        """Preempt and evict to the end, with something happening in between."""

        async def act() -> PostFilterResult:
            result = await self.start()
            meanwhile()
            await self.finish()
            return result

        return run_virtual(act(), self.rig.clock)

    def notes(self) -> list[tuple[str, str]]:
        return [(event.regarding.name, event.note) for event in self.world.events]


def test_victims_are_marked_then_deleted_and_the_last_one_after_all_others() -> None:
    scene = Scene(low("b", second=1), low("a"))
    assert scene.play().nominated_node == "n"
    assert scene.writes == ["patch a", "delete a", "patch b", "delete b"]


def test_nothing_is_written_before_the_background_begins() -> None:
    scene = Scene(low("a"), low("b"))
    scene.play(lambda: _assert_equal(scene.writes, []))


def test_the_condition_and_event_of_a_victim() -> None:
    scene = Scene(low("a", second=0), low("b", second=1))
    scene.play()
    stored = scene.world.store.get(Pod, "a", "default")
    assert stored is not None
    assert stored.is_terminating
    condition = stored.condition("DisruptionTarget")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
    assert condition.message == "default-scheduler: preempting to accommodate a higher priority pod"
    event = scene.world.events[0]
    assert (event.reason, event.action, event.is_warning) == ("Preempted", "Preempting", False)
    assert (event.related, event.controller) == (BIG, "default-scheduler")
    assert scene.notes() == [(name, "Preempted by pod uid-of-big on node n") for name in ("a", "b")]
    assert scene.rig.activated == {}, "the deletions will wake the preemptor up"


def test_a_terminating_victim_is_not_evicted() -> None:
    scene = Scene(low("a", terminating=True), low("b"))
    scene.play()
    assert scene.writes == ["patch b", "delete b"]


def test_no_eviction_if_all_victims_terminate() -> None:
    scene = Scene(low("a", terminating=True), low("b", terminating=True))
    result = scene.play()
    assert (result.nominated_node, result.victims) == ("n", ())
    assert scene.rig.background == []
    assert scene.plugin.pre_enqueue(BIG) is None


def test_deleted_victim_causes_no_error_and_no_event() -> None:
    scene = Scene(low("a"), low("b", second=1))
    scene.play(lambda: scene.world.store.remove(scene.world.store.get(Pod, "a", "default") or BIG))
    assert [name for name, _ in scene.notes()] == ["b"]
    assert scene.rig.activated == {}


MISSED = {
    "held back when the deletions were delivered": (True, {"default/big": BIG}),
    "woken by them": (False, {}),
}


@pytest.mark.parametrize(("was_asked", "activated"), MISSED.values(), ids=MISSED)
def test_a_preemptor_whose_victims_were_deleted_by_another_client(was_asked: bool, activated: dict[str, Pod]) -> None:
    """All is delivered before the evictions begin: no further event would wake a pod that was held back."""
    victims = low("a"), low("b", second=1)
    scene = Scene(*victims)

    def meanwhile() -> None:
        for victim in victims:
            scene.world.store.remove(victim)
            scene.rig.cache.remove_pod(victim)
        if was_asked:
            assert scene.plugin.pre_enqueue(BIG) == UNDER_WAY

    scene.play(meanwhile)
    assert scene.notes() == []
    assert scene.rig.activated == activated
    assert scene.plugin.pre_enqueue(BIG) is None


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that has nothing to wait for."""
    with pytest.raises(StopIteration) as finished:
        work.send(None)
    result: T = finished.value.value
    return result


class TestAnotherPreemptorOnTheNode:
    """A pod nominated for the node causes no further evictions while these evictions are running."""

    OTHER = make_pod("other", priority=10, requests={"cpu": 4}, status=PodStatus(nominated_node_name="n"))
    WAITS = "preemption: not eligible due to a terminating pod on the nominated node."

    def ask(self, scene: Scene, other: Pod = OTHER) -> str:
        scene.rig.objects[Pod].put(other)
        cycle, statuses = attempt(scene.rig, other)
        started = len(scene.rig.background)
        status = at_once(scene.plugin.post_filter(cycle, other, statuses)).status
        for work in scene.rig.background[started:]:
            work.close()
        return "" if status is None else status.message

    def test_pod_waits_after_the_decision(self) -> None:
        scene = Scene(low("a"), low("b", second=1))
        scene.play(lambda: _assert_equal(self.ask(scene), self.WAITS))
        assert self.ask(scene) == self.WAITS, "the API has answered, the watch has not"

    def test_a_nomination_that_is_not_in_the_status_yet_counts(self) -> None:
        scene = Scene(low("a"), low("b", second=1))
        scene.play()
        scene.rig.nominator = make_nominator(self.OTHER)
        assert self.ask(scene, replace(self.OTHER, status=PodStatus())) == self.WAITS

    def test_pod_does_not_wait_for_failed_evictions(self) -> None:
        scene = Scene(low("a"), low("b", second=1), fails="patch a")
        with pytest.raises(Conflict):
            scene.play()
        assert self.ask(scene) == ""

    def test_nor_for_a_pod_that_was_stopped_in_memory(self) -> None:
        victims = low("a"), low("b", second=1)
        scene = Scene(*victims)
        scene.rig.in_pre_bind = {victim.uid: "" for victim in victims}
        scene.play()
        assert self.ask(scene) == ""


def test_a_victim_that_waits_on_permit_is_stopped_in_memory() -> None:
    scene = Scene(low("a"), low("b", second=1))

    async def act() -> Status | None:
        result = await scene.start()
        allocation = PermitWait(result.victims[0], {"Gate": 60.0}, asyncio.get_running_loop())
        scene.rig.waiting[result.victims[0].uid] = allocation
        await scene.finish()
        return await allocation.decision()

    assert run_virtual(act(), scene.rig.clock) == Status(Code.ERROR, ("preempted",), "DefaultPreemption")
    assert scene.writes == ["patch b", "delete b"]
    assert ("a", "Preempted by pod uid-of-big on node n (in kube-scheduler memory).") in scene.notes()
    assert scene.rig.activated == {}, "the deletion of b will wake the preemptor up"


def test_victim_after_permit_is_deleted() -> None:
    scene = Scene(low("a"), low("b", second=1))

    async def act() -> None:
        result = await scene.start()
        allocation = PermitWait(result.victims[0], {"Gate": 60.0}, asyncio.get_running_loop())
        allocation.allow("Gate")
        scene.rig.waiting[result.victims[0].uid] = allocation
        await scene.finish()

    run_virtual(act(), scene.rig.clock)
    assert "delete a" in scene.writes


def test_a_victim_in_pre_bind_is_cancelled_and_the_preemptor_woken_up_if_it_was_the_last() -> None:
    last = low("b", second=1)
    scene = Scene(low("a"), last)
    scene.rig.in_pre_bind[last.uid] = ""
    scene.play()
    assert scene.rig.in_pre_bind == {last.uid: "preempted by DefaultPreemption"}
    assert scene.writes == ["patch a", "delete a"]
    assert scene.rig.activated == {"default/big": BIG}


FAILURES = {
    "a victim that cannot be marked": "patch a",
    "a victim that cannot be deleted": "delete a",
    "the last victim": "delete b",
}


@pytest.mark.parametrize("fails", FAILURES.values(), ids=FAILURES)
def test_after_a_failure_the_preemptor_is_retried(fails: str) -> None:
    scene = Scene(low("a"), low("b", second=1), fails=fails)
    with pytest.raises(Conflict):
        scene.play()
    assert scene.rig.activated == {"default/big": BIG}
    assert scene.plugin.pre_enqueue(BIG) is None
    assert ("delete b" in scene.writes) == (fails == "delete b"), "the last victim is spared if another could not go"


def promised(name: str, priority: int, node: str = "n") -> Pod:
    return make_pod(name, priority=priority, status=PodStatus(nominated_node_name=node))


def test_less_important_pods_lose_the_node_they_were_promised() -> None:
    scene = Scene(low("a"), low("b", second=1))
    pods = [promised("lower", 9), promised("elsewhere", 9, "m")]
    scene.world.add(*pods)
    scene.rig.nominator = make_nominator(*pods)
    scene.play()
    assert scene.writes[0] == "patch lower"
    stored = scene.world.store.get(Pod, "lower", "default")
    assert stored is not None
    assert stored.nominated_node_name == ""
    assert "patch elsewhere" not in scene.writes


def test_equally_important_pods_keep_the_node_they_were_promised() -> None:
    scene = Scene(low("a"), low("b", second=1))
    equal = promised("equal", 10)
    scene.world.add(equal)
    scene.rig.nominator = make_nominator(equal)
    scene.play()
    assert "patch equal" not in scene.writes


def test_a_promise_that_cannot_be_taken_back_does_not_stop_the_eviction_but_wakes_the_preemptor_up() -> None:
    scene = Scene(low("a"), low("b", second=1), fails="patch lower")
    lower = promised("lower", 9)
    scene.world.add(lower)
    scene.rig.nominator = make_nominator(lower)
    scene.play()
    assert scene.writes[-1] == "delete b"
    assert scene.rig.activated == {"default/big": BIG}


class TestGate:
    """The preemptor is kept out of the queue until its victims are seen to leave."""

    def test_gate_is_closed_from_the_decision_until_the_watch_shows_every_victim_terminating(self) -> None:
        scene = Scene(low("a"), low("b", second=1))
        scene.play(lambda: _assert_equal(scene.plugin.pre_enqueue(BIG), UNDER_WAY))
        assert scene.plugin.pre_enqueue(BIG) == UNDER_WAY, "the API has answered, the watch has not"
        _see_gone(scene, "b")
        assert scene.plugin.pre_enqueue(BIG) == UNDER_WAY
        _see_leaving(scene, "a")
        assert scene.plugin.pre_enqueue(BIG) is None
        assert Status.unresolvable("waiting for the preemption for this pod to be finished") == UNDER_WAY

    def test_gate_is_open_for_other_pods(self) -> None:
        scene = Scene(low("a"), low("b"))
        scene.play(lambda: _assert_equal(scene.plugin.pre_enqueue(low("other")), None))

    def test_gate_opens_when_the_last_victim_is_terminating(self) -> None:
        observed = self._gate_during("delete b", lambda scene: _see_leaving(scene, "b"))
        assert observed == [UNDER_WAY, None]

    def test_gate_opens_when_the_last_victim_is_deleted(self) -> None:
        observed = self._gate_during("delete b", lambda scene: _see_gone(scene, "b"))
        assert observed == [UNDER_WAY, None]

    def test_gate_remains_closed_when_another_victim_is_terminating(self) -> None:
        observed = self._gate_during("delete a", lambda scene: _see_gone(scene, "a"))
        assert observed == [UNDER_WAY, UNDER_WAY]

    def test_gate_is_open_if_the_work_was_dropped(self) -> None:
        scene = Scene(low("a"), low("b"))
        asyncio.run(scene.start())
        scene.rig.background[0].close()
        assert scene.plugin.pre_enqueue(BIG) is None

    def test_replacement_with_the_name_of_a_victim_is_not_a_victim(self) -> None:
        scene = Scene(low("a"), low("b", second=1))
        scene.play()
        _see_gone(scene, "a")
        _see_gone(scene, "b")
        scene.rig.cache.add_pod(low("b", uid="another"))
        assert scene.plugin.pre_enqueue(BIG) is None

    def test_a_victim_stopped_in_memory_is_not_waited_for(self) -> None:
        first = low("a")
        scene = Scene(first, low("b", second=1))
        scene.rig.in_pre_bind[first.uid] = ""
        scene.play()
        _see_gone(scene, "b")
        assert scene.plugin.pre_enqueue(BIG) is None

    @staticmethod
    def _gate_during(write: str, change: Callable[[Scene], object]) -> list[Status | None]:
        """Check the gate at some write, before and after the watch event."""
        scene = Scene(low("a"), low("b", second=1))
        observed: list[Status | None] = []
        note = scene.world.fault

        def ask(verb: str, obj: KubeObject) -> ApiError | None:
            if f"{verb} {obj.name}" == write:
                observed.append(scene.plugin.pre_enqueue(BIG))
                change(scene)
                observed.append(scene.plugin.pre_enqueue(BIG))
            return note(verb, obj)

        scene.world.fault = ask
        scene.play()
        return observed


def _see_leaving(scene: Scene, name: str) -> None:
    pod = _known(scene, name)
    scene.rig.cache.update_pod(replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))


def _see_gone(scene: Scene, name: str) -> None:
    scene.rig.cache.remove_pod(_known(scene, name))


def _known(scene: Scene, name: str) -> Pod:
    pod = scene.rig.objects[Pod].get(name, "default")
    assert pod is not None
    return pod


class TestWithinTheCycle:
    """With the gate SchedulerAsyncPreemption off."""

    def test_victims_are_deleted_when_the_plugin_returns(self) -> None:
        scene = Scene(low("a"), low("b", second=1), inline=True)
        lower = promised("lower", 9)
        scene.world.add(lower)
        scene.rig.nominator = make_nominator(lower)
        assert scene.play().nominated_node == "n"
        assert scene.rig.background == []
        assert scene.writes == ["patch a", "delete a", "patch b", "delete b", "patch lower"]

    def test_a_failure_is_an_error_of_the_attempt(self) -> None:
        scene = Scene(low("a"), low("b", second=1), inline=True, fails="delete a")
        assert scene.play() == PostFilterResult(Status.error("preemption: changed meanwhile"))

    def test_every_pod_returns_to_the_queue(self) -> None:
        plugin = Scene(inline=True).plugin
        assert plugin.pre_enqueue(BIG) is None
        assert plugin.events_to_register() == ()


def test_a_deletion_makes_the_queue_look_at_gated_pods_but_is_a_reason_only_if_it_was_a_victim() -> None:
    victim, second = low("a"), low("b", second=1)
    scene = Scene(victim, second)
    (registration,) = scene.plugin.events_to_register()
    assert registration.event == ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
    hint = registration.hint
    assert hint is not None
    assert hint(BIG, victim, None) == QueueingHint.SKIP
    scene.play()
    assert hint(BIG, victim, None) == QueueingHint.QUEUE
    assert hint(BIG, low("c"), None) == QueueingHint.SKIP
    assert hint(second, victim, None) == QueueingHint.SKIP


MARK = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "default-scheduler: preempting to accommodate a higher priority pod",
}
NEW_TIME, OLD_TIME = "2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z"


def marked(**changes: str) -> Pod:
    condition = Condition(**{**MARK, "last_transition_time": OLD_TIME, **changes})  # type: ignore[arg-type]
    return Pod(metadata=ObjectMeta(name="a", generation=3), status=PodStatus(conditions=(condition,)))


PATCHES = {
    "a pod without the condition gets it": (Pod(), {**MARK, "lastTransitionTime": NEW_TIME}),
    "it names the generation": (
        Pod(metadata=ObjectMeta(generation=3)),
        {**MARK, "lastTransitionTime": NEW_TIME, "observedGeneration": 3},
    ),
    "one that has it is unchanged": (marked(), None),
    "another reason is replaced, since when remains": (
        marked(reason="Other"),
        {**MARK, "lastTransitionTime": OLD_TIME, "observedGeneration": 3},
    ),
    "a condition that did not hold begins to": (
        marked(status="False"),
        {**MARK, "lastTransitionTime": NEW_TIME, "observedGeneration": 3},
    ),
}


@pytest.mark.parametrize(("victim", "want"), PATCHES.values(), ids=PATCHES)
def test_the_condition_on_a_victim(victim: Pod, want: dict[str, Any] | None) -> None:
    patch = disruption_patch(victim, Preemptor.of_pod(BIG), 1_767_225_600.0)
    assert patch == (None if want is None else {"conditions": [want]})


def _assert_equal(result: object, expected: object) -> None:
    assert result == expected


ATTEMPTS = "scheduler_preemption_attempts_total"
VICTIMS = "scheduler_preemption_victims"


@pytest.mark.parametrize("inline", [True, False])
def test_attempts_and_victims_are_counted(inline: bool) -> None:
    scene = Scene(low("a"), low("b", second=1), inline=inline)
    scene.rig.meter = tally = Tally()
    scene.play()
    assert (tally.counted[ATTEMPTS,], tally.observed[VICTIMS,]) == (1, [2])
    # Upstream counts only background evictions.
    assert tally.counted[EXECUTIONS, "success"] == len(tally.observed.get((SECONDS, "success"), ())) == (not inline)


def test_attempt_without_candidates_is_counted() -> None:
    scene = Scene(make_pod("equal", node="n", priority=10, requests={"cpu": 4}))
    scene.rig.meter = tally = Tally()
    scene.play()
    assert (tally.counted, tally.observed) == ({(ATTEMPTS,): 1}, {})


VICTIM = make_pod("victim", node="a")


def held() -> tuple[Cache, HeldPods]:
    cache = Cache()
    for name in "abc":
        cache.add_node(make_node(name))
    cache.add_pod(VICTIM)
    pods = HeldPods(cache.nodes)
    assert pods.reconsidered() is None, "nothing is known yet: it could be any"
    pods.add("default/p", "uid-of-p", ["a"])
    assert pods.reconsidered() == set()
    return cache, pods


def test_a_held_pod_is_checked_once_after_the_node_of_its_victim_changed() -> None:
    cache, pods = held()
    cache.add_pod(make_pod("other", node="b"))
    assert pods.reconsidered() == set()
    cache.remove_pod(VICTIM)
    assert pods.reconsidered() == {"default/p"}
    assert pods.reconsidered() == set()


def test_a_held_pod_is_checked_after_progress_of_its_evictions() -> None:
    _, pods = held()
    pods.reconsider("uid-of-another")
    assert pods.reconsidered() == set()
    pods.reconsider("uid-of-p")
    assert pods.reconsidered() == {"default/p"}


def test_node_deletion_may_affect_any_pod() -> None:
    cache, pods = held()
    cache.remove_node("c")
    assert pods.reconsidered() is None
    assert pods.reconsidered() == set()


NODES = 3


@pytest.mark.parametrize("in_background", [True, False])
def test_important_pods_take_the_place_of_others(in_background: bool) -> None:
    features = FeatureGates({"SchedulerAsyncPreemption": in_background})
    clock = VirtualClock()
    world = SimulatedCluster(clock)
    nodes = [make_node(f"n{i}", allocatable={"cpu": 4}) for i in range(NODES)]
    low = [make_pod(f"low-{i}", priority=0, requests={"cpu": 2}) for i in range(2 * NODES)]
    high = [make_pod(f"high-{i}", priority=9, requests={"cpu": 3}) for i in range(NODES)]

    async def live() -> None:
        simulation = Simulation(world, Policy(default_config(), Registry(IN_TREE), features), cross_check=True)
        simulation.load([*nodes, *low])
        await simulation.run_until_quiet()
        assert all(pod.node_name for pod in world.store.list(Pod)), "the cluster is full now"
        world.add(*high)
        await simulation.run_until_quiet()

    run_virtual(live(), clock)
    placed = {pod.name: pod.node_name for pod in world.store.list(Pod)}
    assert sorted(placed[pod.name] for pod in high) == [node.name for node in nodes]
    assert not [name for name in placed if name.startswith("low")], "every other pod had to go"
    assert sorted(e.regarding.name for e in world.events if e.reason == "Preempted") == [pod.name for pod in low]
