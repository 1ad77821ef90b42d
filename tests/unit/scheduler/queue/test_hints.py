from typing import Any

import pytest
from tests.support.engine import build_runner
from tests.support.groups import gang
from tests.support.groups import member as group_member
from tests.unit.scheduler.queue.queue_bench import (
    CLAIM_ADD,
    NODE_ADD,
    NODE_TAINT,
    POD_ADD,
    POD_DELETE,
    Bench,
    ref,
)

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.events import (
    EVERY_EVENT,
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    EventRegistration,
    QueueingHint,
    Resource,
)
from moorage.scheduler.framework.plugin import FilterPlugin, PermitPlugin, ScorePlugin
from moorage.scheduler.queue.entities import QueuedPodGroupInfo, QueuedPodInfo
from moorage.scheduler.queue.gates import ProfileQueueing
from moorage.scheduler.queue.hints import EXTENDER, Hints, RequeueStrategy
from moorage.testing import make_node, make_pod

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
STAY, LATER, NOW = RequeueStrategy.SKIP, RequeueStrategy.AFTER_BACKOFF, RequeueStrategy.IMMEDIATELY
NODE_LABEL = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
NODE_UPDATE = ClusterEvent(Resource.NODE, Action.UPDATE)

# (registrations, unschedulable plugins, pending plugins, event, what happens)
STRATEGIES: dict[
    str, tuple[dict[str, list[tuple[ClusterEvent, Any]]], set[str], set[str], ClusterEvent, RequeueStrategy]
] = {
    "no plugin rejected the pod: any event is enough": ({}, set(), set(), NODE_ADD, LATER),
    "a hint-less registration always helps": ({"A": [(NODE_ADD, None)]}, {"A"}, set(), NODE_ADD, LATER),
    "a hint may skip": ({"A": [(NODE_ADD, SKIP)]}, {"A"}, set(), NODE_ADD, STAY),
    "a hint may queue": ({"A": [(NODE_ADD, QUEUE)]}, {"A"}, set(), NODE_ADD, LATER),
    "an error is treated as yes": ({"A": [(NODE_ADD, ValueError)]}, {"A"}, set(), NODE_ADD, LATER),
    "another plugin's hint does not matter": ({"B": [(NODE_ADD, QUEUE)]}, {"A"}, set(), NODE_ADD, STAY),
    "another event does not matter": ({"A": [(NODE_ADD, QUEUE)]}, {"A"}, set(), POD_DELETE, STAY),
    "one yes is enough": (
        {"A": [(NODE_ADD, SKIP)], "B": [(NODE_ADD, QUEUE)]},
        {"A", "B"},
        set(),
        NODE_ADD,
        LATER,
    ),
    "a plugin may register for an event twice": (
        {"A": [(NODE_ADD, SKIP), (ClusterEvent(Resource.NODE, Action.ALL), QUEUE)]},
        {"A"},
        set(),
        NODE_ADD,
        LATER,
    ),
    "what a pending plugin waited for skips the penalty": (
        {"A": [(CLAIM_ADD, QUEUE)]},
        {"A"},
        {"A"},
        CLAIM_ADD,
        NOW,
    ),
    "a pending plugin's no does not": ({"A": [(CLAIM_ADD, SKIP)]}, {"A"}, {"A"}, CLAIM_ADD, STAY),
    "a pending plugin after one that merely rejected is still called": (
        {"A": [(CLAIM_ADD, QUEUE)], "B": [(CLAIM_ADD, QUEUE)]},
        {"A", "B"},
        {"B"},
        CLAIM_ADD,
        NOW,
    ),
    "if the pending plugin skips, the other plugin decides": (
        {"A": [(CLAIM_ADD, QUEUE)], "B": [(CLAIM_ADD, SKIP)]},
        {"A", "B"},
        {"B"},
        CLAIM_ADD,
        LATER,
    ),
    "a plugin that is only pending is a rejector, too": ({"A": [(NODE_ADD, None)]}, set(), {"A"}, NODE_ADD, NOW),
    "a node update of one kind is not one of another": ({"A": [(NODE_LABEL, None)]}, {"A"}, set(), NODE_TAINT, STAY),
    "all updates include each": ({"A": [(NODE_UPDATE, None)]}, {"A"}, set(), NODE_TAINT, LATER),
    "a plain update does not match a registration for one kind": (
        {"A": [(NODE_LABEL, None)]},
        {"A"},
        set(),
        NODE_UPDATE,
        STAY,
    ),
    "pods of all kinds are pods": (
        {"A": [(ClusterEvent(Resource.POD, Action.DELETE), None)]},
        {"A"},
        set(),
        POD_DELETE,
        LATER,
    ),
    "a plugin registered for every event gets every event": (
        {"A": [(ClusterEvent(Resource.WILDCARD, Action.ALL), None)]},
        {"A"},
        set(),
        CLAIM_ADD,
        LATER,
    ),
}


def hints(registrations: dict[str, list[tuple[ClusterEvent, Any]]]) -> Hints:
    def function(answer: Any) -> Any:
        def hint(pod: Pod, old: Any, new: Any) -> QueueingHint:
            if isinstance(answer, type):
                raise answer("broken")
            assert isinstance(answer, QueueingHint)
            return answer

        return None if answer is None else hint

    return Hints(
        {
            "default-scheduler": ProfileQueueing(
                registrations={
                    plugin: [EventRegistration(event, function(answer)) for event, answer in registered]
                    for plugin, registered in registrations.items()
                }
            )
        },
        None,
    )


@pytest.mark.parametrize(
    ("registrations", "unschedulable", "pending", "event", "want"), STRATEGIES.values(), ids=STRATEGIES
)
def test_strategy(
    registrations: Any, unschedulable: Any, pending: Any, event: ClusterEvent, want: RequeueStrategy
) -> None:
    info = QueuedPodInfo(make_pod("p"), 0.0)
    info.rejected_by(set(unschedulable), set(pending))
    assert hints(registrations).choose_strategy(info, event, None, make_node()) is want


POD = make_pod("p", uid="u")
WILDCARDS = {
    "a wildcard helps every pod": (UNSCHEDULABLE_TIMEOUT, None, LATER),
    "one that names a pod helps that pod": (FORCE_ACTIVATE, POD, LATER),
    "and no other": (FORCE_ACTIVATE, make_pod("p", uid="other"), STAY),
    "an event of another name helps no pod": (FORCE_ACTIVATE, make_node(), STAY),
}


@pytest.mark.parametrize(("event", "new", "want"), WILDCARDS.values(), ids=WILDCARDS)
def test_wildcards(event: ClusterEvent, new: Any, want: RequeueStrategy) -> None:
    info = QueuedPodInfo(POD, 0.0)
    info.rejected_by({"Deaf"})
    assert hints({"Deaf": []}).choose_strategy(info, event, None, new) is want


def test_a_pod_of_an_unknown_profile_is_always_retried() -> None:
    info = QueuedPodInfo(make_pod("p", scheduler_name="other"), 0.0)
    info.rejected_by({"A"})
    assert hints({"A": []}).choose_strategy(info, NODE_ADD, None, None) is LATER


def test_hints_get_the_pod_and_both_objects() -> None:
    bench = Bench()
    bench.rejected("p", "Fit")
    node = make_node()
    bench.move(NODE_ADD, None, node)
    assert bench.hint_calls == [("Fit", "p", None, node)]


def test_a_hint_that_raises_requeues_the_pod() -> None:
    bench = Bench()
    bench.rejected("p", "Fit")
    bench.hint_results["Fit"] = ValueError("broken hint")
    bench.move(NODE_ADD)
    assert bench.where("p") == "backoff"


def test_only_pods_rejected_by_registered_plugins_are_checked() -> None:
    bench = Bench()
    bench.rejected("fit", "Fit")
    bench.rejected("taint", "Taint")
    bench.rejected("both", "Fit", "Taint")
    bench.hint_results["Fit"] = SKIP
    bench.move(NODE_ADD)
    assert {name for _, name, _, _ in bench.hint_calls} == {"fit", "both"}
    bench.move(NODE_TAINT)
    assert [bench.where(name) for name in ("fit", "taint", "both")] == ["unschedulable", "backoff", "backoff"]


class Filters(FilterPlugin):
    def filter(self, *_: Any) -> None:
        return None

    def events_to_register(self) -> list[EventRegistration]:
        return [EventRegistration(NODE_ADD)]


class Permits(PermitPlugin):
    def permit(self, *_: Any) -> None:
        return None


class Scores(ScorePlugin):
    def score(self, *_: Any) -> int:
        return 0


def test_only_plugins_that_can_reject_pods_register() -> None:
    registrations = dict(build_runner(plugins=[Filters, Permits, Scores]).profile.registrations())
    assert {name: registrations[name] for name in registrations if name in ("Filters", "Permits", "Scores")} == {
        "Filters": (EventRegistration(NODE_ADD),),
        "Permits": EVERY_EVENT,
    }


def test_extenders_register_for_every_event_under_one_name() -> None:
    profile = ProfileQueueing((), {EXTENDER: EVERY_EVENT})
    hints = Hints({"default-scheduler": profile}, None)
    info = QueuedPodInfo(make_pod("p"), 0.0)
    info.rejected_by({EXTENDER})
    assert hints.choose_strategy(info, POD_ADD, None, ref("x")) is LATER


GROUPS = {
    "one rejected member that is helped suffices": ([({"A"}, set()), ({"B"}, set())], LATER),
    "no member is helped": ([({"B"}, set()), ({"B"}, set())], STAY),
    "a member without rejectors is retried": ([({"B"}, set()), (set(), set())], LATER),
    "a pending member that is helped is retried immediately": ([({"B"}, set()), (set(), {"A"})], NOW),
    "even if another member has no rejectors": ([(set(), set()), (set(), {"A"})], NOW),
}


@pytest.mark.parametrize(("members", "want"), GROUPS.values(), ids=GROUPS)
def test_strategy_of_a_group_is_the_strongest_of_its_members(
    members: list[tuple[set[str], set[str]]], want: RequeueStrategy
) -> None:
    infos = [QueuedPodInfo(group_member(f"m{number}"), 0.0) for number in range(len(members))]
    entity = QueuedPodGroupInfo(gang(), infos[0])
    for info, (unschedulable, pending) in zip(infos, members, strict=True):
        info.rejected_by(unschedulable, pending)
        entity.insert(info)
    registered = hints({"A": [(NODE_ADD, None)], "B": []})
    assert registered.choose_strategy(entity, NODE_ADD, None, make_node()) is want


def test_plugin_with_changed_inputs_concerns_only_pods_that_it_rejected() -> None:
    registered = hints({"A": [], "B": []})
    event = registered.event_of_plugin("default-scheduler", "A")
    for plugin, want in (("A", LATER), ("B", STAY)):
        info = QueuedPodInfo(make_pod("p"), 0.0)
        info.rejected_by({plugin})
        assert registered.choose_strategy(info, event, None, None) is want
    assert registered.find_interest(event).registered == (("default-scheduler", "A"),)
