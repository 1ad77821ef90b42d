"""External inputs of simulations: extenders in other processes, and custom resources."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
import yaml

from moorage.cluster.dry_run import DryRun
from moorage.cluster.files.loading import ClusterInput, build_cluster_input
from moorage.cluster.simulation.simulation import simulate
from moorage.kube.api.custom import custom_kind
from moorage.scheduler.decisions.decision import Decision, Result
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
LEASES = custom_kind("Tenancy", "tenancies", "outside.example.org/v1")


def node(name: str) -> dict[str, Any]:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}


def one_pass(cluster: ClusterInput, policy: Policy) -> list[Decision]:
    return DryRun(cluster, policy).run()


def until_quiet(cluster: ClusterInput, policy: Policy) -> list[Decision]:
    return simulate(cluster, policy).decisions


BOTH_MODES = pytest.mark.parametrize("decide", [one_pass, until_quiet])
Decide = Callable[[ClusterInput, Policy], list[Decision]]


class OnlyB(BaseHTTPRequestHandler):
    """An extender that will have pods on node b only."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer({"NodeNames": ["b"], "FailedNodes": {"a": "not b"}})

    def answer(self, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def extender(request: pytest.FixtureRequest) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), getattr(request, "param", OnlyB)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@BOTH_MODES
def test_extender_is_called(decide: Decide, extender: str) -> None:
    config = {**HEAD, "extenders": [{"urlPrefix": extender, "filterVerb": "filter", "nodeCacheCapable": True}]}
    policy = load_policy(collect_plugins(), yaml.safe_dump(config))
    (decision,) = decide(build_cluster_input([node("a"), node("b"), POD]), policy)
    assert (decision.result, decision.node) == (Result.SCHEDULED, "b")


class PrefersA(OnlyB):
    """An extender that sends nodes back, as one without a cache does, and has a favorite."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        names = [each["metadata"]["name"] for each in request["Nodes"]["items"]]
        scores = [{"Host": name, "Score": 9 if name == "a" else 1} for name in names]
        self.answer(scores if self.path == "/prioritize" else {"Nodes": request["Nodes"]})


@pytest.mark.parametrize("extender", [PrefersA], indirect=True)
@BOTH_MODES
def test_scores_are_the_scores_of_the_decision(decide: Decide, extender: str) -> None:
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 2}
    policy = load_policy(collect_plugins(), yaml.safe_dump({**HEAD, "extenders": [{"urlPrefix": extender, **verbs}]}))
    running = {**POD, "metadata": {"name": "there"}, "spec": {**POD["spec"], "nodeName": "a"}}
    (decision,) = decide(build_cluster_input([node("a"), node("b"), running, POD]), policy)

    assert decision.node == "a"
    a, b = decision.nodes["a"], decision.nodes["b"]
    assert (a.extenders, b.extenders) == (180, 20)
    assert a.scores == b.scores, "a node that was sent back is scored without its pods, as upstream has it"
    for entry in (a, b):
        assert entry.scores is not None
        assert entry.extenders is not None
        assert entry.total == entry.extenders + sum(score.weighted for score in entry.scores.values())


@BOTH_MODES
def test_unreachable_extender_is_an_error(decide: Decide) -> None:
    config = {**HEAD, "extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}]}
    policy = load_policy(collect_plugins(), yaml.safe_dump(config))
    (decision,) = decide(build_cluster_input([node("a"), POD]), policy)
    assert decision.result is Result.ERROR
    assert "http://127.0.0.1:1/filter" in decision.message


class Tenants(FilterPlugin):
    """Lets pods on nodes that a custom resource names."""

    def __init__(self, handle: Handle) -> None:
        self.leases = handle.lister(LEASES.type)

    def filter(self, cycle: CycleState, pod: Any, node: NodeInfo) -> Status | None:
        allowed_nodes = {lease["spec"]["node"] for lease in self.leases.list(pod.namespace)}
        return None if node.name in allowed_nodes else Status.unschedulable("node(s) were not let")


@BOTH_MODES
def test_a_plugin_lists_custom_resources(decide: Decide) -> None:
    lease = {"apiVersion": LEASES.api_version, "kind": "Tenancy", "metadata": {"name": "t"}, "spec": {"node": "b"}}
    policy = load_policy(collect_plugins([Tenants]), enabled=[Tenants])
    (decision,) = decide(build_cluster_input([node("a"), node("b"), POD, lease]), policy)
    assert (decision.result, decision.node) == (Result.SCHEDULED, "b")
