from typing import Any

import pytest
from tests.support.reconciling import NOW, make, pod

from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import (
    adopter_keys,
    is_available,
    owner_keys,
    pod_claims,
    pod_from_template,
    scaled,
    with_condition,
    without_finalizer,
    without_owner,
)
from moorage.common.errors import InputError
from moorage.kube.api.pod import Pod
from moorage.kube.api.workloads import ReplicaSet

WEB = make(ReplicaSet, "web", spec={"selector": {"matchLabels": {"app": "web"}}})
OTHER = make(ReplicaSet, "other", spec={"selector": {"matchLabels": {"app": "other"}}})

CLAIMS: dict[str, tuple[list[Pod], list[list[str]]]] = {
    "an orphan that matches the selector is adopted": ([pod("a", labels={"app": "web"})], [["web"]]),
    "an orphan with other labels is ignored": ([pod("a", labels={"app": "db"})], []),
    "a finished orphan is ignored": ([pod("a", labels={"app": "web"}, phase="Succeeded")], []),
    "a pod with changed labels is released": ([pod("a", owner=WEB, labels={"app": "db"})], [[]]),
    "a terminating pod is not released": ([pod("a", owner=WEB, labels={"app": "db"}, stopping=True)], []),
    "a pod of another owner is ignored": ([pod("a", owner=OTHER, labels={"app": "web"})], []),
}


@pytest.mark.parametrize(("pods", "owners"), CLAIMS.values(), ids=CLAIMS)
def test_pods_are_adopted_and_released(pods: list[Pod], owners: list[list[str]]) -> None:
    patches = pod_claims(WEB, InformerCache([WEB, OTHER, *pods]))
    references = [patch.patch["metadata"]["ownerReferences"] for patch in patches]
    assert [[item["name"] for item in items] for items in references] == owners
    assert all(patch.if_unchanged for patch in patches)


def test_keys_of_owners_and_adopters() -> None:
    assert list(owner_keys(pod("a", owner=WEB), ReplicaSet)) == ["shop/web"]
    assert list(owner_keys(pod("a", owner=WEB), Pod)) == []
    assert list(adopter_keys(pod("a", labels={"app": "web"}), [WEB, OTHER])) == ["shop/web"]
    assert list(adopter_keys(pod("a", owner=OTHER, labels={"app": "web"}), [WEB, OTHER])) == []


def test_only_one_reference_or_finalizer_is_removed() -> None:
    references = [{"kind": "A", "name": "a", "uid": "1", "controller": False}, {"kind": "B", "name": "b", "uid": "2"}]
    obj = make(ReplicaSet, "web", metadata={"ownerReferences": references, "finalizers": ["x", "y"]})
    assert without_owner(obj, "2").patch == {"metadata": {"ownerReferences": references[:1]}}
    assert without_finalizer(obj, "x").patch == {"metadata": {"finalizers": ["y"]}}


def test_pod_merges_metadata_with_its_template() -> None:
    template = {"metadata": {"labels": {"app": "web"}, "annotations": {"a": "1"}}, "spec": {"nodeName": "n"}}
    data = pod_from_template(WEB, template, name="web-0", labels={"index": "0"})
    assert data["metadata"]["labels"] == {"app": "web", "index": "0"}
    assert data["metadata"]["annotations"] == {"a": "1"}
    assert (data["metadata"]["name"], data["metadata"]["namespace"]) == ("web-0", "shop")
    assert data["spec"] == template["spec"]
    assert data["spec"] is not template["spec"]


def test_pod_is_available_after_min_ready_seconds() -> None:
    assert is_available(pod(ready_for=10.0), 10, NOW)
    assert not is_available(pod(ready_for=9.0), 10, NOW)
    assert not is_available(pod(ready=False), 0, NOW)


@pytest.mark.parametrize("amount", ["ten", "10", "-5%", "1.5%"])
def test_invalid_percentage_is_rejected(amount: str) -> None:
    with pytest.raises(InputError, match="neither a number nor a percentage"):
        scaled(amount, 10, round_up=True)


READY: dict[str, Any] = {"type": "Ready", "status": "True", "reason": "Up", "lastTransitionTime": "t0"}
CONDITIONS = {
    "an equal condition remains": ({"type": "Ready", "status": "True", "reason": "Up"}, [READY]),
    "a new status has a new transition time": (
        {"type": "Ready", "status": "False", "reason": "Down"},
        [{"type": "Ready", "status": "False", "reason": "Down", "lastTransitionTime": "t1"}],
    ),
    "a new reason keeps the transition time": (
        {"type": "Ready", "status": "True", "reason": "Back"},
        [{"type": "Ready", "status": "True", "reason": "Back", "lastTransitionTime": "t0"}],
    ),
    "another condition is added": (
        {"type": "Failed", "status": "True"},
        [READY, {"type": "Failed", "status": "True", "lastTransitionTime": "t1"}],
    ),
}


@pytest.mark.parametrize(("desired", "want"), CONDITIONS.values(), ids=CONDITIONS)
def test_conditions_are_replaced_by_type(desired: dict[str, str], want: list[dict[str, Any]]) -> None:
    assert with_condition([READY], "t1", **desired) == want
