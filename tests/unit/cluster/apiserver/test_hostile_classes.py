"""Each class of input that once stopped a server is rejected immediately with an API error."""

import time

import msgspec
import pytest
from tests.hostile.classes import CLASSES, MAX_SECONDS
from tests.support.api import NODES, PODS, ApiHarness, node, pod


@pytest.mark.parametrize("name", CLASSES)
def test_hostile_class_is_rejected_immediately(name: str) -> None:
    client, server = CLASSES[name], ApiHarness()
    server.create(PODS, pod())
    began = time.process_time()
    answer = server.send(client.method, client.path, client.body, content_type=client.content_type)
    assert time.process_time() - began < MAX_SECONDS
    status = msgspec.json.decode(answer.body)
    assert answer.status in client.statuses, status
    assert (status["kind"], status["status"]) == ("Status", "Failure")
    assert client.words in status["message"]


def test_huge_integer_becomes_a_float_in_untyped_fields() -> None:
    from tests.support.api import definition

    server = ApiHarness()
    wide = definition()
    wide["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] = True
    wide["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
        "x-kubernetes-preserve-unknown-fields"
    ] = True
    server.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", wide)
    path = f"/apis/{definition()['spec']['group']}/v1/namespaces/default/{definition()['spec']['names']['plural']}"
    body = b'{"metadata": {"name": "a"}, "spec": {"most": 1, "other": 99999999999999999999}}'
    assert server.request("POST", path, body, want=201)["spec"]["other"] == 1e20


def test_object_size_is_bounded() -> None:
    server = ApiHarness()
    server.create(NODES, node())
    statuses = []
    for number in range(6):
        patch = {"metadata": {"annotations": {f"a{number}": "x" * 1_000_000}}}
        statuses.append(server.send("PATCH", f"{NODES}/n1", patch, content_type="application/merge-patch+json").status)
    assert statuses == [200, 200, 200, 200, 413, 413]
    assert len(server.get(f"{NODES}/n1")["metadata"]["annotations"]) == 4
