from typing import Any

import pytest
from tests.support.api import (
    DEPLOYMENTS,
    MERGE,
    NODES,
    PODS,
    ApiHarness,
    definition,
    deployment,
    node,
    pod,
)


def test_new_workload_has_an_initial_status():
    client = ApiHarness()
    assert client.create(DEPLOYMENTS, deployment())["status"] == {}
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    status = client.create(budgets, {"metadata": {"name": "keep"}, "spec": {"minAvailable": 1}})["status"]
    assert status == {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}


def test_unknown_fields_are_preserved():
    client = ApiHarness()
    obj = pod()
    obj["spec"]["containers"][0]["securityContext"] = {"capabilities": {"drop": ["ALL"]}}
    client.create(PODS, obj)
    stored = client.get(f"{PODS}/web")["spec"]["containers"][0]["securityContext"]
    assert stored == {"capabilities": {"drop": ["ALL"]}}


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


def test_job_selector_is_generated():
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    obj = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    stored = ApiHarness().create("/apis/batch/v1/namespaces/default/jobs", obj)
    labels = stored["spec"]["template"]["metadata"]["labels"]
    assert stored["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels["job-name"] == "j"


JOB = {"metadata": {"name": "it"}, "spec": {"template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}}}
CLAIM = {"metadata": {"name": "it"}, "spec": {"devices": {}}}
META = {"labels": {"tier": "front"}, "annotations": {"why": "a"}}
ALONG = {
    "a job's metadata can be changed with its status": ("/apis/batch/v1/namespaces/default/jobs", JOB, META),
    "a pod's metadata can be changed with its status": (PODS, pod("it"), META),
    "a deployment keeps its labels": (DEPLOYMENTS, deployment("it"), {"annotations": META["annotations"]}),
    "a device claim keeps its metadata": ("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", CLAIM, {}),
    "a custom object keeps its metadata": (
        "/apis/example.org/v1/namespaces/default/quotas",
        {"metadata": {"name": "it"}},
        {},
    ),
}


@pytest.mark.parametrize("kind", [MERGE, "PUT"])
@pytest.mark.parametrize(("path", "obj", "want"), ALONG.values(), ids=ALONG)
def test_metadata_in_a_status_update(path: str, obj: dict[str, Any], want: dict[str, Any], kind: str) -> None:
    client = ApiHarness()
    client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    obj = {**obj, "metadata": {"name": "it"}}
    if path.endswith("/jobs"):
        # Otherwise the job gets the labels of its template, which contain its UID.
        obj["spec"] = {**obj["spec"], "manualSelector": True, "selector": {"matchLabels": {"job": "it"}}}
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


def test_metadata_in_a_status_update_is_checked():
    client = ApiHarness()
    client.create(PODS, pod())
    for bad, status in (({"labels": {"a": 1}}, 400), ({"labels": {"a b": "c"}}, 422), ({"uid": "x"}, 409)):
        client.request(
            "PATCH", f"{PODS}/{pod()['metadata']['name']}/status", {"metadata": bad}, content_type=MERGE, want=status
        )


BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}


def running(client: ApiHarness, name: str = "web") -> None:
    client.create(PODS, pod(name, labels={"app": "web"}))
    client.request("POST", f"{PODS}/{name}/binding", BINDING, want=201)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    client.request("PATCH", f"{PODS}/{name}/status", {"status": status}, content_type=MERGE)


def test_pod_without_a_node_is_deleted_immediately():
    client = ApiHarness()
    client.create(PODS, pod())
    client.request("DELETE", f"{PODS}/web")
    assert client.names(PODS) == []


def test_running_pod_is_deleted_by_its_kubelet_after_the_grace_period():
    client = ApiHarness()
    running(client)
    marked = client.request("DELETE", f"{PODS}/web")["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 30
    assert client.names(PODS) == ["web"]
    shortened = client.request("DELETE", f"{PODS}/web?gracePeriodSeconds=5")["metadata"]
    assert shortened["deletionTimestamp"] < marked["deletionTimestamp"]
    client.request("DELETE", f"{PODS}/web", {"gracePeriodSeconds": 0})
    assert client.names(PODS) == []


def test_object_waits_for_its_finalizers():
    client = ApiHarness()
    obj = node()
    obj["metadata"]["finalizers"] = ["example.org/wait"]
    client.create("/api/v1/nodes", obj)
    client.request("DELETE", "/api/v1/nodes/n1")
    assert client.get("/api/v1/nodes/n1")["metadata"]["deletionTimestamp"]
    client.request("PATCH", "/api/v1/nodes/n1", {"metadata": {"finalizers": None}}, content_type=MERGE)
    client.request("GET", "/api/v1/nodes/n1", want=404)


def test_propagation_policy_becomes_a_finalizer():
    client = ApiHarness()
    client.create("/api/v1/nodes", node())
    remaining = client.request("DELETE", "/api/v1/nodes/n1?propagationPolicy=Foreground")
    assert remaining["metadata"]["finalizers"] == ["foregroundDeletion"]


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
def test_object_without_dependents_is_deleted_immediately(policy: str):
    client = ApiHarness()
    client.create("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "fast"}, "provisioner": "p"})
    client.request("DELETE", "/apis/storage.k8s.io/v1/storageclasses/fast", {"propagationPolicy": policy})
    assert client.names("/apis/storage.k8s.io/v1/storageclasses") == []


def test_deletion_with_wrong_precondition_is_rejected():
    client = ApiHarness()
    client.create(PODS, pod())
    client.request("DELETE", f"{PODS}/web", {"preconditions": {"uid": "other"}}, want=409)
    assert client.names(PODS) == ["web"]


def test_many_are_deleted_by_selector():
    client = ApiHarness()
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        client.create(PODS, pod(name, labels={"app": app}))
    client.request("DELETE", f"{PODS}?labelSelector=app%3Dx".replace("%3D", "="))
    assert client.names(PODS) == ["c"]


def test_terminating_namespace_rejects_new_objects_until_it_is_finalized():
    client = ApiHarness()
    client.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    ending = client.request("DELETE", "/api/v1/namespaces/shop")
    assert ending["status"]["phase"] == "Terminating"
    client.request("POST", "/api/v1/namespaces/shop/pods", pod(), want=403)
    ending["spec"] = {"finalizers": []}
    client.request("PUT", "/api/v1/namespaces/shop/finalize", ending)
    client.request("GET", "/api/v1/namespaces/shop", want=404)


def test_annotations_of_a_deployment_are_counted_as_a_generation() -> None:
    client = ApiHarness()
    name = client.create(DEPLOYMENTS, deployment())["metadata"]["name"]
    for kind, expected in (("annotations", 2), ("labels", 2)):
        patch = {"metadata": {kind: {"a": "b"}}}
        answer = client.request("PATCH", f"{DEPLOYMENTS}/{name}", patch, content_type=MERGE)
        assert answer["metadata"]["generation"] == expected


NEEDS_VERSION = {
    "a disruption budget": ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", {"spec": {}}),
    "a runtime class": ("/apis/node.k8s.io/v1/runtimeclasses", {"handler": "a"}),
    "a webhook": ("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", {}),
}


@pytest.mark.parametrize(("path", "fields"), NEEDS_VERSION.values(), ids=NEEDS_VERSION)
def test_replacing_some_kinds_requires_a_version(path: str, fields: dict[str, Any]) -> None:
    client = ApiHarness()
    client.create(path, {"metadata": {"name": "a"}, **fields})
    answer = client.request("PUT", f"{path}/a", {"metadata": {"name": "a"}, **fields}, want=422)
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer["message"]


def test_names_of_container_ports_are_unique_and_short() -> None:
    web = deployment()
    ports = [{"name": "http", "containerPort": 80}, {"name": "http", "containerPort": 81}]
    web["spec"]["template"]["spec"]["containers"][0]["ports"] = [*ports, {"name": "a" * 16, "containerPort": 82}]
    message = ApiHarness().request("POST", DEPLOYMENTS, web, want=422)["message"]
    assert 'containers[0].ports[1].name: Duplicate value: "http"' in message
    assert "containers[0].ports[2].name" in message
    assert "must be no more than 15 characters" in message


def test_missing_subresource_of_a_custom_object_names_the_object() -> None:
    client = ApiHarness()
    client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    answer = client.request("GET", "/apis/example.org/v1/namespaces/default/quotas/a/scale", want=404)
    assert answer["message"] == 'quotas.example.org "a" not found'
