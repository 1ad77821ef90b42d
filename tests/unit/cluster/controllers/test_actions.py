import msgspec
import pytest
from tests.support.reconciling import make, pod

from moorage.cluster.controllers.actions import (
    Create,
    Delete,
    Patch,
    build_request,
    has_effect,
    status_actions,
)
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod

POD = pod("p")


def test_creation_is_posted_with_its_kind() -> None:
    request = build_request(Create(Pod, {"metadata": {"name": "p", "namespace": "shop"}}))
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/shop/pods")
    assert msgspec.json.decode(request.body)["kind"] == "Pod"
    assert build_request(Create(Node, {"metadata": {"name": "n"}})).path == "/api/v1/nodes"


def test_patch_may_depend_on_the_version() -> None:
    request = build_request(Patch(POD, {"metadata": {"labels": {"a": "b"}}}, "status", if_unchanged=True))
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/shop/pods/p/status")
    assert request.content_type == "application/merge-patch+json"
    metadata = {"labels": {"a": "b"}, "resourceVersion": POD.metadata.resource_version}
    assert msgspec.json.decode(request.body) == {"metadata": metadata}
    assert msgspec.json.decode(build_request(Patch(POD, {"spec": {}})).body) == {"spec": {}}


def test_deletion_has_a_precondition() -> None:
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "uid-of-p"}}
    assert msgspec.json.decode(build_request(Delete(POD)).body) == options
    body = msgspec.json.decode(build_request(Delete(POD, grace=0, propagation="Foreground")).body)
    assert body == {**options, "gracePeriodSeconds": 0, "propagationPolicy": "Foreground"}


def test_only_changed_fields_of_a_status_are_patched() -> None:
    assert status_actions(POD, {"replicas": 1}, {"replicas": 1, "ready": 0, "conditions": []}) == []
    (patch,) = status_actions(POD, {"replicas": 1, "ready": 1}, {"replicas": 2, "ready": 1})
    assert isinstance(patch, Patch)
    assert (patch.patch, patch.subresource) == ({"status": {"replicas": 2}}, "status")


CONDITION = {"type": "DisruptionAllowed", "status": "True"}
BUDGET = make(PodDisruptionBudget, "b", status={"conditions": [CONDITION], "disruptedPods": {"p": "now"}})
PATCHES = {
    "the same list": ({"status": {"conditions": [CONDITION]}}, False),
    "a list with another status": ({"status": {"conditions": [{**CONDITION, "status": "False"}]}}, True),
    "a removed key": ({"status": {"disruptedPods": {"p": None}}}, True),
    "a key that is already missing": ({"status": {"disruptedPods": {"other": None}}}, False),
    "a new key next to an unchanged one": ({"status": {"disruptedPods": {"p": "now", "q": "now"}}}, True),
    "a field that the object lacks": ({"metadata": {"annotations": {"a": "b"}}}, True),
}


@pytest.mark.parametrize(("patch", "want"), PATCHES.values(), ids=PATCHES)
def test_patch_without_a_change_has_no_effect(patch: dict[str, object], want: bool) -> None:
    assert has_effect(Patch(BUDGET, patch, "status")) is want


def test_creation_and_deletion_always_have_an_effect() -> None:
    assert has_effect(Create(Pod, {"metadata": {"name": "p"}}))
    assert has_effect(Delete(POD))
