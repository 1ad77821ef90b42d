from typing import Any

import pytest
from tests.support.reconciling import NOW, describe, make, pod, status_in

from moorage.cluster.controllers.actions import Create, Patch
from moorage.cluster.controllers.revisions import REVISION_LABEL, History
from moorage.cluster.controllers.statefulset import Ordinals, claim_owners
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolumeClaim
from moorage.kube.api.workloads import ControllerRevision, StatefulSet

TEMPLATE = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "db:1"}]}}


def stateful_set(replicas: int, **spec: Any) -> StatefulSet:
    return make(StatefulSet, "db", spec={"replicas": replicas, "template": TEMPLATE, "serviceName": "db", **spec})


CURRENT = History(stateful_set(1), []).name
OLD_TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "db:0"}]}}
OLD = make(ControllerRevision, "old", data={"spec": {"template": OLD_TEMPLATE}}, revision=1)


def member(number: int, *, revision: str = CURRENT, **state: Any) -> Pod:
    return pod(f"db-{number}", labels={REVISION_LABEL: revision}, **state)


def ordinals(workload: StatefulSet, *pods: Pod, claims: tuple[str, ...] = ()) -> Ordinals:
    existing = {name: make(PersistentVolumeClaim, name) for name in claims}
    return Ordinals(workload, {item.name: item for item in pods}, existing, NOW, History(workload, [OLD]))


CASES = {
    "the first pod is created alone": (stateful_set(3), [], ["create Pod db-0"]),
    "the next pod waits until the first is ready": (stateful_set(3), [member(0, ready=False)], []),
    "the next pod follows a ready pod": (stateful_set(3), [member(0)], ["create Pod db-1"]),
    "parallel pods do not wait for each other": (
        stateful_set(2, podManagementPolicy="Parallel"),
        [],
        ["create Pod db-0", "create Pod db-1"],
    ),
    "ordinals can start at another number": (stateful_set(1, ordinals={"start": 7}), [], ["create Pod db-7"]),
    "a missing pod is created first": (stateful_set(2), [member(1)], ["create Pod db-0"]),
    "a failed pod is deleted and recreated": (
        stateful_set(1),
        [member(0, phase="Failed")],
        ["delete db-0"],
    ),
    "a terminating pod is waited for": (stateful_set(2), [member(0, stopping=True), member(1)], []),
    "the highest ordinal is removed first": (stateful_set(1), [member(0), member(1), member(2)], ["delete db-2"]),
    "pods are removed one at a time": (stateful_set(1), [member(0), member(1), member(2, stopping=True)], []),
    "outdated pods are replaced from the highest ordinal": (
        stateful_set(2),
        [member(0, revision="old"), member(1, revision="old")],
        ["delete db-1"],
    ),
    "the next pod is replaced when the last one is available": (
        stateful_set(2),
        [member(0, revision="old"), member(1, ready=False)],
        [],
    ),
    "maxUnavailable pods are replaced at a time": (
        stateful_set(3, updateStrategy={"rollingUpdate": {"maxUnavailable": 2}}),
        [member(0, revision="old"), member(1, revision="old"), member(2, revision="old")],
        ["delete db-2", "delete db-1"],
    ),
    "missing pods are unavailable": (
        stateful_set(3, updateStrategy={"rollingUpdate": {"maxUnavailable": 2}}, podManagementPolicy="Parallel"),
        [member(0, revision="old"), member(1, revision="old"), member(2, stopping=True)],
        ["delete db-1"],
    ),
    "pods below the partition remain": (
        stateful_set(2, updateStrategy={"rollingUpdate": {"partition": 1}}),
        [member(0, revision="old"), member(1)],
        [],
    ),
    "with OnDelete no pod is replaced": (
        stateful_set(1, updateStrategy={"type": "OnDelete"}),
        [member(0, revision="old")],
        [],
    ),
}


@pytest.mark.parametrize(("workload", "pods", "want"), CASES.values(), ids=CASES)
def test_pods_are_created_in_order(workload: StatefulSet, pods: list[Pod], want: list[str]) -> None:
    if workload.spec.update_strategy.rolling_update.partition:
        workload = make(StatefulSet, "db", spec=_spec(workload), status={"currentRevision": "old"})
    assert describe(ordinals(workload, *pods).actions()) == want


def _spec(workload: StatefulSet) -> dict[str, Any]:
    return {"replicas": 2, "template": TEMPLATE, "updateStrategy": {"rollingUpdate": {"partition": 1}}}


def test_each_pod_has_its_own_name_and_volumes() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    workload = stateful_set(1, volumeClaimTemplates=[claim])
    actions = list(ordinals(workload).actions())
    assert describe(actions) == ["create PersistentVolumeClaim data-db-0", "create Pod db-0"]
    created = actions[1]
    assert isinstance(created, Create)
    assert created.data["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
    assert created.data["spec"]["hostname"] == "db-0"
    assert created.data["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"


def test_existing_claim_is_reused() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {}}
    workload = stateful_set(1, volumeClaimTemplates=[claim])
    assert describe(ordinals(workload, claims=("data-db-0",)).actions()) == ["create Pod db-0"]


def test_pod_below_the_partition_is_made_from_the_template_before() -> None:
    workload = make(StatefulSet, "db", spec=_spec(stateful_set(2)), status={"currentRevision": "old"})
    (created,) = [action for action in ordinals(workload, member(1)).actions() if isinstance(action, Create)]
    assert created.data["spec"]["containers"][0]["image"] == "db:0"
    assert created.data["metadata"]["labels"][REVISION_LABEL] == "old"


def test_pod_waits_for_the_deletion_of_its_old_claim() -> None:
    workload = stateful_set(1, volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {}}])
    doomed = make(PersistentVolumeClaim, "data-db-0", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert describe(Ordinals(workload, {}, {"data-db-0": doomed}, NOW, History(workload, [])).actions()) == []


def test_the_update_is_over_when_all_are_new_and_ready() -> None:
    updating = make(StatefulSet, "db", spec={"replicas": 2, "template": TEMPLATE}, status={"currentRevision": "old"})
    half = status_in(ordinals(updating, member(0, revision="old"), member(1)).actions())
    assert (half["updatedReplicas"], half["updateRevision"]) == (1, CURRENT)
    assert "currentRevision" not in half, "it is as it was"
    finished = status_in(ordinals(updating, member(0), member(1)).actions())
    assert (finished["currentRevision"], finished["currentReplicas"]) == (CURRENT, 2)


def test_two_billion_pods_are_created_in_bursts() -> None:
    many = ordinals(stateful_set(2**31 - 1, podManagementPolicy="Parallel"))
    assert len([action for action in many.actions() if isinstance(action, Create) and action.kind is Pod]) == 500


def retaining(deleted: str = "Retain", scaled: str = "Retain") -> StatefulSet:
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    return make(StatefulSet, "db", spec={"persistentVolumeClaimRetentionPolicy": policy})


SET, POD = retaining(), pod("db-1")
RETENTION: dict[str, tuple[StatefulSet, bool, KubeObject | None, list[str] | None]] = {
    "claims are retained by default": (SET, False, None, None),
    "claims of removed ordinals are retained by default": (SET, True, None, None),
    "whenDeleted makes the set the owner": (retaining(deleted="Delete"), False, None, ["db"]),
    "whenScaled makes the removed pod the owner": (retaining(scaled="Delete"), True, None, ["db-1"]),
    "whenScaled does not affect other pods": (retaining(scaled="Delete"), False, None, None),
    "a claim with the right owner is unchanged": (retaining(deleted="Delete"), False, SET, None),
    "whenScaled takes precedence over whenDeleted": (retaining("Delete", "Delete"), True, SET, ["db-1"]),
    "the owner of a retained claim is removed": (SET, False, SET, []),
}


@pytest.mark.parametrize(("workload", "is_surplus", "owner", "want"), RETENTION.values(), ids=RETENTION)
def test_retention_policy_sets_the_owner_of_claims(
    workload: StatefulSet, is_surplus: bool, owner: KubeObject | None, want: list[str] | None
) -> None:
    claim = make(PersistentVolumeClaim, "data-db-1", owner=owner)
    actions = list(claim_owners(workload, POD, [claim], is_surplus=is_surplus))
    assert [_owners(action) for action in actions] == ([want] if want is not None else [])


def _owners(action: Any) -> list[str]:
    assert isinstance(action, Patch)
    return [owner["name"] for owner in action.patch["metadata"]["ownerReferences"]]
