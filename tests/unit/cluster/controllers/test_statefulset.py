from typing import Any

import pytest
from tests.support.reconciling import NOW, make, pod, said, status_in

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


def ordinals(wanted: StatefulSet, *pods: Pod, claims: tuple[str, ...] = ()) -> Ordinals:
    known = {name: make(PersistentVolumeClaim, name) for name in claims}
    return Ordinals(wanted, {item.name: item for item in pods}, known, NOW, History(wanted, [OLD]))


CASES = {
    "the first pod is made alone": (stateful_set(3), [], ["create Pod db-0"]),
    "the next waits until it is ready": (stateful_set(3), [member(0, ready=False)], []),
    "then it is made": (stateful_set(3), [member(0)], ["create Pod db-1"]),
    "in parallel, nobody waits": (
        stateful_set(2, podManagementPolicy="Parallel"),
        [],
        ["create Pod db-0", "create Pod db-1"],
    ),
    "numbers may begin elsewhere": (stateful_set(1, ordinals={"start": 7}), [], ["create Pod db-7"]),
    "a hole is filled first": (stateful_set(2), [member(1)], ["create Pod db-0"]),
    "a pod that has failed is deleted, to be made anew": (
        stateful_set(1),
        [member(0, phase="Failed")],
        ["delete db-0"],
    ),
    "a pod that is stopping is waited for": (stateful_set(2), [member(0, stopping=True), member(1)], []),
    "the highest goes first": (stateful_set(1), [member(0), member(1), member(2)], ["delete db-2"]),
    "one at a time": (stateful_set(1), [member(0), member(1), member(2, stopping=True)], []),
    "an old one is replaced from the top": (
        stateful_set(2),
        [member(0, revision="old"), member(1, revision="old")],
        ["delete db-1"],
    ),
    "the next only when that is back": (stateful_set(2), [member(0, revision="old"), member(1, ready=False)], []),
    "several at a time, if so many may be missing": (
        stateful_set(3, updateStrategy={"rollingUpdate": {"maxUnavailable": 2}}),
        [member(0, revision="old"), member(1, revision="old"), member(2, revision="old")],
        ["delete db-2", "delete db-1"],
    ),
    "one that is missing counts": (
        stateful_set(3, updateStrategy={"rollingUpdate": {"maxUnavailable": 2}}, podManagementPolicy="Parallel"),
        [member(0, revision="old"), member(1, revision="old"), member(2, stopping=True)],
        ["delete db-1"],
    ),
    "those below the partition stay as they are": (
        stateful_set(2, updateStrategy={"rollingUpdate": {"partition": 1}}),
        [member(0, revision="old"), member(1)],
        [],
    ),
    "nobody is replaced who is not deleted by hand": (
        stateful_set(1, updateStrategy={"type": "OnDelete"}),
        [member(0, revision="old")],
        [],
    ),
}


@pytest.mark.parametrize(("wanted", "pods", "want"), CASES.values(), ids=CASES)
def test_one_after_the_other(wanted: StatefulSet, pods: list[Pod], want: list[str]) -> None:
    if wanted.spec.update_strategy.rolling_update.partition:
        wanted = make(StatefulSet, "db", spec=_spec(wanted), status={"currentRevision": "old"})
    assert said(ordinals(wanted, *pods).actions()) == want


def _spec(wanted: StatefulSet) -> dict[str, Any]:
    return {"replicas": 2, "template": TEMPLATE, "updateStrategy": {"rollingUpdate": {"partition": 1}}}


def test_each_pod_has_a_name_and_volumes_of_its_own() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    wanted = stateful_set(1, volumeClaimTemplates=[claim])
    actions = list(ordinals(wanted).actions())
    assert said(actions) == ["create PersistentVolumeClaim data-db-0", "create Pod db-0"]
    made = actions[1]
    assert isinstance(made, Create)
    assert made.data["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
    assert made.data["spec"]["hostname"] == "db-0"
    assert made.data["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"


def test_a_claim_that_is_there_is_used_again() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {}}
    wanted = stateful_set(1, volumeClaimTemplates=[claim])
    assert said(ordinals(wanted, claims=("data-db-0",)).actions()) == ["create Pod db-0"]


def test_a_pod_below_the_partition_is_made_from_the_template_before() -> None:
    wanted = make(StatefulSet, "db", spec=_spec(stateful_set(2)), status={"currentRevision": "old"})
    (made,) = [action for action in ordinals(wanted, member(1)).actions() if isinstance(action, Create)]
    assert made.data["spec"]["containers"][0]["image"] == "db:0"
    assert made.data["metadata"]["labels"][REVISION_LABEL] == "old"


def test_a_pod_waits_for_the_end_of_a_claim_that_is_being_deleted() -> None:
    wanted = stateful_set(1, volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {}}])
    doomed = make(PersistentVolumeClaim, "data-db-0", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert said(Ordinals(wanted, {}, {"data-db-0": doomed}, NOW, History(wanted, [])).actions()) == []


def test_the_update_is_over_when_all_are_new_and_ready() -> None:
    updating = make(StatefulSet, "db", spec={"replicas": 2, "template": TEMPLATE}, status={"currentRevision": "old"})
    half = status_in(ordinals(updating, member(0, revision="old"), member(1)).actions())
    assert (half["updatedReplicas"], half["updateRevision"]) == (1, CURRENT)
    assert "currentRevision" not in half, "it is as it was"
    done = status_in(ordinals(updating, member(0), member(1)).actions())
    assert (done["currentRevision"], done["currentReplicas"]) == (CURRENT, 2)


def test_two_billion_pods_are_made_a_burst_at_a_time() -> None:
    many = ordinals(stateful_set(2**31 - 1, podManagementPolicy="Parallel"))
    assert len([action for action in many.actions() if isinstance(action, Create) and action.kind is Pod]) == 500


def retaining(deleted: str = "Retain", scaled: str = "Retain") -> StatefulSet:
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    return make(StatefulSet, "db", spec={"persistentVolumeClaimRetentionPolicy": policy})


SET, POD = retaining(), pod("db-1")
RETENTION: dict[str, tuple[StatefulSet, bool, KubeObject | None, list[str] | None]] = {
    "claims are kept, unless told otherwise": (SET, False, None, None),
    "those of pods that are scaled away as well": (SET, True, None, None),
    "they go with the set": (retaining(deleted="Delete"), False, None, ["db"]),
    "they go with pods that are scaled away": (retaining(scaled="Delete"), True, None, ["db-1"]),
    "not with pods that stay": (retaining(scaled="Delete"), False, None, None),
    "a claim that has its owner is left alone": (retaining(deleted="Delete"), False, SET, None),
    "scaling counts for more than deletion": (retaining("Delete", "Delete"), True, SET, ["db-1"]),
    "a claim that is to be kept again has no owner": (SET, False, SET, []),
}


@pytest.mark.parametrize(("wanted", "is_surplus", "owner", "want"), RETENTION.values(), ids=RETENTION)
def test_retention_policy_sets_the_owner_of_claims(
    wanted: StatefulSet, is_surplus: bool, owner: KubeObject | None, want: list[str] | None
) -> None:
    claim = make(PersistentVolumeClaim, "data-db-1", owner=owner)
    actions = list(claim_owners(wanted, POD, [claim], is_surplus=is_surplus))
    assert [_owners(action) for action in actions] == ([want] if want is not None else [])


def _owners(action: Any) -> list[str]:
    assert isinstance(action, Patch)
    return [owner["name"] for owner in action.patch["metadata"]["ownerReferences"]]
