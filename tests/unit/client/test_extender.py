"""The extender protocol: what is sent, how answers are read, and what rubbish becomes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.extender_service import ExtenderService, Reply

from moorage.api.container import Container, ResourceRequirements
from moorage.api.pod import Pod, PodSpec
from moorage.client import pool as pools
from moorage.client.extender import HttpExtender
from moorage.config.durations import Duration
from moorage.config.types import Extender as ExtenderConfig
from moorage.config.types import ManagedResource
from moorage.errors import ExtenderError
from moorage.framework.filtered import Filtered
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import NodeTable
from moorage.framework.victims import Victims
from moorage.testing import make_node, make_pod

POD = make_pod("web", uid="u1")
NODES = [NodeInfo(make_node(name)) for name in ("a", "b", "c")]
VERBS = {"filter_verb": "filter", "prioritize_verb": "rate", "preempt_verb": "preempt", "bind_verb": "bind"}


def with_extender(service: ExtenderService, use: Callable[[HttpExtender], Awaitable[Any]], **config: Any) -> Any:
    async def main() -> Any:
        async with service.running():
            extender = HttpExtender(ExtenderConfig(url_prefix=service.url, weight=2, **VERBS, **config))
            try:
                return await use(extender)
            finally:
                extender.close()

    return asyncio.run(main())


def ask_filter(reply: Reply, **config: Any) -> tuple[Filtered, dict[str, Any]]:
    service = ExtenderService(filter=reply)
    answer = with_extender(service, lambda extender: extender.filter(POD, NODES), **config)
    (sent,) = service.requests
    return answer, sent[1]


def test_nodes_are_sent_whole_and_come_back_whole() -> None:
    answer, sent = ask_filter(
        lambda request: {"Nodes": {"items": request["Nodes"]["items"][1:]}, "FailedNodes": {"a": "too slow"}}
    )
    assert sent["NodeNames"] is None
    assert [node["metadata"]["name"] for node in sent["Nodes"]["items"]] == ["a", "b", "c"]
    assert sent["Pod"]["metadata"]["name"] == "web"
    assert answer.names == ("b", "c")
    assert answer.stand_ins["b"].name == "b"
    assert answer.failed == {"a": "too slow"}


def test_an_extender_with_a_cache_gets_and_gives_names_in_its_own_order() -> None:
    answer, sent = ask_filter(
        lambda request: {"NodeNames": ["c", "a"], "FailedAndUnresolvableNodes": {"b": "no"}}, node_cache_capable=True
    )
    assert (sent["Nodes"], sent["NodeNames"]) == (None, ["a", "b", "c"])
    assert (answer.names, answer.stand_ins, answer.unresolvable) == (("c", "a"), {}, {"b": "no"})


def test_keys_are_read_in_any_case_as_go_does() -> None:
    answer, _ = ask_filter(lambda _: {"nodenames": ["b"], "failedNodes": {"a": "x"}}, node_cache_capable=True)
    assert (answer.names, answer.failed) == (("b",), {"a": "x"})


def test_an_answer_with_neither_nodes_nor_names_leaves_nothing() -> None:
    assert ask_filter(lambda _: {})[0].names == ()


BAD_ANSWERS: dict[str, tuple[Reply, str]] = {
    "an error it tells": (lambda _: {"Error": "I am tired"}, "^I am tired$"),
    "a status": (lambda _: 500, "failed filter with extender at URL http://.*/scheduler, code 500"),
    "rubbish": (lambda _: b"<html>", "cannot be read"),
    "a list of the wrong things": (lambda _: {"NodeNames": [7]}, "nodenames: Expected `str`"),
    "nodes that are none": (lambda _: {"Nodes": {"items": [{"metadata": 7}]}}, "a node that cannot be read"),
    "nothing at all": (lambda _: None, "took too long"),
}


@pytest.mark.parametrize(("reply", "message"), BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_bad_answers(reply: Reply, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "SWEEP_SECONDS", 0.01)
    patience = {"http_timeout": Duration(50_000_000)} if message == "took too long" else {}
    with pytest.raises(ExtenderError, match=message):
        ask_filter(reply, **patience)


def test_an_extender_that_is_not_there() -> None:
    extender = HttpExtender(ExtenderConfig(url_prefix="http://127.0.0.1:1", **VERBS))
    with pytest.raises(ExtenderError, match="no connection"):
        asyncio.run(extender.filter(POD, NODES))


def test_ratings() -> None:
    service = ExtenderService(rate=lambda _: [{"Host": "a", "Score": 7}, {"host": "b", "score": 1}])
    assert with_extender(service, lambda extender: extender.prioritize(POD, NODES)) == {"a": 7, "b": 1}


def test_ratings_that_are_not_numbers() -> None:
    service = ExtenderService(rate=lambda _: [{"Host": "a", "Score": "good"}])
    with pytest.raises(ExtenderError, match="'good' where a whole number belongs"):
        with_extender(service, lambda extender: extender.prioritize(POD, NODES))


def test_binding() -> None:
    service = ExtenderService(bind=lambda _: {"Error": ""})
    with_extender(service, lambda extender: extender.bind(POD, "a"))
    assert service.requests == [("bind", {"PodName": "web", "PodNamespace": "default", "PodUID": "u1", "Node": "a"})]


def test_a_binding_that_fails() -> None:
    service = ExtenderService(bind=lambda _: {"Error": "taken"})
    with pytest.raises(ExtenderError, match="taken"):
        with_extender(service, lambda extender: extender.bind(POD, "a"))


VICTIM = make_pod("victim", node="a", uid="v1")
CLUSTER = NodeTable.of(NodeInfo(make_node("a"), [VICTIM]), NodeInfo(make_node("b")))


def ask_preemption(answer: Any, **config: Any) -> tuple[Any, dict[str, Any]]:
    service = ExtenderService(preempt=lambda _: answer)
    candidates = {"a": Victims((VICTIM,), 1)}
    found = with_extender(service, lambda e: e.process_preemption(POD, candidates, CLUSTER), **config)
    return found, service.requests[0][1]


AGREED = {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "v1"}], "NumPDBViolations": 1}}}


def test_victims_are_sent_by_uid_to_an_extender_with_a_cache() -> None:
    found, sent = ask_preemption(AGREED, node_cache_capable=True)
    assert sent["NodeNameToVictims"] is None
    assert sent["NodeNameToMetaVictims"] == AGREED["NodeNameToMetaVictims"]
    assert found == {"a": Victims((VICTIM,), 1)}


def test_victims_are_sent_whole_to_others() -> None:
    _, sent = ask_preemption(AGREED)
    assert sent["NodeNameToMetaVictims"] is None
    assert sent["NodeNameToVictims"]["a"]["Pods"][0]["metadata"]["name"] == "victim"


BAD_VICTIMS = {
    "a pod that is not on the node": ({"a": {"Pods": [{"UID": "x"}]}}, r"preempt pod \(UID: x\) on node: a, but"),
    "a node that is not there": ({"z": {"Pods": []}}, 'nodeinfo not found for node name "z"'),
}


@pytest.mark.parametrize(("answer", "message"), BAD_VICTIMS.values(), ids=BAD_VICTIMS)
def test_bad_victims(answer: Any, message: str) -> None:
    with pytest.raises(ExtenderError, match=message):
        ask_preemption({"NodeNameToMetaVictims": answer})


def pod_asking(*, init: bool = False, limits: bool = False) -> Pod:
    amounts = {"example.org/gpu": "1"}
    resources = ResourceRequirements(limits=amounts) if limits else ResourceRequirements(requests=amounts)
    container = Container(name="main", resources=resources)
    return Pod(spec=PodSpec(init_containers=(container,)) if init else PodSpec(containers=(container,)))


INTEREST = {
    "a pod that asks for nothing it manages": (make_pod(requests={"cpu": 1}), False),
    "a container's request": (pod_asking(), True),
    "a container's limit": (pod_asking(limits=True), True),
    "an init container's request": (pod_asking(init=True), True),
}


@pytest.mark.parametrize(("pod", "want"), INTEREST.values(), ids=INTEREST)
def test_interest_in_managed_resources(pod: Pod, want: bool) -> None:
    managed = (ManagedResource(name="example.org/gpu"),)
    extender = HttpExtender(ExtenderConfig(url_prefix="http://x", preempt_verb="p", managed_resources=managed))
    assert extender.is_interested_in(pod) == want
    assert extender.handles_preemption_for(pod) == want


def test_an_extender_that_manages_nothing_is_interested_in_every_pod() -> None:
    extender = HttpExtender(ExtenderConfig(url_prefix="http://x"))
    assert extender.is_interested_in(POD)
    assert not extender.handles_preemption_for(POD), "it has no verb for that"
