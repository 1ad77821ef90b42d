import pytest
from tests.support.api import (
    MERGE,
    NODES,
    PODS,
    STRATEGIC,
    ApiHarness,
    Data,
    node,
    pod,
)
from tests.support.bad_group_requests import COMPOSITES, CONDITION, GATES, GROUPS, WORKLOADS, group
from tests.support.good_group_requests import CLASS, EVERYTHING, OBJECTS, USUAL


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


def test_required_fields_of_a_kind_are_always_written():
    """Clients that check what they read reject an object without its required fields."""
    client = ApiHarness()
    stored = client.create(NODES, node() | {"status": {"nodeInfo": {"kubeletVersion": "v1"}}})
    assert stored["status"]["nodeInfo"]["machineID"] == ""
    assert stored["status"]["nodeInfo"]["kubeletVersion"] == "v1"
    client.create(PODS, pod("web"))
    status = {"containerStatuses": [{"name": "web"}], "conditions": [{"type": "Ready"}]}
    conditions = client.request("PATCH", f"{PODS}/web/status", {"status": status}, content_type=MERGE)["status"]
    zeros = {"ready": False, "restartCount": 0, "image": "", "imageID": "", "state": {}, "lastState": {}}
    assert conditions["containerStatuses"] == [{"name": "web", **zeros}]
    times = {"lastProbeTime": None, "lastTransitionTime": None}
    assert conditions["conditions"] == [{"type": "Ready", "status": "", **times}]


FEW = "GenericWorkload=true"
KEPT = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "meek", "priority": 7}
LEFT: dict[str, tuple[str, str, Data]] = {
    "fields of disabled gates are dropped": (
        FEW,
        "a group with all fields",
        {**KEPT, "disruptionMode": {"all": {}}, "workloadRef": {"workloadName": "w", "templateName": "t"}},
    ),
    "fields of enabled gates are kept": (
        GATES,
        "a group with all fields",
        OBJECTS["a group with all fields"].body["spec"],
    ),
    "a group without a class gets the default": (
        GATES,
        "a gang",
        {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "disruptionMode": {"single": {}},
            "priorityClassName": "usual",
            "priority": 3,
            "preemptionPolicy": "PreemptLowerPriority",
        },
    ),
    "templates of a workload get the default class": (
        FEW,
        "a workload with all fields",
        {"podGroupTemplates": [{"name": "a", **KEPT, "disruptionMode": {"all": {}}}]},
    ),
}


def server(gates: str) -> ApiHarness:
    client = ApiHarness(gates=gates)
    for ask in (CLASS, USUAL):
        client.create(ask.path, ask.body)
    return client


@pytest.mark.release("1.37")
@pytest.mark.parametrize(("gates", "name", "want"), LEFT.values(), ids=LEFT)
def test_stored_group(gates: str, name: str, want: Data) -> None:
    assert server(gates).create(OBJECTS[name].path, OBJECTS[name].body)["spec"] == want


def test_field_of_a_disabled_gate_is_preserved_on_update() -> None:
    client = server(GATES)
    client.create(GROUPS, OBJECTS["a group with all fields"].body)
    later = ApiHarness(gates=FEW, store=client.api.store)
    changed = later.request("PATCH", f"{GROUPS}/everything", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert changed["spec"]["schedulingConstraints"] == EVERYTHING["schedulingConstraints"]
    assert changed["spec"]["preemptionPolicy"] == "Never"


@pytest.mark.release("1.37")
def test_group_is_protected_and_a_composite_one_is_not() -> None:
    client = server(GATES)
    client.create(GROUPS, group().body)
    client.create(COMPOSITES, OBJECTS["a composite group"].body)
    client.request("DELETE", f"{COMPOSITES}/plain")
    assert client.names(COMPOSITES) == []
    client.request("DELETE", f"{GROUPS}/bad")
    assert "deletionTimestamp" in client.get(f"{GROUPS}/bad")["metadata"]
    client.request("PATCH", f"{GROUPS}/bad", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert client.names(GROUPS) == []


def test_conditions_are_merged_by_type() -> None:
    client = server(GATES)
    client.create(GROUPS, group().body)
    for kind in ("A", "B", "A"):
        patch = {"status": {"conditions": [{**CONDITION, "type": kind}]}}
        patched = client.request("PATCH", f"{GROUPS}/bad/status", patch, content_type=STRATEGIC)
    assert sorted(item["type"] for item in patched["status"]["conditions"]) == ["A", "B"]
    assert "generation" not in patched["metadata"]


@pytest.mark.release("1.37")
def test_without_the_gate_there_are_no_groups() -> None:
    client = ApiHarness()
    for path in (GROUPS, WORKLOADS, COMPOSITES):
        assert client.send("GET", path).status == 404
    pod = client.create(OBJECTS["a member"].path, OBJECTS["a member"].body)
    assert "schedulingGroup" not in pod["spec"]
