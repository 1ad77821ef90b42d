"""Events that suggest changes: once per pod and minute, only for pending pods, and never blocking."""

import asyncio
from contextlib import suppress
from itertools import pairwise
from time import monotonic

import pytest
from tests.unit.insight.explain.clusters import node, pod, session

from moorage.common.child_process import ChildEnded
from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.insight.explain.explain_events import POD_SECONDS, REASON, ExplainEvents, ExplainRequest
from moorage.insight.explain.explain_worker import explain_pods
from moorage.insight.whatif.edits import DeleteObject, ObjectId
from moorage.insight.whatif.session import Session
from moorage.kube.api.records import EventNote
from moorage.scheduler.queue.entities import QueuedPodInfo

REQUEST = ExplainRequest("", "", {}, (), {}, "1.37")


class Rig:
    """A scheduler with two rejected pods, and a function that explains them."""

    def __init__(self, opened: Session) -> None:
        self.clock = VirtualClock()
        self.asked: list[tuple[str, ...]] = []
        self.notes: list[EventNote] = []
        self.answers: dict[str, str] = {}
        for queued in opened.scheduler.queue:
            queued.rejected_by({"NodeResourcesFit"})
        self.events = ExplainEvents(opened.scheduler, self.notes.append, self.clock, lambda: REQUEST, self.ask)

    async def ask(self, request: ExplainRequest) -> dict[str, str]:
        self.asked.append(request.pods)
        return self.answers

    def round(self) -> None:
        asyncio.run(self.events.round())


def waiting() -> Session:
    return session(node("n1"), pod("a", requests={"cpu": "9"}), pod("b", requests={"cpu": "9"}))


def test_pod_is_reported_once_a_minute() -> None:
    with waiting() as opened:
        rig = Rig(opened)
        rig.answers = {"default/a": "It would fit: so.", "default/elsewhere": "It would fit: else."}
        rig.round()
        assert [(note.regarding.key, note.reason, note.note) for note in rig.notes] == [
            ("default/a", REASON, "It would fit: so.")
        ]
        rig.round()
        assert rig.asked == [("default/a", "default/b")], "both have been asked about just now"
        rig.clock.advance(POD_SECONDS)
        rig.round()
        assert len(rig.asked) == 2


def test_deleted_pod_is_not_reported() -> None:
    with waiting() as opened:
        rig = Rig(opened)

        async def ask(_request: ExplainRequest) -> dict[str, str]:
            opened.apply(DeleteObject(ObjectId("Pod", "default", "a")))
            return {"default/a": "It would fit."}

        rig.events._ask = ask
        rig.round()
        assert rig.notes == []


def test_failing_worker_is_restarted_after_growing_pauses() -> None:
    with waiting() as opened:
        rig = Rig(opened)
        starts: list[float] = []

        async def ask(_request: ExplainRequest) -> dict[str, str]:
            starts.append(rig.clock.now() - began)
            rig.events._reported.clear()
            raise ChildEnded

        async def run() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(1000):
                    await rig.events.run()

        rig.events._ask = ask
        began = rig.clock.now()
        run_virtual(run(), rig.clock)
        pauses = [later - earlier for earlier, later in pairwise(starts)]
        assert pauses == pytest.approx([10, 20, 40, 80, 160, 300, 300][: len(pauses)])
        assert len(pauses) >= 6


def test_only_rejected_pods_are_explained() -> None:
    with waiting() as opened:
        rig = Rig(opened)
        for queued in opened.scheduler.queue:
            assert isinstance(queued, QueuedPodInfo)
            queued.rejected_by(set())
        rig.round()
        assert rig.asked == []


def test_explanations_use_the_first_change_and_end_in_time() -> None:
    explanation = explain_pods(waiting(), ("default/a", "default/gone"), monotonic() + 30)
    assert explanation == {"default/a": "It would fit: Lower the cpu request of container main from 9 to 4  → n1"}
    assert explain_pods(waiting(), ("default/a",), monotonic() - 1) == {}
