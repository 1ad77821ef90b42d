"""Groups as Kubernetes 1.38 schedules them, and what 1.37 does instead."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.groups import COMPOSITE, GATE, TOPOLOGY, GroupBench, a_node, alone, composite, gang, member

from moorage.common.errors import MoorageError
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import (
    CompositeGangPolicy,
    CompositePodGroup,
    CompositePodGroupPolicy,
    GangPolicy,
    PodGroup,
    PodGroupPolicy,
    WorkloadReference,
)
from moorage.kube.features import FeatureGates, assignments
from moorage.scheduler.config import completed_view, default_config, load_config
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.table import select_metrics
from moorage.scheduler.engine.group_points import intersect_placements
from moorage.scheduler.engine.groups.algorithm import placements_to_find
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.group_plugins import Placement, PlacementFeasiblePlugin, PlacementGeneratePlugin
from moorage.scheduler.framework.groups import GroupTree
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import ReservePlugin
from moorage.scheduler.framework.status import Status
from moorage.testing import in_virtual_time
from moorage.testing.rig import Rig

NEW = "1.38"
HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
RACK = "rack"


def bench(gates: str = COMPOSITE, release: str = NEW, **settings: Any) -> GroupBench:
    return GroupBench(gates=gates, release=release, **settings)


def racked(name: str, rack: str, cpu: int = 4) -> Any:
    return a_node(name, cpu, labels={RACK: rack, "kubernetes.io/hostname": name})


def members(*names: str, **fields: Any) -> list[Pod]:
    return [member(name, **fields) for name in names]


def test_placement_feasible_is_a_point_of_the_configuration() -> None:
    for release, is_there in (("1.37", False), (NEW, True)):
        view = completed_view(default_config(gates=FeatureGates({"GenericWorkload": True}, release=release)))
        assert ("placementFeasible" in view["profiles"][0]["plugins"]) is is_there


LATER = {
    "the point placementFeasible": "profiles: [{plugins: {placementFeasible: {}}}]",
    "the global share of placements": "percentageOfPlacementsToScore: 30",
    "the share of placements of a profile": "profiles: [{percentageOfPlacementsToScore: 30}]",
}


@pytest.mark.parametrize("case", LATER)
def test_fields_of_the_next_release_are_unknown_before_it(case: str) -> None:
    text = f"{HEADER}{LATER[case]}"
    load_config(text, gates=FeatureGates(release=NEW))
    with pytest.raises(MoorageError, match=r"placementFeasible|percentageOfPlacementsToScore"):
        load_config(text, gates=FeatureGates(release="1.37"))


def test_share_of_placements_is_a_percentage() -> None:
    text = f"{HEADER}percentageOfPlacementsToScore: 101"
    with pytest.raises(MoorageError, match=r"percentageOfPlacementsToScore.*101"):
        load_config(text, gates=FeatureGates(release=NEW))


@in_virtual_time
async def test_gangs_do_not_wait_in_permit() -> None:
    for release, waits in (("1.37", True), (NEW, False)):
        group_bench = bench(GATE, release)
        (runner,) = group_bench.scheduler.runners.values()
        assert ("GangScheduling" in [plugin.name for plugin in runner.profile.permit]) is waits
        assert [plugin.name for plugin in runner.profile.placement_feasible] == ["GangScheduling"]


class RefusesReserve(ReservePlugin):
    """Rejects one member of a group when it is committed, after it fitted in the search."""

    def __init__(self) -> None:
        self._calls = 0

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        if pod.name != "b":
            return None
        self._calls += 1
        return Status.unschedulable("refused") if self._calls == 2 else None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None: ...


@in_virtual_time
async def test_rejected_member_does_not_stop_the_others_from_binding() -> None:
    for release, bound in (("1.37", set[str]()), (NEW, {"a", "c"})):
        group_bench = bench(GATE, release, plugins=[RefusesReserve])
        group_bench.add(a_node("n"), gang(minimum=3), *members("a", "b", "c"))
        await group_bench.step()
        assert {*group_bench.placed()} == bound
        await group_bench.wait(30)
        assert {*group_bench.placed()} == {"a", "b", "c"}


@pytest.mark.provisional("1.38")
@in_virtual_time
async def test_message_about_a_missing_group_names_the_pod_correctly() -> None:
    for release, whose in (("1.37", "pods's"), (NEW, "pod's")):
        group_bench = bench(GATE, release)
        plugin = group_bench.scheduler.runners["default-scheduler"].profile.plugins["GangScheduling"]
        status = plugin.pre_enqueue(member("a"))  # type: ignore[attr-defined]
        assert status.message == f'waiting for {whose} pod group "g" to appear in scheduling queue'


@in_virtual_time
async def test_differing_priorities_are_an_error_of_the_group() -> None:
    for release, reason in (("1.37", "SchedulerError"), (NEW, "PodGroupError")):
        group_bench = bench(GATE, release)
        group_bench.add(a_node("n"), gang(minimum=2), member("a"), member("b", priority=1))
        await group_bench.step()
        condition = group_bench.condition()
        assert condition is not None
        assert condition[:2] == ("False", reason)
        assert "should have the same priority" in condition[2]


PROBLEMS = {
    "a group of another priority": (
        [composite("root"), gang("g", 1, parent="root", priority=7)],
        "should have the same priority as the root pod group's priority, got 7 and 100",
    ),
    "a gang with a basic child": ([composite("root", 1), gang("g", None, parent="root")], "has the basic policy"),
    "a tree that is disrupted as one unit, but not its child": (
        [composite("root", whole=True), gang("g", 1, parent="root")],
        "is disrupted as a whole",
    ),
    "a tree of five levels": (
        [
            composite("root"),
            composite("c1", parent="root"),
            composite("c2", parent="c1"),
            composite("c3", parent="c2"),
            gang("g", 1, parent="c3"),
        ],
        "pod group default/g is nested deeper than 4 levels",
    ),
    "groups of two workloads": (
        [
            composite("root", workload_ref=WorkloadReference(workload_name="v")),
            gang("g", 1, parent="root", workload_ref=WorkloadReference(workload_name="w")),
        ],
        "the groups of a hierarchy belong to several workloads: v, w",
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
@pytest.mark.provisional("1.38")
def test_invalid_layout_is_reported_on_every_group_of_the_tree(case: str) -> None:
    objects, text = PROBLEMS[case]

    @in_virtual_time
    async def attempt() -> None:
        group_bench = bench()
        group_bench.add(a_node("n"), *objects, member("a"))
        await group_bench.step()
        root = group_bench.condition("root", CompositePodGroup)
        assert root is not None
        assert root[:2] == ("False", "CompositePodGroupError")
        assert text in root[2]
        leaf = group_bench.condition("g")
        assert leaf is not None
        assert leaf[1] == "PodGroupError"

    attempt()


@in_virtual_time
async def test_composite_groups_get_conditions_that_end_with_success() -> None:
    group_bench = bench()
    group_bench.add(composite("root", 1), gang("g", 2, parent="root"), *members("a", "b", cpu="3"))
    group_bench.add(a_node("n", 4))
    await group_bench.settle()
    unplaced = group_bench.condition("root", CompositePodGroup)
    assert unplaced is not None
    assert unplaced[:2] == ("False", "Unschedulable")
    group_bench.add(a_node("m", 4))
    await group_bench.wait(30)
    assert group_bench.condition("root", CompositePodGroup) == ("True", "Scheduled", "")
    group_bench.add(member("c", cpu="9"))
    await group_bench.wait(30)
    assert group_bench.condition("root", CompositePodGroup) == ("True", "Scheduled", "")


class Limits(PlacementFeasiblePlugin):
    """Rejects groups by their annotation ``limit``: ``final`` before the first pod is tried, ``now`` after the last."""

    def placement_feasible(self, group: GroupTree, remaining: int, scheduled: int) -> Status | None:
        limit = group.group.metadata.annotations.get("limit")
        if limit is None or (limit == "now" and remaining):
            return None
        return Status.unresolvable("over the limit") if limit == "final" else Status.unschedulable("over the limit")


def limited(group: Any, limit: str) -> Any:
    return replace(group, metadata=replace(group.metadata, annotations={"limit": limit} if limit else {}))


UNRESOLVABLE = {
    "a resolvable status of a group": ([limited(gang("g", 1), "now")], True),
    "an unresolvable status of a group": ([limited(gang("g", 1), "final")], False),
    "children that can be helped": (
        [composite("root", 2), limited(gang("g", 1, parent="root"), "now"), gang("h", 9, parent="root")],
        True,
    ),
    "a child that cannot be helped": (
        [composite("root", 2), limited(gang("g", 1, parent="root"), "final"), gang("h", 1, parent="root")],
        False,
    ),
    "a child that cannot be helped, but is not needed": (
        [composite("root", 1), limited(gang("g", 1, parent="root"), "final"), gang("h", 1, parent="root")],
        True,
    ),
}


@pytest.mark.provisional("1.38")
@pytest.mark.parametrize("case", UNRESOLVABLE)
def test_unresolvable_feasibility_prevents_preemption(case: str) -> None:
    objects, is_helped = UNRESOLVABLE[case]

    @in_virtual_time
    async def attempt() -> None:
        group_bench = bench(plugins=[Limits])
        group_bench.add(a_node("n", 1), *objects, alone("low", priority=1, node="n"))
        group_bench.add(member("a"), *[member(f"h{number}", "h") for number in range(9) if len(objects) > 1])
        (runner,) = group_bench.scheduler.runners.values()
        assert [plugin.name for plugin in runner.profile.placement_feasible] == ["GangScheduling", "Limits"]
        await group_bench.step()
        condition = group_bench.condition() if len(objects) == 1 else group_bench.condition("root", CompositePodGroup)
        assert condition is not None
        assert condition[:2] == ("False", "Unschedulable")
        assert ("preemption" in condition[2]) is is_helped

    attempt()


@pytest.mark.provisional("1.38")
@in_virtual_time
async def test_groups_of_a_failed_tree_have_separate_conditions() -> None:
    group_bench = bench()
    group_bench.add(a_node("n", 2), composite("root", 2), gang("g", 2, parent="root"), gang("h", 1, parent="root"))
    group_bench.add(*members("a", "b", cpu="2"), member("c", "h"))
    await group_bench.step()
    conditions = [group_bench.condition("root", CompositePodGroup), *map(group_bench.condition, "gh")]
    messages = [condition[2] for condition in conditions if condition is not None]
    assert len(messages) == 3
    # The root counts groups, and the first group counts pods. The second group was not tried.
    assert "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining" in messages[0]
    assert "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining" in messages[1]
    assert messages[2] == messages[0]


@in_virtual_time
async def test_composite_groups_have_no_condition_before() -> None:
    group_bench = bench(COMPOSITE, "1.37")
    group_bench.add(a_node("n"), composite("root", 1), gang("g", 1, parent="root"), member("a"))
    await group_bench.settle()
    assert group_bench.placed() == {"a": "n"}
    assert group_bench.condition("root", CompositePodGroup) is None


def with_group_count(group: CompositePodGroup, minimum: int) -> CompositePodGroup:
    policy = CompositePodGroupPolicy(gang=CompositeGangPolicy(min_group_count=minimum))
    return replace(group, spec=replace(group.spec, scheduling_policy=policy))


def with_count(group: PodGroup, minimum: int) -> PodGroup:
    policy = PodGroupPolicy(gang=GangPolicy(min_count=minimum))
    return replace(group, spec=replace(group.spec, scheduling_policy=policy))


@pytest.mark.provisional("1.38")
@in_virtual_time
async def test_lower_group_count_wakes_the_tree() -> None:
    for release, is_bound in (("1.37", False), (NEW, True)):
        group_bench = bench(COMPOSITE, release)
        root = composite("root", 2)
        group_bench.add(a_node("n"), root, gang("g", 1, parent="root"), member("a"))
        await group_bench.settle()
        assert group_bench.placed() == {}
        group_bench.change(with_group_count(root, 1))
        await group_bench.settle()
        assert bool(group_bench.placed()) is is_bound


@in_virtual_time
async def test_lower_count_of_a_sibling_without_pods_in_the_queue_wakes_the_tree() -> None:
    for release in ("1.37", NEW):
        group_bench = bench(COMPOSITE, release)
        sibling = gang("h", 2, parent="root")
        placed = replace(member("x", "h"), spec=replace(member("x", "h").spec, node_name="n"))
        group_bench.add(a_node("n"), composite("root", 2), gang("g", 1, parent="root"), sibling, placed, member("a"))
        await group_bench.settle()
        assert "a" not in group_bench.placed()
        group_bench.change(with_count(sibling, 1))
        await group_bench.settle()
        assert group_bench.placed("a") == {"a": "n"}


def nominated(name: str, node: str) -> Pod:
    pod = member(name)
    return replace(pod, status=replace(pod.status, nominated_node_name=node))


PREFERRED = {
    "no nominations": ([], "r1"),
    "a nomination in no placement": (["elsewhere"], "r1"),
    "a nomination in one placement": (["n3"], "r2"),
    "more nominations in one than in the other": (["n1", "n1", "n3"], "r1"),
}


@pytest.mark.parametrize("case", PREFERRED)
@pytest.mark.parametrize("release", ["1.37", NEW])
def test_nominated_placement_is_taken_first(case: str, release: str) -> None:
    nominations, rack = PREFERRED[case]

    @in_virtual_time
    async def attempt() -> None:
        group_bench = bench(TOPOLOGY, release)
        group_bench.add(racked("n1", "r1"), racked("n2", "r1"), racked("n3", "r2"), racked("n4", "r2"))
        # Rack r1 is fuller, so that it wins without nominations.
        group_bench.add(*(alone(f"x{node}", node=node) for node in ("n1", "n2")))
        group_bench.add(gang(minimum=3, topology=RACK))
        pods = [nominated(f"p{number}", node) for number, node in enumerate(nominations)]
        group_bench.add(*pods, *members(*(f"q{number}" for number in range(3 - len(pods)))))
        await group_bench.settle()
        nodes = {node for name, node in group_bench.placed().items() if name[0] != "x"}
        assert nodes <= ({"n1", "n2"} if rack == "r1" or release != NEW else {"n3", "n4"})
        assert nodes

    attempt()


@in_virtual_time
async def test_infeasible_group_reports_the_status_of_one_placement() -> None:
    for release, which in (("1.37", "first"), (NEW, "reported")):
        group_bench = bench(TOPOLOGY, release)
        group_bench.add(racked("n1", "r1", 1), racked("n2", "r2", 1), gang(minimum=2, topology=RACK))
        group_bench.add(*members("a", "b"))
        await group_bench.step()
        condition = group_bench.condition()
        assert condition is not None
        assert f"0/2 placements are available, {which} placement status: " in condition[2]


class Halves(PlacementGeneratePlugin):
    """Divides the nodes by the label ``half``."""

    def placement_of(self, cycle: CycleState, group: GroupTree, node: NodeInfo) -> str | None:
        return node.node.metadata.labels["half"]


def test_two_generators_are_rejected_before_1_38() -> None:
    @in_virtual_time
    async def start(release: str) -> GroupBench:
        return bench(TOPOLOGY, release, plugins=[Halves])

    with pytest.raises(MoorageError, match="at most one placement generate plugin"):
        start("1.37")
    start(NEW)


@in_virtual_time
async def test_placements_of_two_generators_are_intersected() -> None:
    group_bench = bench(TOPOLOGY, plugins=[Halves])
    for name, rack, half in (("n1", "r1", "a"), ("n2", "r1", "b"), ("n3", "r2", "b"), ("n4", "r2", "b")):
        group_bench.add(a_node(name, 1, labels={RACK: rack, "half": half, "kubernetes.io/hostname": name}))
    group_bench.add(gang(minimum=2, topology=RACK), *members("a", "b"))
    await group_bench.settle()
    assert {*group_bench.placed().values()} == {"n3", "n4"}


class Named(PlacementGeneratePlugin):
    """Returns the cluster under each of some names."""

    names: tuple[str, ...] = ()

    def generate_placements(self, cycle: CycleState, group: GroupTree, nodes: Any) -> list[Placement]:
        return [Placement(name, nodes) for name in self.names]


class WithSlash(Named):
    names = ("a/b",)


class Twice(Named):
    names = ("a", "a")


@pytest.mark.parametrize(("generator", "problem"), [(WithSlash, "contains a slash"), (Twice, "is not unique")])
def test_names_that_cannot_be_combined_are_an_error(generator: type[Named], problem: str) -> None:
    @in_virtual_time
    async def attempt() -> None:
        group_bench = bench(TOPOLOGY, plugins=[generator])
        group_bench.add(racked("n1", "r1"), gang(minimum=1, topology=RACK), member("a"))
        await group_bench.step()
        condition = group_bench.condition()
        assert condition is not None
        assert condition[:2] == ("False", "SchedulerError")
        assert problem in condition[2]

    attempt()


INTERSECTED = {
    "one of each": ([{"a": "n1 n2 n3"}, {"b": "n2 n3 n4"}], {"a/b": "n2 n3"}),
    "two of one": ([{"a1": "n1 n2", "a2": "n3 n4"}, {"b1": "n2 n3"}], {"a1/b1": "n2", "a2/b1": "n3"}),
    "nothing in common": ([{"a": "n1"}, {"b": "n2"}], None),
}


@pytest.mark.parametrize("case", INTERSECTED)
def test_intersections(case: str) -> None:
    parts, expected = INTERSECTED[case]
    order = ["n1", "n2", "n3", "n4"]
    every = Rig(*map(a_node, order)).cache.nodes

    def placement(name: str, nodes: str) -> Placement:
        return Placement(name, every.take(np.array([order.index(node) for node in nodes.split()])))

    combined = intersect_placements([[placement(*item) for item in part.items()] for part in parts])
    if expected is None:
        assert isinstance(combined, Status)
    else:
        assert not isinstance(combined, Status)
        assert {item.name: " ".join(node.name for node in item.nodes) for item in combined} == expected


@pytest.mark.provisional("1.38")
def test_share_of_placements_that_is_searched() -> None:
    assert [placements_to_find(0, 100, nodes) for nodes in (0, 500, 1000, 2500, 5000, 5278, 9000)] == [
        *(100, 91, 82, 55, 10, 5, 5)
    ]
    assert placements_to_find(0, 50, 5000) == 5
    assert [placements_to_find(percentage, 8, 100) for percentage in (1, 50, 99, 100)] == [1, 4, 7, 8]


@pytest.mark.provisional("1.38")
def test_metrics_of_groups_have_a_type() -> None:
    old, new = (
        {spec.name: spec.labels for spec in select_metrics(FeatureGates(release=name))} for name in ("1.37", NEW)
    )
    assert old["scheduler_podgroup_schedule_attempts_total"] == ("result", "profile")
    assert {name: labels for name, labels in new.items() if labels != old[name]} == {
        "scheduler_podgroup_schedule_attempts_total": ("result", "profile", "type"),
        "scheduler_podgroup_scheduling_attempt_duration_seconds": ("result", "profile", "type"),
        "scheduler_podgroup_scheduling_algorithm_duration_seconds": ("profile", "type"),
        "scheduler_generated_placements_total": ("profile", "type"),
        "scheduler_placement_evaluations_total": ("result", "profile", "type"),
        "scheduler_placement_evaluation_duration_seconds": ("result", "profile", "type"),
        "scheduler_workload_preemption_attempts_total": ("preemptor", "result"),
        "scheduler_workload_preemption_victims": ("preemptor",),
    }


@pytest.mark.provisional("1.38")
@in_virtual_time
async def test_placements_of_composite_groups_are_counted() -> None:
    for release, labels in (("1.37", [()]), (NEW, [("podgroup",), ("compositepodgroup",)])):
        features = FeatureGates(dict(assignments(COMPOSITE)), release=release)
        cells = CellRegistry(specs=select_metrics(features))
        group_bench = bench(COMPOSITE, release, observers=[cells])
        group_bench.add(racked("n1", "r1"), composite("root", 1), gang("g", 1, parent="root", topology=RACK))
        group_bench.add(member("a"))
        await group_bench.settle()
        assert group_bench.placed() == {"a": "n1"}
        for more in labels:
            for name, result in (("generated_placements", ()), ("placement_evaluations", ("feasible",))):
                assert cells[f"scheduler_{name}_total"].number(*result, "default-scheduler", *more).value == 1


@in_virtual_time
async def test_clusters_without_groups_have_no_overhead() -> None:
    group_bench = bench(GATE)
    group_bench.add(a_node("n"), alone("a"), alone("b", cpu="9"))
    await group_bench.settle()
    groups = group_bench.scheduler.cache.groups
    assert groups is not None
    assert not groups.has_been_used
    group_bench.add(member("c"))
    assert groups.has_been_used
