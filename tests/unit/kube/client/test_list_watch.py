"""The list/watch machine: every state, without a server."""

from operator import attrgetter
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.common.caches import LRU
from moorage.common.errors import ApiError, Gone, ServerError
from moorage.kube.api import node as nodes
from moorage.kube.api import sharing
from moorage.kube.api.custom import custom_kind
from moorage.kube.api.devices import ResourceClaim, ResourceSlice
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.list_watch import PAGE_BYTES, UNFINISHED_PODS, Change, Decoding, ListWatch

PODS = BY_NAME["Pod"]


def machine(**options: Any) -> ListWatch[Pod]:
    return ListWatch(PODS, Decoding(Pod), chance=Random(1), **options)


def pod(name: str, version: int, uid: str = "", **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "shop", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": spec}


def page(*pods: dict[str, Any], version: int = 10, token: str = "") -> bytes:
    meta = {"resourceVersion": str(version)} | ({"continue": token} if token else {})
    return msgspec.json.encode({"kind": "PodList", "metadata": meta, "items": list(pods)})


def line(event: str, obj: Any) -> bytes:
    return msgspec.json.encode({"type": event, "object": obj}) + b"\n"


def story(changes: list[Change[Pod]]) -> list[str]:
    """Write changes as `+new`, `~changed`, `-gone` and `-gone?` (last version missed)."""
    signs = []
    for change in changes:
        obj = change.after or change.before
        assert obj is not None
        sign = "+" if change.before is None else "~" if change.after is not None else "-"
        signs.append(f"{sign}{obj.name}{'' if change.is_final else '?'}")
    return signs


FOLLOWING: dict[str, tuple[bytes, str | None]] = {
    "a page that is not the last": (page(pod("a", 1), token="next/page"), "continue=next%2Fpage"),
    "the last page": (page(pod("a", 1)), None),
    "a token that has to be read properly": (page(token='a"b'), None),
    "a token behind the items": (b'{"items":[],"metadata":{"continue":"t"}}', None),
    "a field of an item only": (page(pod("a", 1, x={"continue": "t"})), None),
    "no list": (b"<html>", None),
}


@pytest.mark.parametrize(("body", "want"), FOLLOWING.values(), ids=FOLLOWING)
def test_next_page_is_detected_before_a_page_is_decoded(body: bytes, want: str | None) -> None:
    request = machine().following(body)
    if want is None:
        assert request is None
    else:
        assert request is not None
        assert request.path.endswith(want)


SIZES: dict[str, tuple[list[int], list[int]]] = {
    "short objects: twice as many each time, up to a limit": ([1000] * 6, [1000, 2000, 4000, 8000, 10_000, 10_000]),
    "pages as long as wanted remain so": ([PAGE_BYTES // 2, PAGE_BYTES, PAGE_BYTES], [1000, 1000, 1000]),
    "long objects: fewer, but not less than at first": (
        [1000, 1000, PAGE_BYTES * 2, PAGE_BYTES * 9],
        [1000, 2000, 1000, 500],
    ),
}


@pytest.mark.parametrize(("lengths", "want"), SIZES.values(), ids=SIZES)
def test_page_size_depends_on_object_length(lengths: list[int], want: list[int]) -> None:
    watching = machine()
    requests = [watching.following(page(token="t").ljust(length)) for length in lengths]
    assert [request and request.path for request in requests] == [
        f"/api/v1/pods?limit={size}&continue=t" for size in want
    ]


@pytest.mark.parametrize("error", [ServerError("too slow"), Gone("expired")], ids=["slow", "gone"])
def test_after_a_failure_pages_are_small(error: ApiError) -> None:
    watching = machine()
    assert watching.following(page(token="t")) is not None
    watching.page(page(token="t"))
    watching.failed(error)
    token = "" if isinstance(error, Gone) else "&continue=t"
    assert watching.next_request().path == f"/api/v1/pods?limit=500{token}"


def test_listing_reads_pages_and_ends_in_a_watch() -> None:
    watching = machine(field_selector=UNFINISHED_PODS)
    first = watching.next_request()
    assert not first.is_watch
    assert first.path == ("/api/v1/pods?limit=500&fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed")
    assert story(watching.page(page(pod("a", 1), token="next/page"))) == ["+a"]
    assert not watching.is_synced
    assert "continue=next%2Fpage" in watching.next_request().path
    assert story(watching.page(page(pod("b", 2)))) == ["+b"]
    assert watching.is_synced
    request = watching.next_request()
    assert request.is_watch
    assert "resourceVersion=10&" in request.path
    assert "allowWatchBookmarks=true" in request.path


EVENTS = {
    "a new object is reported once": ([line("ADDED", pod("b", 11))], ["+b"]),
    "a changed object is reported with its old version": ([line("MODIFIED", pod("a", 11))], ["~a"]),
    "an event with a known version is ignored": ([line("MODIFIED", pod("a", 1))], []),
    "a deleted object is removed": ([line("DELETED", pod("a", 11))], ["-a"]),
    "the deletion of an unknown object is ignored": ([line("DELETED", pod("z", 11))], []),
    "a bookmark is ignored": ([line("BOOKMARK", {"metadata": {"resourceVersion": "99"}})], []),
    "an object of the same name but another uid replaces the first": (
        [line("MODIFIED", pod("a", 11, uid="other"))],
        ["-a?", "+a"],
    ),
    "an event may arrive in pieces": (
        [line("ADDED", pod("b", 11))[:30], line("ADDED", pod("b", 11))[30:] + line("DELETED", pod("a", 12))],
        ["+b", "-a"],
    ),
    "a malformed object is skipped": ([line("ADDED", {"metadata": 7}), line("ADDED", pod("b", 12))], ["+b"]),
    "an object with an invalid quantity is skipped": (
        [
            line("ADDED", pod("a", 11) | {"spec": {"containers": [{"resources": {"requests": {"cpu": "abc"}}}]}}),
            line("ADDED", pod("b", 12)),
        ],
        ["+b"],
    ),
    "a null where a list belongs is as good as nothing": ([line("ADDED", pod("b", 11, tolerations=None))], ["+b"]),
}


@pytest.mark.parametrize(("chunks", "want"), EVENTS.values(), ids=EVENTS)
def test_watching(chunks: list[bytes], want: list[str]) -> None:
    watching = machine()
    watching.page(page(pod("a", 1)))
    watching.next_request()
    assert story([change for chunk in chunks for change in watching.chunk(chunk)]) == want


def test_a_watch_resumes_from_the_last_bookmark() -> None:
    watching = machine()
    watching.page(page(pod("a", 1)))
    watching.chunk(line("BOOKMARK", {"metadata": {"resourceVersion": "77"}}))
    assert "resourceVersion=77&" in watching.next_request().path


def test_half_a_line_is_forgotten_with_its_watch() -> None:
    watching = machine()
    watching.page(page())
    watching.chunk(line("ADDED", pod("a", 11))[:20])
    watching.next_request()
    assert story(watching.chunk(line("ADDED", pod("b", 12)))) == ["+b"]


def test_relist_after_410_reports_only_differences() -> None:
    watching = machine()
    watching.page(page(pod("same", 1), pod("changed", 2), pod("gone", 3)))
    with pytest.raises(Gone) as raised:
        watching.chunk(line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}))
    watching.failed(raised.value)
    assert set(watching.known) == {"shop/same", "shop/changed", "shop/gone"}, "state is kept while the list is read"
    assert not watching.next_request().is_watch
    changes = watching.page(page(pod("same", 1), pod("changed", 22), pod("new", 23), version=30))
    assert story(changes) == ["~changed", "+new", "-gone?"]


def test_rejected_version_causes_a_relist() -> None:
    watching = machine()
    watching.page(page(pod("a", 1)))
    assert watching.next_request().is_watch
    watching.failed(ApiError("invalid resource version", status=400))
    assert not watching.next_request().is_watch
    assert set(watching.known) == {"shop/a"}


def test_endless_line_of_a_watch_is_rejected() -> None:
    watching = machine()
    watching.page(page(pod("a", 1)))
    for _ in range(16):
        watching.chunk(b"x" * (1 << 20))
    with pytest.raises(ServerError, match="longer than 16 MiB"):
        watching.chunk(b"x")
    assert watching.next_request().is_watch


def test_expired_page_restarts_the_list() -> None:
    watching = machine()
    watching.page(page(pod("a", 1), token="t"))
    watching.failed(Gone("expired"))
    assert "continue" not in watching.next_request().path
    assert story(watching.page(page(pod("b", 2)))) == ["+b", "-a?"]


def test_other_failures_resume_where_we_were() -> None:
    watching = machine()
    watching.page(page(pod("a", 1)))
    watching.failed(ApiError("a hiccup", status=500))
    assert "resourceVersion=10&" in watching.next_request().path


RUBBISH = {
    "a page that is not JSON": b"<html>",
    "a page that is not a list": b'{"items": 7}',
    "a list without a version to watch from": b'{"metadata": {}, "items": []}',
}


@pytest.mark.parametrize("body", RUBBISH.values(), ids=RUBBISH)
def test_malformed_list_is_an_error_and_loses_no_objects(body: bytes) -> None:
    watching = machine()
    watching.page(page(pod("a", 1)))
    watching.failed(Gone("expired"))
    with pytest.raises(ApiError):
        watching.page(body)
    assert set(watching.known) == {"shop/a"}


def test_objects_of_an_invalid_list_are_reported_with_the_next_list() -> None:
    watching = machine()
    with pytest.raises(ApiError, match="no resourceVersion"):
        watching.page(msgspec.json.encode({"metadata": {}, "items": [pod("a", 1), pod("b", 2)]}))
    assert story(watching.page(page(pod("a", 1)))) == ["+a"]


def test_invalid_data_in_a_watch_stream_is_an_error() -> None:
    watching = machine()
    watching.page(page())
    with pytest.raises(ApiError, match="invalid data"):
        watching.chunk(b"<html>\n")


def test_malformed_objects_are_counted_and_keep_their_last_state() -> None:
    skipped: list[str] = []
    watching = ListWatch(PODS, Decoding(Pod, skipped.append))
    watching.page(page(pod("a", 1), pod("b", 2)))
    watching.failed(Gone("expired"))
    broken = {"metadata": {"name": "a", "namespace": "shop", "labels": 7}}
    assert story(watching.page(page(broken, pod("c", 3)))) == ["+c", "-b?"]
    assert set(watching.known) == {"shop/a", "shop/c"}
    assert skipped == ["Pod"]


def test_custom_resources_are_plain_data() -> None:
    kind = custom_kind("Quota", "quotas", "example.org/v1")
    watching: ListWatch[Any] = ListWatch(kind, Decoding(kind.type))
    assert watching.next_request().path == "/apis/example.org/v1/quotas?limit=500"
    quota = {"metadata": {"name": "q", "namespace": "shop", "resourceVersion": "1"}, "spec": {"pods": 3, "no": None}}
    (change,) = watching.page(page(quota))
    assert change.after["spec"] == {"pods": 3}
    assert change.after.key == "shop/q"
    (change,) = watching.chunk(line("MODIFIED", quota | {"metadata": quota["metadata"] | {"resourceVersion": "2"}}))
    assert change.before is not None


@given(st.data())
def test_changes_always_add_up_to_the_server_state(data: st.DataObject) -> None:
    """Random histories with watches that are cut and versions that expire: replaying the changes gives the truth."""
    watching, truth, log, version = machine(page_size=3), dict[str, int](), list[tuple[int, bytes]](), 10
    replayed: dict[str, str] = {}

    def replay(changes: list[Change[Pod]]) -> None:
        for change in changes:
            if change.before is not None:
                assert replayed.pop(change.before.name) or not change.is_final
            if change.after is not None:
                replayed[change.after.name] = change.after.metadata.resource_version

    def relist() -> None:
        while not (request := watching.next_request()).is_watch:
            names = sorted(truth)
            start = int(request.path.partition("continue=")[2] or 0)
            items = [pod(name, truth[name]) for name in names[start : start + 3]]
            token = str(start + 3) if start + 3 < len(names) else ""
            replay(watching.page(page(*items, version=version, token=token)))

    relist()
    for step in data.draw(st.lists(st.sampled_from(["put", "drop", "cut", "expire"]), max_size=25)):
        name = data.draw(st.sampled_from("abcdefgh"))
        if step == "put":
            version += 1
            log.append((version, line("MODIFIED" if name in truth else "ADDED", pod(name, version))))
            truth[name] = version
        elif step == "drop" and name in truth:
            version += 1
            del truth[name]
            log.append((version, line("DELETED", pod(name, version))))
        elif step == "cut":
            since = int(watching.version)
            watching.next_request()
            replay(watching.chunk(b"".join(event_line for number, event_line in log if number > since)))
        elif step == "expire":
            watching.failed(Gone("expired"))
            relist()
    replay(watching.chunk(b"".join(event_line for number, event_line in log if number > int(watching.version))))
    assert replayed == {name: str(number) for name, number in truth.items()}


def test_a_first_list_that_expires_half_way_is_compared_with_the_next() -> None:
    watching = machine()
    assert story(watching.page(page(pod("a", 1), pod("b", 2), token="t"))) == ["+a", "+b"]
    watching.failed(Gone("expired"))
    assert story(watching.page(page(pod("b", 2), pod("c", 3)))) == ["+c", "-a?"]
    assert watching.is_synced


def listed(*images: dict[str, Any]) -> list[Node]:
    """Return two nodes of one page that hold the same images."""
    items = [{"metadata": {"name": name}, "status": {"images": images}} for name in ("node-1", "node-2")]
    _, nodes_listed, _ = Decoding(Node).page(msgspec.json.encode({"items": items}))
    return nodes_listed


APP = {"names": ["registry.example.com/app:1"], "sizeBytes": 1000}
OLD = {"names": ["registry.example.com/app:0"], "sizeBytes": 1000}


def test_nodes_share_the_images_that_they_hold() -> None:
    first, second = listed(APP, OLD)
    assert first.status.images == msgspec.convert([APP, OLD], tuple[nodes.ContainerImage, ...])
    assert all(
        first_image is second_image
        for first_image, second_image in zip(first.status.images, second.status.images, strict=True)
    )
    assert first.image_names == {"registry.example.com/app:1", "registry.example.com/app:0"}


def test_unused_images_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_images", LRU("images", 2, lambda image: image))
    for number in range(10):
        listed({"names": [f"app:{number}"], "sizeBytes": number})
    assert len(sharing._images) <= 2


ALIKE: dict[type[KubeObject], tuple[dict[str, Any], str]] = {
    Pod: ({"metadata": {"labels": {"app": "web"}}}, "metadata.labels"),
    Node: ({"status": {"allocatable": {"cpu": "7"}}}, "status.allocatable"),
    ResourceClaim: ({"spec": {"devices": {"requests": [{"name": "gpu"}]}}}, "spec"),
    ResourceSlice: ({"spec": {"devices": [{"name": "gpu-0"}]}}, "spec.devices"),
}


@pytest.mark.parametrize(("kind", "text"), ALIKE.items(), ids=[kind.__name__ for kind in ALIKE])
def test_listed_and_watched_objects_share_parts(kind: type[KubeObject], text: tuple[dict[str, Any], str]) -> None:
    decoding, (data, path) = Decoding(kind), text
    _, (*_, listed_obj), _ = decoding.page(msgspec.json.encode({"items": [data] * 20}))
    _, watched = decoding.event(msgspec.json.encode({"type": "MODIFIED", "object": data}))
    assert attrgetter(path)(listed_obj) is attrgetter(path)(watched)
