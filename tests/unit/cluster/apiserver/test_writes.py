from typing import Any

import pytest
from tests.support.api import (
    APPLY,
    DEPLOYMENTS,
    JSON_PATCH,
    MERGE,
    NODES,
    PODS,
    STRATEGIC,
    ApiHarness,
    definition,
    deployment,
    node,
    pod,
)


def test_new_pod_is_completed_as_the_api_does():
    stored = ApiHarness().create(PODS, pod())
    assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert stored["spec"]["serviceAccountName"] == "default"
    assert stored["spec"]["schedulerName"] == "default-scheduler"
    assert stored["spec"]["priority"] == 0
    assert stored["spec"]["containers"][0]["image"] == "web:1"
    assert stored["metadata"]["namespace"] == "default"
    assert {"uid", "creationTimestamp", "resourceVersion"} <= stored["metadata"].keys()


def test_gated_pod_has_a_scheduling_condition_from_the_start():
    client = ApiHarness()
    for name in ("first", "second"):
        stored = client.create(PODS, pod(name, schedulingGates=[{"name": "example.org/quota"}]))
        (condition,) = stored["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
        assert condition["reason"] == "SchedulingGated"


def test_new_workload_has_an_initial_status():
    client = ApiHarness()
    assert client.create(DEPLOYMENTS, deployment())["status"] == {}
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    status = client.create(budgets, {"metadata": {"name": "keep"}, "spec": {"minAvailable": 1}})["status"]
    assert status == {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}


def test_pods_of_one_template_are_all_completed():
    client = ApiHarness()
    first, second = client.create(PODS, pod("a")), client.create(PODS, pod("b"))
    assert first["spec"] == second["spec"]
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


def test_new_priority_class_applies_to_new_pods():
    client = ApiHarness()
    client.request("POST", PODS, pod(priorityClassName="high"), want=403)
    obj = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    client.create("/apis/scheduling.k8s.io/v1/priorityclasses", obj)
    assert client.create(PODS, pod(priorityClassName="high"))["spec"]["priority"] == 7


def test_unknown_fields_are_preserved():
    client = ApiHarness()
    obj = pod()
    obj["spec"]["containers"][0]["livenessProbe"] = {"exec": {"command": ["true"]}}
    client.create(PODS, obj)
    assert client.get(f"{PODS}/web")["spec"]["containers"][0]["livenessProbe"] == {"exec": {"command": ["true"]}}


def test_generated_name_is_unique():
    client = ApiHarness()
    obj = pod()
    obj["metadata"] = {"generateName": "web-"}
    assert len({client.create(PODS, obj)["metadata"]["name"] for _ in range(5)}) == 5


def test_duplicate_name_is_rejected():
    client = ApiHarness()
    client.create(PODS, pod())
    assert client.request("POST", PODS, pod(), want=409)["reason"] == "AlreadyExists"


def test_dry_run_stores_nothing():
    client = ApiHarness()
    assert client.request("POST", f"{PODS}?dryRun=All", pod(), want=201)["metadata"]["uid"]
    assert client.names(PODS) == []


def test_update_of_an_old_version_is_a_conflict():
    client = ApiHarness()
    client.create(NODES, node())
    first, second = client.get(f"{NODES}/n1"), client.get(f"{NODES}/n1")
    first["spec"] = {"unschedulable": True}
    client.request("PUT", f"{NODES}/n1", first)
    second["metadata"]["labels"] = {"a": "b"}
    error = client.request("PUT", f"{NODES}/n1", second, want=409)
    assert "the object has been modified" in error["message"]


def test_write_without_differences_is_not_a_change():
    client = ApiHarness()
    before = client.create(NODES, node())
    assert client.request("PUT", f"{NODES}/n1", before)["metadata"] == before["metadata"]


def test_status_and_spec_are_written_separately():
    client = ApiHarness()
    obj = client.create(DEPLOYMENTS, deployment())
    obj["spec"]["replicas"], obj["status"] = 5, {"replicas": 3}
    changed = client.request("PUT", f"{DEPLOYMENTS}/shop", obj)
    assert (changed["spec"]["replicas"], changed["status"]) == (5, {})
    changed["spec"]["replicas"], changed["status"] = 9, {"replicas": 3}
    changed = client.request("PUT", f"{DEPLOYMENTS}/shop/status", changed)
    assert (changed["spec"]["replicas"], changed["status"]) == (5, {"replicas": 3})
    assert changed["metadata"]["generation"] == 2


PATCHES = {
    "merge": (MERGE, {"metadata": {"labels": {"a": "b"}}}),
    "strategic": (STRATEGIC, {"metadata": {"labels": {"a": "b"}}}),
    "json": (JSON_PATCH, [{"op": "add", "path": "/metadata/labels/a", "value": "b"}]),
}


@pytest.mark.parametrize(("kind", "patch"), PATCHES.values(), ids=PATCHES)
def test_patch(kind: str, patch: object) -> None:
    client = ApiHarness()
    client.create(PODS, pod(labels={"x": "y"}))
    client.request("PATCH", f"{PODS}/web", patch, content_type=kind)
    assert client.get(f"{PODS}/web")["metadata"]["labels"] == {"x": "y", "a": "b"}


def test_pod_keeps_its_spec():
    client = ApiHarness()
    client.create(PODS, pod())
    error = client.request("PATCH", f"{PODS}/web", {"spec": {"nodeName": "n"}}, content_type=MERGE, want=422)
    assert error["reason"] == "Invalid"
    client.request("PATCH", f"{PODS}/web", {"spec": {"activeDeadlineSeconds": 5}}, content_type=MERGE)


def test_gated_pod_can_be_narrowed_and_ungated():
    client = ApiHarness()
    client.create(PODS, pod(schedulingGates=[{"name": "later"}]))
    patch = {"spec": {"nodeSelector": {"a": "b"}, "schedulingGates": []}}
    assert client.request("PATCH", f"{PODS}/web", patch, content_type=MERGE)["spec"]["nodeSelector"] == {"a": "b"}


def test_job_selects_its_own_pods():
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    obj = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    stored = ApiHarness().create("/apis/batch/v1/namespaces/default/jobs", obj)
    labels = stored["spec"]["template"]["metadata"]["labels"]
    assert stored["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels["job-name"] == "j"


def test_server_side_apply_creates_updates_and_releases_fields():
    client = ApiHarness()
    path = f"{DEPLOYMENTS}/shop?fieldManager=me"
    desired = deployment()
    desired["metadata"]["labels"] = {"team": "a"}
    created = client.request("PATCH", path, desired, content_type=APPLY, want=201)
    assert created["metadata"]["managedFields"][0]["manager"] == "me"
    changed = client.request("PATCH", path, deployment(image="shop:2"), content_type=APPLY)
    assert changed["spec"]["template"]["spec"]["containers"][0]["image"] == "shop:2"
    assert "team" not in changed["metadata"].get("labels", {})


def test_server_side_apply_conflicts_with_another_manager_unless_forced():
    client = ApiHarness()
    client.request("PATCH", f"{DEPLOYMENTS}/shop?fieldManager=me", deployment(), content_type=APPLY, want=201)
    apply_path = f"{DEPLOYMENTS}/shop?fieldManager=you"
    error = client.request("PATCH", apply_path, deployment(image="shop:2"), content_type=APPLY, want=409)
    assert [cause["field"] for cause in error["details"]["causes"]] == [
        '.spec.template.spec.containers[name="main"].image'
    ]
    applied = client.request("PATCH", f"{apply_path}&force=true", deployment(image="shop:2"), content_type=APPLY)
    assert applied["spec"]["template"]["spec"]["containers"][0]["image"] == "shop:2"
    client.request("PATCH", f"{DEPLOYMENTS}/shop?fieldManager=me", deployment(), content_type=APPLY, want=409)


def test_manager_that_scales_owns_the_replicas():
    client = ApiHarness()
    path = f"{DEPLOYMENTS}/shop?fieldManager=me"
    desired = deployment()
    desired["spec"]["replicas"] = 1
    client.request("PATCH", path, desired, content_type=APPLY, want=201)
    client.request("PATCH", f"{DEPLOYMENTS}/shop/scale", {"spec": {"replicas": 4}}, content_type=MERGE)
    error = client.request("PATCH", path, desired, content_type=APPLY, want=409)
    assert 'conflict with "tester"' in error["message"]


def test_server_side_apply_needs_a_manager():
    client = ApiHarness()
    assert (
        client.request("PATCH", f"{DEPLOYMENTS}/shop", deployment(), content_type=APPLY, want=422)["reason"]
        == "Invalid"
    )


def test_pod_gets_default_tolerations_of_five_minutes():
    client = ApiHarness()
    tolerations = client.create(PODS, pod("a"))["spec"]["tolerations"]
    assert [(item["key"], item["tolerationSeconds"]) for item in tolerations] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]
    forever = [{"operator": "Exists"}]
    assert client.create(PODS, pod("b", tolerations=forever))["spec"]["tolerations"] == forever


def volume_claim(name: str, **spec):
    full = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": full}


def test_claim_without_a_class_gets_the_default_one():
    client = ApiHarness()
    marked = {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    for metadata in ({"name": "slow"}, marked):
        obj = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata, "provisioner": "x"}
        client.create("/apis/storage.k8s.io/v1/storageclasses", obj)
    path = "/api/v1/namespaces/default/persistentvolumeclaims"
    stored = client.create(path, volume_claim("a"))
    assert stored["spec"]["storageClassName"] == "fast"
    assert stored["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert client.create(path, volume_claim("b", storageClassName=""))["spec"]["storageClassName"] == ""


def test_custom_resources_are_served_again_after_a_restart():
    client = ApiHarness()
    client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    again = ApiHarness(store=client.api.store)
    assert again.names("/apis/example.org/v1/quotas") == []


JOB = {"metadata": {"name": "it"}, "spec": {"template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}}}
CLAIM = {"metadata": {"name": "it"}, "spec": {"devices": {}}}
META = {"labels": {"tier": "front"}, "annotations": {"why": "a"}}
ALONG = {
    "a job's metadata can be changed with its status": ("/apis/batch/v1/namespaces/default/jobs", JOB, META),
    "so can a pod's": (PODS, pod("it"), META),
    "a deployment keeps its labels": (DEPLOYMENTS, deployment("it"), {"annotations": META["annotations"]}),
    "a claim on devices keeps all": ("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", CLAIM, {}),
    "so does a custom object": ("/apis/example.org/v1/namespaces/default/quotas", {"metadata": {"name": "it"}}, {}),
}


@pytest.mark.parametrize("kind", [MERGE, "PUT"])
@pytest.mark.parametrize(("path", "obj", "want"), ALONG.values(), ids=ALONG)
def test_metadata_that_comes_with_a_status(path: str, obj: dict[str, Any], want: dict[str, Any], kind: str) -> None:
    client = ApiHarness()
    client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    obj = {**obj, "metadata": {"name": "it"}}
    if "example.org" in path:
        obj |= {"apiVersion": "example.org/v1", "kind": "Quota"}
    stored = client.create(path, obj)
    change = {"metadata": {**stored["metadata"], **META, "uid": stored["metadata"]["uid"]}}
    if kind == "PUT":
        answer = client.request("PUT", f"{path}/it/status", {**stored, **change})
    else:
        answer = client.request("PATCH", f"{path}/it/status", {"metadata": META}, content_type=kind)
    assert {name: answer["metadata"].get(name, {}) for name in META} == {"labels": {}, "annotations": {}, **want}
    assert answer.get("spec") == stored.get("spec")
    assert answer["metadata"].get("generation") == stored["metadata"].get("generation")


def test_metadata_that_comes_with_a_status_is_checked():
    client = ApiHarness()
    client.create(PODS, pod())
    for bad, status in (({"labels": {"a": 1}}, 400), ({"labels": {"a b": "c"}}, 422), ({"uid": "x"}, 409)):
        client.request(
            "PATCH", f"{PODS}/{pod()['metadata']['name']}/status", {"metadata": bad}, content_type=MERGE, want=status
        )


def test_required_fields_of_a_kind_are_always_written():
    """Clients that check what they read refuse an object without its required fields."""
    client = ApiHarness()
    stored = client.create(NODES, node() | {"status": {"nodeInfo": {"kubeletVersion": "v1"}}})
    assert stored["status"]["nodeInfo"]["machineID"] == ""
    assert stored["status"]["nodeInfo"]["kubeletVersion"] == "v1"
    client.create(PODS, pod("web"))
    status = {"containerStatuses": [{"name": "web"}], "conditions": [{"type": "Ready"}]}
    conditions = client.request("PATCH", f"{PODS}/web/status", {"status": status}, content_type=MERGE)["status"]
    assert conditions["containerStatuses"] == [
        {"name": "web", "ready": False, "restartCount": 0, "image": "", "imageID": ""}
    ]
    assert conditions["conditions"] == [{"type": "Ready", "status": ""}]
