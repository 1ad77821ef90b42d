"""The first suggestion for a pending workload, applied to a running cluster: its pod runs."""

from typing import Any, Final

from moorage.insight.explain.workloads import explain_workload
from moorage.insight.whatif.workload_pods import find_workload
from moorage.kube.patches import json_patch
from moorage.testing import Cluster, in_virtual_time
from tests.unit.insight.explain.clusters import Object, node, pod, session
from tests.unit.insight.explain.parts import claim, controlled, device_class, device_slice, volume

FAKE: Final = {"moorage.io/fake": "true"}
LIMIT: Final[Object] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSINode",
    "metadata": {"name": "n1"},
    "spec": {"drivers": [{"name": "disk.example.org", "nodeID": "n1", "allocatable": {"count": 1}}]},
}
TEMPLATE: Final[Object] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu-template", "namespace": "default"},
    "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
}


def deployment(name: str, **spec: Any) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {**pod("x")["spec"], **spec}}
    content = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": content}


def mounting(name: str) -> Object:
    source = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    return deployment(name, volumes=[source])


def csi_volume(name: str, of: str) -> Object:
    made = volume(name, claimed_by=of)
    spec = {key: item for key, item in made["spec"].items() if key != "hostPath"}
    return {**made, "spec": {**spec, "csi": {"driver": "disk.example.org", "volumeHandle": name}}}


def suggest(workload: Object, *objects: Object) -> list[dict[str, Any]]:
    """Return the edits of the first suggestion for a deployment."""
    with session(workload, *objects) as opened:
        found = find_workload(opened, f"deployment/{workload['metadata']['name']}", "default")
        assert found is not None
        explanation = explain_workload(opened, found)
        assert explanation.next is not None
        return list(explanation.next.changes[0].edits)


@in_virtual_time
async def test_new_node_gets_the_pod_that_exceeds_a_volume_limit() -> None:
    storage = [csi_volume("v1", "a"), csi_volume("v2", "b"), claim("a", volume="v1"), claim("b", volume="v2")]
    machine = node("n1", labels=FAKE)
    async with Cluster(nodes=0) as cluster:
        await cluster.apply(machine, LIMIT, *storage, mounting("a"))
        await cluster.wait_for(lambda: len(cluster.running("app=a")) == 1)
        await cluster.apply(mounting("b"))
        await cluster.sleep(5)
        (stuck,) = cluster.pods("app=b")
        assert not stuck.node_name
        first = controlled({**pod("a-1", on="n1", labels={"app": "a"}), "spec": _spec(mounting("a"), "n1")})
        second = controlled({**pod("b-1", labels={"app": "b"}), "spec": _spec(mounting("b"))}, name="b-1")
        edits = suggest(mounting("b"), machine, LIMIT, *storage, first, second)
        for edit in edits:
            await cluster.apply(edit["create"])
        await cluster.wait_for(lambda: len(cluster.running("app=b")) == 1, seconds=30)


@in_virtual_time
async def test_rollout_ends_after_the_correction_of_a_claim_template() -> None:
    uses = [{"name": "gpu", "resourceClaimTemplateName": "gpu-tmplate"}]
    machine, train = node("n1", labels=FAKE), deployment("train", resourceClaims=uses)
    objects = [machine, device_class(), device_slice("n1"), TEMPLATE]
    async with Cluster(nodes=0) as cluster:
        await cluster.apply(*objects, train)
        await cluster.wait_for(lambda: len(cluster.pods("app=train")) == 1)
        (stuck,) = cluster.pods("app=train")
        pending = controlled({**pod(stuck.name, labels={"app": "train"}), "spec": _spec(train)})
        (edit,) = suggest(train, *objects, pending)
        await cluster.apply(json_patch(train, edit["patch"]))
        await cluster.wait_for(
            lambda: [item.name != stuck.name for item in cluster.running("app=train")] == [True], seconds=30
        )
        await cluster.wait_for(lambda: len(cluster.pods("app=train")) == 1, seconds=30)


def _spec(workload: Object, on: str = "") -> Object:
    spec = workload["spec"]["template"]["spec"]
    return {**spec, **({"nodeName": on} if on else {})}
