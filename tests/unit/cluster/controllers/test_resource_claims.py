from typing import Any

import pytest
from tests.support.reconciling import describe, make, pod, status_in

from moorage.cluster.controllers.actions import Create, Patch
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.resource_claims import MADE_FOR, PROTECTION, ClaimUseController, PodClaimController
from moorage.common.clock import VirtualClock
from moorage.kube.api.devices import ResourceClaim, ResourceClaimTemplate
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod

ASKS = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}
TEMPLATE = make(
    ResourceClaimTemplate,
    "one-gpu",
    spec={"metadata": {"labels": {"team": "ml"}}, "spec": {"devices": {"requests": [{"name": "r"}]}}},
)


def claim(*users: str, allocated: bool = True, owner: Pod | None = None, **metadata: Any) -> ResourceClaim:
    status: dict[str, Any] = {"reservedFor": [{"resource": "pods", "name": u, "uid": f"uid-of-{u}"} for u in users]}
    if allocated:
        status["allocation"] = {"devices": {}}
    metadata.setdefault("annotations", {MADE_FOR: "gpu"})
    return make(ResourceClaim, "p-gpu-x", owner=owner, metadata=metadata, status=status)


def test_claim_is_created_from_its_template() -> None:
    (create,) = PodClaimController(VirtualClock()).reconcile("shop/p", InformerCache([pod("p", **ASKS), TEMPLATE]))
    assert isinstance(create, Create)
    metadata = create.data["metadata"]
    assert (metadata["generateName"], metadata["labels"]) == ("p-gpu-", {"team": "ml"})
    assert metadata["annotations"] == {MADE_FOR: "gpu"}
    assert metadata["ownerReferences"][0]["kind"] == "Pod"
    assert create.data["spec"] == {"devices": {"requests": [{"name": "r"}]}}


def test_pod_status_names_its_claim() -> None:
    asking = pod("p", **ASKS)
    actions = PodClaimController(VirtualClock()).reconcile(
        "shop/p", InformerCache([asking, TEMPLATE, claim(owner=asking)])
    )
    assert status_in(actions) == {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x"}]}


def test_no_claim_without_a_template() -> None:
    assert describe(PodClaimController(VirtualClock()).reconcile("shop/p", InformerCache([pod("p", **ASKS)]))) == []


RUNNING, DONE = pod("p"), pod("p", phase="Succeeded")
DYING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [PROTECTION]}
Want = tuple[dict[str, Any], list[str]]
FREED = {"reservedFor": None, "allocation": None, "devices": None}
CASES: dict[str, tuple[list[KubeObject], Want]] = {
    "a claim in use is unchanged": ([claim("p"), RUNNING], ({}, [])),
    "the reservation of a finished pod is removed": ([claim("p"), DONE], (FREED, [])),
    "the reservation of a deleted pod is removed": ([claim("p")], (FREED, [])),
    "other reservations remain": (
        [claim("p", "q"), RUNNING],
        ({"reservedFor": [{"apiGroup": "", "resource": "pods", "name": "p", "uid": "uid-of-p"}]}, []),
    ),
    "an unreserved allocation remains": ([claim()], ({}, [])),
    "a terminating claim is deallocated": ([claim(**DYING)], (FREED, [])),
    "the finalizer of a deallocated claim is removed": ([claim(allocated=False, **DYING)], ({}, ["change p-gpu-x"])),
    "a claim with a finalizer but no allocation is unchanged": (
        [claim(allocated=False, finalizers=DYING["finalizers"])],
        ({}, []),
    ),
    "the claim of a finished pod is deleted": (
        [claim(allocated=False, owner=DONE), DONE],
        ({}, ["delete p-gpu-x"]),
    ),
}


@pytest.mark.parametrize(("objects", "want"), CASES.values(), ids=CASES)
def test_unused_claim_is_released(objects: list[KubeObject], want: Want) -> None:
    actions = list(ClaimUseController(VirtualClock()).reconcile("shop/p-gpu-x", InformerCache(objects)))
    assert (status_in(actions), describe(actions)) == want
    assert all(action.if_unchanged for action in actions if isinstance(action, Patch))
