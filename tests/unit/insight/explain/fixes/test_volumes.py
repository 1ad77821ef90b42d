"""Fixes for volumes and devices."""

import pytest
from tests.unit.insight.explain.clusters import (
    CLAIM,
    Object,
    check_changes,
    node,
    pod,
)

SIZE = {"requests": {"storage": "1Gi"}}
BETTER = {"selectors": [{"cel": {"expression": "device.driver == 'better.example'"}}]}

OBSTACLES: dict[str, tuple[list[Object], list[str]]] = {
    "the claim does not exist": ([node("n1"), pod("p", volumes=CLAIM)], ["volume"]),
    "the class of the claim does not exist": (
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
        ["claim", "volume", "volume"],
    ),
    "the devices are of another model": (
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
        ["claim", "claim", "claim", "claim"],
    ),
}


@pytest.mark.parametrize(("objects", "kinds"), OBSTACLES.values(), ids=OBSTACLES)
def test_obstacle_has_its_changes(objects: list[Object], kinds: list[str]) -> None:
    check_changes(objects, kinds)
