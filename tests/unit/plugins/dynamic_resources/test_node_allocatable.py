"""Devices that stand for resources of their node: what they come to, what is refused, and what is counted.

The clusters were put to kube-scheduler, too, and it said the same of each.
"""

from typing import Any

import msgspec
import pytest
from tests.parity.gate_clusters import DRIVER, GPU, claim, device, devices, node, pod, turned_down

from moorage.api.codec import decode
from moorage.api.pod import Pod
from moorage.assembly.policy import load_policy
from moorage.features import FeatureGates
from moorage.framework.registry import Registry
from moorage.plugins.catalogue import IN_TREE
from moorage.simulator.decisions import to_builtins
from moorage.simulator.loading import cluster_from
from moorage.simulator.one_pass import OnePass

GATES = {"DRANodeAllocatableResources": True, "SchedulerAsyncPreemption": False}
NO_VICTIMS = "No preemption victims found for incoming pod"
SHORT = turned_down("Insufficient cpu", NO_VICTIMS)
LEVEL = "is insufficient to cover the aggregated container and node-allocatable DRA requests"
Objects = list[dict[str, Any]]


def fates(*objects: dict[str, Any], gates: dict[str, bool] | None = None) -> list[str]:
    """Return the node of each pod that waits, or why it got none."""
    features = FeatureGates(GATES if gates is None else gates)
    cluster = cluster_from([node(), GPU, *objects], features=features)
    policy = load_policy(Registry(IN_TREE), features=features)
    decisions = to_builtins(OnePass(cluster, policy, cross_check=True).run())["decisions"]
    return [decision.get("node") or decision["message"] for decision in decisions]


def standing(**resources: Any) -> dict[str, Any]:
    return devices({"name": "d0", "nodeAllocatableResources": resources})


def asking(name: str = "p", *, cpu: str = "1", uses: bool = True, claimed: str = "a", **spec: Any) -> dict[str, Any]:
    resources: dict[str, Any] = {"requests": {"cpu": cpu}, **({"claims": [{"name": "g"}]} if uses else {})}
    if "limit" in spec:
        resources["limits"] = {"cpu": spec.pop("limit")}
    container = {"name": "c", "image": "i", "resources": resources}
    return pod(name, containers=[container], resourceClaims=[{"name": "g", "resourceClaimName": claimed}], **spec)


def running(cpu: str, **status: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return pod("u", containers=[container], nodeName="n1", status=status)


def held(user: str) -> dict[str, Any]:
    result = {"request": "r", "driver": DRIVER, "pool": "n1", "device": "d0"}
    consumer = {"resource": "pods", "name": user, "uid": f"{user}-uid"}
    return {**claim(), "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}}


TWO = {"mapping": {"deviceMultiplier": "2"}}
COST = {"overhead": {"perPod": "500m", "perContainer": "250m"}}
SHARED = {
    "name": "d0",
    "allowMultipleAllocations": True,
    "capacity": {"mem": {"value": "8Gi", "requestPolicy": {"default": "4Gi"}}},
}
MEMORY = {"mapping": {"capacityKey": "mem", "capacityMultiplier": "1"}}


def sharing(times: str) -> dict[str, Any]:
    """Make a device of which parts can be had, each of them so many times as much memory of the node."""
    mapping = {"mapping": {"capacityKey": "mem", "capacityMultiplier": times}}
    return devices({**SHARED, "nodeAllocatableResources": {"memory": mapping}})


SECOND = device("ResourceClaim", "b", devices={"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]})
CASES: dict[str, tuple[Objects, list[str]]] = {
    "what is left suffices": ([standing(cpu=TWO), claim(), running("1"), asking()], ["n1"]),
    "it does not": ([standing(cpu=TWO), claim(), running("2"), asking()], [SHORT]),
    "no node has as much": (
        [standing(cpu={"mapping": {"deviceMultiplier": "8"}}), claim(), asking()],
        [turned_down("Insufficient cpu")],
    ),
    "what a share consumes counts": ([sharing("1"), claim(), asking()], ["n1"]),
    "times what it stands for": (
        [sharing("3"), claim(), asking()],
        [turned_down("Insufficient memory")],
    ),
    "a capacity of which nothing is consumed": (
        [standing(memory=MEMORY), claim(), asking()],
        [
            'running "DynamicResources" filter plugin: claim default/a, device d0: ConsumedCapacity is nil, but '
            "Capacity key 'mem' is set in NodeAllocatableResources for resource memory"
        ],
    ),
    "a mapped device is nobody else's": (
        [standing(cpu=TWO), held("other"), asking()],
        [turned_down("node allocatable resource claim a has a mapped device and cannot be shared across pods")],
    ),
    "one that only costs something may be": ([standing(cpu=COST), held("other"), asking()], ["n1"]),
    "containers count that use it": ([standing(cpu=COST), claim(), running("2500m"), asking()], [SHORT]),
    "others do not": ([standing(cpu=COST), claim(), running("2500m"), asking(uses=False)], ["n1"]),
    "the pod as a whole has too little": (
        [standing(cpu=TWO), claim(), asking(resources={"requests": {"cpu": "2"}})],
        [turned_down(f"pod level request for cpu {LEVEL}")],
    ),
    "it has enough, and no more is counted": (
        [standing(cpu=TWO), claim(), running("1"), asking(resources={"requests": {"cpu": "3"}})],
        ["n1"],
    ),
    "its limit is too low for a container": (
        [standing(cpu=TWO), claim(), asking(limit="2", resources={"requests": {"cpu": "3"}, "limits": {"cpu": "3"}})],
        [turned_down("pod level limit for cpu is insufficient to cover the limit and DRA overhead for container c")],
    ),
    "the next pod finds less": (
        [
            devices(*({"name": f"d{i}", "nodeAllocatableResources": {"cpu": TWO}} for i in range(2))),
            claim(),
            SECOND,
            asking("p1", cpu="500m"),
            asking("p2", cpu="500m", claimed="b"),
        ],
        ["n1", SHORT],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("objects", "want"), CASES.values(), ids=CASES)
def test_what_becomes_of_pods(objects: Objects, want: list[str]) -> None:
    assert fates(*objects) == want


def test_with_the_gate_off_devices_are_just_devices() -> None:
    assert fates(standing(cpu=TWO), claim(), running("2"), asking(), gates={}) == ["n1"]


def test_ordinary_preemption_can_help() -> None:
    (message,) = fates(standing(cpu=TWO), claim(), running("2"), asking(priority=10))
    assert message.endswith("found a potential placement for pod on node n1, preempting 1 victims")


def test_what_a_status_says_counts_on_the_node() -> None:
    status = {
        "resourceClaimName": "z",
        "containers": ["c"],
        "mapping": [{"name": "cpu", "quantity": "1"}],
        "overhead": [{"name": "cpu", "perPod": "250m", "perContainer": "250m"}],
    }
    told = running("1", nodeAllocatableResourceClaimStatuses=[status])
    found = decode(Pod, msgspec.json.encode(told))
    assert (found.requests["cpu"], found.requests_on_node["cpu"]) == (1000, 2500)
    assert fates(
        told, asking(cpu="1600m", uses=False) | {"spec": {"containers": asking(cpu="1600m")["spec"]["containers"]}}
    ) == [SHORT]
