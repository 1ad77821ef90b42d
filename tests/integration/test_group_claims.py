"""Device claims that the pods of a group share: created once, allocated once, and reserved for the group.

D numbers are rows of the reference.
"""

from typing import Any

import pytest

from moorage.kube.api.devices import ResourceClaim
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.pod_groups import PodGroup
from moorage.kube.api.records import Event
from moorage.testing import Cluster, in_virtual_time

GATES = "GenericWorkload=true"
CLAIMS = f"{GATES},DRAWorkloadResourceClaims=true"
DRIVER = "gpu.example.com"
ENTRY = {"name": "gpu", "resourceClaimTemplateName": "one"}


def thing(kind: str, name: str, version: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    where = {} if kind in ("ResourceSlice", "DeviceClass") else {"namespace": "default"}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **where, **metadata}, "spec": spec}


def device(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return thing(kind, name, "resource.k8s.io/v1", spec)


def devices(node: str, count: int) -> dict[str, Any]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    selected = [{"name": f"d{number}"} for number in range(count)]
    return device("ResourceSlice", f"on-{node}", driver=DRIVER, nodeName=node, pool=pool, devices=selected)


ASKED = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
BASICS = (
    device("DeviceClass", "gpu", selectors=[{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]),
    thing("ResourceClaimTemplate", "one", "resource.k8s.io/v1", {"spec": ASKED}),
    device("ResourceClaim", "fabric", **ASKED),
)


def group(*entries: dict[str, str], count: int = 2) -> dict[str, Any]:
    spec = {"schedulingPolicy": {"gang": {"minCount": count}}, "resourceClaims": list(entries)}
    return thing("PodGroup", "g", "scheduling.k8s.io/v1beta1", spec)


def member(name: str, *entries: dict[str, str], cpu: str = "1") -> dict[str, Any]:
    uses = [{"name": entry["name"]} for entry in entries]
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}, "claims": uses}}
    spec = {
        "containers": [container],
        "schedulingGroup": {"podGroupName": "g"},
        "resourceClaims": list(entries),
        "terminationGracePeriodSeconds": 0,
    }
    return thing("Pod", name, "v1", spec)


def users(cluster: Cluster) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the pods for which each claim is reserved."""
    return [
        (
            claim.name.rpartition("-")[0] or claim.name,
            [(user.resource, user.name) for user in claim.status.reserved_for],
        )
        for claim in cluster.objects(ResourceClaim)
        if claim.status.reserved_for
    ]


@in_virtual_time
async def test_claim_of_the_group_is_reserved_for_the_group_once() -> None:
    async with Cluster(nodes=2, feature_gates=CLAIMS) as cluster:
        await cluster.apply(*BASICS, devices("node-1", 4), devices("node-2", 4), group(ENTRY))
        await cluster.apply(member("a", ENTRY), member("b", ENTRY))
        await cluster.wait_for(lambda: len(cluster.running()) == 2)
        assert users(cluster) == [("g-gpu", [("podgroups", "g")])]
        assert len({pod.node_name for pod in cluster.pods()}) == 1, "the devices are on one node"
        (stored_group,) = cluster.objects(PodGroup)
        (claim,) = [item for item in cluster.objects(ResourceClaim) if item.name != "fabric"]
        assert [status.resource_claim_name for status in stored_group.status.resource_claim_statuses] == [claim.name]
        for name in ("a", "b"):
            await cluster.delete(member(name, ENTRY))
        await cluster.wait_for(lambda: not cluster.pods())
        await cluster.sleep(30)
        assert users(cluster) == [("g-gpu", [("podgroups", "g")])], "the stored_group keeps it when pods end"
        await cluster.client.request("DELETE", BY_TYPE[PodGroup].path("g", "default"))
        await cluster.wait_for(lambda: [item.name for item in cluster.objects(ResourceClaim)] == ["fabric"])


@in_virtual_time
async def test_claim_of_a_pod_is_reserved_for_each_pod() -> None:
    own, shared = {**ENTRY, "name": "mine"}, {"name": "net", "resourceClaimName": "fabric"}
    async with Cluster(nodes=1, feature_gates=CLAIMS) as cluster:
        await cluster.apply(*BASICS, devices("node-1", 4), group(shared))
        await cluster.apply(member("a", shared, own), member("b", shared, own))
        await cluster.wait_for(lambda: len(cluster.running()) == 2)
        assert users(cluster) == [
            ("a-mine", [("pods", "a")]),
            ("b-mine", [("pods", "b")]),
            ("fabric", [("podgroups", "g")]),
        ]


@in_virtual_time
async def test_disabled_gate_reserves_a_named_claim_for_the_pods() -> None:
    shared = {"name": "net", "resourceClaimName": "fabric"}
    async with Cluster(nodes=2, feature_gates=GATES) as cluster:
        await cluster.apply(*BASICS, devices("node-1", 1), group())
        await cluster.apply(member("a", shared), member("b", shared))
        await cluster.wait_for(lambda: len(cluster.running()) == 2)
        ((name, result),) = users(cluster)
        assert (name, sorted(result)) == ("fabric", [("pods", "a"), ("pods", "b")])


@in_virtual_time
async def test_claim_under_another_name_is_reserved_for_the_pod() -> None:
    async with Cluster(nodes=1, feature_gates=CLAIMS) as cluster:
        other = {"name": "other", "resourceClaimName": "fabric"}
        await cluster.apply(*BASICS, devices("node-1", 4), group({"name": "net", "resourceClaimName": "fabric"}))
        await cluster.apply(member("a", other), member("b", other))
        await cluster.wait_for(lambda: len(cluster.running()) == 2)
        ((_, result),) = users(cluster)
        assert sorted(result) == [("pods", "a"), ("pods", "b")]


@pytest.mark.parametrize("away", [True, False])
def test_infeasible_group_releases_its_claim(away: bool) -> None:
    """Unreachable devices are deallocated; reachable ones are no longer reserved."""

    @in_virtual_time
    async def story() -> None:
        shared = {"name": "net", "resourceClaimName": "fabric"}
        async with Cluster(nodes=1, shape="cpu=2,memory=8Gi,pods=10", feature_gates=CLAIMS) as cluster:
            await cluster.apply(*BASICS, devices("node-1", 1), group(shared))
            (pod,) = cluster.objects(PodGroup)
            result = {"request": "r", "driver": DRIVER, "pool": "node-1", "device": "d0"}
            where = {"key": "metadata.name", "operator": "In", "values": ["gone" if away else "node-1"]}
            terms = {"nodeSelectorTerms": [{"matchFields": [where]}]}
            user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": pod.uid}
            allocation = {"devices": {"results": [result]}, "nodeSelector": terms}
            claim = cluster.find(ResourceClaim, "fabric")
            assert claim is not None
            status = {"allocation": allocation, "reservedFor": [user]}
            await cluster.client.patch(claim, {"status": status}, subresource="status")
            await cluster.sleep(1)
            await cluster.apply(member("a", shared, cpu="2"), member("b", shared, cpu="2"))
            await cluster.wait_for(lambda: not users(cluster))
            claim = cluster.find(ResourceClaim, "fabric")
            assert claim is not None
            assert not cluster.running(), "two pods of 2 CPUs do not fit on one node of 2"

    story()


@in_virtual_time
async def test_each_pod_of_a_gang_gets_a_device_at_the_first_attempt() -> None:
    async with Cluster(nodes=2, feature_gates=CLAIMS) as cluster:
        await cluster.apply(*BASICS, devices("node-1", 1), devices("node-2", 1), group())
        await cluster.apply(member("a", ENTRY), member("b", ENTRY))
        await cluster.wait_for(lambda: len(cluster.running()) == 2)
        assert {pod.node_name for pod in cluster.pods()} == {"node-1", "node-2"}
        events = await cluster.client.list(Event, "default")
        assert "FailedScheduling" not in [event.reason for event in events]
