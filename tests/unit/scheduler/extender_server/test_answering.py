"""The verbs return the results of the same plugins in process, for the requested nodes."""

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage import CycleState, FilterPlugin, NodeInfo, Pod, PreFilterPlugin, ScorePlugin, Status
from moorage.cluster.offline import DiscardingApi
from moorage.common.clock import VirtualClock
from moorage.common.errors import Conflict, InputError, PluginError
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.codec import convert
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import PodStatus
from moorage.scheduler.engine.reference import filter_all, pre_filtered_cycle, score_all
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.engine.statuses import StatusTable
from moorage.scheduler.extender_server.answering import (
    Answering,
    BindRequest,
    NodeQuestion,
    ProposedVictims,
    VictimQuestion,
    bind_request,
    filter_result,
    node_question,
    preemption_result,
    priorities,
    split_by_code,
    victim_question,
)
from moorage.scheduler.extender_server.served import select_served
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from moorage.scheduler.plugins.node_affinity import NodeAffinity
from moorage.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from moorage.scheduler.plugins.taint_toleration import TaintToleration
from moorage.scheduler.wiring.assembly import assemble
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing import clusters, make_node, make_pod, pods

IN_TREE = (NodeAffinity, TaintToleration, PodTopologySpread, InterPodAffinity)


class Picky(FilterPlugin, ScorePlugin):
    """Requires a label, prefers a number, and has cached results for equal pods."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if node.labels.get("kind") == "broken":
            raise ValueError("no idea")
        if node.labels.get("kind") == "full":
            return Status.unschedulable("node(s) were full")
        return None if node.labels.get("kind") == "good" else Status.unresolvable("node(s) were not good")

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        return int(node.labels.get("score", "0"))


def scheduler_with(
    plugins: Iterable[type[Plugin]],
    *objects: KubeObject,
    config: str | None = None,
    api: DiscardingApi | None = None,
) -> Scheduler:
    plugin_types = tuple(plugins)
    policy = load_policy(
        collect_plugins(plugin_types), config, enabled=[each for each in plugin_types if each not in IN_TREE]
    )
    served = select_served(policy, [plugin.name for plugin in plugin_types])
    scheduler = assemble(served.policy, api or DiscardingApi(), VirtualClock()).scheduler
    for obj in objects:
        scheduler.handlers.apply(None, obj)
    return scheduler


def run(work: Any) -> Any:
    async def whole() -> Any:
        result = work()
        return await result if asyncio.iscoroutine(result) else result

    return asyncio.run(whole())


def kinds(**kinds: str) -> list[KubeObject]:
    numbered = enumerate(kinds.items())
    return [make_node(name, labels={"kind": kind, "score": str(10 * at)}) for at, (name, kind) in numbered]


def test_nodes_keep_the_order_of_the_request_and_rejected_nodes_have_reasons() -> None:
    def work() -> None:
        answering = Answering(scheduler_with([Picky], *kinds(a="good", b="bad", c="full", d="good", e="good")))
        feasible, rejected = answering.filter(NodeQuestion(make_pod("web"), ("d", "b", "nowhere", "c", "a")))
        assert feasible == ["d", "a"]
        assert split_by_code(rejected) == (
            {"c": "node(s) were full", "nowhere": "node(s) were not yet in the cache of the extender"},
            {"b": "node(s) were not good"},
        )

    run(work)


def test_an_empty_node_list_is_valid() -> None:
    def work() -> None:
        answering = Answering(scheduler_with([Picky], *kinds(a="good")))
        assert answering.filter(NodeQuestion(make_pod("web"), ())) == ([], {})
        assert answering.prioritize(NodeQuestion(make_pod("web"), ())) == []
        feasible, rejected = Answering(scheduler_with([Picky])).filter(NodeQuestion(make_pod("web"), ("a",)))
        assert (feasible, [*rejected]) == ([], ["a"])

    run(work)


def test_scores_cover_the_requested_nodes() -> None:
    def work() -> None:
        answering = Answering(scheduler_with([Picky], *kinds(a="good", b="good", c="bad", d="good")))
        question = NodeQuestion(make_pod("web"), ("d", "c", "b", "nowhere"))
        assert answering.prioritize(question) == [("d", 30), ("c", 20), ("b", 10), ("nowhere", 0)]
        assert answering.prioritize(NodeQuestion(make_pod("web"), ("d",))) == [("d", 30)]

    run(work)


def test_plugin_error_on_a_node_fails_only_requests_with_that_node() -> None:
    def work() -> None:
        answering = Answering(scheduler_with([Picky], *kinds(a="good", b="broken", c="good")))
        with pytest.raises(PluginError, match="no idea"):
            answering.filter(NodeQuestion(make_pod("web"), ("a", "b")))
        assert answering.filter(NodeQuestion(make_pod("web"), ("a", "c"))) == (["a", "c"], {})

    run(work)


CONFIG = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}
    preFilter: {enabled: [{name: NodeAffinity}, {name: PodTopologySpread}, {name: InterPodAffinity}]}
    filter:
      enabled: [{name: TaintToleration}, {name: NodeAffinity}, {name: PodTopologySpread}, {name: InterPodAffinity}]
    preScore:
      enabled: [{name: TaintToleration}, {name: NodeAffinity}, {name: PodTopologySpread}, {name: InterPodAffinity}]
    score:
      enabled:
      - {name: TaintToleration, weight: 3}
      - {name: NodeAffinity, weight: 2}
      - {name: PodTopologySpread}
      - {name: InterPodAffinity}
"""


LEFT_OUT = ("node(s) didn't satisfy plugin(s) [NodeAffinity]",)


@settings(max_examples=40, deadline=None)
@given(cluster=clusters(), pod=pods(), data=st.data())
def test_any_subset_of_any_cluster_is_evaluated_as_without_caches(
    cluster: tuple[KubeObject, ...], pod: Pod, data: st.DataObject
) -> None:
    """Run twice to cover cached results; nodes outside the request have no effect."""

    def work() -> None:
        scheduler = scheduler_with(IN_TREE, *cluster, config=CONFIG)
        answering, nodes = Answering(scheduler), scheduler.cache.nodes
        profile = next(iter(scheduler.runners.values())).profile
        for _ in range(2):
            rows = data.draw(st.lists(st.sampled_from(range(len(nodes))), unique=True)) if len(nodes) else []
            question = NodeQuestion(pod, tuple(nodes[row].name for row in rows))
            table = StatusTable()
            cycle = pre_filtered_cycle(profile, pod, nodes)
            status_rows = filter_all(profile, cycle, pod, nodes, table)
            feasible, rejected = answering.filter(question)
            assert feasible == [nodes[row].name for row in rows if not status_rows[row]]
            want = {nodes[row].name: table[int(status_rows[row])] for row in rows if status_rows[row]}
            assert rejected.keys() == want.keys()
            for name, status in rejected.items():
                # Nodes that PreFilter omitted were not filtered: they have the words for that, and no plugin.
                assert status == want[name] or (status.plugin, status.reasons) == ("", LEFT_OUT)
            fitting = [row for row in rows if not status_rows[row]]
            scores = dict(answering.prioritize(NodeQuestion(pod, tuple(feasible))))
            if fitting:
                totals = score_all(profile, cycle, pod, nodes.take(np.array(fitting))).totals
                assert scores == {nodes[row].name: int(total) for row, total in zip(fitting, totals, strict=True)}

    run(work)


class NoNeighbors(PreFilterPlugin, FilterPlugin):
    """Rejects nodes that run a noisy pod, and pods of Sunday on every node."""

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: object) -> Status | None:
        return Status.unresolvable("not today") if pod.labels.get("day") == "sunday" else None

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if any(neighbor.labels.get("noisy") for neighbor in node.pods.values()):
            return Status.unschedulable("node(s) were noisy")
        return None


def noisy(name: str, node: str, priority: int, **labels: str) -> Pod:
    return make_pod(name, node=node, priority=priority, uid=name, labels={"noisy": "yes", **labels})


PREEMPTION = {
    "sufficient victims are unchanged": ([noisy("x", "a", 1)], {"a": ["x"]}, {"a": (["x"], 0)}),
    "a conflicting pod is evicted as well": (
        [noisy("x", "a", 1), make_pod("y", node="a", priority=1, uid="y"), noisy("z", "a", 2)],
        {"a": ["y"]},
        {"a": (["y", "z", "x"], 0)},
    ),
    "a node with a conflicting pod of higher priority is omitted": (
        [noisy("x", "a", 1), noisy("vip", "a", 99), noisy("z", "b", 1)],
        {"a": ["x"], "b": ["z"]},
        {"b": (["z"], 0)},
    ),
    "no pod without a conflict is evicted": (
        [make_pod("y", node="a", priority=1, uid="y"), make_pod("q", node="a", priority=1, uid="q")],
        {"a": ["y"]},
        {"a": (["y"], 0)},
    ),
    "a node that is not known is omitted": ([], {"nowhere": ["x"]}, {}),
    "a victim that no longer exists is accepted": ([], {"a": ["gone"]}, {"a": (["gone"], 0)}),
}


@pytest.mark.parametrize(("there", "proposed", "agreed"), PREEMPTION.values(), ids=PREEMPTION)
def test_preempt(there: list[Pod], proposed: dict[str, list[str]], agreed: dict[str, tuple[list[str], int]]) -> None:
    def work() -> None:
        answering = Answering(scheduler_with([NoNeighbors], make_node("a"), make_node("b"), *there))
        victims = {name: ProposedVictims(tuple(uids)) for name, uids in proposed.items()}
        victims_by_node = answering.preempt(VictimQuestion(make_pod("urgent", priority=10), victims))
        assert {name: ([*each.uids], each.violations) for name, each in victims_by_node.items()} == agreed

    run(work)


def test_more_victims_of_a_budget_are_counted() -> None:
    budget = {
        "metadata": {"name": "quiet", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }

    def work() -> None:
        there = [noisy("db", "a", 1, app="db"), make_pod("y", node="a", priority=1, uid="y")]
        scheduler = scheduler_with([NoNeighbors], make_node("a"), *there, convert(PodDisruptionBudget, budget))
        question = VictimQuestion(make_pod("urgent", priority=10), {"a": ProposedVictims(("y",), 1)})
        assert Answering(scheduler).preempt(question) == {"a": ProposedVictims(("y", "db"), 2)}

    run(work)


def test_pod_rejected_by_pre_filter_evicts_no_pods() -> None:
    def work() -> None:
        answering = Answering(scheduler_with([NoNeighbors], make_node("a"), noisy("x", "a", 1)))
        pod = make_pod("urgent", priority=10, labels={"day": "sunday"})
        assert answering.preempt(VictimQuestion(pod, {"a": ProposedVictims(("x",))})) == {}
        assert split_by_code(answering.filter(NodeQuestion(pod, ("a",)))[1]) == ({}, {"a": "not today"})

    run(work)


def test_nominated_pods_count_on_their_node() -> None:
    def work() -> None:
        promised = make_pod("p", priority=50, labels={"noisy": "y"}, status=PodStatus(nominated_node_name="a"))
        answering = Answering(scheduler_with([NoNeighbors], make_node("a"), make_node("b"), promised))
        assert answering.filter(NodeQuestion(make_pod("web", priority=1), ("a", "b")))[0] == ["b"]
        assert answering.filter(NodeQuestion(make_pod("vip", priority=99), ("a", "b")))[0] == ["a", "b"]

    run(work)


def test_binding_reports_the_error() -> None:
    class Binds(DiscardingApi):
        bound: list[tuple[str, str]] = []

        async def bind(self, pod: Pod, node_name: str) -> None:
            if pod.name == "taken":
                raise Conflict("it has a node already")
            self.bound.append((pod.key, node_name))

    async def work() -> None:
        api = Binds()
        answering = Answering(scheduler_with([Picky], make_node("a"), make_pod("known", uid="2"), api=api))
        assert await answering.bind(BindRequest("web", "default", "1", "a")) == ""
        assert await answering.bind(BindRequest("known", "default", "2", "a")) == ""
        assert "it has a node already" in await answering.bind(BindRequest("taken", "default", "1", "a"))
        assert "has been recreated: its uid is 2" in await answering.bind(BindRequest("known", "default", "1", "a"))
        assert api.bound == [("default/web", "a"), ("default/known", "a")]

    run(work)


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
    "nothing": (node_question, b"", "the body: it is not a JSON object"),
    "something else than JSON": (node_question, b"<html>", "the body: it is not a JSON object"),
    "a list": (node_question, [], "the body: it is not a JSON object"),
    "bytes that are not text": (
        node_question,
        b'{"NodeNames": [], "Pod": {"metadata": {"name": "\xff"}}}',
        "Pod: it cannot be read",
    ),
    "brackets without end": (node_question, b"[" * 100_000, "the body: it is not a JSON object"),
    "a pod that is nested without end": (node_question, b'{"NodeNames":[],"Pod":' + b"[" * 50_000, "the body: "),
    "no pod": (node_question, {"NodeNames": ["a"]}, "Pod: it is missing"),
    "an invalid pod": (node_question, {"NodeNames": ["a"], "Pod": 3}, "Pod: it cannot be read"),
    "a pod without a name": (node_question, {"NodeNames": ["a"], "Pod": {}}, "Pod: it has no name"),
    "names that are not list": (node_question, {"Pod": POD, "NodeNames": "a"}, "nodenames: it cannot be read"),
    "names that are not texts": (node_question, {"Pod": POD, "NodeNames": [1]}, "nodenames: it cannot be read"),
    "complete nodes": (node_question, {"Pod": POD, "Nodes": {"items": []}}, "hint: set nodeCacheCapable: true"),
    "complete victims": (victim_question, {"Pod": POD, "NodeNameToVictims": {}}, "hint: set nodeCacheCapable: true"),
    "victims that are not list": (
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
