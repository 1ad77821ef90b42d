"""Jobs become groups, groups are kept while they are used, and their claims are shared."""

from typing import Any

import pytest
from tests.support.reconciling import describe, make, pod

from moorage.cluster.controllers.actions import Create, Patch
from moorage.cluster.controllers.garbage_collector import GROUPS, GarbageCollector
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.job import JobController
from moorage.cluster.controllers.job_pod_groups import (
    COMPOSITE_PROTECTION,
    JobGroup,
    PodGroupProtection,
    find_job_group,
    group_name,
)
from moorage.cluster.controllers.resource_claims import (
    MADE_FOR,
    ClaimUseController,
    GroupClaimController,
    PodClaimController,
)
from moorage.common.clock import VirtualClock
from moorage.kube.api.devices import ResourceClaim, ResourceClaimTemplate
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup, Workload
from moorage.kube.api.workloads import CronJob, Job

UID = "4d2aa5a5-bcca-4b2d-82c9-22d6810e1633"
NAME = "train-7464df7ddb-train-pgt-0-5fc59b7747"
SPEC = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}


def job(*, owner: KubeObject | None = None, template: dict[str, Any] | None = None, **content: Any) -> Job:
    metadata = {"uid": UID, "annotations": content.pop("annotations", {})}
    spec = {"parallelism": 3, "template": {"spec": {**SPEC, **(template or {})}}, **content}
    return make(Job, "train", owner=owner, metadata=metadata, spec=spec)


def created(actions: Any) -> tuple[type[KubeObject], dict[str, Any]]:
    (action,) = actions
    assert isinstance(action, Create)
    return action.kind, action.data


def workload(of: Job, **spec: Any) -> Workload:
    (action,) = find_job_group(of, InformerCache(), has_started=False).actions
    assert isinstance(action, Create)
    name = action.data["metadata"]["name"]
    return make(Workload, name, owner=of, spec={**action.data["spec"], **spec})


def group(of: Job) -> PodGroup:
    (action,) = find_job_group(of, InformerCache([workload(of)]), has_started=False).actions
    assert isinstance(action, Create)
    return make(PodGroup, action.data["metadata"]["name"], owner=of, spec=action.data["spec"])


TEMPLATES: dict[str, tuple[Job, dict[str, Any]]] = {
    "a job without scheduling settings": (job(), {"schedulingPolicy": {"basic": {}}}),
    "a job with empty settings": (job(scheduling={}), {"schedulingPolicy": {"basic": {}}}),
    "a gang of all pods": (
        job(scheduling={"schedulingPolicy": {"gang": {}}}),
        {"schedulingPolicy": {"gang": {"minCount": 3}}},
    ),
    "a gang of a job with parallelism 0": (
        job(parallelism=0, scheduling={"schedulingPolicy": {"gang": {}}}),
        {"schedulingPolicy": {"gang": {"minCount": 1}}},
    ),
    "a gang with a minCount": (
        job(scheduling={"schedulingPolicy": {"gang": {"minCount": 2}}}),
        {"schedulingPolicy": {"gang": {"minCount": 2}}},
    ),
    "a job with all settings": (
        job(
            scheduling={
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
                "disruptionMode": {"all": {}},
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "eight"}],
            },
            template={"priorityClassName": "high"},
        ),
        {
            "schedulingPolicy": {"basic": {}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
            "disruptionMode": {"all": {}},
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "eight"}],
            "priorityClassName": "high",
        },
    ),
}


@pytest.mark.parametrize(("of", "want"), TEMPLATES.values(), ids=TEMPLATES)
def test_the_workload_and_the_group_of(of: Job, want: dict[str, Any]) -> None:
    kind, data = created(find_job_group(of, InformerCache(), has_started=False).actions)
    assert (kind, data["metadata"]["name"]) == (Workload, "train-7464df7ddb")
    assert data["spec"]["podGroupTemplates"] == [{"name": "train-pgt-0", **want}]
    assert data["spec"]["controllerRef"] == {"apiGroup": "batch", "kind": "Job", "name": "train"}
    above = workload(of)
    kind, data = created(find_job_group(of, InformerCache([above]), has_started=False).actions)
    assert (kind, data["metadata"]["name"]) == (PodGroup, NAME)
    reference = {"workloadRef": {"workloadName": "train-7464df7ddb", "templateName": "train-pgt-0"}}
    assert data["spec"] == {**reference, **want}
    owners = [(item["kind"], item.get("controller", False)) for item in data["metadata"]["ownerReferences"]]
    assert owners == [("Job", True), ("Workload", False)]


CRON = make(CronJob, "nightly")
OWN = job(template={"schedulingGroup": {"podGroupName": "mine"}})
ALONE: dict[str, tuple[Job, list[KubeObject], bool]] = {
    "a template with a scheduling group": (OWN, [], False),
    "a job with another manager": (job(owner=CRON), [], False),
    "a job with a manager that has no workload": (
        job(owner=CRON, annotations={"scheduling.k8s.io/group-template-name": "workers"}),
        [],
        False,
    ),
    "a job that has started without a group": (job(), [], True),
}


@pytest.mark.parametrize(("of", "objects", "has_started"), ALONE.values(), ids=ALONE)
def test_no_group_for(of: Job, objects: list[KubeObject], has_started: bool) -> None:
    assert find_job_group(of, InformerCache(objects), has_started=has_started) == JobGroup()


def test_group_of_the_workload_that_the_manager_of_a_job_has() -> None:
    of = job(owner=CRON, annotations={"scheduling.k8s.io/group-template-name": "workers"})
    template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}
    above = make(Workload, "js-wl", owner=CRON, spec={"podGroupTemplates": [template]})
    kind, data = created(find_job_group(of, InformerCache([above]), has_started=False).actions)
    assert (kind, data["metadata"]["name"]) == (PodGroup, "js-wl-workers-7586587989")
    assert [item["kind"] for item in data["metadata"]["ownerReferences"]] == ["Job"]
    there = make(PodGroup, "js-wl-workers-7586587989", spec=data["spec"])
    assert find_job_group(of, InformerCache([above, there]), has_started=True).name == there.name
    assert JobController(VirtualClock(), makes_groups=True).affected(above, InformerCache([of])) == [of.key]


def test_pods_are_created_in_the_group() -> None:
    of = job(scheduling={"schedulingPolicy": {"gang": {}}})
    cache = InformerCache([of, workload(of), group(of)])
    actions = [
        a for a in JobController(VirtualClock(), makes_groups=True).reconcile(of.key, cache) if isinstance(a, Create)
    ]
    assert [action.data["spec"]["schedulingGroup"] for action in actions] == [{"podGroupName": NAME}] * 3


def test_changed_min_count_is_propagated() -> None:
    before = job(scheduling={"schedulingPolicy": {"gang": {"minCount": 3}}})
    after = job(scheduling={"schedulingPolicy": {"gang": {"minCount": 2}}})
    actual = find_job_group(after, InformerCache([workload(before), group(before)]), has_started=True)
    patches = [action for action in actual.actions if isinstance(action, Patch)]
    assert actual.name == NAME
    assert patches[0].patch["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == {"gang": {"minCount": 2}}
    assert patches[1].patch == {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}


NAMES = {
    # Lengths of the names of workload and template; how much of each k8s.io/component-helpers keeps, and its hash.
    "both fit": (126, 63, 126, 63, "5fddfcb6fc"),
    "a short workload": (1, 253, 1, 240, "7cd8f7bb58"),
    "a short template": (253, 63, 178, 63, "5d7bbbcbc8"),
    "two long names": (253, 253, 121, 120, "77f77f457d"),
    "a hash of nine characters": (240, 240, 121, 121, "db76497fc"),
    "a hash of eight characters": (127, 126, 122, 121, "5c5d8b76"),
}


@pytest.mark.parametrize("row", NAMES.values(), ids=NAMES)
def test_long_names_are_cut_as_upstream(row: tuple[int, int, int, int, str]) -> None:
    workload_length, template_length, kept_workload, kept_template, suffix = row
    name = group_name("w" * workload_length, "t" * template_length)
    assert name == f"{'w' * kept_workload}-{'t' * kept_template}-{suffix}"


GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["scheduling.k8s.io/podgroup-protection", "mine"]}
MEMBER = {"schedulingGroup": {"podGroupName": "g"}}
PROTECTED: dict[str, tuple[list[KubeObject], list[str]]] = {
    "a group that is not deleted": ([make(PodGroup, "g", metadata={"finalizers": GONE["finalizers"]})], []),
    "a group without pods": ([make(PodGroup, "g", metadata=GONE)], ["change g"]),
    "a group with a pod": ([make(PodGroup, "g", metadata=GONE), pod("p", **MEMBER)], []),
    "a group with a terminated pod": (
        [make(PodGroup, "g", metadata=GONE), pod("p", phase="Succeeded", **MEMBER)],
        ["change g"],
    ),
    "a group next to an unrelated pod": ([make(PodGroup, "g", metadata=GONE), pod("p")], ["change g"]),
}


@pytest.mark.parametrize(("objects", "want"), PROTECTED.values(), ids=PROTECTED)
def test_protection_of(objects: list[KubeObject], want: list[str]) -> None:
    actions = list(PodGroupProtection(VirtualClock()).reconcile("shop/g", InformerCache(objects)))
    assert describe(actions) == want
    remaining_items = [action.patch for action in actions if isinstance(action, Patch)]
    assert remaining_items == [{"metadata": {"finalizers": ["mine"]}}] * len(want)


ENTRY = {"name": "gpu", "resourceClaimTemplateName": "eight"}
TEMPLATE = make(ResourceClaimTemplate, "eight", spec={"spec": {"devices": {}}})
GROUP = make(PodGroup, "g", spec={"resourceClaims": [ENTRY]})
CLAIM = make(ResourceClaim, "g-gpu-x", owner=GROUP, metadata={"annotations": {MADE_FOR: "gpu"}})


def test_claim_of_a_group_is_created_once_and_recorded() -> None:
    kind, data = created(GroupClaimController(VirtualClock()).reconcile("shop/g", InformerCache([GROUP, TEMPLATE])))
    assert (kind, data["metadata"]["generateName"]) == (ResourceClaim, "g-gpu-")
    assert data["metadata"]["ownerReferences"][0]["kind"] == "PodGroup"
    (patch,) = GroupClaimController(VirtualClock()).reconcile("shop/g", InformerCache([GROUP, TEMPLATE, CLAIM]))
    assert isinstance(patch, Patch)
    statuses = [{"name": "gpu", "resourceClaimName": "g-gpu-x"}]
    assert (patch.patch, patch.subresource) == ({"status": {"resourceClaimStatuses": statuses}}, "status")


ENTRIES: dict[str, tuple[dict[str, str], list[KubeObject], list[str]]] = {
    "an entry of the group uses the claim of the group": (ENTRY, [GROUP, CLAIM], ["status of p"]),
    "a pod waits for the claim of the group": (ENTRY, [GROUP], []),
    "a pod waits for the group": (ENTRY, [], []),
    "another entry is a claim of the pod": ({**ENTRY, "name": "mine"}, [GROUP, CLAIM], ["create p-mine-"]),
}


@pytest.mark.parametrize(("entry", "objects", "want"), ENTRIES.values(), ids=ENTRIES)
def test_claims_of_members(entry: dict[str, str], objects: list[KubeObject], want: list[str]) -> None:
    member = pod("p", resourceClaims=[entry], **MEMBER)
    actions = list(
        PodClaimController(VirtualClock(), has_groups=True).reconcile(
            "shop/p", InformerCache([member, TEMPLATE, *objects])
        )
    )
    words = [
        f"create {action.data['metadata']['generateName']}" if isinstance(action, Create) else "status of p"
        for action in actions
    ]
    assert words == want


@pytest.mark.parametrize(("is_there", "want"), [(True, []), (False, [None])])
def test_reservation_of_a_deleted_group_is_removed(is_there: bool, want: list[Any]) -> None:
    user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": GROUP.uid}
    claim = make(ResourceClaim, "c", status={"reservedFor": [user], "allocation": {}})
    cache = InformerCache([claim, *([GROUP] if is_there else [])])
    actions = list(ClaimUseController(VirtualClock(), has_groups=True).reconcile("shop/c", cache))
    assert [action.patch["status"]["reservedFor"] for action in actions if isinstance(action, Patch)] == want
    if not is_there:
        assert ClaimUseController(VirtualClock(), has_groups=True).affected(GROUP, cache) == ["shop/c"]


def test_garbage_collector_distinguishes_api_groups() -> None:
    of = job()
    collector = GarbageCollector(VirtualClock(), GROUPS)
    assert describe(collector.reconcile(f"PodGroup/shop/{NAME}", InformerCache([group(of)]))) == [f"delete {NAME}"]
    reference = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "name": "v", "uid": "u"}
    foreign_pod = make(Pod, "p", metadata={"ownerReferences": [reference]})
    assert describe(collector.reconcile("Pod/shop/p", InformerCache([foreign_pod]))) == []


def composite(name: str, parent: str = "", **metadata: Any) -> CompositePodGroup:
    spec = {"parentCompositePodGroupName": parent} if parent else {}
    return make(CompositePodGroup, name, metadata=metadata, spec=spec)


CHILDREN = [composite("child", "root"), make(PodGroup, "g", spec={"parentCompositePodGroupName": "root"})]


@pytest.mark.provisional("1.38")
@pytest.mark.parametrize("child", CHILDREN)
def test_deleted_composite_groups_wait_for_their_children(child: KubeObject) -> None:
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [COMPOSITE_PROTECTION, "mine"]}
    root = composite("root", **gone)
    controller = PodGroupProtection(VirtualClock(), with_composites=True)
    cache = InformerCache([root, child])
    (_, key) = controller.affected(child, cache)
    assert [*controller.affected(root, cache)] == [key]
    assert not [*controller.reconcile(key, cache)]
    (patch,) = controller.reconcile(key, InformerCache([root]))
    assert isinstance(patch, Patch)
    assert patch.patch["metadata"]["finalizers"] == ["mine"]
    assert not [*controller.reconcile(key, InformerCache([composite("root")]))]
