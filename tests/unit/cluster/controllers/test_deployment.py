from typing import Any

import pytest
from tests.support.reconciling import NOW, describe, make, status_in

from moorage.cluster.controllers.actions import ControllerAction, Create
from moorage.cluster.controllers.deployment import REVISION, Rollout
from moorage.kube.api.workloads import Deployment, ReplicaSet

Old = tuple[int, int]


def template(image: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def deployment(
    replicas: int = 4, *, image: str = "web:2", status: dict[str, Any] | None = None, **spec: Any
) -> Deployment:
    content = {"replicas": replicas, "template": template(image), **spec}
    return make(Deployment, "web", metadata={"annotations": {REVISION: "2"}}, spec=content, status=status or {})


def replica_set(name: str, image: str, revision: int, size: Old, **status: Any) -> ReplicaSet:
    replicas, available = size
    return make(
        ReplicaSet,
        name,
        metadata={"annotations": {REVISION: str(revision)}},
        spec={"replicas": replicas, "template": template(image)},
        status={"replicas": replicas, "availableReplicas": available, "readyReplicas": available, **status},
    )


def rollout(
    workload: Deployment, *, old: Old | None = None, new: Old | None = None, remaining: int = 0, now: float = NOW
) -> list[ControllerAction]:
    sets = []
    if old is not None:
        sets.append(replica_set("old", "web:1", 1, old))
    if new is not None:
        sets.append(replica_set("new", "web:2", 2, new))
    return list(Rollout(workload, sets, {item.uid: remaining for item in sets}, now).actions())


ROLLING = {
    "without an old replica set nothing is left to do": (deployment(), None, (4, 0), []),
    "the new replica set starts within maxSurge": (deployment(), (4, 4), (0, 0), ["scale new to 1"]),
    "the old replica set shrinks within maxUnavailable": (deployment(), (4, 4), (1, 0), ["scale old to 3"]),
    "unavailable new pods stop the scale-down": (deployment(), (3, 3), (1, 0), ["scale new to 2"]),
    "an available new pod allows the next scale-down": (deployment(), (3, 3), (2, 1), ["scale old to 2"]),
    "unavailable old pods are removed first": (deployment(), (4, 1), (1, 0), ["scale old to 3"]),
    "the old replica set ends with no pods": (deployment(), (1, 1), (4, 4), ["scale old to 0"]),
    "maxUnavailable of 100% removes all old pods": (
        deployment(strategy={"rollingUpdate": {"maxUnavailable": "100%", "maxSurge": 0}}),
        (4, 4),
        (0, 0),
        ["scale old to 0"],
    ),
    "the new replica set is scaled down": (deployment(2), None, (4, 4), ["scale new to 2"]),
    "the new replica set is scaled up": (deployment(9), None, (4, 4), ["scale new to 9"]),
    "a paused deployment is not rolled out": (deployment(paused=True), (3, 3), (1, 1), []),
    "Recreate removes the old pods first": (
        deployment(strategy={"type": "Recreate"}),
        (4, 4),
        (0, 0),
        ["scale old to 0"],
    ),
}


@pytest.mark.parametrize(("workload", "old", "new", "want"), ROLLING.values(), ids=ROLLING)
def test_rolling_update(workload: Deployment, old: Old | None, new: Old | None, want: list[str]) -> None:
    remaining = 4 if workload.spec.strategy.type == "Recreate" else 0
    assert describe(rollout(workload, old=old, new=new, remaining=remaining)) == want


def test_recreate_continues_after_the_last_old_pod_is_deleted() -> None:
    workload = deployment(strategy={"type": "Recreate"})
    assert describe(rollout(workload, old=(0, 0), new=(0, 0), remaining=0)) == ["scale new to 4"]


def test_new_template_is_a_new_replica_set() -> None:
    actions = rollout(deployment(strategy={"rollingUpdate": {"maxSurge": 1}}), old=(4, 4))
    create = actions[0]
    assert isinstance(create, Create)
    metadata, spec = create.data["metadata"], create.data["spec"]
    assert metadata["annotations"] == {REVISION: "2"}
    assert spec["replicas"] == 1
    hashed = spec["selector"]["matchLabels"]["pod-template-hash"]
    assert metadata["name"] == f"web-{hashed}"
    assert spec["template"]["metadata"]["labels"] == {"app": "web", "pod-template-hash": hashed}
    assert spec["template"]["spec"] == template("web:2")["spec"]


def test_rollback_makes_the_old_template_the_latest_revision() -> None:
    actions = rollout(deployment(image="web:1"), old=(0, 0), new=(4, 4))
    assert describe(actions) == ["change old", "change web", "scale old to 1"]


def test_old_replica_sets_are_kept_within_the_history_limit() -> None:
    sets = [replica_set(f"old-{number}", f"web:0.{number}", number, (0, 0)) for number in range(4)]
    sets.append(replica_set("new", "web:2", 9, (4, 4)))
    workload = make(
        Deployment,
        "web",
        metadata={"annotations": {REVISION: "9"}},
        spec={"replicas": 4, "template": template("web:2"), "revisionHistoryLimit": 2},
    )
    actions = Rollout(workload, sets, dict.fromkeys((item.uid for item in sets), 0), NOW).actions()
    assert describe(actions) == ["delete old-0", "delete old-1"]


def progress(status: dict[str, Any]) -> str:
    return next(item["reason"] for item in status["conditions"] if item["type"] == "Progressing")


def test_progress_is_reported() -> None:
    status = status_in(rollout(deployment(), old=(3, 3), new=(2, 1)))
    assert (status["replicas"], status["updatedReplicas"], status["unavailableReplicas"]) == (5, 2, 1)
    assert progress(status) == "ReplicaSetUpdated"


def test_completion_is_reported() -> None:
    status = status_in(rollout(deployment(), new=(4, 4)))
    assert progress(status) == "NewReplicaSetAvailable"
    available = next(item for item in status["conditions"] if item["type"] == "Available")
    assert (available["status"], available["reason"]) == ("True", "MinimumReplicasAvailable")


def test_progress_deadline_is_reported() -> None:
    first = status_in(rollout(deployment(progressDeadlineSeconds=60), old=(3, 3), new=(1, 0)))
    later = deployment(progressDeadlineSeconds=60, status=first)
    assert status_in(rollout(later, old=(3, 3), new=(1, 0), now=NOW + 59)) == {}
    assert progress(status_in(rollout(later, old=(3, 3), new=(1, 0), now=NOW + 60))) == "ProgressDeadlineExceeded"


def test_pause_and_resume_are_reported() -> None:
    paused = status_in(rollout(deployment(paused=True), new=(4, 4)))
    assert progress(paused) == "DeploymentPaused"
    assert progress(status_in(rollout(deployment(status=paused), new=(4, 4)))) == "DeploymentResumed"


def test_annotations_are_copied_to_the_replica_set() -> None:
    notes = {"kubernetes.io/change-cause": "a new image", REVISION: "7"}
    workload = make(Deployment, "web", metadata={"annotations": notes}, spec={"template": template("web:1")})
    (create, *_) = rollout(workload)
    assert isinstance(create, Create)
    assert create.data["metadata"]["annotations"] == {"kubernetes.io/change-cause": "a new image", REVISION: "1"}


def test_failure_of_the_replica_set_is_reported_while_it_lasts() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no room"}
    failed = replica_set("new", "web:2", 2, (0, 0), conditions=[failure | {"lastTransitionTime": "then"}])
    current = status_in(Rollout(deployment(), [failed], {failed.uid: 0}, NOW).actions())
    kinds = {item["type"]: item["reason"] for item in current["conditions"]}
    assert kinds["ReplicaFailure"] == "FailedCreate"
    status = status_in(rollout(deployment(status=current), new=(0, 0)))
    assert "ReplicaFailure" not in {item["type"] for item in status["conditions"]}
