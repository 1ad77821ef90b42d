"""Cached outcomes of dry runs must equal new dry runs."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.kube.api.cluster import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.api.selectors import LabelSelector
from moorage.scheduler.framework.plugin import PostFilterResult
from moorage.scheduler.plugins.default_preemption import candidates
from moorage.scheduler.plugins.default_preemption.plugin import DefaultPreemption
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit
from moorage.scheduler.plugins.taint_toleration import TaintToleration
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig, attempt, nominations_of

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
    """A cluster that changes, and one plugin that sees it all."""

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
        self.rig.nominator = nominations_of(promised) if node else nominations_of()

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
def test_nodes_left_out_by_columns_are_those_that_dry_runs_reject(
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


def test_a_node_that_stays_too_full_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_same_kind_of_pod_does_not_make_the_dry_runs_again() -> None:
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
