"""Making room: the fewest and cheapest moves, moves of several pods, budgets, gangs, and proofs of impossibility."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.insight.explain.clusters import GATES, NEAR, Object, gang, members, node, session
from tests.unit.insight.explain.clusters import pod as bare_pod
from tests.unit.insight.plan.plan_clusters import budget, owned

from moorage.common.errors import InputError
from moorage.insight.explain.pods import explain_pod
from moorage.insight.plan.goals import plan, plan_from_data
from moorage.insight.plan.making_room import plan_room
from moorage.insight.plan.mobility import Constraints
from moorage.insight.plan.plan_model import Plan

LARGE = {"cpu": "3"}


def room(*objects: Object, request: tuple[Any, ...] = (), gates: str = "", **more: Any) -> Plan:
    with session(*objects, gates=gates) as opened:
        before = sorted((row["pod"], row["node"]) for row in opened.pods())
        plan = plan_room(opened, request, **more)
        assert sorted((row["pod"], row["node"]) for row in opened.pods()) == before, "the session is unchanged"
    return plan


def moves(plan: Plan) -> list[tuple[str, str]]:
    return [(item.pod.removeprefix("default/"), item.node) for step in plan.steps for item in step.evict]


def placed(plan: Plan) -> dict[str, str | None]:
    return {item.pod.removeprefix("default/"): item.node for item in plan.placed}


def test_manifests_of_other_namespaces_are_requested() -> None:
    manifest = bare_pod("r", requests=LARGE)
    manifest["metadata"]["namespace"] = "ml"
    assert [(item.pod, item.node) for item in room(node("n1"), request=(manifest,)).placed] == [("ml/r", "n1")]


def test_all_pending_pods_are_placed_in_the_order_of_the_queue() -> None:
    low, high = bare_pod("low", requests=LARGE), bare_pod("high", requests=LARGE, priority=10)
    plan = room(node("n1"), low, high)
    assert [(item.pod, item.node) for item in plan.placed] == [("default/high", "n1"), ("default/low", None)]


def test_one_move_makes_the_pod_fit() -> None:
    plan = room(
        *(node(name) for name in ("n1", "n2")),
        *(owned(f"a{number}", on="n1") for number in range(2)),
        *(owned(f"b{number}", on="n2") for number in range(2)),
        bare_pod("r", requests=LARGE),
    )
    assert plan.feasible
    assert len(moves(plan)) == 1
    step = plan.steps[0]
    assert step.cordon == step.uncordon == (step.evict[0].source,), "the pod must not return to its node"
    assert placed(plan) == {"r": step.evict[0].source}
    assert plan.bound is not None
    assert plan.bound.value == 1


def test_fewer_moves_are_preferred_then_lower_cost() -> None:
    objects = [
        *(node(name) for name in ("n1", "n2", "n3")),
        *(owned(f"a{number}", on="n1", requests={"cpu": "500m"}) for number in range(4)),
        owned("b", on="n2", requests={"cpu": "2"}, priority=5000),
        owned("c", on="n3", requests={"cpu": "2"}),
        bare_pod("r", requests={"cpu": "4"}),
    ]
    assert [name for name, _ in moves(room(*objects))] == ["c"]


def test_a_moved_pod_may_need_room_itself() -> None:
    """The pod that fits on n1 alone must leave it; its only other node has no room until a third pod moves."""
    first, second = {"nodeSelector": {"pool": "a"}}, {"nodeSelector": {"pool": "b"}}
    plan = room(
        node("n1", labels={"pool": "a", "only": "here"}),
        node("n2", labels={"pool": "a"}),
        node("n3", labels={"pool": "b"}),
        owned("v", on="n1", requests=LARGE, **first),
        owned("q", on="n2", requests=LARGE),
        owned("z", on="n3", requests={"cpu": "500m"}, **second),
        bare_pod("r", requests=LARGE, nodeSelector={"only": "here"}),
    )
    assert plan.feasible, plan.reason
    assert moves(plan) == [("q", "n3"), ("v", "n2")]


def test_nothing_moves_if_the_request_fits() -> None:
    plan = room(node("n1"), bare_pod("r"))
    assert (plan.feasible, plan.steps, placed(plan)) == (True, (), {"r": "n1"})


def test_budgets_divide_the_moves() -> None:
    plan = room(
        node("n1"),
        node("n2"),
        *(owned(f"a{number}", on="n1", labels={"app": "web"}) for number in range(2)),
        owned("b", on="n2", requests={"cpu": "2"}, priority=1000, labels={"app": "web"}),
        bare_pod("r", requests={"cpu": "4"}),
        budget("web", allowed=1),
    )
    assert plan.feasible
    assert [[use.used for use in step.budgets] for step in plan.steps] == [[1]] * len(plan.steps)


@pytest.mark.parametrize(
    ("objects", "reason"),
    {
        "no node is large enough": ([node("n1"), owned("a", on="n1")], "even without the pods that can move"),
        "the cluster is full": ([node("n1", cpu="3"), owned("a", on="n1")], "all nodes together have 2 free"),
    }.values(),
)
def test_impossible_requests_are_proven(objects: list[Object], reason: str) -> None:
    size = "5" if "even" in reason else "3"
    extra = [node("n2"), node("n3")] if size == "5" else []
    plan = room(*objects, *extra, bare_pod("r", requests={"cpu": size}))
    assert not plan.feasible
    assert reason in plan.reason
    assert plan.steps == ()


def test_unproven_infeasibility_is_reported() -> None:
    objects = [node("n1"), owned("a", on="n1"), bare_pod("r", affinity=NEAR)]
    plan = room(*objects, constraints=Constraints(max_moves=1))
    assert (
        plan.reason == "no sequence of moves with at most 1 move was found for default/r; not proven to be impossible"
    )


@pytest.mark.parametrize("limit", [0, 1])
def test_limits_of_moves_that_are_too_low_are_proven(limit: int) -> None:
    if limit:
        pytest.importorskip("ortools", reason="needs moorage[solver]")
    pods = [owned(f"p{number}", on=f"n{number}", requests={"cpu": "2"}) for number in range(1, 5)]
    requested = [bare_pod(name, requests=LARGE) for name in "rs"]
    plan = room(
        *(node(f"n{number}") for number in range(1, 5)), *pods, *requested, constraints=Constraints(max_moves=limit)
    )
    least = 2 if limit else plan.reason.split()[-5]
    assert plan.reason == f"impossible: --max-moves is {limit}, and at least {least} moves are needed (proven)"


def test_gated_pods_cannot_get_space() -> None:
    plan = room(node("n1"), bare_pod("r", schedulingGates=[{"name": "quota"}]))
    assert plan.reason == "impossible: default/r has scheduling gates, which moves do not remove"


def test_gated_pods_use_no_space() -> None:
    gated = bare_pod("a", requests=LARGE, schedulingGates=[{"name": "quota"}])
    plan = room(node("n1"), gated, bare_pod("b", requests=LARGE), request=("a", "b"))
    assert placed(plan) == {"a": None, "b": "n1"}


@pytest.mark.parametrize(("priority", "is_noted"), [(1, True), (-1, False)])
def test_pending_pods_that_may_use_the_space_are_noted(priority: int, is_noted: bool) -> None:
    objects = [
        *(node(name) for name in ("n1", "n2")),
        *(owned(name, on=on, requests={"cpu": "2"}) for name, on in (("a", "n1"), ("b", "n2"))),
        bare_pod("r", requests=LARGE),
        bare_pod("x", requests=LARGE, priority=priority),
    ]
    note = "1 other pending pod of the same or a higher priority may use the free capacity: default/x"
    assert room(*objects, request=("r",)).notes == ((note,) if is_noted else ())


def test_a_cluster_without_pending_pods_is_reported() -> None:
    assert room(node("n1"), goal="fit").notes == ("no pod is pending",)


def test_a_job_gets_space_for_all_of_its_pods() -> None:
    containers = bare_pod("x", requests=LARGE)["spec"]["containers"]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "parallelism": 2,
            "template": {"spec": {"containers": containers}},
        },
    }
    plan = room(
        *(node(name) for name in ("n1", "n2", "n3", "n4")),
        *(owned(f"p{number}", on=f"n{number}", requests={"cpu": "2"}) for number in range(1, 5)),
        request=(job,),
    )
    assert plan.feasible, plan.reason
    assert len(moves(plan)) == 2
    assert sorted(placed(plan)) == ["train-0", "train-1"]
    assert len(set(placed(plan).values())) == 2


def test_moves_make_all_members_of_a_gang_fit() -> None:
    plan = room(
        *(node(name) for name in ("n1", "n2", "n3", "n4")),
        *(owned(f"p{number}", on=f"n{number}", requests={"cpu": "2"}) for number in range(1, 5)),
        gang(2),
        *members(2, containers=bare_pod("x", requests=LARGE)["spec"]["containers"]),
        request=("podgroup/ring",),
        gates=GATES,
    )
    assert plan.feasible, plan.reason
    assert len(moves(plan)) == 2
    assert all(placed(plan).values())


@pytest.mark.parametrize("request_item", ["p", "job/none", "none.yaml", {"kind": "ConfigMap", "metadata": {}}])
def test_wrong_requests_are_rejected(request_item: Any) -> None:
    with pytest.raises(InputError):
        room(node("n1"), owned("p", on="n1"), request=(request_item,))


def test_fit_places_the_pods_that_can_be_placed() -> None:
    objects = [
        *(node(name) for name in ("n1", "n2")),
        *(owned(name, on=on, requests={"cpu": "2"}) for name, on in (("a", "n1"), ("b", "n2"))),
        bare_pod("huge", requests={"cpu": "40"}),
        bare_pod("r", requests={"cpu": "4"}),
    ]
    plan = room(*objects, goal="fit")
    assert not plan.feasible
    assert "impossible" in plan.reason
    assert len(moves(plan)) == 1
    assert placed(plan)["huge"] is None
    assert placed(plan)["r"] is not None
    assert room(*objects).steps == (), "a request is fulfilled as a whole"


def test_explain_offers_the_plan() -> None:
    objects = [
        *(node(name) for name in ("n1", "n2")),
        *(owned(name, on=on, requests={"cpu": "2"}) for name, on in (("a", "n1"), ("b", "n2"))),
        bare_pod("r", requests=LARGE),
    ]
    with session(*objects) as opened:
        assert "moving 1 pod would make room" in explain_pod(opened, "default/r").notes[-1]
    with session(*objects[:2], bare_pod("a", on="n1"), objects[4]) as opened:
        assert not any("moving" in note for note in explain_pod(opened, "default/r").notes)


def test_the_solver_proves_the_least_number_of_moves() -> None:
    pytest.importorskip("ortools", reason="needs moorage[solver]")
    pods = [owned(f"p{number}", on=f"n{number}", requests={"cpu": "2"}) for number in range(1, 5)]
    plan = room(
        *(node(f"n{number}") for number in range(1, 5)),
        *pods,
        *(bare_pod(name, requests=LARGE) for name in "rs"),
        request=("default/r", "default/s"),
    )
    assert plan.bound is not None
    assert (plan.bound.value, plan.bound.proven, plan.bound.by) == (2, True, "cp-sat")


def test_the_solver_proves_that_no_assignment_exists() -> None:
    """Each node has room for one large pod, and enough CPUs are free, but three large pods have two nodes."""
    pytest.importorskip("ortools", reason="needs moorage[solver]")
    pods = [owned(f"p{number}", on=f"n{number}", requests={"cpu": "2500m"}) for number in (1, 2)]
    plan = room(node("n1"), node("n2"), *pods, bare_pod("r", requests={"cpu": "2500m"}))
    assert not plan.feasible
    assert plan.reason == "impossible: no assignment of the pods to the nodes exists (proven by CP-SAT)"


def test_requests_as_data_read_no_files(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(bare_pod("r")))
    with session(node("n1")) as opened:
        assert plan(opened, "defragment", request=[str(file)]).feasible
        assert plan_from_data(opened, "defragment", {"for": [bare_pod("r")]}).feasible
        for arguments in ({"for": [str(file)]}, {"for": [str(file)], "reads_files": True}):
            with pytest.raises(InputError):
                plan_from_data(opened, "defragment", arguments)
