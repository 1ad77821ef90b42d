"""The extender protocol: requests, responses, and invalid responses."""

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.certificates import Authority
from tests.support.extender_service import ExtenderService, Reply

from moorage.common.errors import ExtenderError, InputError
from moorage.kube.api.container import Container, ResourceRequirements
from moorage.kube.api.node import Node
from moorage.kube.api.originals import whole
from moorage.kube.api.pod import Pod, PodSpec
from moorage.kube.client.list_watch import Decoding
from moorage.scheduler.config.durations import Duration
from moorage.scheduler.config.types import ExtenderConfig, ExtenderTLS, ManagedResource
from moorage.scheduler.engine.extender import Filtered
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.victims import Victims
from moorage.scheduler.wiring.http_extender import HttpExtender, full_object_predicates
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


def test_complete_nodes_are_sent_and_returned() -> None:
    answer, sent = ask_filter(
        lambda request: {"Nodes": {"items": request["Nodes"]["items"][1:]}, "FailedNodes": {"a": "too slow"}}
    )
    assert sent["NodeNames"] is None
    assert [node["metadata"]["name"] for node in sent["Nodes"]["items"]] == ["a", "b", "c"]
    assert sent["Pod"]["metadata"]["name"] == "web"
    assert answer.names == ("b", "c")
    assert answer.stand_ins["b"].name == "b"
    assert answer.failed == {"a": "too slow"}


def test_extender_with_a_node_cache_exchanges_names() -> None:
    answer, sent = ask_filter(
        lambda request: {"NodeNames": ["c", "a"], "FailedAndUnresolvableNodes": {"b": "no"}}, node_cache_capable=True
    )
    assert (sent["Nodes"], sent["NodeNames"]) == (None, ["a", "b", "c"])
    assert (answer.names, answer.stand_ins, answer.unresolvable) == (("c", "a"), {}, {"b": "no"})


def test_nodes_named_twice_count_once() -> None:
    answer, _ = ask_filter(lambda _: {"NodeNames": ["b", "a", "b"]}, node_cache_capable=True)
    assert answer.names == ("b", "a")


POD_TEXT = {
    "metadata": {"name": "web", "namespace": "default", "uid": "u1", "annotations": {"a": "b"}, "ownerReferences": []},
    "spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "1.0"}], "unheard": {"of": None}}]},
    "status": {"phase": "Pending", "qosClass": "BestEffort"},
}
NODE_TEXT = {
    "metadata": {"name": "a", "uid": "n1", "managedFields": [{"manager": "kubelet"}]},
    "spec": {"podCIDR": "10.0.0.0/24"},
    "status": {"nodeInfo": {"kernelVersion": "6.1"}, "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}},
}


def told_by_the_api(kind: type[Any], text: dict[str, Any], keeps: Callable[[Any], bool] | None) -> Any:
    """Decode an object as an informer does, with the fields that servers add; managedFields of pods are dropped."""
    metadata = {**text["metadata"], **({"managedFields": [{"manager": "kubectl"}]} if kind is Pod else {})}
    line = {"type": "ADDED", "object": {"apiVersion": "v1", "kind": "X", **text, "metadata": metadata}}
    return Decoding(kind, keeps=keeps).event(msgspec.json.encode(line))[1]


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_objects_are_sent_with_every_field_the_api_gave(verb: str) -> None:
    service = ExtenderService(filter=lambda _: {}, rate=lambda _: [])
    pod, node = told_by_the_api(Pod, POD_TEXT, bool), told_by_the_api(Node, NODE_TEXT, bool)
    with_extender(service, lambda extender: getattr(extender, verb)(pod, [NodeInfo(node)]))
    nodes = {"metadata": {}, "items": [NODE_TEXT]}
    assert service.requests[0][1] == {"Pod": POD_TEXT, "Nodes": nodes, "NodeNames": None}


def test_a_pod_placed_since_is_sent_with_its_node() -> None:
    victim = told_by_the_api(Pod, POD_TEXT, bool).on_node("a")
    sent = msgspec.json.decode(msgspec.json.encode(whole(victim)))
    assert sent == {**POD_TEXT, "spec": {**POD_TEXT["spec"], "nodeName": "a"}}
    bound = told_by_the_api(Pod, sent, bool)
    assert msgspec.json.decode(msgspec.json.encode(whole(bound))) == sent


def test_returned_nodes_are_scored_unchanged() -> None:
    back = {"metadata": {"name": "a", "annotations": {"seen": "yes"}}, "other": 1}
    answer, _ = ask_filter(lambda _: {"Nodes": {"items": [back]}})
    assert msgspec.json.decode(msgspec.json.encode(whole(answer.stand_ins["a"]))) == back


WAITING, BOUND, NODE = make_pod("waiting"), make_pod("bound", node="a"), make_node("a")
KEPT: dict[str, tuple[dict[str, Any], list[bool]]] = {
    "one that only binds is sent names": ({"bind_verb": "b"}, [False, False, False]),
    "one with a cache is sent pods that wait": ({"filter_verb": "f", "node_cache_capable": True}, [True, False, False]),
    "one without is sent nodes": ({"prioritize_verb": "p"}, [True, False, True]),
    "victims may be any pod": ({"preempt_verb": "p"}, [True, True, False]),
    "but not for one with a cache": ({"preempt_verb": "p", "node_cache_capable": True}, [True, False, False]),
}


@pytest.mark.parametrize(("config", "want"), KEPT.values(), ids=KEPT)
def test_only_objects_that_are_sent_are_kept_complete(config: dict[str, Any], want: list[bool]) -> None:
    keeps = full_object_predicates([ExtenderConfig(url_prefix="http://x", **config)])
    objects = (WAITING, BOUND, NODE)
    assert [type(obj) in keeps and keeps[type(obj)](obj) for obj in objects] == want


def test_keys_are_read_in_any_case_as_go_does() -> None:
    answer, _ = ask_filter(lambda _: {"nodenames": ["b"], "failedNodes": {"a": "x"}}, node_cache_capable=True)
    assert (answer.names, answer.failed) == (("b",), {"a": "x"})


def test_response_without_nodes_and_names_leaves_no_nodes() -> None:
    assert ask_filter(lambda _: {})[0].names == ()


BAD_ANSWERS: dict[str, tuple[Reply, str]] = {
    "an error it reports": (lambda _: {"Error": "I am tired"}, "^I am tired$"),
    "a status": (lambda _: 500, "failed filter with extender at URL http://.*/scheduler/filter, code 500"),
    "rubbish": (lambda _: b"<html>", "invalid response"),
    "a list of the wrong type": (lambda _: {"NodeNames": [7]}, "nodenames: .*expected a string"),
    "invalid nodes": (lambda _: {"Nodes": {"items": [{"metadata": 7}]}}, "an invalid node"),
    "nothing, even after a long wait": (lambda _: None, "no response within 0.05 s"),
    "no body": (lambda _: b"", "invalid response"),
    "a list where an object belongs": (lambda _: [], "invalid response"),
    "nodes that are not list": (lambda _: {"Nodes": {"items": {"a": 1}}}, "items: expected a list"),
    "reasons that are not texts": (lambda _: {"FailedNodes": {"a": 7}}, "failednodes: .*expected a string"),
    "text that is not UTF-8": (lambda _: b'{"Error": "\xff"}', "invalid response"),
}


@pytest.mark.parametrize(("reply", "message"), BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_invalid_responses(reply: Reply, message: str) -> None:
    patience = {"http_timeout": Duration(50_000_000)} if "within" in message else {}
    with pytest.raises(ExtenderError, match=message):
        ask_filter(reply, **patience)


def test_unreachable_extender() -> None:
    extender = HttpExtender(ExtenderConfig(url_prefix="http://127.0.0.1:1", **VERBS))
    with pytest.raises(ExtenderError, match="no connection"):
        asyncio.run(extender.filter(POD, NODES))


def test_ratings() -> None:
    service = ExtenderService(rate=lambda _: [{"Host": "a", "Score": 7}, {"host": "b", "score": 1}])
    assert with_extender(service, lambda extender: extender.prioritize(POD, NODES)) == {"a": 7, "b": 1}


def test_ratings_that_are_not_numbers() -> None:
    service = ExtenderService(rate=lambda _: [{"Host": "a", "Score": "good"}])
    with pytest.raises(ExtenderError, match="'good' instead of an integer"):
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
    victims = with_extender(service, lambda e: e.process_preemption(POD, candidates, CLUSTER), **config)
    return victims, service.requests[0][1]


AGREED = {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "v1"}], "NumPDBViolations": 1}}}


def test_victims_are_sent_by_uid_to_an_extender_with_a_cache() -> None:
    victims, sent = ask_preemption(AGREED, node_cache_capable=True)
    assert sent["NodeNameToVictims"] is None
    assert sent["NodeNameToMetaVictims"] == AGREED["NodeNameToMetaVictims"]
    assert victims == {"a": Victims((VICTIM,), 1)}


def test_complete_victims_are_sent_to_extenders_without_a_cache() -> None:
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
    "a pod that requests no managed resource": (make_pod(requests={"cpu": 1}), False),
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


def test_extender_without_managed_resources_handles_all_pods() -> None:
    extender = HttpExtender(ExtenderConfig(url_prefix="http://x"))
    assert extender.is_interested_in(POD)
    assert not extender.handles_preemption_for(POD), "it has no verb for that"


@dataclass
class Handshake:
    """The TLS configuration of an extender, and the expected result."""

    tls: dict[str, Any]
    problem: str = ""
    https: bool = True


HANDSHAKES: dict[str, Handshake] = {
    "an authority in a file": Handshake({"ca_file": "ca"}),
    "an authority inside": Handshake({"ca_data": "ca"}),
    "no authority verifies nothing, as upstream": Handshake({}),
    "unless https is only in the address": Handshake({}, "is not trusted", https=False),
    "a name that is not the server's": Handshake({"ca_file": "ca", "server_name": "elsewhere"}, "not valid for"),
    "the wrong name without verification": Handshake({"insecure": True, "server_name": "elsewhere"}),
    "a client certificate in files": Handshake({"ca_file": "ca", "cert_file": "cert", "key_file": "key"}),
    "a client certificate inside": Handshake({"ca_file": "ca", "cert_data": "cert", "key_data": "key"}),
}


@pytest.mark.parametrize("case", HANDSHAKES.values(), ids=HANDSHAKES)
def test_tls(case: Handshake, tmp_path: Path) -> None:
    authority = Authority.create_in(tmp_path)
    shows = any(name.startswith("cert") for name in case.tls)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server", hosts=("127.0.0.1",)))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED if shows else ssl.CERT_NONE
    files = {"ca": authority.file, **dict(zip(("cert", "key"), authority.issue("joe"), strict=True))}
    options = {name: _filled(name, value, files) for name, value in case.tls.items()}

    async def main() -> Mapping[str, int]:
        async with ExtenderService(rate=lambda _: [{"Host": "a", "Score": 1}]).running(context) as service:
            tls = ExtenderTLS(**options)
            config = ExtenderConfig(
                url_prefix=service.url, enable_https=case.https, tls_config=tls, prioritize_verb="rate"
            )
            extender = HttpExtender(config)
            try:
                return await extender.prioritize(POD, NODES)
            finally:
                extender.close()

    if case.problem:
        with pytest.raises(ExtenderError, match=case.problem):
            asyncio.run(main())
    else:
        assert asyncio.run(main()) == {"a": 1}


def _filled(name: str, value: Any, files: Mapping[str, Path]) -> Any:
    if value not in files:
        return value
    return files[value].read_bytes() if name.endswith("data") else str(files[value])


SECRET = "s3cret-word"
ANSWERS: dict[str, Reply] = {
    "an error": lambda _request: {"Error": "no"},
    "a status": lambda _request: 500,
    "rubbish": lambda _request: b"{",
    "something else": lambda _request: {"FailedNodes": 5},
}


@pytest.mark.parametrize("reply", ANSWERS.values(), ids=ANSWERS)
def test_a_user_in_the_url_is_sent_as_in_go_and_never_shown(reply: Reply) -> None:
    service = ExtenderService(filter=reply)

    async def main() -> str:
        async with service.running():
            url = service.url.replace("http://", f"http://me:{SECRET}@")
            extender = HttpExtender(ExtenderConfig(url_prefix=url, **VERBS))
            with pytest.raises(ExtenderError) as raised:
                await extender.filter(POD, NODES)
            extender.close()
            return f"{extender.name} {extender!r} {raised.value}"

    assert SECRET not in asyncio.run(main())
    assert f"Authorization: Basic {base64.b64encode(f'me:{SECRET}'.encode()).decode()}\r\n" in service.heads[0]


def test_connection_error_hides_the_password_in_the_url() -> None:
    extender = HttpExtender(ExtenderConfig(url_prefix=f"http://me:{SECRET}@127.0.0.1:1/x", **VERBS))
    with pytest.raises(ExtenderError, match=r"http://127\.0\.0\.1:1/x/filter: no connection") as raised:
        asyncio.run(extender.filter(POD, NODES))
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["", "x", f"ftp://me:{SECRET}@h", f"http://me:{SECRET}", f"http://:{SECRET}@", "http://h:0"]
)
def test_a_url_of_no_server(url: str) -> None:
    with pytest.raises(InputError, match="not a URL of a server") as raised:
        HttpExtender(ExtenderConfig(url_prefix=url, **VERBS))
    assert SECRET not in str(raised.value)


def test_keys_are_never_shown() -> None:
    tls = ExtenderTLS(key_data=SECRET.encode(), cert_data=b"c", ca_data=b"a")
    config = ExtenderConfig(url_prefix="https://127.0.0.1", enable_https=True, tls_config=tls, **VERBS)
    with pytest.raises(InputError) as raised:
        HttpExtender(config)
    assert SECRET not in f"{raised.value} {raised.value!r} {config!r} {tls!r}"


def test_nodes_without_a_score_have_the_score_zero() -> None:
    service = ExtenderService(rate=lambda _: [{"Host": "a", "Score": 7}, {"host": "b"}, {"Score": 3}])
    scores = with_extender(service, lambda extender: extender.prioritize(POD, NODES))
    assert scores == {"a": 7, "b": 0, "": 3}
