"""Devices that map to resources of their node: amounts, rejections, and usage.

kube-scheduler's results for the same clusters are equal; D numbers are rows of the reference.
"""

from typing import Any

import msgspec
import pytest
from tests.parity.gate_clusters import DRIVER, GPU, claim, device, devices, node, pod, turned_down

from moorage.cluster.dry_run import DryRun
from moorage.cluster.files.loading import build_cluster_input
from moorage.kube.api.codec import decode
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.decisions.decision import to_builtins
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.wiring.policy import load_policy
from moorage.testing import Cluster, in_virtual_time

GATES = {"DRANodeAllocatableResources": True, "SchedulerAsyncPreemption": False}
NO_VICTIMS = "No preemption victims found for incoming pod"
SHORT = turned_down("Insufficient cpu", NO_VICTIMS)
LEVEL = "is insufficient to cover the aggregated container and node-allocatable DRA requests"
Objects = list[dict[str, Any]]


def fates(*objects: dict[str, Any], gates: dict[str, bool] | None = None) -> list[str]:
    """Return the node of each pod that waits, or why it got none."""
    features = FeatureGates(GATES if gates is None else gates)
    cluster = build_cluster_input([node(), GPU, *objects], features=features)
    policy = load_policy(Registry(IN_TREE), features=features)
    decisions = to_builtins(DryRun(cluster, policy, cross_check=True).run())["decisions"]
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


def held(*users: str, on: str = "", names: tuple[str, ...] = ("d0",)) -> dict[str, Any]:
    results = [{"request": "r", "driver": DRIVER, "pool": "n1", "device": name} for name in names]
    allocation: dict[str, Any] = {"devices": {"results": results}}
    if on:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [term]}
    consumers = [{"resource": "pods", "name": user, "uid": f"{user}-uid"} for user in users]
    return {**claim(), "status": {"allocation": allocation, "reservedFor": consumers}}


def known(name: str) -> dict[str, Any]:
    """Make a pod with a UID for claims."""
    created = asking(name)
    return {**created, "metadata": {**created["metadata"], "uid": f"{name}-uid"}}


TWO = {"mapping": {"deviceMultiplier": "2"}}
TWICE = {"overhead": {"perPod": "2"}}
COST = {"overhead": {"perPod": "500m", "perContainer": "250m"}}
SHARED = {
    "name": "d0",
    "allowMultipleAllocations": True,
    "capacity": {"mem": {"value": "8Gi", "requestPolicy": {"default": "4Gi"}}},
}
MEMORY = {"mapping": {"capacityKey": "mem", "capacityMultiplier": "1"}}


def sharing(times: str) -> dict[str, Any]:
    """Make a shareable device with a capacity that maps to a multiple of node memory."""
    mapping = {"mapping": {"capacityKey": "mem", "capacityMultiplier": times}}
    return devices({**SHARED, "nodeAllocatableResources": {"memory": mapping}})


SECOND = device("ResourceClaim", "b", devices={"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]})
CASES: dict[str, tuple[Objects, list[str]]] = {
    "D8 what is left suffices": ([standing(cpu=TWO), claim(), running("1"), asking()], ["n1"]),
    "D8 it does not": ([standing(cpu=TWO), claim(), running("2"), asking()], [SHORT]),
    "no node has as much": (
        [standing(cpu={"mapping": {"deviceMultiplier": "8"}}), claim(), asking()],
        [turned_down("Insufficient cpu")],
    ),
    "D9 what a share consumes counts": ([sharing("1"), claim(), asking()], ["n1"]),
    "multiplied by its quantity": (
        [sharing("3"), claim(), asking()],
        [turned_down("Insufficient memory")],
    ),
    "an unconsumed capacity": (
        [standing(memory=MEMORY), claim(), asking()],
        [
            'running "DynamicResources" filter plugin: claim default/a, device d0: ConsumedCapacity is nil, but '
            "Capacity key 'mem' is set in NodeAllocatableResources for resource memory"
        ],
    ),
    "D10 a mapped device is not shared": (
        [standing(cpu=TWO), held("other"), asking()],
        [turned_down("node allocatable resource claim a has a mapped device and cannot be shared across pods")],
    ),
    "a mapped device that the pod is one user of": ([standing(cpu=TWO), held("other", "p"), known("p")], ["n1"]),
    "an inaccessible device of any owner": (
        [standing(cpu=TWO), held("other", on="n9"), asking()],
        [turned_down("resourceclaim not available on the node")],
    ),
    "what the devices of a claim cost adds up": (
        [
            devices(*({"name": f"d{i}", "nodeAllocatableResources": {"cpu": TWICE}} for i in range(2))),
            held("p", names=("d0", "d1")),
            known("p"),
        ],
        [turned_down("Insufficient cpu")],
    ),
    "a node that reaches one of the devices and not the other": (
        [standing(cpu=COST), held("p", names=("d0", "d9")), known("p")],
        [
            'running "DynamicResources" filter plugin: claim default/a, device d9, driver gpu.example.com: '
            "device d9 not found in pool n1 for driver gpu.example.com"
        ],
    ),
    "D10 one that only costs something may be": ([standing(cpu=COST), held("other"), asking()], ["n1"]),
    "containers count that use it": ([standing(cpu=COST), claim(), running("2500m"), asking()], [SHORT]),
    "D11 others do not": ([standing(cpu=COST), claim(), running("2500m"), asking(uses=False)], ["n1"]),
    "D11 the resources of a claim count even if no container uses it": (
        [standing(cpu=TWO), claim(), running("2"), asking(uses=False)],
        [SHORT],
    ),
    "D10 what it costs counts for each that shares it": (
        [standing(cpu=COST), held("other"), asking("p1"), asking("p2"), asking("p3")],
        ["n1", "n1", SHORT],
    ),
    "D12 the complete pod has too little": (
        [standing(cpu=TWO), claim(), asking(resources={"requests": {"cpu": "2"}})],
        [turned_down(f"pod level request for cpu {LEVEL}")],
    ),
    "it has enough, and the rest is not counted": (
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
def test_pod_outcomes(objects: Objects, want: list[str]) -> None:
    assert fates(*objects) == want


def test_with_the_gate_off_devices_are_just_devices() -> None:
    assert fates(standing(cpu=TWO), claim(), running("2"), asking(), gates={}) == ["n1"]


def test_ordinary_preemption_can_help() -> None:
    (message,) = fates(standing(cpu=TWO), claim(), running("2"), asking(priority=10))
    assert message.endswith("found a potential placement for pod on node n1, preempting 1 victims")


def test_the_claim_status_of_a_pod_counts_on_the_node() -> None:
    status = {
        "resourceClaimName": "z",
        "containers": ["c"],
        "mapping": [{"name": "cpu", "quantity": "1"}],
        "overhead": [{"name": "cpu", "perPod": "250m", "perContainer": "250m"}],
    }
    reported = running("1", nodeAllocatableResourceClaimStatuses=[status])
    result = decode(Pod, msgspec.json.encode(reported))
    assert (result.requests["cpu"], result.requests_on_node["cpu"]) == (1000, 2500)
    assert fates(
        reported, asking(cpu="1600m", uses=False) | {"spec": {"containers": asking(cpu="1600m")["spec"]["containers"]}}
    ) == [SHORT]


@in_virtual_time
async def test_node_resources_of_a_share_are_written_to_the_pod_and_counted() -> None:
    objects, requested, user = sharing("1"), claim(), asking()
    objects["spec"]["nodeName"] = "node-1"
    for obj in (requested, user):
        obj["metadata"]["namespace"] = "default"
    gates = "DRANodeAllocatableResources=true"
    async with Cluster(nodes=1, shape="cpu=4,memory=8Gi,pods=10", feature_gates=gates) as cluster:
        await cluster.apply(GPU, objects, requested, user)
        await cluster.wait_for(lambda: len(cluster.running()) == 1)
        result = cluster.pod("p")
        assert result is not None
        (reported,) = result.status.node_allocatable_resource_claim_statuses
        assert (reported.resource_claim_name, reported.containers) == ("a", ("c",))
        assert [(item.name, item.quantity) for item in reported.mapping] == [("memory", "4Gi")]
        assert cluster.embedded.scheduling is not None
        info = cluster.embedded.scheduling.scheduler.cache.node("node-1")
        assert info is not None
        assert info.requested["memory"] == 4 * 2**30
