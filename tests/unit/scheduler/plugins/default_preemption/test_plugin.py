"""DefaultPreemption: the choice of a node, and extenders."""

import asyncio
from collections.abc import Mapping

import pytest

from moorage.common.errors import ExtenderError
from moorage.kube.api.pod import Pod, PodStatus
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.victims import Victims
from moorage.scheduler.plugins.default_preemption.plugin import call_extenders, pick_one_node
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig

NOW = 1_767_225_600.0


def victim(priority: int = 1, hour: int | None = 1) -> Pod:
    started = None if hour is None else f"2025-12-31T{hour:02}:00:00Z"
    return make_pod(priority=priority, status=PodStatus(start_time=started))


def victims(*pods: Pod, violations: int = 0) -> Victims:
    return Victims(pods, violations)


PICKS = {
    "a single candidate is taken": ({"a": victims(victim())}, "a"),
    "fewer violated budgets win over everything else": (
        {"a": victims(victim(0), violations=1), "b": victims(victim(9), victim(9))},
        "b",
    ),
    "then the lower highest priority, however many go": (
        {"a": victims(victim(5)), "b": victims(victim(4), victim(4), victim(4))},
        "b",
    ),
    "then the smaller sum of priorities": (
        {"a": victims(victim(5), victim(4)), "b": victims(victim(5), victim(3))},
        "b",
    ),
    "the sum counts each victim, so negative priorities do not outweigh an extra victim": (
        {"a": victims(victim(-1), victim(-5)), "b": victims(victim(-1))},
        "b",
    ),
    "then fewer victims, which the sum decides already for equal priorities": (
        {"a": victims(victim(1), victim(1)), "b": victims(victim(1))},
        "b",
    ),
    "the number of victims decides where the sums agree": (
        {"a": victims(victim(0), victim(-(1 << 31))), "b": victims(victim(0))},
        "b",
    ),
    "then the later start": ({"a": victims(victim(1, 3)), "b": victims(victim(1, 4))}, "b"),
    "of each node the earliest start among the most important counts": (
        {
            "a": victims(victim(2, 9), victim(2, 3), victim(1, 0)),
            "b": victims(victim(2, 4), victim(2, 5), victim(1, 0)),
        },
        "b",
    ),
    "a victim that has not started yet starts now": ({"a": victims(victim(1, 5)), "b": victims(victim(1, None))}, "b"),
    "the first of equals is taken": ({"b": victims(victim()), "a": victims(victim())}, "b"),
}


@pytest.mark.parametrize(("candidates", "want"), PICKS.values(), ids=PICKS)
def test_the_least_harmful_node_is_taken(candidates: dict[str, Victims], want: str) -> None:
    assert pick_one_node(candidates, NOW) == want


A, B = make_pod("a"), make_pod("b")


CANDIDATES = {"m": Victims((A,)), "n": Victims((B,))}


class Service:
    """An extender with a fixed response."""

    def __init__(self, answer: Mapping[str, Victims] | None, *, ignorable: bool = False, wants: bool = True) -> None:
        self.name = "http://extender"
        self.is_ignorable = ignorable
        self.asked: list[Mapping[str, Victims]] = []
        self._answer = answer
        self._wants = wants

    def handles_preemption_for(self, pod: Pod) -> bool:
        return self._wants

    async def process_preemption(
        self, pod: Pod, candidates: Mapping[str, Victims], nodes: NodeTable
    ) -> Mapping[str, Victims]:
        self.asked.append(candidates)
        if self._answer is None:
            raise ExtenderError("failed preempt")
        return self._answer


ONLY_N = {"n": Victims((B,), 1)}


EXTENDERS = {
    "without extenders all candidates remain": ([], CANDIDATES),
    "an extender's result replaces the candidates": ([Service(ONLY_N)], ONLY_N),
    "an uninterested extender is not called": ([Service({}, wants=False)], CANDIDATES),
    "one that fails and may be ignored is omitted": ([Service(None, ignorable=True), Service(ONLY_N)], ONLY_N),
    "nodes without victims are dropped if it may be ignored": (
        [Service({"m": Victims(()), **ONLY_N}, ignorable=True)],
        ONLY_N,
    ),
    "the next extender is not called without candidates": ([Service({}), Service(None)], {}),
}


@pytest.mark.parametrize(("extenders", "want"), EXTENDERS.values(), ids=EXTENDERS)
def test_extenders(extenders: list[Service], want: dict[str, Victims]) -> None:
    rig = Rig(make_node("m"), make_node("n"))
    rig.extenders.extend(extenders)
    assert asyncio.run(call_extenders(rig, make_pod(), CANDIDATES)) == want


def test_each_extender_gets_the_result_of_the_previous_one() -> None:
    rig, last = Rig(), Service(ONLY_N)
    rig.extenders.extend([Service(ONLY_N), last])
    asyncio.run(call_extenders(rig, make_pod(), CANDIDATES))
    assert last.asked == [ONLY_N]


REFUSED = {
    "an extender that must not be ignored fails the attempt": (Service(None), "failed preempt"),
    "so does one that names a node without victims": (
        Service({"m": Victims(())}),
        'expected at least one victim pod on node "m"',
    ),
}


@pytest.mark.parametrize(("extender", "message"), REFUSED.values(), ids=REFUSED)
def test_extender_errors(extender: Service, message: str) -> None:
    rig = Rig()
    rig.extenders.append(extender)
    with pytest.raises(ExtenderError, match=message):
        asyncio.run(call_extenders(rig, make_pod(), CANDIDATES))
