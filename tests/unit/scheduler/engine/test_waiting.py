"""Pods waiting on Permit: the first decision counts, and each plugin has its own timeout."""

import asyncio
from collections.abc import Callable

import pytest

from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.scheduler.engine.waiting import PermitWait, WaitingPods
from moorage.scheduler.framework.status import Code, Status
from moorage.testing import make_pod

POD = make_pod("p")
TWO = {"Quorum": 10.0, "Budget": 30.0}

CASES: dict[str, tuple[Callable[[PermitWait], object], tuple[Code, str, str] | None, float]] = {
    "all let it go": (lambda pod: (pod.allow("Quorum"), pod.allow("Budget")), None, 0.0),
    "one is not enough: the other times out": (
        lambda pod: pod.allow("Quorum"),
        (Code.UNSCHEDULABLE, "Budget", "rejected due to timeout after waiting 30s at plugin Budget"),
        30.0,
    ),
    "no plugin decides: the shortest limit counts": (
        lambda _: None,
        (Code.UNSCHEDULABLE, "Quorum", "rejected due to timeout after waiting 10s at plugin Quorum"),
        10.0,
    ),
    "one turns it down": (
        lambda pod: pod.reject("Budget", "too dear"),
        (Code.UNSCHEDULABLE, "Budget", "too dear"),
        0.0,
    ),
    "the first word counts": (
        lambda pod: (pod.reject("Budget", "too dear"), pod.allow("Budget"), pod.allow("Quorum")),
        (Code.UNSCHEDULABLE, "Budget", "too dear"),
        0.0,
    ),
    "a plugin that did not wait cannot allow it": (
        lambda pod: (pod.allow("Stranger"), pod.allow("Quorum"), pod.allow("Quorum")),
        (Code.UNSCHEDULABLE, "Budget", "rejected due to timeout after waiting 30s at plugin Budget"),
        30.0,
    ),
    "preempted while it waits": (
        lambda pod: pod.preempt("DefaultPreemption", "preempted"),
        (Code.ERROR, "DefaultPreemption", "preempted"),
        0.0,
    ),
}


@pytest.mark.parametrize(("speak", "want", "seconds"), CASES.values(), ids=CASES)
def test_waiting(speak: Callable[[PermitWait], object], want: tuple[Code, str, str] | None, seconds: float) -> None:
    clock = VirtualClock()

    async def wait() -> Status | None:
        waiting_pod = WaitingPods().hold(POD, TWO)
        speak(waiting_pod)
        return await waiting_pod.decision()

    began = clock.now()
    status = run_virtual(wait(), clock)
    assert (None if status is None else (status.code, status.plugin, status.message)) == want
    assert clock.now() - began == pytest.approx(seconds, abs=0.01)


def test_all_waiting_pods_can_be_found_until_they_are_released() -> None:
    async def look() -> None:
        waiting = WaitingPods()
        waiting_pod = waiting.hold(POD, TWO)
        assert waiting.get(POD.uid) is waiting_pod
        assert list(waiting.all()) == [waiting_pod]
        assert waiting_pod.pending_plugins == ("Quorum", "Budget")
        waiting_pod.allow("Quorum")
        assert waiting_pod.pending_plugins == ("Budget",)
        assert waiting.reject_waiting(POD.uid, "deleted")
        assert not waiting_pod.preempt("Late", "too late")
        waiting.release(POD.uid)
        assert waiting.get(POD.uid) is None
        assert not waiting.reject_waiting(POD.uid, "deleted")
        await asyncio.sleep(0)

    run_virtual(look(), VirtualClock())
