import pytest
from tests.support.reconciling import NOW, describe, make, pod, status_in, waits_in

from moorage.cluster.controllers.actions import Create, Patch
from moorage.cluster.controllers.replicaset import reconcile
from moorage.kube.api.meta import format_time
from moorage.kube.api.pod import Pod
from moorage.kube.api.workloads import ReplicaSet

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}}


def replica_set(replicas: int, **spec: object) -> ReplicaSet:
    return make(ReplicaSet, "web", spec={"replicas": replicas, "template": TEMPLATE, **spec})


CASES = {
    "missing pods are created": (2, [], ["create Pod web-", "create Pod web-"]),
    "the desired number of pods is unchanged": (1, [pod("a")], []),
    "finished pods do not count": (1, [pod("a", phase="Failed")], ["create Pod web-"]),
    "terminating pods do not count": (1, [pod("a", stopping=True)], ["create Pod web-"]),
    "a surplus pod without a node is deleted first": (1, [pod("a"), pod("b", phase="Pending", node="")], ["delete b"]),
    "then a pod that is not ready": (1, [pod("a", ready=False), pod("b")], ["delete a"]),
    "then a pod with a lower deletion cost": (
        1,
        [pod("a", annotations={"controller.kubernetes.io/pod-deletion-cost": "5"}), pod("b")],
        ["delete b"],
    ),
    "zero replicas delete all pods": (0, [pod("a"), pod("b")], ["delete a", "delete b"]),
}


@pytest.mark.parametrize(("replicas", "pods", "want"), CASES.values(), ids=CASES)
def test_replica_set_keeps_the_desired_number_of_pods(replicas: int, pods: list[Pod], want: list[str]) -> None:
    assert sorted(describe(reconcile(replica_set(replicas), pods, NOW))) == want


def test_pod_is_created_from_the_complete_template() -> None:
    (create, *_) = reconcile(replica_set(1), [], NOW)
    assert isinstance(create, Create)
    assert create.data["spec"] == TEMPLATE["spec"]
    assert create.data["metadata"]["labels"] == {"app": "web"}
    (owner,) = create.data["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("ReplicaSet", "uid-of-web", True)


def test_deleted_replica_set_creates_no_pods() -> None:
    dying = make(ReplicaSet, "web", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, spec={"replicas": 3})
    assert describe(reconcile(dying, [], NOW)) == []


def test_status_counts_pods() -> None:
    pods = [pod("a", labels={"app": "web"}), pod("b", ready=False), pod("c", ready_for=1.0)]
    actions = list(reconcile(replica_set(3, minReadySeconds=5), pods, NOW))
    assert status_in(actions) == {
        "replicas": 3,
        "fullyLabeledReplicas": 1,
        "readyReplicas": 2,
        "availableReplicas": 1,
        "observedGeneration": 1,
    }
    assert waits_in(actions) == [4.0], "the third pod will be available then"


REFUSAL = 'pods "web-" is forbidden: exceeded quota: most'
FAILURE = {
    "type": "ReplicaFailure",
    "status": "True",
    "reason": "FailedCreate",
    "message": REFUSAL,
    "lastTransitionTime": format_time(NOW),
}


def test_rejection_is_reported_before_the_next_attempt() -> None:
    actions = list(reconcile(replica_set(1), [], NOW, REFUSAL))
    assert status_in(actions)["conditions"] == [FAILURE]
    assert isinstance(actions[0], Patch)
    assert isinstance(actions[1], Create)


def test_rejection_is_cleared_when_no_pod_is_missing() -> None:
    existing = make(ReplicaSet, "web", spec={"replicas": 1, "template": TEMPLATE}, status={"conditions": [FAILURE]})
    assert status_in(reconcile(existing, [pod("a")], NOW))["conditions"] == []
    assert status_in(reconcile(existing, [pod("a")], NOW, REFUSAL))["conditions"] == []
