"""Events that say what would help: once a pod and minute, about pods that still wait, and never in the way."""

import asyncio
from time import monotonic

from tests.unit.insight.explain.clusters import node, pod, session

from moorage.common.clock import VirtualClock
from moorage.insight.explain.in_scheduler import POD_SECONDS, REASON, ExplainEvents, ExplainRequest
from moorage.insight.explain.worker import explain_pods
from moorage.insight.whatif.edits import DeleteObject, ObjectId
from moorage.insight.whatif.session import Session
from moorage.kube.client.event_note import EventNote
from moorage.scheduler.queue.entities import QueuedPodInfo

REQUEST = ExplainRequest("", "", {}, (), {}, "1.37")


class Rig:
    """A scheduler of which two pods were rejected, and somebody who answers."""

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


def test_a_pod_is_told_of_once_a_minute() -> None:
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


def test_a_pod_that_is_gone_meanwhile_is_not_told_of() -> None:
    with waiting() as opened:
        rig = Rig(opened)

        async def ask(_request: ExplainRequest) -> dict[str, str]:
            opened.apply(DeleteObject(ObjectId("Pod", "default", "a")))
            return {"default/a": "It would fit."}

        rig.events._ask = ask
        rig.round()
        assert rig.notes == []


def test_nobody_is_asked_about_pods_that_were_not_rejected() -> None:
    with waiting() as opened:
        rig = Rig(opened)
        for queued in opened.scheduler.queue:
            assert isinstance(queued, QueuedPodInfo)
            queued.rejected_by(set())
        rig.round()
        assert rig.asked == []


def test_answers_are_the_first_changes_and_end_in_time() -> None:
    found = explain_pods(waiting(), ("default/a", "default/gone"), monotonic() + 30)
    assert found == {"default/a": "It would fit: Lower the cpu request of container main from 9 to 4  → n1"}
    assert explain_pods(waiting(), ("default/a",), monotonic() - 1) == {}
