from typing import Any

import pytest
from tests.support.reconciling import make, pod, said, status_in

from moorage.cluster.controllers.actions import Create, Patch
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.resource_claims import MADE_FOR, PROTECTION, ClaimUseController, PodClaimController
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


def test_a_claim_is_made_from_its_template() -> None:
    (create,) = PodClaimController().reconcile("shop/p", InformerCache([pod("p", **ASKS), TEMPLATE]))
    assert isinstance(create, Create)
    metadata = create.data["metadata"]
    assert (metadata["generateName"], metadata["labels"]) == ("p-gpu-", {"team": "ml"})
    assert metadata["annotations"] == {MADE_FOR: "gpu"}
    assert metadata["ownerReferences"][0]["kind"] == "Pod"
    assert create.data["spec"] == {"devices": {"requests": [{"name": "r"}]}}


def test_the_pod_is_told_which_claim_is_its_own() -> None:
    asking = pod("p", **ASKS)
    actions = PodClaimController().reconcile("shop/p", InformerCache([asking, TEMPLATE, claim(owner=asking)]))
    assert status_in(actions) == {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x"}]}


def test_without_the_template_nothing_can_be_made() -> None:
    assert said(PodClaimController().reconcile("shop/p", InformerCache([pod("p", **ASKS)]))) == []


RUNNING, DONE = pod("p"), pod("p", phase="Succeeded")
DYING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [PROTECTION]}
Want = tuple[dict[str, Any], list[str]]
FREED = {"reservedFor": None, "allocation": None, "devices": None}
CASES: dict[str, tuple[list[KubeObject], Want]] = {
    "a claim in use is left alone": ([claim("p"), RUNNING], ({}, [])),
    "a pod that has ended uses it no more": ([claim("p"), DONE], (FREED, [])),
    "nor does one that is gone": ([claim("p")], (FREED, [])),
    "others may still": (
        [claim("p", "q"), RUNNING],
        ({"reservedFor": [{"apiGroup": "", "resource": "pods", "name": "p", "uid": "uid-of-p"}]}, []),
    ),
    "one allocated by hand stays so": ([claim()], ({}, [])),
    "unless it is deleted": ([claim(**DYING)], (FREED, [])),
    "what holds nothing is let go": ([claim(allocated=False, **DYING)], ({}, ["change p-gpu-x"])),
    "what is about to be allocated is left alone": ([claim(allocated=False, finalizers=DYING["finalizers"])], ({}, [])),
    "the claim of a pod that has ended goes with it": (
        [claim(allocated=False, owner=DONE), DONE],
        ({}, ["delete p-gpu-x"]),
    ),
}


@pytest.mark.parametrize(("objects", "want"), CASES.values(), ids=CASES)
def test_gives_back_what_is_not_used(objects: list[KubeObject], want: Want) -> None:
    actions = list(ClaimUseController().reconcile("shop/p-gpu-x", InformerCache(objects)))
    assert (status_in(actions), said(actions)) == want
    assert all(action.if_unchanged for action in actions if isinstance(action, Patch))
