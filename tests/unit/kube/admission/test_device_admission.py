"""Fields of device features that are off: kube-apiserver 1.37 left the same of each of these objects."""

from typing import Any

import pytest
from tests.support.api import MERGE, Asked, Data

RESOURCES = "/apis/resource.k8s.io/v1"
SLICES = f"{RESOURCES}/resourceslices"
CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
POOL = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
COUNTED = {"counterSet": "c", "counters": {"m": {"value": "1"}}}
CPU = {"cpu": {"mapping": {"deviceMultiplier": "2"}}}
DERIVED = {"derivedAttributes": [{"name": "gpu.example.com/numa", "expression": "1"}]}
CONSTRAINTS = [{"matchAttribute": "gpu.example.com/numa"}]
GATES = {
    "skipped work on nodes": "DRAOptionalNodeOperations=true,NodeDeclaredFeatures=true",
    "resources of nodes": "DRANodeAllocatableResources=true",
    "lists": "DRAListTypeAttributes=true",
    "compatibility groups": "DRADeviceCompatibilityGroups=true",
}


def of_slice(device: Data, **spec: Any) -> Data:
    whole = {"driver": "gpu.example.com", "nodeName": "n1", "pool": POOL, "devices": [{"name": "d", **device}], **spec}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": whole}


SLICED: dict[str, tuple[Data, Data]] = {
    "skipped work on nodes": (of_slice({}, skipNodeOperations=["*"]), of_slice({})),
    "resources of nodes": (of_slice({"nodeAllocatableResources": CPU}), of_slice({})),
    "lists": (
        of_slice({"attributes": {"numa": {"int": 1, "ints": [1, 2]}}}),
        of_slice({"attributes": {"numa": {"int": 1}}}),
    ),
    "compatibility groups": (
        of_slice({"consumesCounters": [{**COUNTED, "compatibilityGroups": ["a"]}]}),
        of_slice({"consumesCounters": [COUNTED]}),
    ),
}


@pytest.mark.parametrize("name", SLICED)
def test_slices(name: str) -> None:
    sent, left = SLICED[name]
    assert Asked().create(SLICES, sent)["spec"] == left["spec"]

    asked = Asked(gates=GATES[name])
    assert asked.create(SLICES, sent)["spec"] == sent["spec"]
    later = Asked(store=asked.api.store)
    labelled = later.got("PATCH", f"{SLICES}/s", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert labelled["spec"] == sent["spec"], "what was there before stays"


def test_a_slice_does_not_get_them_later() -> None:
    asked = Asked()
    sent, left = SLICED["resources of nodes"]
    asked.create(SLICES, left)
    changed = asked.got("PATCH", f"{SLICES}/s", {"spec": sent["spec"]}, content_type=MERGE)
    assert changed["spec"] == left["spec"]


def test_an_attribute_of_which_nothing_is_left_is_refused() -> None:
    refused = Asked().got("POST", SLICES, of_slice({"attributes": {"numa": {"ints": [1]}}}), want=422)
    assert refused["message"] == (
        'ResourceSlice.resource.k8s.io "s" is invalid: spec.devices[0].attributes[numa]: Invalid value: "": must '
        "specify one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
    )


def asking(extra: Data) -> Data:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **extra}
    requests = [{"name": "r", "exactly": exactly}, {"name": "s", "firstAvailable": [{"name": "x", **exactly}]}]
    return {"devices": {"requests": requests, "constraints": CONSTRAINTS}}


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_claims_and_their_templates(kind: str) -> None:
    def of(extra: Data) -> Data:
        return asking(extra) if kind == "ResourceClaim" else {"spec": asking(extra)}

    sent = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "c"}, "spec": of(DERIVED)}
    path = f"{RESOURCES}/namespaces/default/{kind.lower()}s"
    assert Asked().create(path, sent)["spec"] == of({})
    asked = Asked(gates="DRADerivedAttributes=true")
    assert asked.create(path, sent)["spec"] == of(DERIVED)
    later = Asked(store=asked.api.store)
    labelled = later.got("PATCH", f"{path}/c", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert labelled["spec"] == of(DERIVED)


def test_statuses() -> None:
    asked = Asked()
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    asked.create(CLAIMS, {**claim, "spec": asking({})})
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d"}
    status = {"allocation": {"devices": {"results": [{**result, "skipNodeOperations": ["*"]}]}}}
    changed = asked.got("PATCH", f"{CLAIMS}/c/status", {"status": status}, content_type=MERGE)
    assert changed["status"] == {"allocation": {"devices": {"results": [result]}}}

    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    asked.create(PODS, {**pod, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    told = {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "a", "containers": ["c"]}]}
    changed = asked.got("PATCH", f"{PODS}/p/status", {"status": told}, content_type=MERGE)
    assert "nodeAllocatableResourceClaimStatuses" not in changed["status"]
