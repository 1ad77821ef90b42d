"""Objects are served in each version of their kind."""

import itertools

import pytest
from tests.support.api import MERGE, ApiHarness

V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
V2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
NOTES = {"autoscaling.alpha.kubernetes.io/conditions": "[]", "team": "web"}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def cpu_percent(autoscaler):
    [metric] = autoscaler["spec"]["metrics"]
    return metric["resource"]["target"]["averageUtilization"]


def test_autoscaler_is_written_and_read_in_both_versions():
    client = ApiHarness()
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
    created = client.create(
        f"{V1}?fieldValidation=Strict", {"metadata": {"name": "web", "annotations": NOTES}, "spec": spec}
    )
    assert created["metadata"]["annotations"] == {"team": "web"}
    assert (created["apiVersion"], created["spec"]) == ("autoscaling/v1", {**spec, "minReplicas": 1})
    assert created["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    assert cpu_percent(client.get(f"{V2}/web")) == 50
    client.request("PATCH", f"{V1}/web", {"spec": {"targetCPUUtilizationPercentage": 70}}, content_type=MERGE)
    assert cpu_percent(client.get(f"{V2}/web")) == 70
    replaced = client.get(f"{V1}/web")
    replaced["spec"]["maxReplicas"] = 9
    client.request("PUT", f"{V1}/web", replaced)
    assert [item["spec"]["maxReplicas"] for item in client.get(V1)["items"]] == [9]


def test_change_in_the_old_version_keeps_fields_of_the_new_one():
    client = ApiHarness()
    memory = {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 60}}
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 3, "metrics": [{"type": "Resource", "resource": memory}]}
    spec["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    before = client.create(V2, {"metadata": {"name": "web"}, "spec": spec})["spec"]
    client.request("PATCH", f"{V1}/web", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert client.get(f"{V2}/web")["spec"] == before
    replaced = client.get(f"{V1}/web")
    client.request("PUT", f"{V1}/web", {**replaced, "spec": {**replaced["spec"], "maxReplicas": 9}})
    assert client.get(f"{V2}/web")["spec"] == {**before, "maxReplicas": 9}


def test_event_of_the_newer_group_can_be_patched():
    client = ApiHarness()
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {"metadata": {"name": "e"}, "note": "old", "regarding": {"kind": "Pod", "name": "web"}}
    client.create(events, {**event, "eventTime": "2026-01-02T03:04:05.000000Z", "action": "Bind", "type": "Normal"})
    client.request("PATCH", f"{events}/e", {"note": "new"}, content_type=MERGE)
    assert client.get("/api/v1/namespaces/default/events/e")["message"] == "new"


WRONG_TYPES = (1, "text", True, ["item"], [["pair", 1]], {"targetCPUUtilizationPercentage": "many"})
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


@pytest.mark.parametrize(("path", "field"), [(V1, "spec"), (V1, "status"), (V1, "metadata"), (EVENTS, "regarding")])
def test_fields_of_wrong_types_are_rejected_before_a_conversion(path, field):
    client = ApiHarness()
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 3}
    regarding = {"kind": "Pod", "name": "web", "namespace": "default"}
    event = {"eventTime": "2026-01-02T03:04:05.000000Z", "action": "Bind", "type": "Normal", "reason": "Scheduled"}
    reporter = {"reportingController": "test", "reportingInstance": "test", "regarding": regarding}
    valid = {"metadata": {"name": "web"}} | ({"spec": spec} if path == V1 else {**event, **reporter})
    client.create(path, valid)
    stored = client.get(f"{path}/web")
    for wrong, (method, place, kind) in itertools.product(
        WRONG_TYPES, (("POST", path, None), ("PUT", f"{path}/web", None), ("PATCH", f"{path}/web", MERGE))
    ):
        if isinstance(wrong, dict) and field != "spec":
            continue
        answer = client.send(method, place, {**stored, field: wrong}, **({"content_type": kind} if kind else {}))
        assert answer.status in (400, 422), (method, wrong, answer.body)
    assert client.get(f"{path}/web") == stored


@pytest.mark.parametrize("version", [1, ["v1"], {"v": 1}, "", "other/v9"])
def test_patch_cannot_change_the_version(version):
    client = ApiHarness()
    client.create(V1, {"metadata": {"name": "web"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}})
    client.send("PATCH", f"{V1}/web", {"apiVersion": version}, content_type=MERGE)
    assert client.get(f"{V1}/web")["apiVersion"] == "autoscaling/v1"
    assert client.get(f"{V2}/web")["apiVersion"] == "autoscaling/v2"
