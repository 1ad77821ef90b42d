"""Dry runs by subtraction must give the same result as refiltering after every change."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.framework.victims import Victims
from moorage.scheduler.plugins.default_preemption.dry_run import PreemptionDryRun, counting_filters
from moorage.scheduler.plugins.node_ports import NodePorts
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit
from moorage.scheduler.plugins.taint_toleration import TaintToleration
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig, attempt, make_nominator

RESOURCES = ("cpu", "memory", "example.com/gpu")
amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 4))


class AcceptsAll(FilterPlugin):
    """A filter that may depend on pods."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    started = draw(st.none() | st.integers(0, 3).map("2025-12-31T12:00:0{}Z".format))
    return make_pod(
        f"p{draw(st.integers(0, 10**9))}",
        node="n",
        priority=draw(st.integers(0, 3)),
        requests=draw(amounts),
        labels=draw(st.sampled_from([{}, {"app": "db"}])),
        status=PodStatus(start_time=started),
    )


def protect_databases(sorted_pods: object) -> tuple[list[Pod], list[Pod]]:
    assert isinstance(sorted_pods, list)
    return [p for p in sorted_pods if p.labels], [p for p in sorted_pods if not p.labels]


def dry_run(rig: Rig, pod: Pod) -> Victims | Status:
    cycle, _ = attempt(rig, pod)
    return PreemptionDryRun(rig, cycle, pod, protect_databases).on(rig.nodes[0])


@settings(deadline=None)
@given(
    node=st.fixed_dictionaries({"cpu": st.integers(1, 9), "memory": st.integers(1, 9), "pods": st.integers(1, 8)}),
    gpus=st.integers(0, 3),
    peers=st.lists(pods(), max_size=8),
    expected=amounts,
    priority=st.integers(0, 4),
)
def test_subtraction_gives_the_same_result_as_refiltering(
    node: dict[str, int], gpus: int, peers: list[Pod], expected: dict[str, int], priority: int
) -> None:
    objects: list[KubeObject] = [make_node("n", allocatable={**node, "example.com/gpu": gpus}), *peers]
    pod = make_pod("big", priority=priority, requests=expected)
    quick, thorough = Rig(*objects), Rig(*objects)
    quick.filters = [TaintToleration(), NodePorts(), NodeResourcesFit(handle=quick)]
    thorough.filters = [TaintToleration(), NodeResourcesFit(handle=thorough), AcceptsAll()]
    assert counting_filters(quick, attempt(quick, pod)[0]) == [quick.filters[2]]
    assert counting_filters(thorough, attempt(thorough, pod)[0]) is None
    assert dry_run(quick, pod) == dry_run(thorough, pod)


def test_a_filter_that_depends_on_ports_is_repeated() -> None:
    rig = Rig(make_node("n"))
    rig.filters = [NodePorts(), NodeResourcesFit(handle=rig)]
    cycle, _ = attempt(rig, make_pod("web", host_ports=[80]))
    assert counting_filters(rig, cycle) is None


def test_node_is_unchanged() -> None:
    rig = Rig(make_node("n"), make_pod("low", node="n", priority=0, requests={"cpu": 4}))
    rig.filters = [NodeResourcesFit(handle=rig)]
    before = dict(rig.nodes[0].pods), dict(rig.nodes[0].requested)
    assert isinstance(dry_run(rig, make_pod("big", priority=1, requests={"cpu": 4})), Victims)
    assert (rig.nodes[0].pods, rig.nodes[0].requested) == before


def test_a_nominated_node_is_filtered_with_the_nominated_pods() -> None:
    low = make_pod("low", node="n", priority=0, requests={"cpu": 2})
    rig = Rig(make_node("n"), low)
    rig.filters = [NodeResourcesFit(handle=rig)]
    pod = make_pod("big", priority=1, requests={"cpu": 2})
    assert dry_run(rig, pod) == Status.error('expected at least one victim pod on node "n"')
    promised = make_pod("promised", priority=1, requests={"cpu": 2}, status=PodStatus(nominated_node_name="n"))
    rig.nominator = make_nominator(promised)
    assert dry_run(rig, pod) == Victims((low,))


@pytest.mark.parametrize(("release", "evicted"), [("1.37", ["d"]), ("1.38", ["e"])])
def test_equal_victims_are_ordered_by_uid_from_1_38(release: str, evicted: list[str]) -> None:
    """Until 1.37 they keep their order on the node; pods that have not started are the least important ones."""
    rig = Rig(make_node("n", allocatable={"cpu": 4, "pods": 9}), features=FeatureGates(release=release))
    rig.filters = [NodeResourcesFit(handle=rig)]
    for name, started in (("b", None), ("e", None), ("a", None), ("d", None), ("f", "2025-12-31T12:00:00Z")):
        status = PodStatus(start_time=started)
        rig.add(make_pod(name, node="n", uid=f"uid-{name}", requests={"cpu": "800m"}, status=status))
    victims = dry_run(rig, make_pod("p", requests={"cpu": "800m"}, priority=1))
    assert isinstance(victims, Victims)
    assert [pod.name for pod in victims.pods] == evicted


def test_pods_that_have_not_started_are_evicted_first_from_1_38() -> None:
    """Also before pods whose start is in the future, because of a wrong clock."""
    rig = Rig(make_node("n", allocatable={"cpu": 2, "pods": 9}), features=FeatureGates(release="1.38"))
    rig.filters = [NodeResourcesFit(handle=rig)]
    for name, started in (("a", None), ("b", "2099-12-31T12:00:00Z")):
        rig.add(make_pod(name, node="n", requests={"cpu": 1}, status=PodStatus(start_time=started)))
    victims = dry_run(rig, make_pod("p", requests={"cpu": 1}, priority=1))
    assert isinstance(victims, Victims)
    assert [pod.name for pod in victims.pods] == ["a"]
