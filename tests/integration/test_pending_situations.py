"""More pending situations of an operator: the first suggestion is the usual fix, and works when applied."""

from typing import Any, Final

import pytest

from moorage.insight.explain.pods import explain_pod
from tests.unit.insight.explain.clusters import HOSTNAME, ZONE, Object, node, outcome, pod, session
from tests.unit.insight.explain.parts import (
    GPU,
    REQUIRED,
    affinity,
    claim,
    computing,
    controlled,
    device_claim,
    device_class,
    device_slice,
    mounting,
    priority_class,
    running,
    sized_node,
    storage_class,
    taint,
    volume,
)

ARCH: Final = "kubernetes.io/arch"
OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
OS: Final = "kubernetes.io/os"
WEB: Final = {"app": "web"}
CORDON: Final[Any] = {"unschedulable": True, "taints": [taint("node.kubernetes.io/unschedulable")]}
UNREACHABLE: Final = [taint("node.kubernetes.io/unreachable"), taint("node.kubernetes.io/unreachable", "NoExecute")]
CONTROL_PLANE: Final = [taint("node-role.kubernetes.io/control-plane")]
HOST_PORT: Final = [{"name": "main", "image": "app", "ports": [{"containerPort": 443, "hostPort": 443}]}]
HUGE: Final = {"hugepages-2Mi": "1Gi", "memory": "1Gi", "cpu": "1"}
SPREAD: Final[Object] = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}


def near(key: str = HOSTNAME, **labels: str) -> Object:
    return {"podAffinity": {REQUIRED: [{"topologyKey": key, "labelSelector": {"matchLabels": labels}}]}}


def apart(**labels: str) -> Object:
    return {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}]}}


def on_names(*names: str) -> Object:
    field = {"key": "metadata.name", "operator": "In", "values": list(names)}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}}


def csi_volume(name: str, of: str) -> Object:
    made = volume(name, claimed_by=of)
    spec = {key: item for key, item in made["spec"].items() if key != "hostPath"}
    return {**made, "spec": {**spec, "csi": {"driver": "disk.example.org", "volumeHandle": name}}}


def local_volume(name: str, of: str, on: str) -> Object:
    made = volume(name, claimed_by=of)
    expression = {"key": HOSTNAME, "operator": "In", "values": [on]}
    made["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return made


def exclusive(made: Object) -> Object:
    return {**made, "spec": {**made["spec"], "accessModes": ["ReadWriteOncePod"]}}


def terminating(made: Object) -> Object:
    return {**made, "metadata": {**made["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def claim_template(*, of: str = "gpu", count: int = 1) -> Object:
    made = device_claim(of=of, count=count, name="t")
    return {**made, "kind": "ResourceClaimTemplate", "spec": {"spec": made["spec"]}}


def templated(name: str = "t") -> Object:
    made = computing()
    made["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": name}]
    return made


def tainted(made: Object) -> Object:
    made["spec"]["devices"][0]["taints"] = [{"key": "example.org/broken", "effect": "NoSchedule"}]
    return made


def unlabeled(made: Object) -> Object:
    del made["metadata"]["labels"][ZONE]
    return made


SIDECAR: Final[Object] = {
    "name": "proxy",
    "image": "proxy",
    "restartPolicy": "Always",
    "resources": {"requests": {"cpu": "2"}},
}
DELETED_CLAIM: Final[Object] = {
    **claim("data", volume="pv"),
    "metadata": {
        "name": "data",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["kubernetes.io/pvc-protection"],
    },
}
ATTACH_LIMIT: Final[Object] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSINode",
    "metadata": {"name": "n1"},
    "spec": {"drivers": [{"name": "disk.example.org", "nodeID": "n1", "allocatable": {"count": 1}}]},
}
REDIS: Final = pod("redis", on="n1", labels={"app": "redis"})

SITUATIONS: Final[dict[str, tuple[list[Object], str, str]]] = {
    "a device has too little memory": (
        [
            *(node("n1"), device_class(), device_slice("n1"), computing()),
            device_claim("device.capacity['gpu.example'].memory.compareTo(quantity('80Gi')) >= 0"),
        ],
        "claim",
        "Change memory from 80Gi to 40Gi in the selector of request r of the claim c (devices have 40Gi)",
    ),
    "devices are of another model": (
        [
            *(node("n1"), device_class(), device_slice("n1"), computing()),
            device_claim("device.attributes['gpu.example'].model == 'h100'"),
        ],
        "claim",
        "Change model from h100 to a100 in the selector of request r of the claim c (devices have a100)",
    ),
    "a device class is misspelt": (
        [
            node("n1"),
            device_class("gpu.example.com"),
            device_slice("n1"),
            device_claim(of="gpu.exmaple.com"),
            computing(),
        ],
        "claim",
        "Change the device class of request r of the claim c from gpu.exmaple.com to gpu.example.com",
    ),
    "a claim of devices does not exist": (
        [node("n1"), device_class(), device_slice("n1"), computing()],
        "claim",
        "Create the claim c with a request for a device of the class gpu",
    ),
    "the name of a claim of devices is misspelt": (
        [node("n1"), device_class(), device_slice("n1"), device_claim(name="trainer"), computing("trianer")],
        "claim",
        "Change the name of its claim from trianer to trainer",
    ),
    "more devices are claimed than a node has": (
        [node("n1"), device_class(), device_slice("n1", 2), device_claim(count=4), computing()],
        "claim",
        "Request 2 instead of 4 devices",
    ),
    "the nodes in the zone of a volume are full": (
        [
            *(node("n1", zone="z1"), node("n2", zone="z2"), volume("pv", "z1", claimed_by="data")),
            *(claim("data", volume="pv"), controlled(pod("a", on="n1", requests={"cpu": "4"})), mounting("data")),
        ],
        "add-node",
        "Add a node like n1",
    ),
    "the zone of a volume has no nodes": (
        [node("n2", zone="z2"), volume("pv", "z1", claimed_by="data"), claim("data", volume="pv"), mounting("data")],
        "add-node",
        f"Add a node like n2 with {ZONE}=z1, for the volume pv",
    ),
    "the node of a local volume was deleted": (
        [node("n2"), local_volume("pv", "data", "n1"), claim("data", volume="pv"), mounting("data")],
        "add-node",
        "Add node n1, for the volume pv",
    ),
    "the node of a local volume is cordoned": (
        [
            *(node("n1", **CORDON), node("n2"), local_volume("pv", "data", "n1")),
            *(claim("data", volume="pv"), mounting("data")),
        ],
        "cordon",
        "Uncordon node n1",
    ),
    "a storage class provisions in another zone only": (
        [node("n1"), storage_class("zonal", zones=("z9",)), claim("data", storage_class="zonal"), mounting("data")],
        "claim",
        f"Allow {ZONE}=z1 in the storage class zonal, which allows z9",
    ),
    "another pod uses the claim exclusively": (
        [
            *(node("n1"), exclusive(volume("pv", claimed_by="data")), exclusive(claim("data", volume="pv"))),
            *(running(mounting("data"), "a"), mounting("data")),
        ],
        "delete-pod",
        "Delete default/a",
    ),
    "a storage class is misspelt": (
        [
            *(node("n1"), storage_class("archive"), storage_class("fast-ssd")),
            *(claim("data", storage_class="fast-sdd"), mounting("data")),
        ],
        "claim",
        "Change the storage class of the claim data from fast-sdd to fast-ssd",
    ),
    "a claim is misspelt": (
        [node("n1"), storage_class("fast"), claim("database", storage_class="fast"), mounting("databse")],
        "claim",
        "Change the claim of the volume data from databse to database",
    ),
    "a storage class does not exist": (
        [node("n1"), claim("data", storage_class="gp3"), mounting("data")],
        "volume",
        "Create a volume for the claim data, whose storage class gp3 does not exist",
    ),
    "a provisioner has not created a volume": (
        [node("n1"), storage_class("now", mode="Immediate"), claim("data", storage_class="now"), mounting("data")],
        "claim",
        "Repair the provisioner disk.example.org of the storage class now",
    ),
    "a claim is being deleted": (
        [node("n1"), volume("pv", claimed_by="data"), DELETED_CLAIM, mounting("data")],
        "claim",
        "Recreate the claim data, which is being deleted",
    ),
    "the volume of a claim was deleted": (
        [node("n1"), claim("data", volume="pv"), mounting("data")],
        "claim",
        "Recreate the claim data, whose volume pv does not exist",
    ),
    "a node cannot attach another volume": (
        [
            *(node("n1"), ATTACH_LIMIT, csi_volume("pv1", "d1"), claim("d1", volume="pv1")),
            *(csi_volume("pv", "data"), claim("data", volume="pv")),
            *(controlled(running(mounting("d1"), "a")), mounting("data")),
        ],
        "add-node",
        "Add a node like n1",
    ),
    "each node uses the host port": (
        [
            *(node("n1"), node("n2"), pod("a", on="n1", containers=HOST_PORT), pod("b", on="n2", containers=HOST_PORT)),
            pod("p", containers=HOST_PORT),
        ],
        "add-node",
        "Add a node like n1",
    ),
    "there are more replicas than worker nodes": (
        [
            *(node("n1"), node("n2"), node("n3", taints=CONTROL_PLANE)),
            *(
                pod("a", on="n1", labels=WEB),
                pod("b", on="n2", labels=WEB),
                pod("p", labels=WEB, affinity=apart(**WEB)),
            ),
        ],
        "add-node",
        "Add a node like n1",
    ),
    "a spread requires more zones than exist": (
        [
            *(
                node("n1", zone="z1"),
                node("n2", zone="z2"),
                pod("a", on="n1", labels=WEB),
                pod("b", on="n2", labels=WEB),
            ),
            pod(
                "p",
                labels=WEB,
                topologySpreadConstraints=[{**SPREAD, "minDomains": 3, "labelSelector": {"matchLabels": WEB}}],
            ),
        ],
        "spread",
        f"Lower minDomains of the topology spread over {ZONE} from 3 to 2",
    ),
    "a spread per revision counts a tainted node": (
        [
            *(node("n1", zone="z1"), node("n2", zone="z2", taints=[taint("team", value="ml")])),
            pod("a", on="n1", labels={**WEB, "pod-template-hash": "x"}),
            pod(
                "p",
                labels={**WEB, "pod-template-hash": "x"},
                topologySpreadConstraints=[
                    {**SPREAD, "matchLabelKeys": ["pod-template-hash"], "labelSelector": {"matchLabels": WEB}}
                ],
            ),
        ],
        "spread",
        "Set nodeTaintsPolicy: Honor in the topology spread over topology.kubernetes.io/zone",
    ),
    "a cordoned node is free, and the other one is nearly full": (
        [node("n1", **CORDON), node("n2"), pod("a", on="n2", requests={"cpu": "3900m"}), pod("p")],
        "cordon",
        "Uncordon node n1",
    ),
    "nodes of another team are free, and the others are full": (
        [
            node("n1"),
            pod("a", on="n1", requests={"cpu": "3900m"}),
            node("n2", taints=[taint("team", value="ml")]),
            pod("p"),
        ],
        "add-node",
        "Add a node like n1",
    ),
    "memory in the unit of a unit": (
        [node("n1"), pod("p", requests={"memory": "512000Gi"})],
        "request",
        "Change the memory request of container main from 512000Gi to 512000Ki",
    ),
    "an affinity over a zone label of old releases": (
        [
            node("n1"),
            pod("a", on="n1", labels=WEB),
            pod(
                "p",
                affinity={
                    "podAffinity": {REQUIRED: [{"topologyKey": OLD_ZONE, "labelSelector": {"matchLabels": WEB}}]}
                },
            ),
        ],
        "affinity",
        f"Change the topology key {OLD_ZONE} of its required pod affinity to {ZONE}",
    ),
    "a spread over a misspelt label": (
        [
            node("n1"),
            pod("p", labels=WEB, topologySpreadConstraints=[{**SPREAD, "topologyKey": "topology.kubernetes.io/zoen"}]),
        ],
        "affinity",
        f"Change the topology key topology.kubernetes.io/zoen of its topology spread to {ZONE}",
    ),
    "an affinity to a pod with a longer name": (
        [node("n1"), pod("a", on="n1", labels={"app": "redis-master"}), pod("p", affinity=near(app="redis"))],
        "affinity",
        "Change app in its required pod affinity from redis, which no pod has, to redis-master",
    ),
    "a host name without its domain": (
        [node("node-a17", labels={HOSTNAME: "node-a17.example.org"}), pod("p", nodeSelector={HOSTNAME: "node-a17"})],
        "selector",
        f"Change {HOSTNAME} in its node selector from node-a17 to node-a17.example.org",
    ),
    "a claim template with an unknown class": (
        [node("n1"), device_class(), device_slice("n1"), claim_template(of="gpus"), templated()],
        "claim",
        "Change the device class of request r of the claim template t from gpus to gpu",
    ),
    "a claim template with too many devices": (
        [node("n1"), device_class(), device_slice("n1", 2), claim_template(count=3), templated()],
        "claim",
        "Request 2 instead of 3 devices in the request r of the claim template t",
    ),
    "an unknown claim template": (
        [node("n1"), device_class(), device_slice("n1"), claim_template(), templated("template")],
        "claim",
        "Change the claim template of its claim c from template, which does not exist, to t",
    ),
    "the claim controller does not run": (
        [node("n1"), device_class(), device_slice("n1"), claim_template(), templated()],
        "claim",
        "Start the claim controller of kube-controller-manager",
    ),
    "an unhealthy device": (
        [node("n1"), device_class(), tainted(device_slice("n1")), device_claim(), computing()],
        "claim",
        "Repair the device d0 of node n1: its driver then removes the taint example.org/broken:NoSchedule",
    ),
    "a misspelt pool whose nodes are starting": (
        [
            node("n1", labels={"pool": "default"}, taints=[taint("karpenter.sh/unregistered", "NoExecute")]),
            node("n2", labels={"pool": "system"}),
            pod("p", nodeSelector={"pool": "defualt"}),
        ],
        "pair",
        "Repair node n1: the agent of karpenter.sh then removes the taint karpenter.sh/unregistered:NoExecute. Change",
    ),
    "a label that no node with devices has, and a taint": (
        [
            sized_node("g1", {"cpu": "4", GPU: "4"}, taints=[taint(GPU)], labels={"pool": "gpu"}),
            node("n1"),
            pod("p", requests={"cpu": "6", GPU: "1"}, nodeSelector={"pool": "gpus"}),
        ],
        "several",
        f"Tolerate {GPU}:NoSchedule. Change pool in its node selector from gpus to gpu. Lower the cpu request",
    ),
    "all nodes are unreachable": (
        [node("n1", taints=UNREACHABLE), node("n2", taints=UNREACHABLE), pod("p")],
        "node-taint",
        "Repair node n1: the node controller then removes the taint node.kubernetes.io/unreachable:NoSchedule",
    ),
    "a node has no free disk": (
        [node("n1", taints=[taint("node.kubernetes.io/disk-pressure")]), pod("p")],
        "node-taint",
        "Repair node n1: the node controller",
    ),
    "the cloud controller has not seen a node": (
        [node("n1", taints=[taint("node.cloudprovider.kubernetes.io/uninitialized", value="true")]), pod("p")],
        "node-taint",
        "Repair node n1: the cloud controller",
    ),
    "the only node is the control plane": (
        [node("n1", taints=CONTROL_PLANE), pod("p")],
        "node-taint",
        "Remove the taint node-role.kubernetes.io/control-plane:NoSchedule from node n1",
    ),
    "one node is cordoned and the other is full": (
        [node("n1", **CORDON), node("n2"), pod("a", on="n2", requests={"cpu": "4"}), pod("p", requests={"cpu": "3"})],
        "cordon",
        "Uncordon node n1",
    ),
    "all other pods are more important": (
        [
            *(node("n1"), priority_class("high", 1000), priority_class("low", -10)),
            *(pod(f"a{number}", on="n1", priorityClassName="high", priority=1000) for number in range(4)),
            pod("p", priorityClassName="low", priority=-10),
        ],
        "add-node",
        "Add a node like n1",
    ),
    "a node has as many pods as it may have": (
        [
            sized_node("n1", {"pods": "2"}),
            *(pod(name, on="n1", requests={"cpu": "100m"}) for name in "ab"),
            pod("p", requests={"cpu": "100m"}),
        ],
        "add-node",
        "Add a node like n1",
    ),
    "another pod tolerates no neighbor": (
        [node("n1"), pod("db", on="n1", affinity=apart(**WEB)), pod("p", labels=WEB)],
        "add-node",
        "Add a node like n1",
    ),
    "a terminating pod fills the node": (
        [node("n1"), terminating(pod("a", on="n1", requests={"cpu": "4"})), pod("p")],
        "delete-pod",
        "Delete default/a (it is already terminating)",
    ),
    "free devices are on two nodes": (
        [
            *(sized_node(name, {GPU: "2"}) for name in ("n1", "n2")),
            *(pod(f"on-{name}", on=name, requests={"cpu": "1", GPU: "1"}) for name in ("n1", "n2")),
            pod("p", requests={"cpu": "1", GPU: "2"}),
        ],
        "add-node",
        "Add a node like n1",
    ),
    "two labels are on different nodes": (
        [
            *(node("n1", labels={"disk": "ssd"}), node("n2", labels={"gpu": "yes"})),
            pod("p", nodeSelector={"disk": "ssd", "gpu": "yes"}),
        ],
        "selector",
        "Remove gpu=yes from its node selector (nodes have yes)",
    ),
    "nodes have no zone": (
        [unlabeled(node("n1")), pod("p", labels=WEB, topologySpreadConstraints=[SPREAD])],
        "spread",
        f"Relax the topology spread over {ZONE} to whenUnsatisfiable: ScheduleAnyway",
    ),
    "a pod and its sidecar are larger than any node": (
        [
            node("n1"),
            pod("p", requests={"cpu": "3"}, initContainers=[SIDECAR]),
        ],
        "request",
        "Lower the cpu request of container main from 3 to 2",
    ),
    "the pods of deployments fill the nodes": (
        [
            *(node("n1"), *(controlled(pod(f"a{number}", on="n1", requests={"cpu": "1"})) for number in range(4))),
            pod("p", requests={"cpu": "1"}),
        ],
        "add-node",
        "Add a node like n1",
    ),
    "a node name in the affinity is misspelt": (
        [node("worker-1"), node("worker-2"), pod("p", affinity=on_names("wroker-1"))],
        "selector",
        "Change the node name in its required node affinity from wroker-1 to worker-1",
    ),
    "a host name is misspelt": (
        [node("worker-1"), node("worker-2"), pod("p", nodeSelector={HOSTNAME: "worker1"})],
        "selector",
        f"Change {HOSTNAME} in its node selector from worker1 to worker-1",
    ),
    "a resource is misspelt": (
        [sized_node("n1", {GPU: "4"}), pod("p", requests={f"{GPU}s": "1"})],
        "request",
        f"Change {GPU}s to {GPU} in the requests of container main",
    ),
    "a device plugin does not run": (
        [sized_node("n1", {GPU: "0"}), pod("p", requests={GPU: "1"})],
        "node-capacity",
        f"Repair the device plugin of node n1, which reports no {GPU}",
    ),
    "the only node with the resource is tainted": (
        [sized_node("n1", {GPU: "4"}, taints=[taint(GPU, value="present")]), node("n2"), pod("p", requests={GPU: "1"})],
        "toleration",
        f"Tolerate {GPU}=present:NoSchedule",
    ),
    "ephemeral storage is too small": (
        [sized_node("n1", {"ephemeral-storage": "50Gi"}), pod("p", requests={"ephemeral-storage": "100Gi"})],
        "request",
        "Lower the ephemeral-storage request of container main from 100Gi to 51200Mi",
    ),
    "no huge pages are reserved": (
        [node("n1"), pod("p", requests=HUGE)],
        "node-capacity",
        "Reserve 1024Mi of hugepages-2Mi on node n1",
    ),
    "too few huge pages are reserved": (
        [sized_node("n1", {"hugepages-2Mi": "512Mi"}), pod("p", requests=HUGE)],
        "request",
        "Lower the hugepages-2Mi request of container main from 1Gi to 512Mi",
    ),
    "no node may have another pod": (
        [
            *(node("n1"), node("n2")),
            *(controlled(pod(f"a{number}", on=f"n{1 + number % 2}", requests={"cpu": "10m"})) for number in range(20)),
            pod("p", requests={"cpu": "10m"}),
        ],
        "add-node",
        "Add a node like n1",
    ),
    "no node has the architecture": (
        [node("n1", labels={ARCH: "amd64"}), pod("p", nodeSelector={ARCH: "arm64"})],
        "add-node",
        f"Add a node like n1 with {ARCH}=arm64",
    ),
    "an architecture has its other name": (
        [node("n1", labels={ARCH: "amd64"}), pod("p", nodeSelector={ARCH: "x86_64"})],
        "selector",
        f"Change {ARCH} in its node selector from x86_64 to amd64",
    ),
    "the nodes with the operating system are tainted": (
        [
            node("n1", labels={OS: "linux"}),
            node("w1", labels={OS: "windows"}, taints=[taint("os", value="windows")]),
            pod("p", nodeSelector={OS: "windows"}),
        ],
        "toleration",
        "Tolerate os=windows:NoSchedule",
    ),
    "the name of a scheduler is misspelt": (
        [node("n1"), pod("p", schedulerName="default-schedular")],
        "scheduler",
        "Change schedulerName from default-schedular to default-scheduler",
    ),
    "the labels of the pod affinity are misspelt": (
        [node("n1"), REDIS, pod("p", affinity=near(app="rediss"))],
        "affinity",
        "Change app in its required pod affinity from rediss to redis",
    ),
    "the pods of the pod affinity are in another namespace": (
        [
            *(node("n1"), {**REDIS, "metadata": {**REDIS["metadata"], "namespace": "cache"}}),
            pod("p", affinity=near(app="redis")),
        ],
        "affinity",
        f"Set the namespace of its required pod affinity (app=redis, per {HOSTNAME}) to cache",
    ),
    "no pod matches the pod affinity": (
        [node("n1"), pod("p", affinity=near(app="queue"))],
        "affinity",
        "Change the pod affinity (app=queue",
    ),
    "a toleration has another value than the taint": (
        [
            node("n1", taints=[taint("dedicated", value="batch")]),
            pod("p", tolerations=[{"key": "dedicated", "value": "bacth", "effect": "NoSchedule"}]),
        ],
        "toleration",
        "Tolerate dedicated=batch:NoSchedule",
    ),
    "a toleration misses one effect": (
        [
            node("n1", taints=[taint("dedicated", value="batch"), taint("dedicated", "NoExecute", value="batch")]),
            pod("p", tolerations=[{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]),
        ],
        "toleration",
        "Tolerate dedicated=batch:NoExecute",
    ),
    "a label key is misspelt": (
        [
            node("n1", labels={"node-pool": "gpu"}),
            node("n2", labels={"node-pool": "cpu"}),
            pod("p", nodeSelector={"nodepool": "gpu"}),
        ],
        "selector",
        "Change the label nodepool in its node selector to node-pool",
    ),
    "a label value has another case": (
        [node("n1", labels={"disk": "SSD"}), pod("p", affinity=affinity("disk", "ssd"))],
        "selector",
        "Change disk in its required node affinity from ssd to SSD",
    ),
    "a label has its deprecated name": (
        [node("n1", zone="z1"), pod("p", nodeSelector={"failure-domain.beta.kubernetes.io/zone": "z1"})],
        "selector",
        f"Change the label failure-domain.beta.kubernetes.io/zone in its node selector to {ZONE}",
    ),
    "an init container is larger than any node": (
        [
            node("n1"),
            pod("p", initContainers=[{"name": "init", "image": "app", "resources": {"requests": {"cpu": "6"}}}]),
        ],
        "request",
        "Lower the cpu request of container init from 6 to 4",
    ),
}


@pytest.mark.parametrize(("objects", "kind", "text"), SITUATIONS.values(), ids=SITUATIONS)
def test_first_suggestion_works(objects: list[Object], kind: str, text: str) -> None:
    with session(*objects) as opened:
        first = explain_pod(opened, "default/p").as_data()["changes"][0]
    assert (first["kind"], first["text"][: len(text)]) == (kind, text)
    assert outcome(objects, first["edits"]) == (first["node"], ())


NO_CORRECTIONS: Final[dict[str, tuple[Object, Object]]] = {
    "the pool of another zone is empty": ({ZONE: "eu-west-1a"}, {ZONE: "eu-west-1c"}),
    "the pool of another region is empty": ({ZONE: "eu-west-1a"}, {ZONE: "eu-east-1a"}),
    "the pool of other machines is empty": ({"pool": "cpu"}, {"pool": "gpu"}),
    "a larger machine does not exist": ({"size": "large"}, {"size": "xlarge"}),
}


@pytest.mark.parametrize(("labels", "selector"), NO_CORRECTIONS.values(), ids=NO_CORRECTIONS)
def test_another_value_is_not_a_misspelling(labels: Object, selector: Object) -> None:
    with session(node("n1", labels=labels), pod("p", nodeSelector=selector)) as opened:
        texts = [change.text for change in explain_pod(opened, "default/p").changes]
    assert not [text for text in texts if text.startswith("Change")]
    assert texts[0].startswith("Remove")


def test_request_with_a_wrong_unit_is_pointed_out() -> None:
    with session(node("n1"), pod("p", requests={"cpu": "500"})) as opened:
        (note,) = explain_pod(opened, "default/p").notes
    assert note == "the cpu request of container main is 500, and the largest node has 4: did you mean 500m?"
