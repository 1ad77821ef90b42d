from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.reconciling import NOW, describe, make, pod, status_in

from moorage.cluster.controllers.actions import Create
from moorage.cluster.controllers.daemonset import Daemons, find_target
from moorage.cluster.controllers.revisions import REVISION_LABEL, History
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.workloads import DaemonSet


def daemon_set(*, update: dict[str, Any] | None = None, **spec: Any) -> DaemonSet:
    template = {"metadata": {"labels": {"app": "log"}}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    return make(DaemonSet, "log", spec={"template": template, "updateStrategy": {"rollingUpdate": update or {}}})


def daemons(workload: DaemonSet, nodes: list[Node], pods: list[Pod]) -> Daemons:
    return Daemons(workload, nodes, pods, NOW, History(workload, []))


CURRENT = daemons(daemon_set(), [], []).revision


def node(name: str, *, taint: str = "", effect: str = "NoSchedule", **labels: str) -> Node:
    taints = [{"key": taint, "effect": effect}] if taint else []
    return make(Node, name, metadata={"labels": labels}, spec={"taints": taints})


def on(name: str, *, revision: str = CURRENT, **state: Any) -> Pod:
    return pod(f"log-{name}", node=name, labels={REVISION_LABEL: revision}, **state)


SSD = {"nodeSelector": {"disk": "ssd"}}
CASES = {
    "every node gets a pod": (daemon_set(), [node("a"), node("b")], [], ["create Pod log-", "create Pod log-"]),
    "a node with a pod is unchanged": (daemon_set(), [node("a")], [on("a")], []),
    "only selected nodes get a pod": (daemon_set(**SSD), [node("a"), node("b", disk="ssd")], [], ["create Pod log-"]),
    "a node that no longer matches loses its pod": (daemon_set(**SSD), [node("a")], [on("a")], ["delete log-a"]),
    "taints keep pods away": (daemon_set(), [node("a", taint="gpu")], [], []),
    "an existing pod remains on a NoSchedule taint": (
        daemon_set(),
        [node("a", taint="gpu")],
        [on("a")],
        [],
    ),
    "a NoExecute taint removes the pod": (
        daemon_set(),
        [node("a", taint="gpu", effect="NoExecute")],
        [on("a")],
        ["delete log-a"],
    ),
    "taints of unhealthy nodes are tolerated": (
        daemon_set(),
        [node("a", taint="node.kubernetes.io/unschedulable")],
        [],
        ["create Pod log-"],
    ),
    "a failed pod is deleted": (daemon_set(), [node("a")], [on("a", phase="Failed")], ["delete log-a"]),
    "pods are updated one at a time": (
        daemon_set(),
        [node("a"), node("b")],
        [on("a", revision="old"), on("b", revision="old")],
        ["delete log-a"],
    ),
    "no pod is updated while another is unavailable": (
        daemon_set(),
        [node("a"), node("b")],
        [on("a", ready=False), on("b", revision="old")],
        [],
    ),
    "maxUnavailable pods are updated at a time": (
        daemon_set(update={"maxUnavailable": "100%"}),
        [node("a"), node("b")],
        [on("a", revision="old"), on("b", revision="old")],
        ["delete log-a", "delete log-b"],
    ),
    "with maxSurge the new pod is created first": (
        daemon_set(update={"maxSurge": 1}),
        [node("a"), node("b")],
        [on("a", revision="old"), on("b", revision="old")],
        ["create Pod log-"],
    ),
    "the old pod remains until the new one is available": (
        daemon_set(update={"maxSurge": 1}),
        [node("a")],
        [on("a", revision="old"), on("a", ready=False)],
        [],
    ),
    "the old pod is deleted when the new one is available": (
        daemon_set(update={"maxSurge": 1}),
        [node("a")],
        [on("a", revision="old"), on("a")],
        ["delete log-a"],
    ),
}


@pytest.mark.parametrize(("workload", "nodes", "pods", "want"), CASES.values(), ids=CASES)
def test_daemon_pods_on_nodes(workload: DaemonSet, nodes: list[Node], pods: list[Pod], want: list[str]) -> None:
    current = daemons(workload, [], []).revision
    labeled = [_relabeled(item, current) if item.labels[REVISION_LABEL] == CURRENT else item for item in pods]
    assert describe(daemons(workload, nodes, labeled).actions()) == want


def _relabeled(item: Pod, revision: str) -> Pod:
    return replace(item, metadata=replace(item.metadata, labels={REVISION_LABEL: revision}))


def test_daemon_pod_targets_one_node_and_keeps_its_affinity() -> None:
    wish = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wish]}}}
    (create, *_) = daemons(daemon_set(affinity=affinity), [node("a", disk="ssd")], []).actions()
    assert isinstance(create, Create)
    created = make(Pod, "log-1", spec=create.data["spec"])
    assert find_target(created) == "a"
    terms = create.data["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"][0]["matchExpressions"] == wish["matchExpressions"]


def test_counts() -> None:
    pods = [on("a"), on("b", ready=False), on("gone")]
    actions = daemons(daemon_set(), [node("a"), node("b"), node("c")], pods).actions()
    status = status_in(actions)
    assert (status["desiredNumberScheduled"], status["currentNumberScheduled"]) == (3, 2)
    assert (status["numberReady"], status["numberUnavailable"], status["numberMisscheduled"]) == (1, 2, 1)
