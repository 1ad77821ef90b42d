"""Requests to the API: patches, reviews, and status responses for every invalid request."""

import os
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.api import (
    APPLY,
    DEPLOYMENTS,
    JSON_PATCH,
    MERGE,
    NODES,
    PODS,
    STRATEGIC,
    ApiHarness,
    budget,
    definition,
    deployment,
    node,
    pod,
)

from moorage.cluster.apiserver.requests.bodies import PROTOBUF as MEDIA_TYPE
from moorage.cluster.apiserver.requests.request import ApiRequest, ApiResponse


def test_token_review_authenticates_the_token():
    client = ApiHarness()
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    for token, is_good in (("good", True), ("bad", False)):
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        assert client.create(path, body)["status"]["authenticated"] is is_good
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "eve"}}
    assert client.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)["status"] == {"allowed": False}


def test_review_has_no_table_representation():
    client = ApiHarness()
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert client.request("POST", path, review, want=406, accept=table)["reason"] == "NotAcceptable"
    client.request("POST", path, review, want=201, accept=f"{table},application/json")


def test_duplicate_field_is_rejected_or_reported():
    client = ApiHarness()
    body = b'{"metadata": {"name": "a"}, "data": {"x": "1", "x": "2"}, "other": 1}'
    maps = "/api/v1/namespaces/default/configmaps"
    error = client.request("POST", f"{maps}?fieldValidation=Strict", body, want=400)["message"]
    assert error.endswith('strict decoding error: unknown field "other", duplicate field "data.x"')
    assert 'duplicate field "data.x"' in client.send("POST", f"{maps}?fieldValidation=Warn", body).warnings
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata:\n  x: one\n  x: two\n"
    how = {"content_type": "application/apply-patch+yaml"}
    error = client.request("PATCH", f"{maps}/b?fieldManager=me", text, want=400, **how)["message"]
    assert 'line 6: key "x" already set in map' in error


PATCHES = {
    "merge": (MERGE, {"metadata": {"labels": {"a": "b"}}}),
    "strategic": (STRATEGIC, {"metadata": {"labels": {"a": "b"}}}),
    "json": (JSON_PATCH, [{"op": "add", "path": "/metadata/labels/a", "value": "b"}]),
}


@pytest.mark.parametrize(("kind", "patch"), PATCHES.values(), ids=PATCHES)
def test_patch(kind: str, patch: object) -> None:
    client = ApiHarness()
    client.create(PODS, pod(labels={"x": "y"}))
    client.request("PATCH", f"{PODS}/web", patch, content_type=kind)
    assert client.get(f"{PODS}/web")["metadata"]["labels"] == {"x": "y", "a": "b"}


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
BAD: dict[str, tuple[str, str, Any, str, int, str]] = {
    "malformed JSON": ("POST", PODS, b"{", "", 400, "BadRequest"),
    "no body": ("POST", PODS, b"", "", 400, "BadRequest"),
    "a list instead of an object": ("POST", PODS, [], "", 400, "BadRequest"),
    "invalid UTF-8": ("POST", PODS, b'{"kind": "\xff"}', "", 400, "BadRequest"),
    "a number beyond 64 bits": ("POST", PODS, b'{"spec": {"priority": 1e999}}', "", 400, "BadRequest"),
    "nested too deeply": ("POST", PODS, b'{"a":' * 5000 + b"1" + b"}" * 5000, "", 400, "BadRequest"),
    "another kind": ("POST", PODS, node(), "", 400, "BadRequest"),
    "another version": ("POST", PODS, {**pod(), "apiVersion": "v2"}, "", 400, "BadRequest"),
    "a string instead of a number": ("POST", PODS, pod(priority="high"), "", 400, "BadRequest"),
    "a string instead of a list": (
        "POST",
        DEPLOYMENTS,
        {**deployment(), "spec": {"template": "x"}},
        "",
        400,
        "BadRequest",
    ),
    "an unknown field with strict validation": (
        "POST",
        f"{PODS}?fieldValidation=Strict",
        pod(foo=1),
        "",
        400,
        "BadRequest",
    ),
    "no containers": ("POST", PODS, pod(containers=[]), "", 422, "Invalid"),
    "a name in capitals": ("POST", PODS, pod("Web"), "", 422, "Invalid"),
    "a bad quantity": (
        "POST",
        PODS,
        pod(containers=[{"name": "a", "image": "a", "resources": {"requests": {"cpu": "lots"}}}]),
        "",
        400,
        "BadRequest",
    ),
    "an unknown priority class": ("POST", PODS, pod(priorityClassName="none"), "", 403, "Forbidden"),
    "an owner without a name": (
        "POST",
        PODS,
        {**pod(), "metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "uid": "u"}]}},
        "",
        422,
        "Invalid",
    ),
    "a priority without its class": ("POST", PODS, pod(priority=7), "", 403, "Forbidden"),
    "a missing namespace": ("POST", "/api/v1/namespaces/none/pods", pod(), "", 404, "NotFound"),
    "another namespace": ("POST", PODS, {**pod(), "metadata": {"name": "a", "namespace": "b"}}, "", 400, "BadRequest"),
    "a version on creation": (
        "POST",
        PODS,
        {**pod(), "metadata": {"name": "a", "resourceVersion": "1"}},
        "",
        400,
        "BadRequest",
    ),
    "an unknown resource": ("GET", "/api/v1/boats", None, "", 404, "NotFound"),
    "an unknown group": ("GET", "/apis/boats.example.org/v1/boats", None, "", 404, "NotFound"),
    "an unknown object": ("GET", f"{PODS}/none", None, "", 404, "NotFound"),
    "an unknown subresource": ("GET", f"{PODS}/web/mast", None, "", 404, "NotFound"),
    "an unknown verb": ("TRACE", PODS, None, "", 405, "MethodNotAllowed"),
    "an unsupported verb": (
        "GET",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        None,
        "",
        405,
        "MethodNotAllowed",
    ),
    "a bad label selector": ("GET", f"{PODS}?labelSelector=a in", None, "", 400, "BadRequest"),
    "a bad field selector": ("GET", f"{PODS}?fieldSelector=spec.none=1", None, "", 400, "BadRequest"),
    "a bad limit": ("GET", f"{PODS}?limit=many", None, "", 400, "BadRequest"),
    "a bad continue": ("GET", f"{PODS}?limit=1&continue=!!", None, "", 400, "BadRequest"),
    "a version that is not a number": ("GET", f"{PODS}?watch=1&resourceVersion=new", None, "", 400, "BadRequest"),
    "a version in the future": ("GET", f"{PODS}?resourceVersion=99999", None, "", 504, "Timeout"),
    "the logs of a fake pod": ("GET", f"{PODS}/web/log", None, "", 400, "BadRequest"),
    "a command in a fake pod": ("POST", f"{PODS}/web/exec?command=ls", None, "", 400, "BadRequest"),
    "an unknown dry run directive": ("POST", f"{PODS}?dryRun=Some", pod(), "", 422, "Invalid"),
    "an unknown body format": ("POST", PODS, pod(), "text/plain", 415, "UnsupportedMediaType"),
    "an unknown patch format": ("PATCH", f"{PODS}/web", {}, "application/json", 415, "UnsupportedMediaType"),
    "a patch that is not an object": ("PATCH", f"{PODS}/web", [], MERGE, 400, "BadRequest"),
    "a patch of a missing object": ("PATCH", f"{PODS}/none", {}, MERGE, 404, "NotFound"),
    "a patch that removes the metadata": ("PATCH", f"{NODES}/n1", {"metadata": None}, MERGE, 400, "BadRequest"),
    "an unknown field in a patch with strict validation": (
        "PATCH",
        f"{PODS}/web?fieldValidation=Strict",
        {"spec": {"foo": 1}},
        MERGE,
        400,
        "BadRequest",
    ),
    "another name": ("PUT", f"{NODES}/n1", node("n2"), "", 400, "BadRequest"),
    "protobuf without its prefix": ("POST", PODS, b"abc", MEDIA_TYPE, 400, "BadRequest"),
    "protobuf with invalid UTF-8": (
        "POST",
        PODS,
        b"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x07\x0a\x05\x0a\x03a\xff\xfe",
        MEDIA_TYPE,
        400,
        "BadRequest",
    ),
    "a JSON patch that removes everything": (
        "PATCH",
        f"{PODS}/web",
        [{"op": "remove", "path": ""}],
        JSON_PATCH,
        422,
        "Invalid",
    ),
    "truncated protobuf": ("POST", PODS, b"k8s\x00\x0a\x99", MEDIA_TYPE, 400, "BadRequest"),
    "a binding without a target": (
        "POST",
        f"{PODS}/web/binding",
        {"apiVersion": "v1", "kind": "Binding", "target": {}},
        "",
        422,
        "Invalid",
    ),
    "a bad deletion policy": ("DELETE", f"{PODS}/web?propagationPolicy=Later", None, "", 422, "Invalid"),
    "two names together": (
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {**definition(), "metadata": {"name": "others.example.org"}},
        "",
        422,
        "Invalid",
    ),
    **{
        f"a definition whose status is {status}": (
            "POST",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            {**definition(), "status": status},
            "",
            400,
            "BadRequest",
        )
        for status in (True, {"conditions": [1]}, {"storedVersions": 5})
    },
}


def furnished() -> ApiHarness:
    client = ApiHarness()
    client.create(PODS, pod())
    client.create(NODES, node())
    client.create(DEPLOYMENTS, deployment())
    return client


@pytest.mark.parametrize(("method", "path", "body", "kind", "code", "reason"), BAD.values(), ids=BAD)
def test_invalid_request_returns_a_status(method: str, path: str, body: Any, kind: str, code: int, reason: str) -> None:
    answer = furnished().send(method, path, body, content_type=kind or "application/json")
    status = msgspec.json.decode(answer.body)
    assert (answer.status, status.get("reason"), status["kind"]) == (code, reason, "Status"), status
    assert status["code"] == code
    assert status["message"]


SEEDS: tuple[tuple[str, str, Any], ...] = (
    ("POST", PODS, pod("a", nodeSelector={"a": "b"}, tolerations=[{"key": "a", "operator": "Exists"}])),
    ("POST", NODES, node("b")),
    ("POST", DEPLOYMENTS, deployment("c")),
    ("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget()),
    ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition()),
    ("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
    ("POST", f"{PODS}/web/binding", {"kind": "Binding", "metadata": {"name": "web"}, "target": {"name": "n1"}}),
    ("POST", f"{PODS}/web/eviction", {"kind": "Eviction", "metadata": {"name": "web"}, "deleteOptions": {}}),
    ("PUT", f"{PODS}/web/status", {**pod(), "status": {"phase": "Running", "containerStatuses": [{"name": "main"}]}}),
    ("PUT", f"{NODES}/n1", node()),
    ("PUT", f"{DEPLOYMENTS}/shop/scale", {"kind": "Scale", "metadata": {"name": "shop"}, "spec": {"replicas": 3}}),
    ("PATCH", f"{PODS}/web", {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main"}]}}),
    ("PATCH", f"{DEPLOYMENTS}/shop", [{"op": "replace", "path": "/spec/replicas", "value": 2}]),
    ("PATCH", f"{DEPLOYMENTS}/shop", deployment(image="shop:2")),
    ("DELETE", f"{PODS}/web", {"gracePeriodSeconds": 3, "propagationPolicy": "Orphan", "preconditions": {"uid": "u"}}),
    ("DELETE", DEPLOYMENTS, None),
    ("GET", PODS, None),
    ("GET", "/apis/apps/v1", None),
    (
        "POST",
        "/apis/events.k8s.io/v1/namespaces/default/events",
        {"metadata": {"name": "e"}, "regarding": {"kind": "Pod"}},
    ),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}}),
    ("POST", "/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": "j"}, "spec": {"template": {"spec": {}}}}),
)
QUERIES = (
    *("labelSelector", "fieldSelector", "limit", "continue", "watch", "resourceVersion", "dryRun", "fieldManager"),
    *("force", "gracePeriodSeconds", "propagationPolicy", "sendInitialEvents", "timeoutSeconds", "fieldValidation"),
)
WORDS = ("", "true", "0", "-1", "3", "All", "x", "a=b", "a in (b", "metadata.name=web", "Strict", "Orphan", "9" * 30)
CONTENT_TYPES = ("application/json", MERGE, STRATEGIC, JSON_PATCH, APPLY, "application/yaml", MEDIA_TYPE, "x")
ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(("$patch", "delete", "/", "a/b/c", "2026-01-01T00:00:00Z", "100m", "Always")),
    st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.sampled_from(("name", "$patch", "a", "x/y", "metadata")), st.text(max_size=3), max_size=2),
)


@st.composite
def mutated(draw: st.DrawFn, data: Any) -> Any:
    """Replace, drop or add parts of plain data."""
    if draw(st.integers(0, 12)) == 0:
        return draw(ODD)
    if isinstance(data, dict):
        mutated_data = {key: draw(mutated(item)) for key, item in data.items() if draw(st.integers(0, 15))}
        if draw(st.integers(0, 8)) == 0:
            mutated_data[
                draw(st.sampled_from(("spec", "status", "metadata", "finalizers", "labels", "name", "foo")))
            ] = draw(ODD)
        return mutated_data
    if isinstance(data, list):
        return [draw(mutated(item)) for item in data]
    return data


@st.composite
def requests(draw: st.DrawFn) -> ApiRequest:
    """Draw a request that began as a good one."""
    method, path, seed = draw(st.sampled_from(SEEDS))
    if draw(st.integers(0, 5)) == 0:
        method = draw(st.sampled_from(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")))
    if draw(st.integers(0, 8)) == 0:
        parts = path.split("/")
        parts[draw(st.integers(1, len(parts) - 1))] = draw(
            st.sampled_from(("", "..", "%00", "pods", "web", "é", "status"))
        )
        path = "/".join(parts)
    query = draw(st.dictionaries(st.sampled_from(QUERIES), st.sampled_from(WORDS), max_size=2))
    body = msgspec.json.encode(draw(mutated(seed))) if seed is not None else b""
    if body and draw(st.integers(0, 12)) == 0:
        at = draw(st.integers(0, len(body) - 1))
        body = body[:at] + draw(st.binary(max_size=3)) + body[at + draw(st.integers(0, 3)) :]
    natural = draw(st.sampled_from(CONTENT_TYPES[1:5])) if method == "PATCH" else "application/json"
    kind = draw(st.sampled_from(CONTENT_TYPES)) if draw(st.integers(0, 10)) == 0 else natural
    return ApiRequest(method, path, query, body, kind, draw(st.sampled_from(("", TABLE))), "fuzz/1")


@settings(
    max_examples=int(os.environ.get("MOORAGE_FUZZ", "120")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(requests(), min_size=1, max_size=4))
def test_mutated_request_returns_a_response(asks: list[ApiRequest]) -> None:
    client = furnished()
    for ask in asks:
        answer = client.api.answer(ask)
        if isinstance(answer, ApiResponse):
            assert answer.status < 500 or b"ResourceVersionTooLarge" in answer.body, answer.body
        else:
            b"".join(answer.begin())
            answer.take()
    for path in ("/api/v1/pods", "/api/v1/nodes", "/apis/apps/v1/deployments", "/api/v1/events", "/api/v1/services"):
        assert client.send("GET", path, accept=TABLE).status == 200
