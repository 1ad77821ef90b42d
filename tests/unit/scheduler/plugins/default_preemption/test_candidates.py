"""Candidate nodes and victims of preemption, cached outcomes, and the messages without candidates."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduler.plugins.default_preemption.preemption_builders import (
    NEVER,
    make_rig,
    preempt,
    rescue,
    running,
    waiting,
)

from moorage.common.errors import PluginError
from moorage.kube.api.affinity import Taint
from moorage.kube.api.cluster import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from moorage.kube.api.meta import KubeObject, ObjectMeta
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.api.selectors import LabelSelector
from moorage.scheduler.config.args import DefaultPreemptionArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin, PostFilterResult
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.plugins.default_preemption import candidates
from moorage.scheduler.plugins.default_preemption.plugin import DefaultPreemption
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit
from moorage.scheduler.plugins.taint_toleration import TaintToleration
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig, attempt, make_nominator

NODES = ("a", "b", "c")


changes = st.one_of(
    st.tuples(st.just("pod"), st.sampled_from(NODES), st.integers(1, 3), st.integers(0, 1)),
    st.tuples(st.just("gone"), st.integers(0, 9)),
    st.tuples(st.just("budget"), st.integers(0, 2)),
    st.tuples(st.just("promise"), st.sampled_from(("", *NODES))),
    st.tuples(st.just("node"), st.sampled_from(NODES), st.integers(3, 6)),
)


preemptors = st.sampled_from([(4, 2), (2, 2), (4, 1), (6, 2), (3, 1)])


class History:
    """A cluster that changes, and one plugin that receives every change."""

    def __init__(self) -> None:
        self.rig = Rig(*(make_node(name) for name in NODES))
        self.rig.filters = [TaintToleration(), NodeResourcesFit(handle=self.rig)]
        self.plugin = DefaultPreemption(handle=self.rig)
        self.pods: list[Pod] = []
        for node in NODES:
            self.pod(node, 3, 0)
            self.pod(node, 1, 1)

    def pod(self, node: str, cpu: int, priority: int) -> None:
        name = f"p{len(self.pods)}-{self.rig.nodes.position}"
        labels = {"app": "db"} if cpu == 1 else {}
        pod = make_pod(name, node=node, priority=priority, requests={"cpu": cpu}, labels=labels)
        self.pods.append(pod)
        self.rig.add(pod)

    def gone(self, number: int) -> None:
        if number < len(self.pods):
            self.rig.cache.remove_pod(self.pods.pop(number))

    def budget(self, allowed: int) -> None:
        spec = PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": "db"}))
        status = PodDisruptionBudgetStatus(disruptions_allowed=allowed)
        meta = ObjectMeta(name="db", namespace="default")
        self.rig.add(PodDisruptionBudget(metadata=meta, spec=spec, status=status))

    def promise(self, node: str) -> None:
        promised = make_pod("promised", priority=9, requests={"cpu": 1}, status=PodStatus(nominated_node_name=node))
        self.rig.nominator = make_nominator(promised) if node else make_nominator()

    def node(self, name: str, cpu: int) -> None:
        self.rig.add(make_node(name, allocatable={"cpu": cpu}))

    def preempt(self, cpu: int, priority: int) -> None:
        pod = make_pod("big", priority=priority, requests={"cpu": cpu})
        self.rig.add(pod)
        assert self.ask(self.plugin, pod) == self.ask(DefaultPreemption(handle=self.rig), pod)

    def ask(self, plugin: DefaultPreemption, pod: Pod) -> PostFilterResult:
        cycle, statuses = attempt(self.rig, pod)
        result = asyncio.run(plugin.post_filter(cycle, pod, statuses))
        for work in self.rig.background:
            work.close()
        return result


@settings(deadline=None, max_examples=60)
@given(steps=st.lists(st.tuples(changes, preemptors), min_size=3, max_size=12))
def test_plugin_with_a_history_decides_like_a_new_plugin(
    steps: list[tuple[tuple[str, object], tuple[int, int]]],
) -> None:
    history = History()
    for (name, *arguments), preemptor in steps:
        getattr(history, name)(*arguments)
        history.preempt(*preemptor)


@settings(deadline=None, max_examples=60)
@given(steps=st.lists(st.tuples(changes, preemptors), min_size=1, max_size=12))
def test_nodes_excluded_by_columns_are_rejected_by_dry_runs(
    steps: list[tuple[tuple[str, object], tuple[int, int]]],
) -> None:
    history = History()
    with pytest.MonkeyPatch.context() as patch:
        for (name, *arguments), (cpu, priority) in steps:
            getattr(history, name)(*arguments)
            pod = make_pod("big", priority=priority, requests={"cpu": cpu})
            history.rig.add(pod)
            patch.setattr(candidates, "MANY_ROWS", 1)
            by_columns = history.ask(history.plugin, pod)
            patch.setattr(candidates, "MANY_ROWS", 1000)
            assert by_columns == history.ask(DefaultPreemption(handle=history.rig), pod)


def test_a_node_that_remains_too_full_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MANY_ROWS", 1)
    history = History()
    history.pod("a", 3, 5)
    pod = make_pod("big", priority=2, requests={"cpu": 4})
    history.rig.add(pod)
    evaluated: list[str] = []
    cycle, statuses = attempt(history.rig, pod)
    run_filters = history.rig.run_filters
    history.rig.run_filters = lambda cycle, pod, node: evaluated.append(node.name) or run_filters(cycle, pod, node)  # type: ignore[method-assign, func-returns-value]
    asyncio.run(history.plugin.post_filter(cycle, pod, statuses))
    history.rig.background.pop().close()
    assert evaluated == ["b", "c"]


def test_a_changed_budget_is_not_missed() -> None:
    history = History()
    history.gone(0)
    history.gone(0)
    for _ in range(2):
        history.pod("a", 2, 1)
    selection = []
    for allowed in (2, 0, 2):
        history.budget(allowed)
        pod = make_pod("big", priority=2, requests={"cpu": 4})
        history.rig.add(pod)
        selection.append(history.ask(history.plugin, pod).nominated_node)
    assert selection == ["b", "a", "b"], "node a has the dearer pods, the others those that a budget protects"


def test_dry_runs_are_not_repeated_for_the_same_kind_of_pod() -> None:
    history = History()
    history.preempt(4, 2)
    evaluated: list[str] = []
    run_filters = history.rig.run_filters
    history.rig.run_filters = lambda cycle, pod, node: evaluated.append(node.name) or run_filters(cycle, pod, node)  # type: ignore[method-assign, func-returns-value]
    pod = make_pod("next", priority=2, requests={"cpu": 4})
    history.rig.add(pod)
    cycle, statuses = attempt(history.rig, pod)
    evaluated.clear()
    asyncio.run(history.plugin.post_filter(cycle, pod, statuses))
    history.rig.background.pop().close()
    assert evaluated == []


NOT_EXAMINED = Status.unresolvable()


def budget(name: str, allowed: int, **labels: str) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels)),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def names(pods: Sequence[Pod]) -> list[str]:
    return [pod.name for pod in pods]


HELPED = {
    "the only conflicting pod is evicted": (
        [make_node("n"), running("low", "n", cpu=4)],
        waiting(),
        ("n", ["low"]),
    ),
    "only the necessary pods are evicted": (
        [make_node("n"), running("a", "n", cpu=2, minute=1), running("b", "n", cpu=2, minute=2)],
        waiting(cpu=2),
        ("n", ["b"]),
    ),
    "the least important go first": (
        [make_node("n"), running("a", "n", cpu=2, priority=5), running("b", "n", cpu=2, priority=2)],
        waiting(cpu=2),
        ("n", ["b"]),
    ),
    "among equals the last started is evicted": (
        [make_node("n"), running("old", "n", cpu=2, minute=1), running("young", "n", cpu=2, minute=9)],
        waiting(cpu=2),
        ("n", ["young"]),
    ),
    "a pod that has not started yet is treated as started now": (
        [make_node("n"), running("new", "n", cpu=2, minute=None), running("old", "n", cpu=2, minute=9)],
        waiting(cpu=2),
        ("n", ["new"]),
    ),
    "among pods that have not started, the first on the node remains": (
        [make_node("n"), running("first", "n", cpu=2, minute=None), running("second", "n", cpu=2, minute=None)],
        waiting(cpu=2),
        ("n", ["second"]),
    ),
    "a small important pod is spared though a bigger one is evicted": (
        [make_node("n"), running("small", "n", cpu=1, priority=5), running("large", "n", cpu=3, priority=3)],
        waiting(cpu=3),
        ("n", ["large"]),
    ),
    "a less important pod is spared if the more important one has to go anyway": (
        [make_node("n"), running("large", "n", cpu=3, priority=5), running("small", "n", cpu=1, priority=3)],
        waiting(cpu=3),
        ("n", ["large"]),
    ),
    "victims are named from the most important down": (
        [make_node("n"), running("a", "n", cpu=2, priority=2), running("b", "n", cpu=2, priority=5)],
        waiting(),
        ("n", ["b", "a"]),
    ),
    "a pod without priority is treated as 0": (
        [make_node("n"), running("low", "n", cpu=4, priority=-1)],
        waiting(priority=None),
        ("n", ["low"]),
    ),
    "the number of pods is also counted": (
        [make_node("n", allocatable={"pods": 1}), running("low", "n", cpu=0)],
        waiting(cpu=1),
        ("n", ["low"]),
    ),
    "a port is also counted": (
        [make_node("n"), running("web", "n", host_ports=[80]), running("other", "n", minute=9)],
        waiting(cpu=1, host_ports=[80]),
        ("n", ["web"]),
    ),
    "a conflicting pod that is terminating is not evicted twice": (
        [make_node("n"), running("a", "n", cpu=2, terminating=True), running("b", "n", cpu=2)],
        waiting(),
        ("n", ["b"]),
    ),
    "nodes that are hopeless are unchanged": (
        [
            make_node("tainted", taints=[Taint(key="k", effect="NoSchedule")]),
            make_node("n"),
            running("cheap", "tainted", cpu=4, priority=0),
            running("dear", "n", cpu=4, priority=9),
        ],
        waiting(),
        ("n", ["dear"]),
    ),
    "equally good nodes are taken in visiting order": (
        [
            make_node("z1", zone="z"),
            make_node("z2", zone="z"),
            make_node("y1", zone="y"),
            running("a", "z1", cpu=4, priority=9),
            running("b", "z2", cpu=4),
            running("c", "y1", cpu=4),
        ],
        waiting(),
        ("y1", ["c"]),
    ),
    "a protected pod is spared if another victim is enough": (
        [
            make_node("n"),
            running("guarded", "n", cpu=2, minute=9, labels={"app": "db"}),
            running("plain", "n", cpu=2, minute=1, priority=5, labels={"app": "web"}),
            budget("db", 0, app="db"),
        ],
        waiting(cpu=2),
        ("n", ["plain"]),
    ),
    "a protected pod is evicted if no other victim is enough": (
        [make_node("n"), running("guarded", "n", cpu=4, labels={"app": "db"}), budget("db", 0, app="db")],
        waiting(),
        ("n", ["guarded"]),
    ),
    "a node without violations is preferred to one with less important pods": (
        [
            make_node("m"),
            make_node("n"),
            running("guarded", "m", cpu=4, priority=1, labels={"app": "db"}),
            running("dear", "n", cpu=4, priority=9, labels={"app": "web"}),
            budget("db", 0, app="db"),
        ],
        waiting(),
        ("n", ["dear"]),
    ),
    "what a budget allows is used up by the most important first": (
        [
            make_node("n"),
            running("first", "n", cpu=2, priority=5, labels={"app": "db"}),
            running("second", "n", cpu=2, priority=3, labels={"app": "db"}),
            budget("db", 1, app="db"),
        ],
        waiting(cpu=2),
        ("n", ["first"]),
    ),
}


@pytest.mark.parametrize(("objects", "pod", "want"), HELPED.values(), ids=HELPED)
def test_preemption_selects_node_and_victims(objects: list[KubeObject], pod: Pod, want: tuple[str, list[str]]) -> None:
    result = preempt(make_rig(*objects), pod)
    assert result.status is None, result.status
    assert (result.nominated_node, names(result.victims)) == want


def test_the_message_counts_victims_that_are_leaving_already() -> None:
    rig = make_rig(make_node("n"), running("a", "n", cpu=2, terminating=True), running("b", "n", cpu=2))
    result = preempt(rig, waiting())
    assert result.message == "preemption: found a potential placement for pod on node n, preempting 2 victims"
    assert names(result.victims) == ["b"]


HELPLESS = {
    "equal priority is never evicted": (
        [make_node("n"), running("equal", "n", cpu=4, priority=10)],
        waiting(),
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
    ),
    "a request that no node can hold is beyond help": (
        [make_node("n"), running("low", "n", cpu=4)],
        waiting(cpu=5),
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    ),
    "nodes that evictions do not help are counted by their remaining reason": (
        [make_node("n"), running("low", "n", cpu=1), running("high", "n", cpu=3, priority=10)],
        waiting(),
        "preemption: 0/1 nodes are available: 1 Insufficient cpu.",
    ),
    "all kinds of nodes are counted, in the order of the texts": (
        [
            *(make_node(f"tainted{i}", taints=[Taint(key="k", effect="NoSchedule")]) for i in range(3)),
            *(make_node(f"full{i}") for i in range(2)),
            *(running(f"equal{i}", f"full{i}", cpu=4, priority=10) for i in range(2)),
        ],
        waiting(),
        "preemption: 0/5 nodes are available: 2 No preemption victims found for incoming pod, "
        "3 Preemption is not helpful for scheduling.",
    ),
}


@pytest.mark.parametrize(("objects", "pod", "message"), HELPLESS.values(), ids=HELPLESS)
def test_preemption_fails(objects: list[KubeObject], pod: Pod, message: str) -> None:
    assert preempt(make_rig(*objects), pod) == PostFilterResult(Status.unschedulable(message), nominated_node="")


def test_a_pod_that_is_deleted_is_an_error() -> None:
    rig = make_rig(make_node("n"), running("low", "n", cpu=4))
    assert rescue(rig, waiting()) == PostFilterResult(Status.error('preemption: pod "big" not found'))


def test_the_newest_version_of_the_pod_counts() -> None:
    rig = make_rig(make_node("n"), running("low", "n", cpu=4))
    rig.add(waiting(preemption_policy="Never"))
    assert rescue(rig, waiting()).status == Status.unschedulable(NEVER)


def test_after_a_rejection_of_the_entire_cluster_every_node_is_tried() -> None:
    rig = make_rig(make_node("m"), make_node("n"), running("x", "m", cpu=4, priority=3), running("y", "n", cpu=4))
    everywhere = NodeStatuses({}, Status.unschedulable("claim in use"))
    assert preempt(rig, waiting(), statuses=everywhere).nominated_node == "n"


def test_nodes_that_were_not_examined_are_not_tried() -> None:
    rig = make_rig(make_node("m"), make_node("n"), running("x", "m", cpu=4, priority=3), running("y", "n", cpu=4))
    only_m = NodeStatuses({"m": Status.unschedulable("Insufficient cpu")}, NOT_EXAMINED)
    assert preempt(rig, waiting(), statuses=only_m).nominated_node == "m"


PROMISES = {
    "a nominated pod of equal priority has to fit as well": (10, ("n", ["b", "a"])),
    "a more important one, too": (11, ("n", ["b", "a"])),
    "a less important one does not count": (9, ("n", ["a"])),
}


@pytest.mark.parametrize(("priority", "want"), PROMISES.values(), ids=PROMISES)
def test_nominated_pods(priority: int, want: tuple[str, list[str]]) -> None:
    rig = make_rig(make_node("n"), running("b", "n", cpu=2, priority=2), running("a", "n", cpu=2, priority=1))
    promised = make_pod("p", priority=priority, requests={"cpu": 2}, status=PodStatus(nominated_node_name="n"))
    rig.nominator = make_nominator(promised)
    result = preempt(rig, waiting(cpu=2))
    assert (result.nominated_node, names(result.victims)) == want


def test_nominated_nodes_are_tried_last_if_not_all_nodes_are_tried() -> None:
    nodes = ("n1", "n2", "n3")
    rig = make_rig(*map(make_node, nodes), *(running(f"on-{name}", name, cpu=4, priority=1) for name in nodes))
    rig.nominator = make_nominator(make_pod("p", priority=1, status=PodStatus(nominated_node_name="n1")))
    for requested, first in ((1, "n2"), (3, "n1")):
        args = DefaultPreemptionArgs(min_candidate_nodes_percentage=0, min_candidate_nodes_absolute=requested)
        assert preempt(rig, waiting(cpu=4), args=args).nominated_node == first


SEARCH = {
    "the search continues until enough nodes are feasible": (1, 2, 6, "n1"),
    "the percentage may require more than the number": (50, 1, 6, "n2"),
    "all nodes are enough if the number is larger": (1, 100, 6, "n5"),
}


@pytest.mark.parametrize(("percentage", "absolute", "count", "want"), SEARCH.values(), ids=SEARCH)
def test_how_many_nodes_are_tried(percentage: int, absolute: int, count: int, want: str) -> None:
    # Every node is better than its predecessors, so the winner shows where the search ended.
    nodes = [make_node(f"n{i}") for i in range(count)]
    rig = make_rig(*nodes, *(running(f"p{i}", f"n{i}", cpu=4, priority=9 - i) for i in range(count)))
    args = DefaultPreemptionArgs(min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=absolute)
    assert preempt(rig, waiting(), args=args).nominated_node == want


def test_the_search_does_not_end_while_every_candidate_violates_a_budget() -> None:
    nodes = [make_node(f"n{i}") for i in range(4)]
    guarded = [running(f"p{i}", f"n{i}", cpu=4, labels={"app": "db"}) for i in range(3)]
    rig = make_rig(*nodes, *guarded, running("plain", "n3", cpu=4, priority=9), budget("db", 0, app="db"))
    args = DefaultPreemptionArgs(min_candidate_nodes_percentage=1, min_candidate_nodes_absolute=1)
    assert preempt(rig, waiting(), args=args).nominated_node == "n3"


def test_zero_candidates_are_found_if_zero_are_configured() -> None:
    # As upstream: 1 % of 50 nodes is 0, and a list with at most 0 entries remains empty.
    nodes = [make_node(f"n{i}") for i in range(50)]
    rig = make_rig(*nodes, *(running(f"p{i}", f"n{i}", cpu=4) for i in range(50)))
    args = DefaultPreemptionArgs(min_candidate_nodes_percentage=1, min_candidate_nodes_absolute=0)
    assert preempt(rig, waiting(), args=args).nominated_node == ""


class Brittle(FilterPlugin):
    """A filter that fails on some nodes once they are empty."""

    def __init__(self, *brittle: str) -> None:
        self._brittle = brittle

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if node.name in self._brittle and not node.pods:
            raise PluginError(self.name, f'running "Brittle" filter plugin: {node.name} broke')
        return None


def test_an_error_on_one_node_is_ignored_if_another_is_a_candidate() -> None:
    objects = [
        make_node("m"),
        make_node("n"),
        running("x", "m", cpu=4, priority=1),
        running("y", "n", cpu=4, priority=9),
    ]
    assert preempt(make_rig(*objects, filters=[Brittle("m")]), waiting()).nominated_node == "n"


def test_errors_of_all_nodes_are_reported_together() -> None:
    objects = [make_node("m"), make_node("n"), running("x", "m", cpu=4), running("y", "n", cpu=4)]
    result = preempt(make_rig(*objects, filters=[Brittle("m", "n")]), waiting())
    m, n = (f'running "Brittle" filter plugin: {name} broke' for name in "mn")
    assert result == PostFilterResult(Status.error(f"preemption: [{m}, {n}]"))
    first = preempt(make_rig(*objects[:1], objects[2], filters=[Brittle("m")]), waiting())
    assert first.status == Status.error(f"preemption: {m}")


def test_a_node_that_needs_no_victims_is_an_error() -> None:
    rig = make_rig(make_node("n"), running("low", "n", cpu=1))
    wrong = NodeStatuses({"n": Status.unschedulable("full")}, NOT_EXAMINED)
    status = preempt(rig, waiting(cpu=1), statuses=wrong).status
    assert status == Status.error('preemption: expected at least one victim pod on node "n"')
    assert status.code == Code.ERROR
