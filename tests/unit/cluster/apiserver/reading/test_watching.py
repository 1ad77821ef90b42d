import msgspec
from tests.support.api import MERGE, NODES, PODS, ApiHarness, node, pod


def test_watch_begins_with_existing_objects_and_continues():
    client = ApiHarness()
    client.create(PODS, pod("a"))
    watch = client.watch(PODS)
    assert watch.events() == [("ADDED", "a")]
    client.request("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, content_type=MERGE)
    client.create(PODS, pod("b"))
    client.request("DELETE", f"{PODS}/a")
    assert watch.events() == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_watch_continues_from_a_version():
    client = ApiHarness()
    client.create(PODS, pod("a"))
    version = client.get(PODS)["metadata"]["resourceVersion"]
    client.create(PODS, pod("b"))
    assert client.watch(f"{PODS}?resourceVersion={version}").events() == [("ADDED", "b")]


def test_object_that_leaves_the_selection_is_reported_as_deleted():
    client = ApiHarness()
    client.create(PODS, pod("a"))
    watch = client.watch(f"{PODS}?fieldSelector=status.phase!=Succeeded")
    assert watch.events() == [("ADDED", "a")]
    patched = client.request("PATCH", f"{PODS}/a/status", {"status": {"phase": "Succeeded"}}, content_type=MERGE)
    (event,) = watch.next()
    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["resourceVersion"] == patched["metadata"]["resourceVersion"]


def test_expired_version_ends_the_watch_with_410():
    client = ApiHarness(history=2)
    version = client.create(PODS, pod("p"))["metadata"]["resourceVersion"]
    for number in range(10):
        client.create(PODS, pod(f"p{number}"))
    watch = client.watch(f"{PODS}?resourceVersion={version}")
    (event,) = watch.first()
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert watch.watch.is_over


def test_streaming_list_ends_with_its_bookmark():
    client = ApiHarness()
    client.create(PODS, pod("a"))
    events = client.watch(f"{PODS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan").first()
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_bookmark_has_the_current_version():
    client = ApiHarness()
    watch = client.watch(f"{PODS}?resourceVersion=1")
    version = client.create(NODES, node())["metadata"]["resourceVersion"]
    assert watch.next() == []
    assert msgspec.json.decode(watch.watch.bookmark())["object"]["metadata"]["resourceVersion"] == version
