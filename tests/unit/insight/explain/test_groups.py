"""Gangs: evaluated by the cycle of the group, with changes that let the entire group start."""

import pytest
from tests.unit.insight.explain.clusters import (
    GATES,
    RACK,
    SIX_OF_EIGHT,
    Object,
    explained_group,
    gang,
    members,
    node,
    opened,
    pod,
    session,
)

from moorage.insight.explain.pods import explain_pod
from moorage.insight.explain.text import group_lines
from moorage.insight.explain.workloads import explain_workload
from moorage.insight.whatif.workload_pods import find_workload


def test_group_reports_fitting_pods_and_its_obstacle() -> None:
    fits, of, stuck = explained_group(*SIX_OF_EIGHT)
    assert (fits, of) == (6, 8)
    assert stuck.group is not None
    lines = group_lines(stuck.group)
    assert lines[0] == "ring: 6 of 8 pods fit together; it needs 8 to start"
    assert "minCount (8) cannot be satisfied: 6 scheduled, 1 remaining" in lines[1]
    assert [(item.reason, item.nodes, item.short) for item in stuck.reasons] == [("Insufficient cpu", 2, {"cpu": "1"})]


def test_feasible_member_reports_its_infeasible_group() -> None:
    with opened(*SIX_OF_EIGHT) as cluster:
        alone = explain_pod(cluster, "default/ring-0")
        assert cluster.try_pod("default/ring-0").node
    assert alone.decision.node == ""
    assert alone.decision.message.startswith("pod group is unschedulable")
    assert alone.group is not None
    assert (alone.group["fits"], alone.group["minCount"]) == (6, 8)
    assert "add-node" in {change.kind for change in alone.changes}


def test_no_rack_fits_the_entire_group() -> None:
    racks = [node(f"{rack}-{number}", labels={RACK: rack}) for rack in ("r1", "r2") for number in range(2)]
    blocker = pod("other", on="r1-0", requests={"cpu": "3"})
    objects = [*racks, blocker, gang(10, topology=RACK), *members(10)]
    fits, of, stuck = explained_group(*objects)
    assert (fits, of) == (8, 10)
    assert stuck.group is not None
    assert "no rack fits 10 pods; the best of 2 (r2) fits 8" in group_lines(stuck.group)
    assert [item.nodes for item in stuck.reasons] == [2], "only the nodes of the rack that the rest is in"
    texts = {change.kind: change.text for change in stuck.changes}
    assert (
        texts["topology"]
        == "Remove the topology constraint of the group ring, so that it can span several rack domains"
    )
    assert texts["group"] == "Lower minCount of the group ring from 10 to 8, so that it starts with 8 pods"
    assert texts["add-node"] == "Add a node like r2-0"


def test_fewer_members_than_the_minimum() -> None:
    with opened(node("n1"), gang(3), *members(2)) as cluster:
        explained = explain_pod(cluster, "default/ring-0")
    assert explained.group is not None
    assert "only 2 of the 3 required pods exist" in group_lines(explained.group)
    once = "waiting for minCount pods from a gang to appear in scheduling queue"
    assert explained.decision.message == once, "not once for each of its pods"
    assert [change.text for change in explained.changes] == [
        "Lower minCount of the group ring from 3 to 2, so that it starts with 2 pods"
    ]


WITHOUT_GANGS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {multiPoint: {disabled: [{name: GangScheduling}]}}
"""


@pytest.mark.parametrize("config", [None, WITHOUT_GANGS])
def test_pod_with_a_missing_group_is_gated(config: str | None) -> None:
    """The queue ensures this even without a plugin."""
    with session(node("n1"), *members(1), gates=GATES, config=config) as cluster:
        explained = explain_pod(cluster, "default/ring-0")
    assert explained.decision.result.value == "gated"
    assert "ring" in explained.decision.message
    (change,) = explained.changes
    assert (change.kind, change.node) == ("group", "n1")
    assert change.edits[0]["patch"] == [{"op": "remove", "path": "/spec/schedulingGroup"}]


def test_group_that_fits_has_no_obstacle() -> None:
    with opened(node("n1"), gang(2), *members(3)) as cluster:
        workload = find_workload(cluster, "podgroup/ring", "default")
        assert workload is not None
        explanation = explain_workload(cluster, workload)
        member = explain_pod(cluster, "default/ring-1")
    assert (explanation.fits, explanation.of, explanation.next) == (3, 3, None)
    assert member.decision.node == "n1"
    assert member.changes == ()


JOB: Object = {
    "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"},
    "spec": {"parallelism": 8, "completions": 8, "scheduling": {"schedulingPolicy": {"gang": {}}},
             "template": {"spec": {"containers": [
                 {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}]}}},
}  # fmt: skip


@pytest.mark.parametrize("kind", ["request", "group"])
def test_gang_job_is_changed_by_its_own_fields(kind: str) -> None:
    objects = [node("n1"), node("n2"), pod("blocker", on="n2", requests={"cpu": "2"}), JOB]
    with opened(*objects) as cluster:
        workload = find_workload(cluster, "job/train", "default")
        assert workload is not None
        explanation = explain_workload(cluster, workload)
    assert (explanation.workload, explanation.fits, explanation.of) == ("job/train", 6, 8)
    assert explanation.next is not None
    paths = {
        "request": "/spec/template/spec/containers/0/resources/requests/cpu",
        "group": "/spec/scheduling/schedulingPolicy/gang/minCount",
    }
    (edit,) = next(change.edits for change in explanation.next.changes if change.kind == kind)
    assert edit["object"]["kind"] == "Job"
    assert [operation["path"] for operation in edit["patch"]] == [paths[kind]]
