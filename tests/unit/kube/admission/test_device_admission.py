"""Fields of device features that are off: kube-apiserver 1.37 left the same of all these objects."""

from typing import Any

import pytest
from tests.support.api import MERGE, ApiHarness, Data

from moorage.kube.features import FeatureGates

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
    slice_spec = {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": POOL,
        "devices": [{"name": "d", **device}],
        **spec,
    }
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": slice_spec}


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


@pytest.mark.release("1.37")
@pytest.mark.parametrize("name", SLICED)
def test_slices(name: str) -> None:
    sent, stored = SLICED[name]
    assert ApiHarness().create(SLICES, sent)["spec"] == stored["spec"]

    client = ApiHarness(gates=GATES[name])
    assert client.create(SLICES, sent)["spec"] == sent["spec"]
    later = ApiHarness(store=client.api.store)
    labeled = later.request("PATCH", f"{SLICES}/s", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert labeled["spec"] == sent["spec"], "what was there before stays"


def test_disabled_fields_are_not_added_on_update() -> None:
    client = ApiHarness()
    sent, stored = SLICED["resources of nodes"]
    client.create(SLICES, stored)
    changed = client.request("PATCH", f"{SLICES}/s", {"spec": sent["spec"]}, content_type=MERGE)
    assert changed["spec"] == stored["spec"]


def test_attribute_without_remaining_value_is_rejected() -> None:
    error = ApiHarness().request("POST", SLICES, of_slice({"attributes": {"numa": {"ints": [1]}}}), want=422)
    assert error["message"] == (
        'ResourceSlice.resource.k8s.io "s" is invalid: spec.devices[0].attributes[numa]: Invalid value: "": must '
        "specify one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
    )


def asking(extra: Data) -> Data:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **extra}
    requests = [{"name": "r", "exactly": exactly}, {"name": "s", "firstAvailable": [{"name": "x", **exactly}]}]
    return {"devices": {"requests": requests, "constraints": CONSTRAINTS}}


@pytest.mark.release("1.37")
@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_claims_and_their_templates(kind: str) -> None:
    def of(extra: Data) -> Data:
        return asking(extra) if kind == "ResourceClaim" else {"metadata": {}, "spec": asking(extra)}

    sent = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "c"}, "spec": of(DERIVED)}
    path = f"{RESOURCES}/namespaces/default/{kind.lower()}s"
    assert ApiHarness().create(path, sent)["spec"] == of({})
    client = ApiHarness(gates="DRADerivedAttributes=true")
    assert client.create(path, sent)["spec"] == of(DERIVED)
    later = ApiHarness(store=client.api.store)
    labeled = later.request("PATCH", f"{path}/c", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert labeled["spec"] == of(DERIVED)


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_admin_access_requires_a_label_of_the_namespace(kind: str) -> None:
    client, exactly = ApiHarness(), {"deviceClassName": "gpu", "adminAccess": True}
    first = {"name": "q", "firstAvailable": [{"name": "x", "deviceClassName": "gpu"}]}
    spec: Data = {
        "devices": {"requests": [first, {"name": "r", "exactly": exactly}, {"name": "s", "exactly": exactly}]}
    }
    spec = spec if kind == "ResourceClaim" else {"spec": spec}
    sent = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "c"}, "spec": spec}
    path = f"{RESOURCES}/namespaces/default/{kind.lower()}s"
    label = "resource.kubernetes.io/admin-access"
    why = f"Forbidden: admin access to devices requires the `{label}: true` label on the containing namespace"
    causes = client.request("POST", path, sent, want=422)["details"]["causes"]
    assert [(item["field"], item["message"]) for item in causes] == [("spec.devices.requests[1].adminAccess", why)]
    labels = {"metadata": {"labels": {label: "true"}}}
    client.request("PATCH", "/api/v1/namespaces/default", labels, content_type=MERGE)
    client.create(path, sent)


@pytest.mark.release("1.37")
def test_statuses() -> None:
    client = ApiHarness()
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    client.create(CLAIMS, {**claim, "spec": asking({})})
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d"}
    status = {"allocation": {"devices": {"results": [{**result, "skipNodeOperations": ["*"]}]}}}
    changed = client.request("PATCH", f"{CLAIMS}/c/status", {"status": status}, content_type=MERGE)
    assert changed["status"] == {"allocation": {"devices": {"results": [result]}}}

    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    client.create(PODS, {**pod, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    conditions = {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "a", "containers": ["c"]}]}
    changed = client.request("PATCH", f"{PODS}/p/status", {"status": conditions}, content_type=MERGE)
    assert "nodeAllocatableResourceClaimStatuses" not in changed["status"]


MASKED = "cidr('10.0.0.0/8').isMask()"
SELECTED = [{"cel": {"expression": "true"}}, {"cel": {"expression": MASKED}}]
REFUSED = "compilation failed: ERROR: undeclared reference to 'isMask' (in container '')"


def selecting(kind: str) -> tuple[Data, str]:
    """Return an object with a selector that calls isMask, and the path of the selector."""
    head = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "c"}}
    exactly = {"deviceClassName": "gpu", "selectors": SELECTED}
    claim = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    if kind == "DeviceClass":
        return {**head, "spec": {"selectors": SELECTED}}, "spec.selectors[1].cel.expression"
    path = "spec.devices.requests[0].exactly.selectors[1].cel.expression"
    if kind == "ResourceClaim":
        return {**head, "spec": claim}, path
    return {**head, "spec": {"spec": claim}}, f"spec.{path}"


@pytest.mark.parametrize("kind", ["DeviceClass", "ResourceClaim", "ResourceClaimTemplate"])
def test_new_selectors_call_is_mask_only_if_all_servers_have_1_38(kind: str) -> None:
    sent, field = selecting(kind)
    collection = f"{RESOURCES}/deviceclasses" if kind == "DeviceClass" else f"{CLAIMS[:-15]}/{kind.lower()}s"
    newest = ApiHarness(features=FeatureGates(release="1.38", oldest="1.38"))
    newest.create(collection, sent)
    for features in (FeatureGates(release="1.37"), FeatureGates(release="1.38")):
        refused = ApiHarness(features=features).request("POST", collection, sent, want=422)
        assert refused["details"]["causes"] == [
            {"reason": "FieldValueInvalid", "field": field, "message": f'Invalid value: "{MASKED}": {REFUSED}'}
        ]
        # A stored selector continues to work, and its object can be changed.
        older = ApiHarness(features=features, store=newest.api.store)
        older.request("PATCH", f"{collection}/c", {"metadata": {"labels": {"a": features.release}}}, content_type=MERGE)
