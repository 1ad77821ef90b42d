"""Pending situations with controllers of nodes, runtime classes and volumes: the first suggestion works."""

from typing import Any, Final

import pytest

from moorage.insight.explain.pods import explain_pod
from tests.integration.test_pending_situations import CONTROL_PLANE, CORDON, WEB, exclusive
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

MODEL: Final = "device.attributes['gpu.example'].model"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
SHUTDOWN: Final = "node.kubernetes.io/out-of-service"
SPREAD: Final[Object] = {
    "maxSkew": 1,
    "topologyKey": HOSTNAME,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": WEB},
}
KATA: Final[Object] = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "1", "memory": "2Gi"}},
    "scheduling": {"nodeSelector": {"kata": "yes"}},
}
IN_KATA: Final[Any] = {
    "runtimeClassName": "kata",
    "overhead": {"cpu": "1", "memory": "2Gi"},
    "nodeSelector": {"kata": "yes"},
}
METRICS: Final[Any] = {
    "hostNetwork": True,
    "containers": [{"name": "main", "image": "a", "ports": [{"containerPort": 9100, "hostPort": 9100}]}],
}
FULL: Final = controlled(pod("a", on="n1", requests={"cpu": "4"}))
STATIC: Final = {**storage_class("local"), "provisioner": "kubernetes.io/no-provisioner"}
LABELED_VOLUME: Final[Object] = {**volume("pv", claimed_by="data"), "metadata": {"name": "pv", "labels": {ZONE: "z2"}}}
ARCH: Final = "kubernetes.io/arch"
ARM_IN_ZONE: Final = affinity(ARCH, "arm64")
ARM_IN_ZONE["nodeAffinity"][REQUIRED]["nodeSelectorTerms"][0]["matchExpressions"].append(
    {"key": ZONE, "operator": "In", "values": ["z1"]}
)
CACHE: Final = pod("cache", on="n1", labels={"app": "cache"})
NAMESPACE: Final[Object] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "caches", "labels": {"team": "data"}},
}
TO_CACHE: Final[Object] = {
    "topologyKey": HOSTNAME,
    "labelSelector": {"matchLabels": {"app": "cache"}},
    "namespaceSelector": {"matchLabels": {"team": "dta"}},
}
CLAIM_BY_NAME: Final = claim("data", storage_class="local")
CLAIM_BY_NAME["spec"]["volumeName"] = "taken"
ONE_PER_ZONE: Final[Object] = {
    "podAntiAffinity": {REQUIRED: [{"topologyKey": ZONE, "labelSelector": {"matchLabels": WEB}}]}
}
OF_TEAM: Final = {"key": "team", "value": "x", "effect": "NoSchedule"}
IN_POOL: Final[Any] = {"nodeSelector": {"pool": "b"}}
CLAIM_BY_LABEL: Final = claim("data", storage_class="local")
CLAIM_BY_LABEL["spec"]["selector"] = {"matchLabels": {"tier": "god"}}
BLOCK_CLAIM: Final = claim("data", storage_class="local")
BLOCK_CLAIM["spec"]["volumeMode"] = "Block"
UNCLASSIFIED: Final = claim("data")
del UNCLASSIFIED["spec"]["storageClassName"]


def more_than(key: str, bound: str) -> Object:
    expression = {"key": key, "operator": "Gt", "values": [bound]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


def class_of(expression: str) -> Object:
    return {**device_class(), "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def static_volume(phase: str, claimed_by: str = "") -> Object:
    made = volume("pv", claimed_by=claimed_by)
    return {**made, "spec": {**made["spec"], "storageClassName": "local"}, "status": {"phase": phase}}


def shared_claim() -> Object:
    made = claim("data", storage_class="local")
    return {**made, "spec": {**made["spec"], "accessModes": ["ReadWriteMany"]}}


TAKEN: Final[Object] = {**static_volume("Available", claimed_by="other"), "metadata": {"name": "taken"}}
LABELED: Final[Object] = {**static_volume("Available"), "metadata": {"name": "pv", "labels": {"tier": "gold"}}}
SITUATIONS: Final[dict[str, tuple[list[Object], str, str]]] = {
    "a cordoned node has another taint": (
        [node("n1", unschedulable=True, taints=[*CORDON["taints"], taint("gpu", value="yes")]), pod("p")],
        "pair",
        "Uncordon node n1. Tolerate gpu=yes:NoSchedule",
    ),
    "all nodes are cordoned": ([node("n1", **CORDON), node("n2", **CORDON), pod("p")], "cordon", "Uncordon node n1"),
    "the cluster autoscaler removes the node": (
        [node("n1", taints=[taint("ToBeDeletedByClusterAutoscaler", value="1700000000")]), pod("p")],
        "add-node",
        "Add a node like n1",
    ),
    "Karpenter removes the node": (
        [node("n1", taints=[taint("karpenter.sh/disrupted")]), pod("p")],
        "add-node",
        "Add a node like n1",
    ),
    "the network agent of the node does not run": (
        [node("n1", taints=[taint("node.cilium.io/agent-not-ready", "NoExecute")]), pod("p")],
        "node-taint",
        "Repair node n1: the agent of node.cilium.io then removes the taint node.cilium.io/agent-not-ready:NoExecute",
    ),
    "an operator marked the node as out of service": (
        [node("n1", taints=[taint(SHUTDOWN, "NoExecute", "nodeshutdown")]), pod("p")],
        "node-taint",
        f"Remove the taint {SHUTDOWN}=nodeshutdown:NoExecute from node n1 as soon as it works again",
    ),
    "the node has too little memory": (
        [node("n1", taints=[taint("node.kubernetes.io/memory-pressure")]), pod("p")],
        "node-taint",
        "Repair node n1: the node controller then removes the taint node.kubernetes.io/memory-pressure:NoSchedule",
    ),
    "the overhead of a runtime class does not fit": (
        [node("n1", labels={"kata": "yes"}), KATA, pod("p", requests={"cpu": "3500m"}, **IN_KATA)],
        "request",
        "Lower the cpu request of container main from 3500m to 3",
    ),
    "no node has the label of a runtime class": (
        [node("n1"), KATA, pod("p", **IN_KATA)],
        "node-label",
        "Add the label kata=yes to node n1, for the runtime class kata",
    ),
    "a priority class does not preempt": (
        [
            *(node("n1"), priority_class("high", 1000, preemptionPolicy="Never"), FULL),
            pod("p", priorityClassName="high", priority=1000, preemptionPolicy="Never"),
        ],
        "add-node",
        "Add a node like n1",
    ),
    "another pod in the network of the node uses the port": (
        [node("n1"), pod("a", on="n1", **METRICS), pod("p", **METRICS)],
        "add-node",
        "Add a node like n1",
    ),
    "a spread over nodes counts the control plane": (
        [
            *(node("n1"), node("n2", taints=CONTROL_PLANE), pod("a", on="n1", labels=WEB)),
            pod("p", labels=WEB, topologySpreadConstraints=[SPREAD]),
        ],
        "spread",
        f"Set nodeTaintsPolicy: Honor in the topology spread over {HOSTNAME}",
    ),
    "huge pages have another size": (
        [
            sized_node("n1", {"hugepages-2Mi": "1Gi"}),
            pod("p", requests={"hugepages-1Gi": "1Gi", "memory": "1Gi", "cpu": "1"}),
        ],
        "node-capacity",
        "Reserve 1024Mi of hugepages-1Gi on node n1",
    ),
    "a GPU has partitions of another size": (
        [sized_node("n1", {"nvidia.com/mig-1g.5gb": "7"}), pod("p", requests={"nvidia.com/mig-2g.10gb": "1"})],
        "node-capacity",
        "Configure the device plugin of node n1 to offer nvidia.com/mig-2g.10gb: no node has this resource, and the pod"
        " needs 1; nodes have nvidia.com/mig-1g.5gb",
    ),
    "milli-CPU are written without their unit": (
        [node("n1"), pod("p", requests={"cpu": "2000"})],
        "request",
        "Change the cpu request of container main from 2000 to 2000m: no node is that large",
    ),
    "memory is written in GiB instead of MiB": (
        [node("n1"), pod("p", requests={"cpu": "1", "memory": "512Gi"})],
        "request",
        "Change the memory request of container main from 512Gi to 512Mi",
    ),
    "the label of the architecture is deprecated": (
        [
            node("n1", labels={"kubernetes.io/arch": "amd64"}),
            pod("p", nodeSelector={"beta.kubernetes.io/arch": "amd64"}),
        ],
        "selector",
        "Change the label beta.kubernetes.io/arch in its node selector to kubernetes.io/arch",
    ),
    "an instance type is misspelt": (
        [node("n1", labels={INSTANCE_TYPE: "m5.large"}), pod("p", nodeSelector={INSTANCE_TYPE: "m5.lrage"})],
        "selector",
        f"Change {INSTANCE_TYPE} in its node selector from m5.lrage to m5.large",
    ),
    "no node has enough cores": (
        [
            node("n1", labels={"cores": "8"}),
            node("n2", labels={"cores": "16"}),
            pod("p", affinity=more_than("cores", "32")),
        ],
        "affinity",
        "Remove its required node affinity 'cores Gt 32' (nodes have 16, 8)",
    ),
    "the volume of a deleted claim was not released": (
        [node("n1"), STATIC, static_volume("Released", "old"), claim("data", storage_class="local"), mounting("data")],
        "volume",
        "Remove spec.claimRef of the volume pv, which has data of the claim default/old",
    ),
    "the free volume has other access modes": (
        [node("n1"), STATIC, static_volume("Available"), shared_claim(), mounting("data")],
        "claim",
        "Request the access mode ReadWriteOnce instead of ReadWriteMany in the claim data, as the volume pv offers",
    ),
    "no storage class is the default": (
        [node("n1"), storage_class("standard"), UNCLASSIFIED, mounting("data")],
        "claim",
        "Change the storage class of the claim data to standard",
    ),
    "the labels of a volume name a zone without nodes": (
        [node("n1", zone="z1"), LABELED_VOLUME, claim("data", volume="pv"), mounting("data")],
        "add-node",
        f"Add a node like n1 with {ZONE}=z2, for the volume pv",
    ),
    "the nodes of the selected pool are tainted and nearly full": (
        [
            *(node("n1"), node("n2", labels={"pool": "b"}, taints=[taint("pool", value="b")])),
            *(controlled(pod("a", on="n2", requests={"cpu": "2"})), pod("p", requests={"cpu": "3"}, **IN_POOL)),
        ],
        "pair",
        "Tolerate pool=b:NoSchedule. Lower the cpu request of container main from 3 to 2",
    ),
    "the nodes of the selected pool are full": (
        [
            *(node("n1"), node("n2", labels={"pool": "b"})),
            *(controlled(pod("a", on="n2", requests={"cpu": "4"})), pod("p", **IN_POOL)),
        ],
        "add-node",
        "Add a node like n2",
    ),
    "the zone of the pods of the affinity is full": (
        [
            *(node("n1"), node("n2", zone="z2"), pod("a", on="n1", labels=WEB, requests={"cpu": "4"})),
            pod(
                "p",
                affinity={"podAffinity": {REQUIRED: [{"topologyKey": ZONE, "labelSelector": {"matchLabels": WEB}}]}},
            ),
        ],
        "add-node",
        "Add a node like n1",
    ),
    "the label has the prefix of the cloud provider": (
        [node("n1", labels={"cloud.google.com/gke-nodepool": "b"}), pod("p", nodeSelector={"nodepool": "b"})],
        "selector",
        "Change the label nodepool in its node selector to cloud.google.com/gke-nodepool",
    ),
    "no node has the zone and the architecture": (
        [
            *(node("n1", zone="z1"), node("n2", zone="z2", labels={ARCH: "arm64"})),
            pod("p", affinity=ARM_IN_ZONE),
        ],
        "affinity",
        f"Remove '{ZONE} In z1' from its required node affinity",
    ),
    "the labels of the namespaces in the affinity are misspelt": (
        [
            *(node("n1"), NAMESPACE, {**CACHE, "metadata": {**CACHE["metadata"], "namespace": "caches"}}),
            pod("p", affinity={"podAffinity": {REQUIRED: [TO_CACHE]}}),
        ],
        "affinity",
        "Change team of the namespaces of its required pod affinity from dta to data",
    ),
    "the claim names a volume of another claim": (
        [*(node("n1"), STATIC, TAKEN, static_volume("Available"), CLAIM_BY_NAME), mounting("data")],
        "claim",
        "Recreate the claim data, without the volume taken, which belongs to the claim default/other",
    ),
    "volumes of the pod are in two zones": (
        [
            *(node("n1", zone="z1"), node("n2", zone="z2"), volume("pv", "z1", claimed_by="data")),
            *({**volume("pv2", "z2", claimed_by="logs")}, claim("data", volume="pv"), claim("logs", volume="pv2")),
            pod(
                "p", volumes=[{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("data", "logs")]
            ),
        ],
        "volume",
        "Remove the volume data",
    ),
    "each zone has a replica": (
        [
            *(node("n1", zone="z1"), pod("a", on="n1", labels=WEB, affinity=ONE_PER_ZONE)),
            pod("p", labels=WEB, affinity=ONE_PER_ZONE),
        ],
        "add-node",
        f"Add a node like n1 with another value of {ZONE}",
    ),
    "the class of the free volume is misspelt": (
        [*(node("n1"), static_volume("Available"), claim("data", storage_class="loacl")), mounting("data")],
        "claim",
        "Change the storage class of the claim data from loacl to local, and use the volume pv",
    ),
    "two containers need a GPU each": (
        [
            sized_node("n1", {GPU: "1"}),
            pod(
                "p",
                containers=[
                    {"name": name, "image": "a", "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}}}
                    for name in ("a", "b")
                ],
            ),
        ],
        "node-capacity",
        f"Add 1 {GPU} to node n1",
    ),
    "nodes have GPUs of another vendor": (
        [sized_node("n1", {GPU: "1"}), pod("p", requests={"amd.com/gpu": "1"})],
        "request",
        f"Change amd.com/gpu to {GPU} in the requests of container main",
    ),
    "the GPU pool is tainted and its nodes have fewer GPUs": (
        [node("n1"), sized_node("n2", {GPU: "2"}, taints=[taint("pool", value="gpu")]), pod("p", requests={GPU: "4"})],
        "pair",
        f"Tolerate pool=gpu:NoSchedule. Lower the {GPU} request of container main from 4 to 2",
    ),
    "the label of a tainted pool is misspelt": (
        [
            *(node("n1"), node("n2", labels={"node-pool": "ml"}, taints=[taint("dedicated", value="ml")])),
            pod("p", nodeSelector={"nodepool": "ml"}),
        ],
        "pair",
        "Tolerate dedicated=ml:NoSchedule. Change the label nodepool in its node selector to node-pool",
    ),
    "the tolerated node is full, and another one is for others": (
        [
            *(node("n1", taints=[taint("team", value="x")]), node("n2", taints=[taint("team", value="y")])),
            *(pod("a", on="n1", requests={"cpu": "4"}), pod("p", tolerations=[OF_TEAM])),
        ],
        "add-node",
        "Add a node like n1",
    ),
    "the scheduler is not installed": (
        [node("n1"), pod("p", schedulerName="volcano")],
        "scheduler",
        "Change schedulerName from volcano to default-scheduler, if no scheduler volcano runs",
    ),
    "the claim selects other labels than the free volume has": (
        [*(node("n1"), STATIC, LABELED, CLAIM_BY_LABEL, storage_class("standard")), mounting("data")],
        "claim",
        "Change tier from god to gold in the selector of the claim data, as the volume pv has",
    ),
    "the claim requests another mode than the free volume has": (
        [*(node("n1"), STATIC, static_volume("Available"), BLOCK_CLAIM, storage_class("standard")), mounting("data")],
        "claim",
        "Request the volume mode Filesystem instead of Block in the claim data, as the volume pv offers",
    ),
    "the driver in a device class is misspelt": (
        [node("n1"), device_slice("n1"), class_of("device.driver == 'gpu.exmaple'"), device_claim(), computing()],
        "claim",
        "Change driver from gpu.exmaple to gpu.example in the device class gpu (devices have gpu.example)",
    ),
    "no device has the model of a device class": (
        [
            *(node("n1"), device_slice("n1"), device_claim(), computing()),
            class_of(f"device.driver == 'gpu.example' && {MODEL} == 'h100'"),
        ],
        "claim",
        "Change model from h100 to a100 in the device class gpu (devices have a100)",
    ),
    "the domain of an attribute is misspelt": (
        [
            *(node("n1"), device_slice("n1"), device_class(), computing()),
            device_claim(f"{MODEL.replace('example', 'exmaple')} == 'a100'"),
        ],
        "claim",
        "Change the domain from gpu.exmaple to gpu.example in the selector of request r of the claim c",
    ),
    "no device has an attribute": (
        [
            *(node("n1"), device_slice("n1"), device_class(), computing()),
            device_claim(f"{MODEL} == 'a100' && device.attributes['gpu.example'].ecc"),
        ],
        "claim",
        "Remove the condition device.attributes['gpu.example'].ecc from the selector of request r of the claim c",
    ),
    "no driver publishes devices": (
        [node("n1"), class_of("device.driver == 'tpu.example'"), device_claim(), computing()],
        "claim",
        "Install the driver tpu.example on node n1: no node publishes devices of it",
    ),
    "a zone of a spread has only a node that is too small": (
        [
            *(node("n1", zone="z1"), node("n2", zone="z2", cpu="500m"), pod("a", on="n1", labels=WEB)),
            pod("p", labels=WEB, topologySpreadConstraints=[{**SPREAD, "topologyKey": ZONE}]),
        ],
        "add-node",
        f"Add a node like n1 with {ZONE}=z2",
    ),
    "a replica uses the claim exclusively": (
        [
            *(node("n1"), exclusive(volume("pv", claimed_by="data")), exclusive(claim("data", volume="pv"))),
            *(controlled(running(mounting("data"), "a")), mounting("data")),
        ],
        "delete-pod",
        "Delete default/a (its ReplicaSet web-1 will create a replacement)",
    ),
}


@pytest.mark.parametrize(("objects", "kind", "text"), SITUATIONS.values(), ids=SITUATIONS)
def test_first_suggestion_works(objects: list[Object], kind: str, text: str) -> None:
    with session(*objects) as opened:
        first = explain_pod(opened, "default/p").as_data()["changes"][0]
    assert (first["kind"], first["text"][: len(text)]) == (kind, text)
    assert outcome(objects, first["edits"]) == (first["node"], ())
