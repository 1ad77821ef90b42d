"""One obstacle at a time: the change that removes it is offered, smallest and least intrusive first."""

from math import inf
from typing import Any

import pytest
from tests.unit.insight.explain.clusters import HOSTNAME, ZONE, Object, node, pod, session

from moorage.insight.explain.fixes.resources import lower_requests
from moorage.insight.explain.pods import explain_pod
from moorage.insight.explain.search import offers
from moorage.insight.explain.subject import LimitReached, Limits, Subject
from moorage.insight.whatif.edits import edit_from

HARD = "DoNotSchedule"
ANTI = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}]}}  # fmt: skip
NEAR = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "nobody"}}}]}}  # fmt: skip
ON_SSD = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
    {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}}}  # fmt: skip
TO_ONE = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}]}}}  # fmt: skip
SPREAD = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": HARD, "nodeAffinityPolicy": "Ignore",
           "labelSelector": {"matchLabels": {"app": "web"}}}]  # fmt: skip
PORT = [{"name": "main", "image": "app", "ports": [{"containerPort": 80, "hostPort": 80}]}]
TAINT = {"key": "gpu", "value": "only", "effect": "NoSchedule"}
CLAIM = [{"name": "data", "persistentVolumeClaim": {"claimName": "gone"}}]
SIZE = {"requests": {"storage": "1Gi"}}
BETTER = {"selectors": [{"cel": {"expression": "device.driver == 'better.example'"}}]}

OBSTACLES: dict[str, tuple[list[Object], list[str]]] = {
    "too much cpu": ([node("n1"), pod("p", requests={"cpu": "5"})], ["request", "node-capacity"]),
    "a full node": (
        [node("n1"), pod("a", on="n1", requests={"cpu": "4"}), pod("p")],
        ["request", "priority", "delete-pod", "add-node", "node-capacity"],
    ),
    "a taint": ([node("n1", taints=[TAINT]), pod("p")], ["toleration", "node-taint"]),
    "a cordon": ([node("n1", unschedulable=True), pod("p")], ["toleration", "cordon", "add-node"]),
    "a selector": ([node("n1"), pod("p", nodeSelector={"disk": "ssd"})], ["selector", "node-label"]),
    "node affinity": ([node("n1"), pod("p", affinity=ON_SSD)], ["affinity", "node-label"]),
    "anti-affinity": (
        [node("n1"), pod("a", on="n1", labels={"app": "web"}), pod("p", affinity=ANTI)],
        ["affinity", "priority", "delete-pod"],
    ),
    "somebody else's anti-affinity": (
        [node("n1"), pod("a", on="n1", affinity=ANTI), pod("p", labels={"app": "web"})],
        ["priority", "label", "delete-pod"],
    ),
    "affinity to nobody": ([node("n1"), pod("p", affinity=NEAR)], ["affinity"]),
    "uneven spread": (
        [
            node("n1", zone="z1"),
            node("n2", zone="z2"),
            pod("a", on="n1", labels={"app": "web"}),
            pod("p", labels={"app": "web"}, nodeSelector={ZONE: "z1"}, topologySpreadConstraints=SPREAD),
        ],
        ["spread", "selector", "priority", "label", "node-label", "delete-pod"],
    ),
    "a port": (
        [node("n1"), pod("a", on="n1", containers=PORT), pod("p", containers=PORT)],
        ["port", "priority", "delete-pod", "add-node"],
    ),
    "a gate": ([node("n1"), pod("p", schedulingGates=[{"name": "example.com/quota"}])], ["gate"]),
    "a claim that is not there": ([node("n1"), pod("p", volumes=CLAIM)], ["volume"]),
    "a claim of a class that is not there": (
        [
            node("n1"),
            {
                **{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "slow"}},
                **{"provisioner": "disk.example", "volumeBindingMode": "WaitForFirstConsumer"},
            },
            {
                **{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "gone"}},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": SIZE, "storageClassName": "fast"},
            },
            pod("p", volumes=CLAIM),
        ],
        ["claim", "volume"],
    ),
    "devices of another model": (
        [
            node("n1"),
            {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
            {
                **{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}},
                "spec": {
                    **{"driver": "gpu.example", "nodeName": "n1", "devices": [{"name": "d"}]},
                    "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
                },
            },
            {
                **{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", **BETTER}}]}},
            },
            pod("p", resourceClaims=[{"name": "c", "resourceClaimName": "c"}]),
        ],
        ["claim", "claim"],
    ),
    "no nodes at all": ([pod("p")], ["add-node"]),
    "no nodes, and it would go to few": ([pod("p", affinity=ON_SSD, nodeSelector={"arch": "arm"})], ["add-node"]),
    "no nodes, and it would go to one": ([pod("p", affinity=TO_ONE)], ["add-node"]),
    "no nodes, and it spreads": ([pod("p", labels={"app": "web"}, topologySpreadConstraints=SPREAD)], ["add-node"]),
}


@pytest.mark.parametrize(("things", "kinds"), OBSTACLES.values(), ids=OBSTACLES)
def test_each_obstacle_has_its_changes(things: list[Object], kinds: list[str]) -> None:
    with session(*things) as opened:
        explained = explain_pod(opened, "default/p")
    assert [change.kind for change in explained.changes] == kinds
    assert not explained.stopped


@pytest.mark.parametrize(("things", "kinds"), OBSTACLES.values(), ids=OBSTACLES)
def test_changes_help_a_reloaded_cluster(things: list[Object], kinds: list[str]) -> None:
    """Every change, written down and read back, on a fresh session; none of its edits can be left out."""
    with session(*things) as opened:
        changes = explain_pod(opened, "default/p").as_data()["changes"]
    for change in changes:
        assert outcome(things, change["edits"]) == (change["node"], tuple(change.get("victims", ())))
        for left_out in range(len(change["edits"])):
            fewer = [edit for at, edit in enumerate(change["edits"]) if at != left_out]
            assert outcome(things, fewer) in ("refused", ("", ()))


def outcome(objects: list[Object], edits: list[Any]) -> object:
    from moorage.common.errors import InputError

    with session(*objects) as fresh:
        try:
            fresh.apply(*(edit_from(edit) for edit in edits))
        except InputError:
            return "refused"
        attempt = fresh.try_pod("default/p")
        return attempt.node or attempt.nominated_node, attempt.victims


AMOUNTS = {
    "cpu, to the millicore": ({"cpu": "5"}, "/spec/containers/0/resources/requests/cpu", "3700m"),
    "memory, to the mebibyte": ({"memory": "9Gi"}, "/spec/containers/0/resources/requests/memory", "7167Mi"),
}


@pytest.mark.parametrize(("requests", "path", "value"), AMOUNTS.values(), ids=AMOUNTS)
def test_requests_are_lowered_no_further_than_needed(requests: Object, path: str, value: str) -> None:
    used_requests = {"cpu": "300m", "memory": str(2**30 + 1)}
    with session(node("n1"), pod("a", on="n1", requests=used_requests), pod("p", requests=requests)) as opened:
        first = explain_pod(opened, "default/p").changes[0]
    (edit,) = first.edits
    assert edit["patch"] == [{"op": "replace", "path": path, "value": value}]
    assert edit["apply"] == "replace"


def test_the_hungriest_container_is_lowered() -> None:
    containers = [
        {"name": name, "image": "app", "resources": {"requests": {"cpu": cpu}}}
        for name, cpu in (("a", "1"), ("b", "3"), ("c", "3"))
    ]
    with session(node("n1"), pod("p", containers=containers)) as opened:
        first = explain_pod(opened, "default/p").changes[0]
    assert first.text == "Lower the cpu request of container b from 3 to 0"


def test_a_budget_keeps_pods_from_being_named() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
        "status": {"disruptionsAllowed": 0},
    }
    full = pod("a", on="n1", labels={"app": "a"}, requests={"cpu": "4"})
    with session(node("n1"), full, pod("p"), budget) as opened:
        kinds = [change.kind for change in explain_pod(opened, "default/p").changes]
    assert "delete-pod" not in kinds


def test_a_pod_that_must_not_preempt_needs_no_higher_priority() -> None:
    priority_class = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "held"},
        "value": 50,
    }
    objects = (node("n1"), pod("a", on="n1", requests={"cpu": "4"}), pod("p", priorityClassName="held"))
    with session({**priority_class, "preemptionPolicy": "Never"}, *objects) as opened:
        (change,) = [
            explanation for explanation in explain_pod(opened, "default/p").changes if explanation.kind == "priority"
        ]
    assert change.edits[0]["create"]["value"] == 50
    assert change.victims == ("default/a",)


def test_terminating_pods_are_not_preempted() -> None:
    leaving = pod("a", on="n1", requests={"cpu": "4"}, priority=5)
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/f"]}
    with session(node("n1"), leaving, pod("p")) as opened:
        kinds = [change.kind for change in explain_pod(opened, "default/p").changes]
    assert kinds == ["request", "delete-pod", "add-node", "node-capacity"]


def test_two_obstacles_take_a_pair() -> None:
    with session(node("n1", taints=[TAINT]), pod("p", requests={"cpu": "5"}, nodeSelector={HOSTNAME: "n1"})) as opened:
        (pair,) = explain_pod(opened, "default/p").changes
    assert pair.kind == "pair"
    assert pair.text == ("Tolerate gpu=only:NoSchedule. Lower the cpu request of container main from 5 to 4")


def test_pairs_come_least_intrusive_first_too() -> None:
    gate = [{"name": "example.com/quota"}]
    with session(node("n1"), pod("p", requests={"cpu": "5"}, schedulingGates=gate)) as opened:
        offered = explain_pod(opened, "default/p").changes
    assert [change.kind for change in offered] == ["pair", "pair"]
    assert [change.edits[0]["apply"] for change in offered] == ["replace", "patch"]  # its request, then the node


def test_no_more_of_an_affinity_is_dropped_than_is_in_the_way() -> None:
    """Of the terms that would do the one that lacks least; a term of which nothing is left would match no node."""
    here, missing = ({"key": key, "operator": "Exists"} for key in (HOSTNAME, "gone"))
    terms = [{"matchExpressions": [missing, {**missing, "key": "lost"}]}, {"matchExpressions": [here, missing]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    with session(node("n1"), pod("p", affinity=affinity)) as opened:
        dropped = next(change for change in explain_pod(opened, "default/p").changes if change.kind == "affinity")
    (operation,) = dropped.edits[0]["patch"]
    assert operation["op"] == "remove"
    assert operation["path"].endswith("/nodeSelectorTerms/1/matchExpressions/1")


CORDONED = {"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}
BESIDE_A_CORDON: dict[str, tuple[Object, Object, int]] = {
    "another taint": ({"unschedulable": True, "taints": [TAINT]}, {}, 2),
    "its own taint, and too much cpu": (CORDONED, {"requests": {"cpu": "5"}}, 2),
    "its own taint, another one, and too much cpu": (
        {**CORDONED, "taints": [*CORDONED["taints"], TAINT]},
        {"requests": {"cpu": "5"}},
        3,
    ),
}


@pytest.mark.parametrize(("spec", "asked", "count"), BESIDE_A_CORDON.values(), ids=BESIDE_A_CORDON)
def test_a_cordon_and_more(spec: Object, asked: Object, count: int) -> None:
    with session(node("n1", **spec), pod("p", **asked)) as opened:
        (change,) = explain_pod(opened, "default/p").changes
    assert change.kind == {2: "pair", 3: "several"}[count]
    assert change.text.count(". ") == count - 1


def test_three_obstacles_take_three_changes() -> None:
    wants = pod("p", requests={"cpu": "5"}, nodeSelector={"disk": "ssd"})
    with session(node("n1", taints=[TAINT]), wants) as opened:
        (change,) = explain_pod(opened, "default/p").changes
    assert change.kind == "several"
    assert change.text == (
        "Tolerate gpu=only:NoSchedule. Remove disk=ssd from its node selector. "
        "Lower the cpu request of container main from 5 to 4"
    )
    assert outcome([node("n1", taints=[TAINT]), wants], change.edits) == ("n1", ())


def test_gates_and_two_obstacles() -> None:
    wants = pod("p", requests={"cpu": "5"}, schedulingGates=[{"name": "example.com/quota"}])
    with session(node("n1", taints=[TAINT]), wants) as opened:
        (change,) = explain_pod(opened, "default/p").changes
    assert change.kind == "several"
    assert outcome([node("n1", taints=[TAINT]), wants], change.edits) == ("n1", ())


def test_nodes_with_fewer_obstacles_come_first() -> None:
    """Three changes for one node, two for the other: two are offered."""
    objects = [
        node("n1", taints=[TAINT], labels={"disk": "ssd"}),
        node("n2", taints=[TAINT]),
        pod("p", requests={"cpu": "5"}, nodeSelector={"disk": "ssd"}),
    ]
    with session(*objects) as opened:
        (change,) = explain_pod(opened, "default/p").changes
    assert (change.kind, change.node) == ("pair", "n1")


def test_too_many_obstacles_are_skipped_and_reported() -> None:
    spread = [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": HARD, "labelSelector": {}}]
    everything = pod("p", nodeSelector={"disk": "ssd"}, affinity=NEAR, topologySpreadConstraints=spread, volumes=CLAIM)
    everything["spec"]["containers"] = [{**PORT[0], "resources": {"requests": {"cpu": "5"}}}]
    objects = (node("n1", taints=[TAINT]), pod("a", on="n1", containers=PORT), everything)
    with session(*objects) as opened:
        explained = explain_pod(opened, "default/p")
    assert explained.changes == ()
    assert explained.as_data()["stopped"] == (
        "The search for changes is incomplete: every other node has more than 4 problems."
    )


def test_on_one_node_only() -> None:
    objects = (node("n1"), node("n2", taints=[TAINT]), pod("p", requests={"cpu": "5"}))
    with session(*objects) as opened:
        explained = explain_pod(opened, "default/p", node="n2")
    assert [change.kind for change in explained.changes] == ["pair"]
    assert list(explained.decision.nodes) == ["n2"]


def test_search_stops_in_time_and_reports_it() -> None:
    with session(node("n1"), pod("p", requests={"cpu": "5"})) as opened:
        explained = explain_pod(opened, "default/p", seconds=0.0)
    assert explained.stopped
    assert "stopped" in explained.as_data()


def test_search_limits_its_trials() -> None:
    limits = Limits(inf, max_trials=1)
    with session(node("n1"), pod("p", requests={"cpu": "5"})) as opened:
        subject = Subject(opened, "default/p", limits)
        with pytest.raises(LimitReached):
            list(lower_requests(subject, subject.rows_where_only("NodeResourcesFit")))
    assert limits.trials == 1


def test_plugins_are_left_out_last() -> None:
    """That costs a reading of the whole cluster for each: no time may be lost on it where two changes help."""
    with session(node("n1", taints=[TAINT]), pod("p", requests={"cpu": "5"})) as opened:
        limits = Limits(inf)
        (pair,) = offers(Subject(opened, "default/p", limits))
        plugins = 2  # each is tried
        explanation = offers(Subject(opened, "default/p", Limits(inf, max_trials=limits.trials - plugins)))
        assert next(explanation).text == pair.text
        with pytest.raises(LimitReached):
            next(explanation)


GPU = "example.com/gpu"
BACKED = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
          "spec": {"extendedResourceName": GPU}}  # fmt: skip


def devices(name: str, count: int, pool_of: int = 1) -> Object:
    pool = {"name": name, "generation": 1, "resourceSliceCount": pool_of}
    device_list = [{"name": f"d{number}"} for number in range(count)]
    spec = {"driver": "gpu.example", "pool": pool, "nodeName": name, "devices": device_list}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def test_missing_device_is_one_obstacle_among_available_devices() -> None:
    """DynamicResources also rejects nodes without the extended resource; it runs only after that is fixed."""
    asks = {"cpu": "1", GPU: "2", "example.com/gone": "3"}
    objects = (node("n1"), node("n2"), devices("n2", 2), BACKED, pod("p", requests=asks))
    with session(*objects) as opened:
        changes = explain_pod(opened, "default/p").changes
    assert [(change.kind, change.node) for change in changes] == [("request", "n2"), ("node-capacity", "n2")]
    assert changes[0].text == "Lower the example.com/gone request of container main from 3 to 0"


def test_filter_failure_on_one_node_does_not_affect_other_nodes() -> None:
    """A pool with missing slices cannot allocate all devices; on a node that is too small, this filter never runs."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"},
             "spec": {"devices": {"requests": [request]}}}  # fmt: skip
    wants = pod("p", nodeSelector={"disk": "ssd"}, resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    objects = (node("n1", cpu="500m"), devices("n1", 1, pool_of=2), node("n2"), devices("n2", 1), BACKED, claim, wants)
    with session(*objects) as opened:
        changes = explain_pod(opened, "default/p").changes
    assert [(change.kind, change.node) for change in changes] == [("selector", "n2"), ("node-label", "n2")]


def test_a_profile_that_forbids_every_node_can_be_changed() -> None:
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - pluginConfig:
      - name: NodeAffinity
        args:
          addedAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms: [{matchExpressions: [{key: ours, operator: Exists}]}]
"""
    with session(node("n1"), pod("p"), config=config) as opened:
        explained = explain_pod(opened, "default/p")
    assert [change.kind for change in explained.changes] == ["node-label", "config"]
