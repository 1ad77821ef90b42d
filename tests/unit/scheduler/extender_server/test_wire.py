"""Requests of kube-scheduler are read with keys in any case; invalid requests cause one error message."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from moorage.common.errors import InputError
from moorage.scheduler.extender_server.wire import (
    ProposedVictims,
    bind_request,
    filter_result,
    node_question,
    preemption_result,
    priorities,
    victim_question,
)

POD = {"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": {"containers": None}}


def test_both_cases_are_read() -> None:
    go = node_question(json.dumps({"Pod": POD, "Nodes": None, "NodeNames": ["a", "b", "a"]}).encode())
    lower_case = node_question(json.dumps({"pod": POD, "nodenames": ["a", "b"]}).encode())
    assert go.nodes == lower_case.nodes == ("a", "b")
    assert go.pod.name == lower_case.pod.name == "web"
    victims = {"a": {"Pods": [{"UID": "1"}], "NumPDBViolations": 2}, "b": {"pods": [{"uid": "3"}]}, "c": None}
    preemption = victim_question(json.dumps({"Pod": POD, "NodeNameToMetaVictims": victims}).encode())
    assert preemption.victims == {
        "a": ProposedVictims(("1",), 2),
        "b": ProposedVictims(("3",)),
        "c": ProposedVictims(()),
    }
    binding = {"PodName": "web", "PodNamespace": "default", "PodUID": "u", "Node": "a"}
    assert bind_request(json.dumps(binding).encode()).node == "a"


Read = Callable[[bytes], Any]
BAD: dict[str, tuple[Read, Any, str]] = {
    "nothing at all": (node_question, b"", "the body: it is not a JSON object"),
    "something else than JSON": (node_question, b"<html>", "the body: it is not a JSON object"),
    "a list": (node_question, [], "the body: it is not a JSON object"),
    "bytes that are no text": (
        node_question,
        b'{"NodeNames": [], "Pod": {"metadata": {"name": "\xff"}}}',
        "Pod: it cannot be read",
    ),
    "brackets without end": (node_question, b"[" * 100_000, "the body: it is not a JSON object"),
    "a pod that is nested without end": (node_question, b'{"NodeNames":[],"Pod":' + b"[" * 50_000, "the body: "),
    "no pod": (node_question, {"NodeNames": ["a"]}, "Pod: it is missing"),
    "an invalid pod": (node_question, {"NodeNames": ["a"], "Pod": 3}, "Pod: it cannot be read"),
    "a pod without a name": (node_question, {"NodeNames": ["a"], "Pod": {}}, "Pod: it has no name"),
    "names that are no list": (node_question, {"Pod": POD, "NodeNames": "a"}, "nodenames: it cannot be read"),
    "names that are no texts": (node_question, {"Pod": POD, "NodeNames": [1]}, "nodenames: it cannot be read"),
    "whole nodes": (node_question, {"Pod": POD, "Nodes": {"items": []}}, "hint: set nodeCacheCapable: true"),
    "whole victims": (victim_question, {"Pod": POD, "NodeNameToVictims": {}}, "hint: set nodeCacheCapable: true"),
    "victims that are no list": (
        victim_question,
        {"Pod": POD, "NodeNameToMetaVictims": {"a": {"Pods": 3}}},
        "NodeNameToMetaVictims[a]: this is not",
    ),
    "a victim without a uid": (
        victim_question,
        {"Pod": POD, "NodeNameToMetaVictims": {"a": {"Pods": [{}]}}},
        "NodeNameToMetaVictims[a]: a victim has no UID",
    ),
    "a binding without a node": (bind_request, {"PodName": "a", "PodNamespace": "b", "PodUID": "c"}, "Node: it is"),
}


@pytest.mark.parametrize(("read", "body", "message"), BAD.values(), ids=BAD)
def test_invalid_request_causes_one_message(read: Read, body: Any, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        read(body if isinstance(body, bytes) else json.dumps(body).encode())
    assert message in str(refusal.value)


def test_responses_have_the_keys_of_go() -> None:
    assert json.loads(filter_result(["a"], {"b": "full"}, {"c": "never"})) == {
        "Nodes": None,
        "NodeNames": ["a"],
        "FailedNodes": {"b": "full"},
        "FailedAndUnresolvableNodes": {"c": "never"},
        "Error": "",
    }
    assert json.loads(priorities([("a", 7)])) == [{"Host": "a", "Score": 7}]
    assert json.loads(preemption_result({"a": ProposedVictims(("1",), 2)})) == {
        "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "1"}], "NumPDBViolations": 2}}
    }
