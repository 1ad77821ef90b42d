"""Each class of input that once stopped a server is refused, in the API's words and at once."""

import time

import msgspec
import pytest
from tests.hostile.classes import CLASSES, MAX_SECONDS
from tests.support.api import NODES, PODS, Asked, node, pod


@pytest.mark.parametrize("name", CLASSES)
def test_it_is_refused_at_once(name: str) -> None:
    asked, server = CLASSES[name], Asked()
    server.create(PODS, pod())
    began = time.process_time()
    answer = server.ask(asked.method, asked.path, asked.body, content_type=asked.content_type)
    assert time.process_time() - began < MAX_SECONDS
    status = msgspec.json.decode(answer.body)
    assert answer.status in asked.statuses, status
    assert (status["kind"], status["status"]) == ("Status", "Failure")
    assert asked.words in status["message"]


def test_a_number_that_no_machine_word_holds_is_a_float_where_any_will_do() -> None:
    from tests.support.api import definition

    server = Asked()
    wide = definition()
    wide["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] = True
    wide["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
        "x-kubernetes-preserve-unknown-fields"
    ] = True
    server.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", wide)
    place = f"/apis/{definition()['spec']['group']}/v1/namespaces/default/{definition()['spec']['names']['plural']}"
    body = b'{"metadata": {"name": "a"}, "spec": {"most": 1, "other": 99999999999999999999}}'
    assert server.got("POST", place, body, want=201)["spec"]["other"] == 1e20


def test_an_object_does_not_grow_without_end() -> None:
    server = Asked()
    server.create(NODES, node())
    statuses = []
    for number in range(6):
        patch = {"metadata": {"annotations": {f"a{number}": "x" * 1_000_000}}}
        statuses.append(server.ask("PATCH", f"{NODES}/n1", patch, content_type="application/merge-patch+json").status)
    assert statuses == [200, 200, 200, 200, 413, 413]
    assert len(server.get(f"{NODES}/n1")["metadata"]["annotations"]) == 4
