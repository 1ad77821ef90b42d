"""Drains: where pods land, which pods remain and why, and how budgets divide a drain into steps."""

from typing import Any

import pytest
from tests.unit.insight.explain.clusters import GATES, Object, gang, node, session
from tests.unit.insight.explain.clusters import pod as bare_pod
from tests.unit.insight.explain.parts import claim, device_claim, device_class, device_slice, storage_class, volume
from tests.unit.insight.plan.plan_clusters import budget, owned

from moorage.common.errors import InputError
from moorage.insight.plan.draining import plan_drain
from moorage.insight.plan.mobility import UNLIMITED, Constraints
from moorage.insight.plan.plan_model import Plan

WEB = {"app": "web"}
EXISTS = [{"operator": "Exists"}]


def drained(*objects: Object, nodes: tuple[str, ...] = ("n1",), gates: str = "", **more: Any) -> Plan:
    with session(*objects, gates=gates) as opened:
        before = sorted((row["pod"], row["node"]) for row in opened.pods())
        plan = plan_drain(opened, nodes, **more)
        assert sorted((row["pod"], row["node"]) for row in opened.pods()) == before, "the session is unchanged"
    return plan


def moves(plan: Plan) -> list[list[tuple[str, str]]]:
    return [[(item.pod.removeprefix("default/"), item.node) for item in step.evict] for step in plan.steps]


def test_pods_move_to_the_node_that_the_scheduler_chooses() -> None:
    plan = drained(node("n1"), node("n2", cpu="2"), node("n3", cpu="8"), owned("a", on="n1"))
    assert plan.feasible
    assert plan.steps[0].cordon == ("n1",)
    assert moves(plan) == [[("a", "n3")]]
    assert plan.summary.nodes_emptied == ("n1",)
    assert plan.as_data()["steps"][0]["evict"][0] | {"cost": 0} == {
        **{"pod": "default/a", "uid": "", "from": "n1", "to": "n3", "text": "default/a moves from n1 to n3"},
        **{"cost": 0, "owner": "uid-of-web"},
    }


def test_all_pods_of_a_step_end_before_the_first_is_recreated() -> None:
    """Both pods exclude each other in a zone: together they can change places, one by one they cannot."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": WEB}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [owned(name, on=on, labels=WEB, affinity=apart) for name, on in (("a", "n1"), ("b", "n2"))]
    objects = [node("n1"), node("n2"), node("n3"), *pods]
    assert not drained(*objects, nodes=("n1", "n2")).feasible
    assert moves(drained(*objects)) == [[("a", "n3")]]


def test_order_of_replacements_divides_the_drain_into_steps() -> None:
    def owned_by(name: str, **more: Any) -> Object:
        return owned(name, owner=name, on="n1", **more)

    objects = [node("n1"), node("n2", labels={"disk": "ssd"}), node("n3", labels={"disk": "hdd"})]
    selective = [owned_by(name, nodeSelector={"disk": disk}) for name, disk in (("a", "ssd"), ("b", "hdd"))]
    assert moves(drained(*objects, *selective)) == [[("a", "n2"), ("b", "n3")]], "each has one node in any order"
    similar = [owned_by(name, requests={"cpu": cpu}) for name, cpu in (("a", "2"), ("b", "1"))]
    plan = drained(*objects, *similar)
    assert plan.feasible
    assert [len(step) for step in moves(plan)] == [1, 1], "the first replacement changes the node of the second"
    assert [step.cordon for step in plan.steps] == [("n1",), ()]


def test_a_budget_divides_the_drain_into_steps() -> None:
    pods = [owned(f"p{number}", on="n1", labels=WEB) for number in range(3)]
    plan = drained(node("n1"), node("n2"), *pods, budget("web", allowed=2))
    assert [[use.used for use in step.budgets] for step in plan.steps] == [[2], [1]]
    assert [step.budgets[0].allowed for step in plan.steps] == [2, 2], "replacements are ready before the next step"
    assert plan.waits == ("default/web",)


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"minAvailable": 2}, 1),
        ({"maxUnavailable": 2}, 2),
        ({"minAvailable": "50%"}, 1),
        ({"maxUnavailable": "34%"}, 2),
    ],
)
def test_budgets_without_a_status_are_computed(spec: Object, allowed: int) -> None:
    pods = [owned(f"p{number}", on="n1", labels=WEB) for number in range(3)]
    plan = drained(node("n1"), node("n2"), *pods, budget("web", **spec))
    assert plan.steps[0].budgets[0].allowed == allowed


DAEMON = owned("d", kind="DaemonSet", on="n1")
STUCK = {
    "a bare pod": ([bare_pod("p", on="n1")], "not-recreated"),
    "a budget without disruptions": ([owned("p", on="n1", labels=WEB), budget("web", allowed=0)], "budget"),
    "two budgets": ([owned("p", on="n1", labels=WEB), budget("x", allowed=1), budget("y", allowed=1)], "budget"),
    "no room": ([owned("p", on="n1", requests={"cpu": "3"})], "no-node"),
    "a toleration of the cordon": ([owned("p", on="n1", requests={"cpu": "3"}, tolerations=EXISTS)], "no-node"),
    "another scheduler": ([owned("p", on="n1", schedulerName="other")], "scheduler"),
}


@pytest.mark.parametrize(("objects", "kind"), STUCK.values(), ids=STUCK)
def test_immovable_pods_are_explained(objects: list[Object], kind: str) -> None:
    plan = drained(node("n1"), node("n2", cpu="2"), DAEMON, *objects)
    assert [(item.pod, item.kind) for item in plan.cannot_move] == [("default/p", kind)]
    assert not plan.feasible
    assert plan.reason.startswith("default/p cannot leave n1")
    assert moves(plan) == [[]], "the node is cordoned"
    assert plan.summary.nodes_emptied == ()


def job(name: str, **spec: Any) -> Object:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template, **spec}}


IGNORED = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}


@pytest.mark.parametrize(
    ("spec", "is_moved"),
    [({}, True), ({"backoffLimit": 0}, False), ({"backoffLimit": 0, "podFailurePolicy": IGNORED}, True)],
)
def test_pods_of_jobs_move_if_the_job_replaces_them(spec: Object, is_moved: bool) -> None:
    plan = drained(node("n1"), node("n2"), job("web", **spec), owned("p", kind="Job", on="n1"))
    assert plan.feasible is is_moved


def test_forced_evictions_delete_pods_without_a_controller() -> None:
    plan = drained(node("n1"), node("n2"), bare_pod("p", on="n1"), constraints=Constraints(force=True))
    assert plan.feasible
    entry = plan.as_data()["steps"][0]["evict"][0]
    assert entry["recreated"] is False
    assert "to" not in entry


def test_pods_without_a_node_are_evicted_only_on_request() -> None:
    objects = [node("n1"), node("n2", cpu="1"), owned("p", on="n1", requests={"cpu": "3"}), owned("q", on="n1")]
    plan = drained(*objects, constraints=Constraints(allow_pending=True))
    assert moves(plan) == [[("q", "n2")], [("p", "")]]
    assert [item.pod for item in plan.pending] == ["default/p"]
    assert plan.as_data()["steps"][1]["evict"][0]["to"] is None
    assert not plan.feasible


def test_a_lost_pod_uses_its_budget_until_the_end() -> None:
    objects = [
        node("n1"),
        bare_pod("p", on="n1", labels=WEB),
        bare_pod("q", on="n1", labels=WEB),
        budget("web", allowed=1),
    ]
    plan = drained(*objects, constraints=Constraints(force=True))
    assert [item.kind for item in plan.cannot_move] == ["budget"]
    assert plan.summary.moves == 1


def test_rolling_drains_return_each_node() -> None:
    objects = [
        node("n1"),
        node("n2"),
        *(owned(f"p{n}", on="n1") for n in range(4)),
        *(owned(f"q{n}", on="n2") for n in range(2)),
    ]
    assert not drained(*objects, node("n3", cpu="4"), nodes=("n1", "n2")).feasible
    plan = drained(*objects, node("n3", cpu="4"), nodes=("n1", "n2"), rolling=1)
    assert plan.feasible
    assert [(step.cordon, step.uncordon) for step in plan.steps] == [(("n1",), ("n1",)), (("n2",), ("n2",))]
    assert plan.summary.nodes_emptied == ("n1", "n2")


@pytest.mark.parametrize("rolling", [None, 1])
def test_drained_nodes_need_no_step(rolling: int | None) -> None:
    plan = drained(node("n1", unschedulable=True), node("n2"), owned("p", on="n2"), nodes=("n1",), rolling=rolling)
    assert plan.feasible
    assert plan.steps == ()
    assert plan.summary.nodes_emptied == ("n1",)


def test_extra_nodes_are_suggested() -> None:
    pods = [owned(f"p{number}", on=f"n{number}", requests={"cpu": "3"}) for number in (1, 2)]
    plan = drained(node("n1"), node("n2"), node("n3", cpu="1"), *pods, nodes=("n1", "n2"))
    assert plan.extra_nodes is not None
    assert (plan.extra_nodes.count, plan.extra_nodes.like) == (2, "n1")


def test_extra_nodes_have_the_shape_of_the_drained_nodes() -> None:
    pods = [owned("c", on="c1", requests={"cpu": "3"}), owned("g", on="g1", nodeSelector={"pool": "gpu"})]
    plan = drained(node("c1"), node("g1", labels={"pool": "gpu"}), *pods, nodes=("c1", "g1"))
    assert plan.extra_nodes is not None
    assert plan.extra_nodes.count == 2
    assert plan.extra_nodes.text == "2 more nodes (1 like c1, 1 like g1) would hold the pods without a node"


def test_extra_nodes_are_suggested_for_gangs() -> None:
    group = {"schedulingGroup": {"podGroupName": "ring"}}
    pods = [owned(f"ring-{n}", on=f"n{n}", requests={"cpu": "3"}, **group) for n in (1, 2)]
    plan = drained(node("n1"), node("n2"), gang(2), *pods, gates=GATES)
    assert plan.extra_nodes is not None
    assert (plan.extra_nodes.count, plan.extra_nodes.like) == (1, "n1")


def test_lost_data_is_noted() -> None:
    plan = drained(node("n1"), node("n2"), owned("p", on="n1", volumes=[{"name": "cache", "emptyDir": {}}]))
    assert plan.notes == ("1 pod loses the data of emptyDir volumes: default/p",)


UNREADY: Object = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
UNHEALTHY = {
    "not ready, and such pods may be evicted": (UNREADY, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, {}, True),
    "not ready, and enough others are": (UNREADY, {}, {"currentHealthy": 2, "desiredHealthy": 2}, True),
    "not ready, and too few others are": (UNREADY, {}, {"currentHealthy": 1, "desiredHealthy": 2}, False),
    "not started": ({"phase": "Pending"}, {}, {}, True),
    "ready": ({"phase": "Running"}, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, {}, False),
}


@pytest.mark.parametrize(("status", "spec", "counts", "is_moved"), UNHEALTHY.values(), ids=UNHEALTHY)
def test_budgets_do_not_keep_broken_pods(status: Object, spec: Object, counts: Object, is_moved: bool) -> None:
    pod = owned("p", on="n1", labels=WEB) | {"status": status}
    limit = budget("web", allowed=0, **spec)
    limit["status"] |= counts
    plan = drained(node("n1"), node("n2"), pod, limit)
    assert plan.feasible is is_moved
    assert all(not step.budgets for step in plan.steps)


def test_a_local_volume_keeps_its_pod() -> None:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}]
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/disk"},
            "storageClassName": "local",
            "claimRef": {"name": "data", "namespace": "default"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "volumeName": "disk",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound"},
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    plan = drained(node("n1"), node("n2"), volume, claim, owned("p", kind="StatefulSet", on="n1", volumes=volumes))
    assert "PersistentVolume" in plan.cannot_move[0].reason


def with_device(name: str, on: str) -> list[Object]:
    """Return a pod with a claim from a template, and the claim, which has the device of its node."""
    uid = f"uid-of-{name}"
    pod = owned(name, on=on, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])
    pod["metadata"]["uid"] = uid
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    pod["status"] = {
        "phase": "Running",
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}],
    }
    claim = device_claim(name=f"{name}-gpu")
    reference = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
    claim["metadata"]["ownerReferences"] = [reference]
    selected = {"request": "r", "driver": "gpu.example", "pool": on, "device": "d0"}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}
    allocation = {"devices": {"results": [selected]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    claim["status"] = {
        "allocation": allocation,
        "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
    }
    return [pod, claim]


def test_claims_of_devices_from_templates_are_created_again() -> None:
    cluster = [*(node(f"n{n}") for n in (1, 2, 3)), device_class(), *(device_slice(f"n{n}") for n in (1, 2))]
    first, second = with_device("a", "n1"), with_device("b", "n2")
    assert moves(drained(*cluster, *first)) == [[("a", "n2")]]
    assert drained(*cluster, *first, *second).cannot_move[0].pod == "default/a"
    swapped = drained(*cluster, device_slice("n3"), *first, *second, nodes=("n1", "n2"), rolling=1)
    assert moves(swapped) == [[("a", "n3")], [("b", "n1")]]


@pytest.mark.parametrize("is_own", [True, False])
def test_ephemeral_volumes_do_not_keep_their_pods(is_own: bool) -> None:
    data = claim("p-data", volume="disk", storage_class="slow")
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}
    data["metadata"]["ownerReferences"] = [reference] * is_own
    template = {"spec": data["spec"]}
    pod = owned("p", on="n1", volumes=[{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}])
    if not is_own:
        pod = owned("p", on="n1", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "p-data"}}])
    pod["metadata"]["uid"] = "p"
    disk = volume("disk", "a", claimed_by="p-data")
    objects = (node("n1", zone="a"), node("n2", zone="b"), storage_class("slow"), data, disk, pod)
    assert drained(*objects).feasible is is_own


def test_volumes_of_a_stateful_set_restrict_its_pods_to_their_zone() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
    pod = owned("db-0", kind="StatefulSet", owner="db", on="n1", volumes=volumes)
    data, disk = claim("data-db-0", volume="disk"), volume("disk", "a", claimed_by="data-db-0")
    nodes = [node(name, zone=zone) for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "a"))]
    assert moves(drained(*nodes, data, disk, pod)) == [[("db-0", "n3")]]
    assert "volume" in drained(*nodes[:2], data, disk, pod).cannot_move[0].reason.lower()


def test_members_of_a_gang_move_together() -> None:
    group = {"schedulingGroup": {"podGroupName": "ring"}}
    members = [owned(f"ring-{n}", on=f"n{n}", requests={"cpu": "3"}, **group) for n in (1, 2)]
    objects = [*(node(f"n{n}") for n in range(1, 4)), gang(2), *members]
    plan = drained(*objects, gates=GATES)
    assert plan.feasible
    assert [sorted(pod for pod, _ in step) for step in moves(plan)] == [["ring-1", "ring-2"]]
    assert {target for _, target in moves(plan)[0]} == {"n2", "n3"}
    blocked = drained(*objects, owned("big", on="n3", requests={"cpu": "3"}), gates=GATES)
    assert [item.pod for item in blocked.cannot_move] == ["default/ring-1", "default/ring-2"]


def test_members_of_a_gang_are_tried_in_the_order_of_the_list() -> None:
    group = {"schedulingGroup": {"podGroupName": "ring"}}
    members = [owned(name, on="n1", requests={"cpu": cpu}, **group) for name, cpu in (("z", "3"), ("a", "1"))]
    # The largest pod is listed first. If `a` came first, it would take n2, which is larger than n3.
    objects = [node("n1"), node("n2", cpu="4"), node("n3", cpu="2"), gang(2), *members]
    plan = drained(*objects, gates=GATES)
    assert moves(plan) == [[("z", "n2"), ("a", "n3")]]


def test_gang_with_pending_members_does_not_move() -> None:
    group = {"schedulingGroup": {"podGroupName": "ring"}}
    members = [owned("ring-1", on="n1", **group), owned("ring-2", **group)]
    plan = drained(node("n1"), node("n2"), gang(1), *members, gates=GATES)
    assert [item.kind for item in plan.cannot_move] == ["group"]


LIMITS = {
    "a limit of moves": Constraints(max_moves=1),
    "a namespace": Constraints(keep=("namespace=default",)),
    "a label": Constraints(keep=("app=web",)),
    "a pod": Constraints(exclude=("default/p*",)),
}


@pytest.mark.parametrize("constraints", LIMITS.values(), ids=LIMITS)
def test_constraints_keep_pods(constraints: Constraints) -> None:
    pods = [owned(f"p{number}", on="n1", labels=WEB) for number in range(2)]
    plan = drained(node("n1"), node("n2"), *pods, constraints=constraints)
    assert plan.summary.moves == (constraints.max_moves or 0)
    assert not plan.feasible
    assert drained(node("n1"), node("n2"), *pods, constraints=UNLIMITED).summary.moves == 2


def test_nodes_are_selected_by_labels() -> None:
    objects = [node("n1", labels={"pool": "old"}), node("n2", labels={"pool": "old"}), node("n3")]
    assert drained(*objects, nodes=(), selector="pool=old").summary.nodes_emptied == ("n1", "n2")
    with pytest.raises(InputError, match="no node has these labels"):
        drained(*objects, nodes=(), selector="pool=none")


@pytest.mark.parametrize(("nodes", "hint"), [(("node-10",), "node-1"), ((), "add node names")])
def test_wrong_nodes_are_rejected(nodes: tuple[str, ...], hint: str) -> None:
    with pytest.raises(InputError) as caught:
        drained(node("node-1"), nodes=nodes)
    assert hint in str(caught.value.hint)


def test_cost_grows_with_priority_and_age() -> None:
    started = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    pods = [owned("old", on="n1"), owned("vip", on="n1", priority=2000), owned("new", on="n1")]
    pods[0]["status"] = started
    with session(node("n1"), node("n2"), *pods) as opened:
        plan = plan_drain(opened, ["n1"], taken_at=1767225600.0 + 2 * 86_400)
    costs = {item.pod: item.cost for item in plan.steps[0].evict}
    assert costs["default/old"] == 3.0
    assert costs["default/vip"] > costs["default/new"]
