from tests.support.api import MERGE, ApiHarness

from moorage.cluster.apiserver.server import forget_old_events

EVENTS = "/api/v1/namespaces/default/events"


def event(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": {"kind": "Pod"}}


def test_events_expire_an_hour_after_the_last_observation():
    client = ApiHarness()
    client.create(EVENTS, event("old"))
    client.create(EVENTS, event("seen-again"))
    client.clock.advance(3000)
    client.create(EVENTS, event("young"))
    update = {"lastTimestamp": "2026-01-01T00:50:00Z"}
    client.request("PATCH", f"{EVENTS}/seen-again", update, content_type=MERGE)
    assert forget_old_events(client.api.store, client.clock.now()) == 0
    client.clock.advance(700)
    assert forget_old_events(client.api.store, client.clock.now()) == 1
    assert client.names(EVENTS) == ["seen-again", "young"]
