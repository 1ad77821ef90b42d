"""Parts of pending situations: taints, volumes, claims and devices as plain data."""

from typing import Any, Final

from tests.unit.insight.explain.clusters import ZONE, Object, node, pod

GPU: Final = "nvidia.com/gpu"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Object:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def gpu_node(name: str, count: str) -> Object:
    made = node(name)
    made["status"]["allocatable"][GPU] = count
    return made


def affinity(key: str, *values: str) -> Object:
    expression = {"key": key, "operator": "In", "values": list(values)}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


def claim(name: str, *, volume: str = "", storage: str = "10Gi", storage_class: str = "") -> Object:
    spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    spec |= {"volumeName": volume} if volume else {}
    spec["storageClassName"] = storage_class
    metadata: Object = {"name": name}
    if volume:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    status = {"phase": "Bound" if volume else "Pending"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, "status": status}


def volume(name: str, zone: str = "", *, storage: str = "10Gi", claimed_by: str = "") -> Object:
    spec: Object = {"capacity": {"storage": storage}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    if zone:
        expression = {"key": ZONE, "operator": "In", "values": [zone]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    if claimed_by:
        spec["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": claimed_by}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def mounting(name: str, **spec: Any) -> Object:
    """Return the pod ``p`` with a mounted claim."""
    made = pod("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": name}}], **spec)
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return made


def storage_class(name: str, *, mode: str = "WaitForFirstConsumer", zones: tuple[str, ...] = ()) -> Object:
    expressions = [{"key": ZONE, "values": list(zones)}]
    topologies = {"allowedTopologies": [{"matchLabelExpressions": expressions}]} if zones else {}
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return {**head, "provisioner": "disk.example.org", "volumeBindingMode": mode, **topologies}


def sized_node(name: str, amounts: Object, **options: Any) -> Object:
    made = node(name, **options)
    made["status"]["allocatable"] |= amounts
    return made


def priority_class(name: str, value: int, **options: Any) -> Object:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**head, "value": value, **options}


def device_class(name: str = "gpu") -> Object:
    selectors = [{"cel": {"expression": "device.driver == 'gpu.example'"}}]
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}}
    return {**head, "spec": {"selectors": selectors}}


def device_slice(on: str, count: int = 1) -> Object:
    """Return devices of the model a100 with 40Gi."""
    devices = [
        {
            "name": f"d{number}",
            "attributes": {"model": {"string": "a100"}},
            "capacity": {"memory": {"value": "40Gi"}},
        }
        for number in range(count)
    ]
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"{on}-gpu"}}
    return {**head, "spec": {"driver": "gpu.example", "nodeName": on, "devices": devices, "pool": pool}}


def device_claim(expression: str = "", *, count: int = 1, of: str = "gpu", name: str = "c") -> Object:
    exactly: Object = {"deviceClassName": of, "allocationMode": "ExactCount", "count": count}
    exactly |= {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    metadata = {"name": name, "namespace": "default"}
    return {**head, "metadata": metadata, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}


def computing(name: str = "c") -> Object:
    """Return the pod ``p`` with a claim of devices."""
    made = pod("p", resourceClaims=[{"name": "c", "resourceClaimName": name}])
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": "c"}]
    return made


def running(made: Object, name: str, on: str = "n1") -> Object:
    """Return a pod under another name on a node."""
    spec = {**made["spec"], "nodeName": on}
    return {**made, "metadata": {**made["metadata"], "name": name}, "spec": spec, "status": {"phase": "Running"}}


def controlled(made: Object, kind: str = "ReplicaSet", name: str = "web-1") -> Object:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [owner]}}
