from tests.support.api import MERGE, Asked

from moorage.cluster.apiserver.storage.expiry import forget_old_events

EVENTS = "/api/v1/namespaces/default/events"


def event(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": {"kind": "Pod"}}


def test_events_are_forgotten_an_hour_after_they_were_last_seen():
    asked = Asked()
    asked.create(EVENTS, event("old"))
    asked.create(EVENTS, event("seen-again"))
    asked.clock.advance(3000)
    asked.create(EVENTS, event("young"))
    seen = {"lastTimestamp": "2026-01-01T00:50:00Z"}
    asked.got("PATCH", f"{EVENTS}/seen-again", seen, content_type=MERGE)
    assert forget_old_events(asked.api.store, asked.clock.now()) == 0
    asked.clock.advance(700)
    assert forget_old_events(asked.api.store, asked.clock.now()) == 1
    assert asked.names(EVENTS) == ["seen-again", "young"]
