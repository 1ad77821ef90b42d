"""Obstacles of a pod on each node."""

from tests.unit.insight.explain.clusters import Object, node, pod, session

from moorage.insight.explain.pods import explain_pod

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
    assert [(change.kind, change.node) for change in changes] == [("node-capacity", "n2")]
    assert changes[0].text == (
        "Install the device plugin of example.com/gone on node n2: no node has this resource, and the pod needs 3"
    )


def test_filter_failure_on_one_node_does_not_affect_other_nodes() -> None:
    """A pool with missing slices cannot allocate all devices; on a node that is too small, this filter never runs."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"},
             "spec": {"devices": {"requests": [request]}}}  # fmt: skip
    wants = pod("p", nodeSelector={"disk": "ssd"}, resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    objects = (node("n1", cpu="500m"), devices("n1", 1, pool_of=2), node("n2"), devices("n2", 1), BACKED, claim, wants)
    with session(*objects) as opened:
        changes = explain_pod(opened, "default/p").changes
    assert [(change.kind, change.node) for change in changes] == [
        *(("selector", "n2"), ("node-label", "n2"), ("add-node", "n2-new-1")),
    ]
