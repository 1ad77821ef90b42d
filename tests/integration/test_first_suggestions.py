"""Pending situations of an operator: the first suggestion is the usual fix, and works when applied."""

from typing import Final

import pytest

from moorage.insight.explain.explanation import PodExplanation
from moorage.insight.explain.pods import explain_pod
from tests.unit.insight.explain.clusters import HOSTNAME, ZONE, Object, node, outcome, pod, session
from tests.unit.insight.explain.parts import GPU, affinity, claim, gpu_node, mounting, taint, volume

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
SPREAD: Final = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}


WAITING_CLASS: Final[Object] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "fast"},
    "provisioner": "disk.example.org",
    "volumeBindingMode": "WaitForFirstConsumer",
}
HOST_PORT: Final = [{"name": "main", "image": "app", "ports": [{"containerPort": 80, "hostPort": 80}]}]
WEB: Final = {"app": "web"}

SITUATIONS: Final[dict[str, tuple[list[Object], str, str]]] = {
    "a node is cordoned": (
        [node("n1", unschedulable=True, taints=[taint("node.kubernetes.io/unschedulable")]), pod("p")],
        "cordon",
        "Uncordon node n1",
    ),
    "a cordoned node is the only one with free capacity": (
        [node("n1", unschedulable=True), node("n2"), pod("a", on="n2", requests={"cpu": "4"}), pod("p")],
        "cordon",
        "Uncordon node n1",
    ),
    "a zone is misspelt": (
        [node("n1", zone="eu-west-1a"), node("n2", zone="eu-west-1b"), pod("p", nodeSelector={ZONE: "eu-wset-1b"})],
        "selector",
        f"Change {ZONE} in its node selector from eu-wset-1b to eu-west-1b (existing values: eu-west-1b, eu-west-1a)",
    ),
    "a value of the node affinity is misspelt": (
        [node("n1", labels={"disk": "nvme-ssd"}), pod("p", affinity=affinity("disk", "nvme-sdd"))],
        "selector",
        "Change disk in its required node affinity from nvme-sdd to nvme-ssd",
    ),
    "no node has the label": (
        [node("n1"), pod("p", nodeSelector={"disk": "ssd"})],
        "selector",
        "Remove disk=ssd from its node selector (no node has this label)",
    ),
    "a zone does not exist": (
        [node("n1", zone="z1"), pod("p", nodeSelector={ZONE: "mars"})],
        "selector",
        f"Remove {ZONE}=mars from its node selector (nodes have z1)",
    ),
    "too many GPUs are requested": (
        [gpu_node("n1", "4"), pod("p", requests={"cpu": "1", GPU: "8"})],
        "request",
        f"Lower the {GPU} request of container main from 8 to 4",
    ),
    "all GPUs are in use": (
        [gpu_node("n1", "4"), pod("a", on="n1", requests={GPU: "4"}), pod("p", requests={GPU: "2"})],
        "add-node",
        "Add a node like n1",
    ),
    "a pod is larger than any node": (
        [node("n1"), pod("p", requests={"cpu": "5"})],
        "request",
        "Lower the cpu request of container main from 5 to 4",
    ),
    "almost nothing is free": (
        [node("n1"), pod("a", on="n1", requests={"cpu": "3950m"}), pod("p", requests={"cpu": "2"})],
        "add-node",
        "Add a node like n1",
    ),
    "memory is too small": (
        [node("n1"), pod("p", requests={"memory": "10Gi"})],
        "request",
        "Lower the memory request of container main from 10Gi to 8192Mi",
    ),
    "a node is dedicated": (
        [node("n1", taints=[taint("team", value="ml")]), pod("p")],
        "toleration",
        "Tolerate team=ml:NoSchedule",
    ),
    "the only node is not ready": (
        [node("n1", taints=[taint("node.kubernetes.io/not-ready")]), pod("p")],
        "node-taint",
        "Repair node n1",
    ),
    "only the control plane is free": (
        [
            node("n1", taints=[taint("node-role.kubernetes.io/control-plane")]),
            node("n2"),
            pod("a", on="n2", requests={"cpu": "3"}),
            pod("p", requests={"cpu": "2"}),
        ],
        "add-node",
        "Add a node like n2",
    ),
    "a volume is in another zone than the pod": (
        [
            *(node("n1", zone="z1"), node("n2", zone="z2"), volume("pv", "z1", claimed_by="data")),
            *(claim("data", volume="pv"), mounting("data", nodeSelector={ZONE: "z2"})),
        ],
        "selector",
        f"Remove {ZONE}=z2 from its node selector",
    ),
    "the claim does not exist": (
        [node("n1"), WAITING_CLASS, mounting("data")],
        "claim",
        "Create the claim data with the storage class fast",
    ),
    "the free volume is too small": (
        [node("n1"), WAITING_CLASS, volume("pv", storage="5Gi"), claim("data"), mounting("data")],
        "claim",
        "Change the storage class of the claim data to fast",
    ),
    "a host port is in use": (
        [node("n1"), pod("a", on="n1", containers=HOST_PORT), pod("p", containers=HOST_PORT)],
        "add-node",
        "Add a node like n1",
    ),
    "pods would become uneven": (
        [
            *(node("n1", zone="z1"), node("n2", zone="z2", cpu="500m"), pod("a", on="n1", labels=WEB)),
            pod("p", labels=WEB, topologySpreadConstraints=[{**SPREAD, "labelSelector": {"matchLabels": WEB}}]),
        ],
        "add-node",
        f"Add a node like n1 with {ZONE}=z2",
    ),
    "each node has a pod of the kind": (
        [
            *(node("n1"), pod("a", on="n1", labels=WEB)),
            pod(
                "p",
                labels=WEB,
                affinity={
                    "podAntiAffinity": {REQUIRED: [{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": WEB}}]}
                },
            ),
        ],
        "add-node",
        "Add a node like n1",
    ),
    "a gate has no owner": (
        [node("n1"), pod("p", schedulingGates=[{"name": "wait"}])],
        "gate",
        "Remove the scheduling gate wait",
    ),
    "the only node is full for another pod": (
        [
            node("n1"),
            *(pod(f"a{number}", on="n1", requests={"cpu": "100m"}) for number in range(10)),
            pod("p", requests={"cpu": "100m"}),
        ],
        "add-node",
        "Add a node like n1",
    ),
}


def explain(objects: list[Object]) -> PodExplanation:
    with session(*objects) as opened:
        return explain_pod(opened, "default/p")


@pytest.mark.parametrize(("objects", "kind", "text"), SITUATIONS.values(), ids=SITUATIONS)
def test_first_suggestion_works(objects: list[Object], kind: str, text: str) -> None:
    first = explain(objects).as_data()["changes"][0]
    assert (first["kind"], first["text"][: len(text)]) == (kind, text)
    assert outcome(objects, first["edits"]) == (first["node"], ())


FORBIDDEN: Final[dict[str, tuple[list[Object], str]]] = {
    "a zone label of a node": ([node("n1", zone="z1"), pod("p", nodeSelector={ZONE: "mars"})], f"the label {ZONE}"),
    "a GPU request of 0": ([node("n1"), pod("p", requests={GPU: "1"})], "to 0"),
    "a gate of Kueue": ([node("n1"), pod("p", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])], "gate"),
}


@pytest.mark.parametrize(("objects", "text"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_harmful_changes_are_not_suggested(objects: list[Object], text: str) -> None:
    assert [change.text for change in explain(objects).changes if text in change.text] == []


NOTES: Final[dict[str, tuple[list[Object], str]]] = {
    "the owner of a gate": (
        [node("n1"), pod("p", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])],
        "the scheduling gate kueue.x-k8s.io/admission belongs to Kueue",
    ),
    "the zone of a volume": (
        SITUATIONS["a volume is in another zone than the pod"][0],
        "the volume pv of the claim data is in zone z1, and the pod requires zone z2",
    ),
    "the size of a volume": (
        SITUATIONS["the free volume is too small"][0],
        "the claim data requests 10Gi; the largest free volume pv has 5Gi, 5Gi too little",
    ),
}


@pytest.mark.parametrize(("objects", "text"), NOTES.values(), ids=NOTES)
def test_notes_name_the_cause(objects: list[Object], text: str) -> None:
    assert any(note.startswith(text) for note in explain(objects).notes)


def test_preemption_is_last_and_names_the_violated_budget() -> None:
    budget: Object = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": WEB}},
        "status": {"disruptionsAllowed": 0},
    }
    objects = [
        node("n1"),
        pod("a", on="n1", labels=WEB, requests={"cpu": "4"}),
        budget,
        pod("p", requests={"cpu": "2"}),
    ]
    changes = explain(objects).changes
    assert changes[-1].victims == ("default/a",)
    assert changes[-1].text.endswith("although this violates the disruption budget keep")
    assert all(not change.victims for change in changes[:-1])
