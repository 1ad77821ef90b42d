"""Small clusters with other placements without a feature gate, one for every gate with an effect.

`python -m tests.parity.gate_clusters` runs kube-scheduler on each, with the gate on and off, and records the results.
"""

from typing import Any, Final, NamedTuple

from tests.conformance import goldens
from tests.conformance.generator import Case
from tests.conformance.oracle import Oracle

from moorage.common.version import RELEASE

Object = dict[str, Any]
DRIVER: Final = "gpu.example.com"


def node(name: str = "n1", **status: Any) -> Object:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    labels = {"kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable, **status},
    }


def pod(name: str = "p", *, status: Object | None = None, labels: Object | None = None, **spec: Any) -> Object:
    metadata = {"name": name, "labels": labels or {}}
    complete = {"containers": [{"name": "c", "image": "i"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": complete, "status": status or {}}


def device(kind: str, name: str, **spec: Any) -> Object:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def devices(*items: Object, name: str = "s1", slices: int = 1, **spec: Any) -> Object:
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": slices}
    content = {"devices": [*items]} if items else {}
    return device("ResourceSlice", name, driver=DRIVER, nodeName="n1", pool=pool, **content, **spec)


def storage(kind: str, name: str, *, group: str = "v1", **content: Any) -> Object:
    version = group if group == "v1" else f"{group}/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **content}


GPU: Final = device("DeviceClass", "gpu", selectors=[{"cel": {"expression": f'device.driver == "{DRIVER}"'}}])
TAINT: Final = {"key": "broken", "effect": "NoSchedule"}
COUNTER: Final = {"memory": {"value": "10Gi"}}
SHARED: Final = {
    "name": "shared",
    "allowMultipleAllocations": True,
    "capacity": {"memory": {"value": "10", "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}}}},
}
FRACTIONAL: Final = {
    "name": "shared",
    "allowMultipleAllocations": True,
    "capacity": {
        "memory": {"value": "1500m", "requestPolicy": {"default": "1", "validRange": {"min": "500m", "step": "500m"}}}
    },
}


CONDITIONAL: Final = {"name": "d0", "bindingConditions": ["ready"], "bindingFailureConditions": ["no"]}


def claim(**devices_requested: Any) -> Object:
    exactly = {"deviceClassName": "gpu", **devices_requested}
    return device("ResourceClaim", "a", devices={"requests": [{"name": "r", "exactly": exactly}]})


def claiming(name: str = "p") -> Object:
    return pod(name, resourceClaims=[{"name": "g", "resourceClaimName": "a"}])


def with_devices(slices: list[Object], batch: Object | None = None) -> list[Object]:
    return [node(), GPU, *slices, claim(**batch or {}), claiming()]


def partitions() -> list[Object]:
    half = {"counterSet": "board", "counters": {"memory": {"value": "8Gi"}}}
    parts = [{"name": name, "consumesCounters": [half]} for name in ("d0", "d1")]
    counters = devices(name="s0", slices=2, sharedCounters=[{"name": "board", "counters": COUNTER}])
    return [counters, devices(*parts, slices=2)]


def waiting_claim() -> list[Object]:
    """Make a claim with a volume that is not provisioned yet, and two nodes with more and less capacity for it."""
    capacities = [
        {
            **storage("CSIStorageCapacity", f"room-{name}", group="storage.k8s.io", capacity=room),
            "storageClassName": "late",
            "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": name}},
        }
        for name, room in (("n1", "20Gi"), ("n2", "100Gi"))
    ]
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late"}
    return [
        node("n1"),
        node("n2"),
        storage(
            "StorageClass",
            "late",
            group="storage.k8s.io",
            provisioner="csi.example.com",
            volumeBindingMode="WaitForFirstConsumer",
        ),
        storage("CSIDriver", "csi.example.com", group="storage.k8s.io", spec={"storageCapacity": True}),
        *capacities,
        storage("PersistentVolumeClaim", "data", spec={**spec, "resources": {"requests": {"storage": "10Gi"}}}),
        pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
    ]


def bound_volume() -> list[Object]:
    """Make a volume of a CSI driver that the only node does not run."""
    shared = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
    source = {"driver": "csi.example.com", "volumeHandle": "h"}
    owner = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data", "uid": "u"}
    volume = {**shared, "capacity": {"storage": "1Gi"}, "csi": source, "claimRef": owner}
    spec = {**shared, "volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}}
    bound = storage("PersistentVolumeClaim", "data", spec=spec, status={"phase": "Bound"})
    bound["metadata"] |= {"uid": "u", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    return [
        node(),
        storage("CSINode", "n1", group="storage.k8s.io", spec={"drivers": []}),
        storage("CSIDriver", "csi.example.com", group="storage.k8s.io", spec={"preventPodSchedulingIfMissing": True}),
        storage("PersistentVolume", "pv", spec=volume, status={"phase": "Bound"}),
        bound,
        pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
    ]


def spreading() -> list[Object]:
    """Make a pod that spreads among the pods of its revision only; the old revision fills the first node."""
    old = [pod(f"old-{i}", labels={"app": "web", "revision": "1"}, nodeName="n1") for i in range(2)]
    rule = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["revision"],
        "nodeAffinityPolicy": "Ignore",
    }
    spec: Object = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
    new = pod(labels={"app": "web", "revision": "2"}, topologySpreadConstraints=[rule], **spec)
    return [node("n1"), node("n2"), *old, new]


def resized() -> list[Object]:
    """Make a pod whose pod-level resize the kubelet has not carried out: it still uses more."""
    spec = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    fields = {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}
    status = {"phase": "Running", "resources": fields, "allocatedResources": {"cpu": "3"}}
    return [
        node(),
        pod("big", nodeName="n1", resources=spec, status=status),
        pod(resources={"requests": {"cpu": "2"}}),
    ]


def declaring() -> list[Object]:
    """Make a pod that needs a feature that its node does not declare."""
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]
    container = {"name": "c", "image": "i", "restartPolicy": "Never", "restartPolicyRules": rules}
    return [node(), pod(containers=[container])]


def extended() -> list[Object]:
    """Make a pod that requests devices by the name of a resource."""
    by_name = device("DeviceClass", "gpu", extendedResourceName="example.com/gpu", selectors=GPU["spec"]["selectors"])
    spec = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    container = {"name": "c", "image": "i", "resources": spec}
    return [node(), by_name, devices({"name": "d0"}), pod(containers=[container])]


def prioritized() -> list[Object]:
    """Make a claim with alternatives."""
    options = [{"name": "one", "deviceClassName": "gpu"}]
    expected = device("ResourceClaim", "a", devices={"requests": [{"name": "r", "firstAvailable": options}]})
    return [node(), GPU, devices({"name": "d0"}), expected, claiming()]


def numbered(*devices_: Object, **expected: Any) -> list[Object]:
    """Make a claim to two devices with the same number."""
    exactly = {"deviceClassName": "gpu", "count": 2, **expected}
    constraint = {"matchAttribute": f"{DRIVER}/numa"}
    spec = {"requests": [{"name": "r", "exactly": exactly}], "constraints": [constraint]}
    return [node(), GPU, devices(*devices_), device("ResourceClaim", "a", devices=spec), claiming()]


def grouped_partitions() -> list[Object]:
    """Make a claim to a partition with a compatibility constraint."""
    part = {"counterSet": "board", "counters": {"memory": {"value": "1Gi"}}, "compatibilityGroups": ["a"]}
    counters = devices(name="s0", slices=2, sharedCounters=[{"name": "board", "counters": COUNTER}])
    return with_devices([counters, devices({"name": "d0", "consumesCounters": [part]}, slices=2)])


class Example(NamedTuple):
    """A cluster, and the result of pod p with the gate on and off: its node, or the message.

    ``besides`` are the gates that are disabled with it; ``release`` is the last one that could disable it.
    """

    objects: list[Object]
    on: str
    off: str
    besides: tuple[str, ...] = ()
    release: str = RELEASE


NO_VICTIMS: Final = "No preemption victims found for incoming pod"
USELESS: Final = "Preemption is not helpful for scheduling"


def turned_down(why: str, preemption: str = USELESS) -> str:
    nodes = "0/1 nodes are available: 1"
    return f"{nodes} {why}. preemption: {nodes} {preemption}."


def failed(description: str) -> str:
    return f'running "DynamicResources" filter plugin: claim default/a, request r: {description}'


NO_DEVICE: Final = turned_down("cannot allocate all claims")
NO_CPU: Final = "Insufficient cpu"
CLUSTERS: Final = {
    "DRADeviceTaints": Example(
        with_devices([devices({"name": "d0", "taints": [TAINT]})]), NO_DEVICE, "n1", ("DRADeviceTaintRules",)
    ),
    "DRADeviceTaintRules": Example(
        [
            *with_devices([devices({"name": "d0"})]),
            device("DeviceTaintRule", "rule", deviceSelector={"driver": DRIVER}, taint=TAINT),
        ],
        NO_DEVICE,
        "n1",
    ),
    "DRAPartitionableDevices": Example(with_devices(partitions()), "n1", NO_DEVICE),
    "DRAConsumableCapacity": Example(
        with_devices([devices(SHARED)], {"capacity": {"requests": {"memory": "2"}}}),
        "n1",
        failed("has capacity requests, but the DRAConsumableCapacity feature is disabled"),
    ),
    "DRAFractionalCapacityRange": Example(
        with_devices([devices(FRACTIONAL)], {"capacity": {"requests": {"memory": "1500m"}}}), "n1", NO_DEVICE
    ),
    "DRAListTypeAttributes": Example(
        numbered(*({"name": f"d{i}", "attributes": {"numa": {"ints": [i, 1]}}} for i in (0, 2))), "n1", NO_DEVICE
    ),
    "DRADerivedAttributes": Example(
        numbered({"name": "d0"}, {"name": "d1"}, derivedAttributes=[{"name": f"{DRIVER}/numa", "expression": "1"}]),
        "n1",
        failed("cannot handle request with derived attributes, the feature is disabled"),
    ),
    "DRANodeAllocatableResources": Example(
        with_devices(
            [devices({"name": "d0", "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "8"}}}})]
        ),
        turned_down(NO_CPU),
        "n1",
    ),
    "DRADeviceCompatibilityGroups": Example(grouped_partitions(), "n1", NO_DEVICE),
    "DRAOptionalNodeOperations": Example(
        with_devices([devices({"name": "d0"}, skipNodeOperations=["*"])]), NO_DEVICE, "n1"
    ),
    "DRADeviceBindingConditions": Example(with_devices([devices(CONDITIONAL)]), "n1", NO_DEVICE),
    "DRAResourceClaimDeviceStatus": Example(
        with_devices([devices(CONDITIONAL)]), "n1", NO_DEVICE, ("DRADeviceBindingConditions",), release="1.36"
    ),
    "DRAExtendedResource": Example(extended(), "n1", turned_down("Insufficient example.com/gpu"), release="1.36"),
    "DRAAdminAccess": Example(
        with_devices([devices({"name": "d0"})], {"adminAccess": True}),
        "n1",
        failed("admin access is requested, but the feature is disabled"),
        release="1.35",
    ),
    "DRAPrioritizedList": Example(
        prioritized(),
        "n1",
        "0/1 nodes are available: resource claim default/a, request r: has subrequests, but the DRAPrioritizedList "
        f"feature is disabled. preemption: 0/1 nodes are available: 1 {USELESS}.",
        release="1.36",
    ),
    "NodeDeclaredFeatures": Example(
        declaring(),
        turned_down("node(s) didn't match Pod's required features"),
        "n1",
        ("InPlacePodLevelResourcesVerticalScaling", "RestartAllContainersOnContainerExits"),
        release="1.36",
    ),
    "TaintTolerationComparisonOperators": Example(
        [
            {**node(), "spec": {"taints": [{"key": "sla", "value": "950", "effect": "NoSchedule"}]}},
            pod(tolerations=[{"key": "sla", "operator": "Gt", "value": "900"}]),
        ],
        "n1",
        turned_down("node(s) had untolerated taint(s)"),
    ),
    "StorageCapacityScoring": Example(waiting_claim(), "n2", "n1"),
    "VolumeLimitScaling": Example(
        bound_volume(), turned_down("csi.example.com CSI driver is not installed on the node", NO_VICTIMS), "n1"
    ),
    "PodLevelResources": Example(
        [node(), pod(resources={"requests": {"cpu": "5"}})],
        turned_down(NO_CPU),
        "n1",
        (
            "InPlacePodLevelResourcesVerticalScaling",
            "PodLevelResourcesFixDefaulting",
            "PodLevelResourcesFixKubeletQOSClass",
        ),
    ),
    "InPlacePodLevelResourcesVerticalScaling": Example(resized(), turned_down(NO_CPU, NO_VICTIMS), "n1"),
    "MatchLabelKeysInPodTopologySpread": Example(
        spreading(),
        "n1",
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) didn't match pod "
        f"topology spread constraints. preemption: 0/2 nodes are available: 1 {NO_VICTIMS}, 1 {USELESS}.",
        ("MatchLabelKeysInPodTopologySpreadSelectorMerge",),
    ),
}


def settings(gate: str, *, on: bool) -> dict[str, bool]:
    """Return the gates to set so that a gate is on or off."""
    return {gate: True} if on else dict.fromkeys((gate, *CLUSTERS[gate].besides), False)


def main() -> None:
    """Record the decisions of kube-scheduler, where it can still set the gate."""
    gates = [gate for gate, example in CLUSTERS.items() if example.release == RELEASE]
    cases = [
        Case(f"{gate} is {'on' if on else 'off'}", CLUSTERS[gate].objects, feature_gates=settings(gate, on=on))
        for gate in gates
        for on in (True, False)
    ]
    with Oracle() as oracle:
        goldens.write(
            goldens.DIRECTORY / "gates.jsonl.gz", [goldens.Golden(case, oracle.decide(case)) for case in cases]
        )


if __name__ == "__main__":
    main()
