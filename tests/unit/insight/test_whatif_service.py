"""The what-if service: responses, authorization, and rejected requests."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.insight.explain.clusters import node, pod

from moorage.insight.listening import ListenOptions
from moorage.insight.whatif.sources import ClusterSource
from moorage.insight.whatif_service import MAX_WAITING, ServiceOptions, WhatIfService
from moorage.kube.http.messages import HttpRequest, Reply
from moorage.scheduler.wiring.policy import collect_plugins, load_policy

CPU = "/spec/containers/0/resources/requests/cpu"


@pytest.fixture
def options(tmp_path: Path) -> ServiceOptions:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": [node("n1"), pod("big", requests={"cpu": "5"})]}))
    return ServiceOptions(ClusterSource([str(file)]), load_policy(collect_plugins()))


def ask(options: ServiceOptions, path: str, body: Any, *, method: str = "POST", token: str = "") -> tuple[int, Any]:
    async def go() -> Reply:
        service = WhatIfService(options)
        _, server = await service.start()
        headers = [(b"content-type", b"application/json")]
        headers += [(b"authorization", f"Bearer {token}".encode())] if token else []
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = await service.answer(HttpRequest(method, path.encode(), headers, content))
        await service.stop(server)
        return reply

    reply = asyncio.run(go())
    return reply.status, json.loads(reply.body) if reply.content_type == "application/json" else reply.body


def test_a_pod_is_explained_after_edits(options: ServiceOptions) -> None:
    status, response = ask(options, "/v1/explain", {"pod": "default/big"})
    assert (status, response["result"], response["changes"][0]["kind"]) == (200, "unschedulable", "request")
    status, response = ask(options, "/v1/explain", {"pod": "big", "edits": response["changes"][0]["edits"]})
    assert (status, response["result"]) == (200, "scheduled")


def test_new_pods_are_placed(options: ServiceOptions) -> None:
    status, response = ask(
        options, "/v1/place", {"pods": [pod("a", requests={"cpu": "3"}), pod("b", requests={"cpu": "3"})]}
    )
    assert status == 200
    assert [decision["result"] for decision in response["decisions"]] == ["scheduled", "unschedulable"]


def test_plans_are_made(options: ServiceOptions) -> None:
    status, response = ask(options, "/v1/plan", {"goal": "drain", "nodes": ["n1"]})
    assert (status, response["summary"]["nodesEmptied"]) == (200, ["n1"])
    assert ask(options, "/v1/plan", {"goal": "drian"})[1] == {
        "error": "goal: unknown goal 'drian'\n  hint: did you mean 'drain'?"
    }
    assert ask(options, "/v1/plan", {"goal": "drain", "node": "n1"})[0] == 422
    assert ask(options, "/v1/plan", {"goal": "drain", "nodes": "n1"})[0] == 422


def test_copies_are_counted(options: ServiceOptions) -> None:
    assert ask(options, "/v1/capacity", {"pod": pod("web")})[1]["fits"] == 4


def test_starts_are_forecast(options: ServiceOptions) -> None:
    assert ask(options, "/v1/when", {"subject": "big"})[1]["state"] == "never"
    status, response = ask(options, "/v1/when", {})
    assert (status, [item["state"] for item in response["pods"]]) == (200, ["never"])
    assert ask(options, "/v1/when", {"subject": "small"})[0] == 422


def test_forecast_of_the_queue_is_a_metric(options: ServiceOptions) -> None:
    status, text = ask(options, "/metrics", {}, method="GET")
    assert status == 200
    assert b'moorage_forecast_pods{class="default",state="never"} 1.0' in text
    assert b"# HELP moorage_forecast_start_seconds" in text
    assert ask(options, "/metrics", {})[0] == 405


REFUSED: dict[str, tuple[str, Any, int]] = {
    "no such place": ("/v1/bind", {}, 404),
    "no JSON": ("/v1/explain", b"{", 400),
    "no object": ("/v1/explain", [], 400),
    "no such pod": ("/v1/explain", {"pod": "default/bog"}, 422),
    "no pod": ("/v1/explain", {}, 422),
    "no edit": ("/v1/explain", {"pod": "big", "edits": [{}]}, 422),
    "a bad object": ("/v1/place", {"pods": [{"kind": "Pod"}]}, 422),
    "too many copies": ("/v1/capacity", {"pod": pod("a"), "most": 10**9}, 422),
}


@pytest.mark.parametrize(("path", "body", "status"), REFUSED.values(), ids=REFUSED)
def test_invalid_question_is_rejected(options: ServiceOptions, path: str, body: Any, status: int) -> None:
    response = ask(options, path, body)
    assert response[0] == status
    assert response[1]["error"]


def test_tokens(options: ServiceOptions) -> None:
    guarded = replace(options, listening=ListenOptions(tokens=(b"one", b"two")))
    assert ask(guarded, "/v1/capacity", {"pod": pod("web")})[0] == 401
    assert ask(guarded, "/v1/capacity", {"pod": pod("web")}, token="three")[0] == 401
    assert ask(guarded, "/v1/capacity", {"pod": pod("web")}, token="two")[0] == 200
    assert ask(guarded, "/healthz", b"", method="GET") == (200, b"ok")


def test_too_many_questions_get_retry_later(options: ServiceOptions) -> None:
    service = WhatIfService(options)
    service._waiting = MAX_WAITING
    request = HttpRequest("POST", b"/v1/explain", [(b"content-type", b"application/json")], b"{}")
    assert asyncio.run(service.answer(request)).status == 429


ODD = (None, True, 0, -1, 10**30, 1.5, "", "x" * 2000, "\0", [], {}, [[]], {"": ""}, "a/b/c", "9" * 5000, [None], [{}])
PATCH = {"object": {"kind": "Pod", "name": "big"}, "patch": [{"op": "replace", "path": CPU, "value": "1"}]}
QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/explain", {"pod": "default/big", "node": "n1"}),
    ("/v1/explain", {"pod": pod("x", requests={"cpu": "1"})}),
    ("/v1/capacity", {"pod": pod("web"), "most": 5}),
    ("/v1/place", {"pods": [pod("a"), pod("b")]}),
    (
        "/v1/explain",
        {"pod": "big", "edits": [PATCH, {"create": node("n2")}, {"delete": {"kind": "Node", "name": "n1"}}]},
    ),
    ("/v1/plan", {"goal": "drain", "nodes": ["n1"], "maxMoves": 3}),
    ("/v1/plan", {"goal": "fit", "for": ["default/big", pod("q")], "exclude": ["n1"]}),
)


def slots(data: Any) -> list[tuple[Any, Any]]:
    """List the containers and keys of all values in a question."""
    items = list(data.items()) if isinstance(data, dict) else list(enumerate(data)) if isinstance(data, list) else []
    return [(data, key) for key, _ in items] + [slot for _, value in items for slot in slots(value)]


def mutated(random: Random, question: dict[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(question))
    for _ in range(random.randint(1, 3)):
        container, key = random.choice(slots(copied) or [(copied, "pod")])
        container[key] = json.loads(json.dumps(random.choice(ODD)))
    return copied


def test_no_mutated_question_is_an_internal_error(options: ServiceOptions) -> None:
    random = Random(7)

    async def go() -> list[tuple[str, dict[str, Any]]]:
        service = WhatIfService(replace(options, seconds=2.0))
        _, server = await service.start()
        failures = []
        for _ in range(300):
            path, question = random.choice(QUESTIONS)
            body = mutated(random, question)
            headers = [(b"content-type", b"application/json")]
            reply = await service.answer(HttpRequest("POST", path.encode(), headers, json.dumps(body).encode()))
            if reply.status == 500:
                failures.append((path, body))
        await service.stop(server)
        return failures

    assert asyncio.run(go()) == []


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/plan", {"goal": "drain", "nodes": ["n1"], "session": 1}, "session"),
        ("/v1/plan", {"goal": "fit", "for": ["9" * 5000]}, "not found"),
        ("/v1/plan", {"goal": "fit", "for": [__file__]}, "neither a workload kind"),
        ("/v1/plan", {"goal": "fit", "for": [{**pod("a"), "spec": 5}]}, "spec"),
        ("/v1/explain", {"pod": {**pod("a"), "metadata": None}}, "no name"),
        ("/v1/explain", {"pod": {**pod("a", requests={"cpu": "9"}), "metadata": {}}}, "no name"),
        ("/v1/explain", {"pod": "big", "edits": [{"create": {**node("a"), "metadata": {"labels": {}}}}]}, "no name"),
    ],
)
def test_questions_with_invalid_parts_are_rejected(
    options: ServiceOptions, path: str, body: dict[str, Any], words: str
) -> None:
    """They once were internal errors, named existing files, or were answered for a pod without a name."""
    status, response = ask(options, path, body)
    assert status == 422
    assert words in response["error"]


def test_questions_end_at_the_time_limit(options: ServiceOptions) -> None:
    hurried = replace(options, seconds=0.0)
    assert ask(hurried, "/v1/capacity", {"pod": pod("web")})[1]["message"] == "stopped after 0 s"
    status, response = ask(hurried, "/v1/place", {"pods": [pod("a")]})
    assert (status, "0 of 1 pods were placed in 0 s" in response["error"]) == (422, True)
