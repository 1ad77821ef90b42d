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
    Asked,
    definition,
    deployment,
    node,
    pod,
)


def test_a_new_pod_is_completed_as_the_api_does():
    stored = Asked().create(PODS, pod())
    assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert stored["spec"]["serviceAccountName"] == "default"
    assert stored["spec"]["schedulerName"] == "default-scheduler"
    assert stored["spec"]["priority"] == 0
    assert stored["spec"]["containers"][0]["image"] == "web:1"
    assert stored["metadata"]["namespace"] == "default"
    assert {"uid", "creationTimestamp", "resourceVersion"} <= stored["metadata"].keys()


def test_a_pod_with_gates_says_from_the_start_what_it_waits_for():
    asked = Asked()
    for name in ("first", "second"):
        stored = asked.create(PODS, pod(name, schedulingGates=[{"name": "example.org/quota"}]))
        (condition,) = stored["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
        assert condition["reason"] == "SchedulingGated"


def test_a_new_workload_has_a_status_before_a_controller_looks_at_it():
    asked = Asked()
    assert asked.create(DEPLOYMENTS, deployment())["status"] == {}
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    status = asked.create(budgets, {"metadata": {"name": "keep"}, "spec": {"minAvailable": 1}})["status"]
    assert status == {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}


def test_pods_of_one_template_are_all_completed():
    asked = Asked()
    first, second = asked.create(PODS, pod("a")), asked.create(PODS, pod("b"))
    assert first["spec"] == second["spec"]
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


def test_a_priority_class_made_later_counts_for_pods_made_later():
    asked = Asked()
    asked.got("POST", PODS, pod(priorityClassName="high"), want=403)
    thing = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    asked.create("/apis/scheduling.k8s.io/v1/priorityclasses", thing)
    assert asked.create(PODS, pod(priorityClassName="high"))["spec"]["priority"] == 7


def test_fields_we_know_nothing_of_are_kept():
    asked = Asked()
    thing = pod()
    thing["spec"]["containers"][0]["livenessProbe"] = {"exec": {"command": ["true"]}}
    asked.create(PODS, thing)
    assert asked.get(f"{PODS}/web")["spec"]["containers"][0]["livenessProbe"] == {"exec": {"command": ["true"]}}


def test_a_generated_name_is_unique():
    asked = Asked()
    thing = pod()
    thing["metadata"] = {"generateName": "web-"}
    assert len({asked.create(PODS, thing)["metadata"]["name"] for _ in range(5)}) == 5


def test_a_name_is_taken_once():
    asked = Asked()
    asked.create(PODS, pod())
    assert asked.got("POST", PODS, pod(), want=409)["reason"] == "AlreadyExists"


def test_a_dry_run_stores_nothing():
    asked = Asked()
    assert asked.got("POST", f"{PODS}?dryRun=All", pod(), want=201)["metadata"]["uid"]
    assert asked.names(PODS) == []


def test_an_update_of_an_old_version_is_a_conflict():
    asked = Asked()
    asked.create(NODES, node())
    first, second = asked.get(f"{NODES}/n1"), asked.get(f"{NODES}/n1")
    first["spec"] = {"unschedulable": True}
    asked.got("PUT", f"{NODES}/n1", first)
    second["metadata"]["labels"] = {"a": "b"}
    refused = asked.got("PUT", f"{NODES}/n1", second, want=409)
    assert "the object has been modified" in refused["message"]


def test_a_write_that_changes_nothing_is_no_change():
    asked = Asked()
    before = asked.create(NODES, node())
    assert asked.got("PUT", f"{NODES}/n1", before)["metadata"] == before["metadata"]


def test_status_and_spec_are_written_apart():
    asked = Asked()
    thing = asked.create(DEPLOYMENTS, deployment())
    thing["spec"]["replicas"], thing["status"] = 5, {"replicas": 3}
    changed = asked.got("PUT", f"{DEPLOYMENTS}/shop", thing)
    assert (changed["spec"]["replicas"], changed["status"]) == (5, {})
    changed["spec"]["replicas"], changed["status"] = 9, {"replicas": 3}
    changed = asked.got("PUT", f"{DEPLOYMENTS}/shop/status", changed)
    assert (changed["spec"]["replicas"], changed["status"]) == (5, {"replicas": 3})
    assert changed["metadata"]["generation"] == 2


PATCHES = {
    "merge": (MERGE, {"metadata": {"labels": {"a": "b"}}}),
    "strategic": (STRATEGIC, {"metadata": {"labels": {"a": "b"}}}),
    "json": (JSON_PATCH, [{"op": "add", "path": "/metadata/labels/a", "value": "b"}]),
}


@pytest.mark.parametrize(("kind", "patch"), PATCHES.values(), ids=PATCHES)
def test_a_patch(kind: str, patch: object) -> None:
    asked = Asked()
    asked.create(PODS, pod(labels={"x": "y"}))
    asked.got("PATCH", f"{PODS}/web", patch, content_type=kind)
    assert asked.get(f"{PODS}/web")["metadata"]["labels"] == {"x": "y", "a": "b"}


def test_a_pod_keeps_its_spec():
    asked = Asked()
    asked.create(PODS, pod())
    refused = asked.got("PATCH", f"{PODS}/web", {"spec": {"nodeName": "n"}}, content_type=MERGE, want=422)
    assert refused["reason"] == "Invalid"
    asked.got("PATCH", f"{PODS}/web", {"spec": {"activeDeadlineSeconds": 5}}, content_type=MERGE)


def test_a_gated_pod_may_be_narrowed_and_let_go():
    asked = Asked()
    asked.create(PODS, pod(schedulingGates=[{"name": "later"}]))
    patch = {"spec": {"nodeSelector": {"a": "b"}, "schedulingGates": []}}
    assert asked.got("PATCH", f"{PODS}/web", patch, content_type=MERGE)["spec"]["nodeSelector"] == {"a": "b"}


def test_a_job_selects_its_own_pods():
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    thing = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    stored = Asked().create("/apis/batch/v1/namespaces/default/jobs", thing)
    labels = stored["spec"]["template"]["metadata"]["labels"]
    assert stored["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels["job-name"] == "j"


def test_server_side_apply_creates_changes_and_gives_up_fields():
    asked = Asked()
    place = f"{DEPLOYMENTS}/shop?fieldManager=me"
    wanted = deployment()
    wanted["metadata"]["labels"] = {"team": "a"}
    created = asked.got("PATCH", place, wanted, content_type=APPLY, want=201)
    assert created["metadata"]["managedFields"][0]["manager"] == "me"
    changed = asked.got("PATCH", place, deployment(image="shop:2"), content_type=APPLY)
    assert changed["spec"]["template"]["spec"]["containers"][0]["image"] == "shop:2"
    assert "team" not in changed["metadata"].get("labels", {})


def test_server_side_apply_does_not_take_what_is_another_managers_unless_forced():
    asked = Asked()
    asked.got("PATCH", f"{DEPLOYMENTS}/shop?fieldManager=me", deployment(), content_type=APPLY, want=201)
    other = f"{DEPLOYMENTS}/shop?fieldManager=you"
    refused = asked.got("PATCH", other, deployment(image="shop:2"), content_type=APPLY, want=409)
    assert [cause["field"] for cause in refused["details"]["causes"]] == [
        '.spec.template.spec.containers[name="main"].image'
    ]
    taken = asked.got("PATCH", f"{other}&force=true", deployment(image="shop:2"), content_type=APPLY)
    assert taken["spec"]["template"]["spec"]["containers"][0]["image"] == "shop:2"
    asked.got("PATCH", f"{DEPLOYMENTS}/shop?fieldManager=me", deployment(), content_type=APPLY, want=409)


def test_a_manager_that_scales_owns_the_replicas():
    asked = Asked()
    place = f"{DEPLOYMENTS}/shop?fieldManager=me"
    wanted = deployment()
    wanted["spec"]["replicas"] = 1
    asked.got("PATCH", place, wanted, content_type=APPLY, want=201)
    asked.got("PATCH", f"{DEPLOYMENTS}/shop/scale", {"spec": {"replicas": 4}}, content_type=MERGE)
    refused = asked.got("PATCH", place, wanted, content_type=APPLY, want=409)
    assert 'conflict with "tester"' in refused["message"]


def test_server_side_apply_needs_a_manager():
    asked = Asked()
    assert asked.got("PATCH", f"{DEPLOYMENTS}/shop", deployment(), content_type=APPLY, want=422)["reason"] == "Invalid"


def test_a_pod_stays_on_a_node_in_trouble_for_five_minutes_unless_it_says_otherwise():
    asked = Asked()
    tolerations = asked.create(PODS, pod("a"))["spec"]["tolerations"]
    assert [(item["key"], item["tolerationSeconds"]) for item in tolerations] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]
    forever = [{"operator": "Exists"}]
    assert asked.create(PODS, pod("b", tolerations=forever))["spec"]["tolerations"] == forever


def volume_claim(name: str, **spec):
    full = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": full}


def test_a_claim_without_a_class_gets_the_default_one():
    asked = Asked()
    marked = {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    for metadata in ({"name": "slow"}, marked):
        thing = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata, "provisioner": "x"}
        asked.create("/apis/storage.k8s.io/v1/storageclasses", thing)
    place = "/api/v1/namespaces/default/persistentvolumeclaims"
    stored = asked.create(place, volume_claim("a"))
    assert stored["spec"]["storageClassName"] == "fast"
    assert stored["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert asked.create(place, volume_claim("b", storageClassName=""))["spec"]["storageClassName"] == ""


def test_custom_resources_are_served_again_after_a_restart():
    asked = Asked()
    asked.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    again = Asked(store=asked.api.store)
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
@pytest.mark.parametrize(("place", "thing", "want"), ALONG.values(), ids=ALONG)
def test_metadata_that_comes_with_a_status(place: str, thing: dict[str, Any], want: dict[str, Any], kind: str) -> None:
    asked = Asked()
    asked.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    thing = {**thing, "metadata": {"name": "it"}}
    if "example.org" in place:
        thing |= {"apiVersion": "example.org/v1", "kind": "Quota"}
    stored = asked.create(place, thing)
    change = {"metadata": {**stored["metadata"], **META, "uid": stored["metadata"]["uid"]}}
    if kind == "PUT":
        answer = asked.got("PUT", f"{place}/it/status", {**stored, **change})
    else:
        answer = asked.got("PATCH", f"{place}/it/status", {"metadata": META}, content_type=kind)
    assert {name: answer["metadata"].get(name, {}) for name in META} == {"labels": {}, "annotations": {}, **want}
    assert answer.get("spec") == stored.get("spec")
    assert answer["metadata"].get("generation") == stored["metadata"].get("generation")


def test_metadata_that_comes_with_a_status_is_checked():
    asked = Asked()
    asked.create(PODS, pod())
    for bad, status in (({"labels": {"a": 1}}, 400), ({"labels": {"a b": "c"}}, 422), ({"uid": "x"}, 409)):
        asked.got(
            "PATCH", f"{PODS}/{pod()['metadata']['name']}/status", {"metadata": bad}, content_type=MERGE, want=status
        )


def test_what_every_object_of_a_kind_has_is_written_even_if_nobody_said_it():
    """Clients that check what they read refuse an object without its required fields."""
    asked = Asked()
    stored = asked.create(NODES, node() | {"status": {"nodeInfo": {"kubeletVersion": "v1"}}})
    assert stored["status"]["nodeInfo"]["machineID"] == ""
    assert stored["status"]["nodeInfo"]["kubeletVersion"] == "v1"
    asked.create(PODS, pod("web"))
    status = {"containerStatuses": [{"name": "web"}], "conditions": [{"type": "Ready"}]}
    told = asked.got("PATCH", f"{PODS}/web/status", {"status": status}, content_type=MERGE)["status"]
    assert told["containerStatuses"] == [{"name": "web", "ready": False, "restartCount": 0, "image": "", "imageID": ""}]
    assert told["conditions"] == [{"type": "Ready", "status": ""}]
