from typing import Any

import pytest
from tests.support.reconciling import make, pod

from moorage.cluster.controllers.actions import Patch
from moorage.cluster.controllers.retention import claim_owners
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.storage import PersistentVolumeClaim
from moorage.kube.api.workloads import StatefulSet


def stateful_set(deleted: str = "Retain", scaled: str = "Retain") -> StatefulSet:
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    return make(StatefulSet, "db", spec={"persistentVolumeClaimRetentionPolicy": policy})


SET, POD = stateful_set(), pod("db-1")
CASES: dict[str, tuple[StatefulSet, bool, KubeObject | None, list[str] | None]] = {
    "claims are kept, unless told otherwise": (SET, False, None, None),
    "those of pods that are scaled away as well": (SET, True, None, None),
    "they go with the set": (stateful_set(deleted="Delete"), False, None, ["db"]),
    "they go with pods that are scaled away": (stateful_set(scaled="Delete"), True, None, ["db-1"]),
    "not with pods that stay": (stateful_set(scaled="Delete"), False, None, None),
    "a claim that has its owner is left alone": (stateful_set(deleted="Delete"), False, SET, None),
    "scaling counts for more than deletion": (stateful_set("Delete", "Delete"), True, SET, ["db-1"]),
    "a claim that is to be kept again has no owner": (SET, False, SET, []),
}


@pytest.mark.parametrize(("wanted", "is_surplus", "owner", "want"), CASES.values(), ids=CASES)
def test_claims_name_whoever_takes_them_along(
    wanted: StatefulSet, is_surplus: bool, owner: KubeObject | None, want: list[str] | None
) -> None:
    claim = make(PersistentVolumeClaim, "data-db-1", owner=owner)
    actions = list(claim_owners(wanted, POD, [claim], is_surplus=is_surplus))
    assert [_owners(action) for action in actions] == ([want] if want is not None else [])


def _owners(action: Any) -> list[str]:
    assert isinstance(action, Patch)
    return [owner["name"] for owner in action.patch["metadata"]["ownerReferences"]]
