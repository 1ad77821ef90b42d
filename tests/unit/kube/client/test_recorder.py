"""Events: series, retries and dropped events, on a server with faults."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from tests.support.fault_server import FaultServer

from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod
from moorage.kube.api.records import EventNote, Lease
from moorage.kube.client.recorder import EventRecorder
from moorage.kube.http.messages import Response
from moorage.testing import make_pod

T = TypeVar("T")
EVENTS = "/apis/events.k8s.io/v1/events"


class Bench:
    """A recorder on a server in virtual time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FaultServer(self.clock)
        self.recorder = EventRecorder(self.server.client(), "host", self.clock)
        self.pod = make_pod("web", namespace="shop", uid="u1")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return run_virtual(work, self.clock)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def note(pod: Pod, reason: str = "Scheduled", text: str = "done") -> EventNote:
    return EventNote(pod, reason, "Binding", text, "default-scheduler")


def events(bench: Bench) -> list[dict[str, Any]]:
    return list(bench.server.stored(EVENTS).values())


def test_note_is_not_a_format_string(bench: Bench) -> None:
    text = "0/1 nodes are available: 1 disk 100% full, %s %d %% %."

    async def work() -> None:
        bench.recorder.record(note(bench.pod, "FailedScheduling", text))
        await bench.recorder.flush()

    bench.run(work())
    assert [event["note"] for event in events(bench)] == [text]


def test_an_event_of_the_core_api(bench: Bench) -> None:
    lease = Lease(metadata=ObjectMeta(name="kube-scheduler", namespace="kube-system", uid="u2", resource_version="9"))

    async def work() -> None:
        noted = EventNote(lease, "LeaderElection", "LeaderElection", "me became leader", "default-scheduler")
        bench.recorder.record_core(noted)
        await bench.recorder.flush()

    bench.run(work())
    (event,) = bench.server.stored("/api/v1/events").values()
    assert event.pop("metadata")["name"].startswith("kube-scheduler.")
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "kind": "Lease",
            "namespace": "kube-system",
            "name": "kube-scheduler",
            "uid": "u2",
            "apiVersion": "coordination.k8s.io/v1",
            "resourceVersion": "9",
        },
        "reason": "LeaderElection",
        "message": "me became leader",
        "type": "Normal",
        "source": {"component": "default-scheduler"},
        "reportingComponent": "default-scheduler",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "eventTime": None,
        "count": 1,
    }


def test_event_names_its_reporter_and_object(bench: Bench) -> None:
    async def work() -> None:
        bench.recorder.record(note(bench.pod))
        await bench.recorder.flush()

    bench.run(work())
    (event,) = events(bench)
    assert event.pop("metadata")["name"].startswith("web.")
    assert event.pop("eventTime") == "2026-01-01T00:00:00.000000Z"
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": "done",
        "regarding": {"kind": "Pod", "namespace": "shop", "name": "web", "uid": "u1", "apiVersion": "v1"},
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host",
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    }


def test_a_repeated_event_becomes_a_series(bench: Bench) -> None:
    async def work() -> None:
        for _ in range(5):
            bench.recorder.record(note(bench.pod, text="whatever the text"))
            await bench.recorder.flush()
        assert [event["series"]["count"] for event in events(bench)] == [2]
        bench.recorder.refresh_series()
        await bench.recorder.flush()
        assert [event["series"]["count"] for event in events(bench)] == [5]

    bench.run(work())


def test_a_series_ends_without_events_for_six_minutes(bench: Bench) -> None:
    async def work() -> None:
        bench.recorder.record(note(bench.pod))
        bench.clock.advance(361)
        bench.recorder.finish_series()
        bench.recorder.record(note(bench.pod))
        await bench.recorder.flush()

    bench.run(work())
    assert len(events(bench)) == 2


def test_series_with_an_expired_event_is_recreated(bench: Bench) -> None:
    async def work() -> None:
        bench.recorder.record(note(bench.pod))
        await bench.recorder.flush()
        for key in bench.server.stored(EVENTS):
            bench.server.remove(EVENTS, key)
        bench.recorder.record(note(bench.pod))
        await bench.recorder.flush()

    bench.run(work())
    assert [event["series"]["count"] for event in events(bench)] == [2]


def test_a_long_note_is_cut_between_characters(bench: Bench) -> None:
    async def work() -> None:
        bench.recorder.record(note(bench.pod, text="ä" * 600))
        await bench.recorder.flush()

    bench.run(work())
    text = events(bench)[0]["note"]
    assert text.endswith("ä ...")
    assert 1020 <= len(text.encode()) <= 1024


def test_events_are_buffered_while_the_server_is_down_and_dropped_when_full(bench: Bench) -> None:
    async def work() -> None:
        bench.server.is_down = True
        for number in range(1100):
            bench.recorder.record(note(make_pod(f"p{number}", uid=f"u{number}")))
        bench.server.is_down = False
        await bench.recorder.flush()

    bench.run(work())
    assert bench.recorder.dropped == 100
    assert len(events(bench)) == 1000


def test_an_event_that_is_retried_keeps_no_other_waiting(bench: Bench) -> None:
    bench.server.fail("POST", 503)
    began = bench.clock.now()

    async def work() -> float:
        for number in range(3):
            bench.recorder.record(note(make_pod(f"p{number}", uid=f"u{number}")))
        while len(events(bench)) < 2:
            await asyncio.sleep(0.01)
        took = bench.clock.now() - began
        await bench.recorder.flush()
        return took

    assert bench.run(work()) < 1.0
    assert len(events(bench)) == 3


def test_an_event_at_the_end_of_a_writer_is_written(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    send = bench.server.send

    async def send_and_tell(request: bytes, seconds: float) -> Response:
        answer = await send(request, seconds)
        if len(events(bench)) == 1:
            asyncio.get_running_loop().call_soon(bench.recorder.record, note(make_pod("second", uid="u2")))
        return answer

    async def work() -> None:
        monkeypatch.setattr(bench.server, "send", send_and_tell)
        bench.recorder.record(note(bench.pod))
        await bench.recorder.flush()
        await asyncio.sleep(0)
        await bench.recorder.flush()

    bench.run(work())
    assert len(events(bench)) == 2


def test_many_events_are_written_side_by_side(bench: Bench) -> None:
    bench.server.pause = 1.0
    began = bench.clock.now()

    async def work() -> None:
        for number in range(320):
            bench.recorder.record(note(make_pod(f"p{number}", uid=f"u{number}")))
        await bench.recorder.flush()

    bench.run(work())
    assert bench.clock.now() - began == pytest.approx(10.0, abs=0.1)


def test_a_dead_server_is_given_up_on_after_twelve_tries(bench: Bench) -> None:
    async def work() -> None:
        bench.server.is_down = True
        bench.recorder.record(note(bench.pod))
        await bench.recorder.flush()

    start = bench.clock.now()
    bench.run(work())
    assert len(bench.server.requests) == 12
    assert 110 <= bench.clock.now() - start <= 220


def test_an_event_that_is_rejected_is_not_retried(bench: Bench) -> None:
    async def work() -> None:
        bench.server.fail("POST", 403)
        bench.recorder.record(note(bench.pod))
        await bench.recorder.flush()

    bench.run(work())
    assert len(bench.server.requests) == 1


EVENT_TROUBLE = {
    "errors": lambda server: server.fail("POST .*events", 500, times=3),
    "a server that is busy": lambda server: server.fail("POST .*events", 429, retry_after="2", times=3),
    "a server that is slow": lambda server: setattr(server, "pause", 30.0),
    "a lost response": lambda server: server.lose_answer("POST .*events"),
    "an invalid response": lambda server: server.rubbish("PATCH .*events", b"\xff"),
}


@pytest.mark.parametrize("spoil", EVENT_TROUBLE.values(), ids=EVENT_TROUBLE)
def test_an_event_gets_through(bench: Bench, spoil: Any) -> None:
    async def work() -> None:
        spoil(bench.server)
        for _ in range(2):
            bench.recorder.record(note(bench.pod))
            await bench.recorder.flush()

    bench.run(work())
    assert [event["reason"] for event in events(bench)] == ["Scheduled"]
