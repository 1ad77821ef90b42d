"""Requests about pod groups that an API server rejects; all feature gates of groups are enabled."""

from typing import Any, Final

from tests.support.api import JSON_PATCH, Data
from tests.support.bad_requests import CONTAINER, RequestCase, job, make_object, merge, pod

GATES: Final = ",".join(
    f"{name}=true"
    for name in (
        *("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup", "PodGroupPreemptionPolicy"),
        *("WorkloadWithJob", "DRAWorkloadResourceClaims"),
    )
)
VERSIONS: Final = "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
"""API versions for the ``--runtime-config`` of kube-apiserver."""
BETA: Final = "scheduling.k8s.io/v1beta1"
ALPHA: Final = "scheduling.k8s.io/v1alpha3"
GROUPS: Final = f"/apis/{BETA}/namespaces/default/podgroups"
WORKLOADS: Final = f"/apis/{BETA}/namespaces/default/workloads"
TREES: Final = f"/apis/{ALPHA}/namespaces/default/workloads"
COMPOSITES: Final = f"/apis/{ALPHA}/namespaces/default/compositepodgroups"
CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
GANG: Final = {"gang": {"minCount": 2}}
REFERENCE: Final = {"workloadName": "w", "templateName": "t"}
CONDITION: Final = {
    "type": "PodGroupInitiallyScheduled",
    "status": "True",
    "reason": "Scheduled",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
CLAIM: Final = {"name": "gpu", "resourceClaimName": "eight"}


def group(metadata: Data | None = None, **spec: Any) -> RequestCase:
    full = {"schedulingPolicy": GANG, **spec}
    return RequestCase("POST", GROUPS, make_object("PodGroup", BETA, "bad", metadata=metadata or {}, spec=full))


def composite(metadata: Data | None = None, **spec: Any) -> RequestCase:
    full = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}, "workloadRef": REFERENCE, **spec}
    return RequestCase(
        "POST", COMPOSITES, make_object("CompositePodGroup", ALPHA, "bad", metadata=metadata or {}, spec=full)
    )


def template(name: str = "a", **content: Any) -> Data:
    return {"name": name, "schedulingPolicy": GANG, **content}


def outer(name: str = "outer", *, groups: Any = None, inner: Any = None, **content: Any) -> Data:
    children = {"podGroupTemplates": groups, "compositePodGroupTemplates": inner}
    policy = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}
    return {"name": name, **policy, **{key: item for key, item in children.items() if item is not None}, **content}


def workload(*templates: Data, **spec: Any) -> RequestCase:
    full = {"podGroupTemplates": list(templates), **spec}
    return RequestCase("POST", WORKLOADS, make_object("Workload", BETA, "bad", spec=full))


def tree(*templates: Data, **spec: Any) -> RequestCase:
    full = {"compositePodGroupTemplates": list(templates), **spec}
    return RequestCase("POST", TREES, make_object("Workload", ALPHA, "bad", spec=full))


def changed(plural: str, *operations: Data, name: str = "good") -> RequestCase:
    version = {"compositepodgroups": ALPHA, "jobs": "batch/v1"}.get(plural, BETA)
    path = f"/apis/{version}/namespaces/default/{plural}/{name}"
    return RequestCase("PATCH", path, list(operations), JSON_PATCH)


def replaced(path: str, value: Any) -> Data:
    return {"op": "replace", "path": path, "value": value}


def added(path: str, value: Any) -> Data:
    return {"op": "add", "path": path, "value": value}


def removed(path: str) -> Data:
    return {"op": "remove", "path": path}


def named(request: RequestCase, name: str) -> RequestCase:
    return RequestCase(request.method, request.path, {**request.body, "metadata": {"name": name}})


GOOD: Final = (
    RequestCase("POST", CLASSES, make_object("PriorityClass", "scheduling.k8s.io/v1", "five", value=5)),
    RequestCase(
        "POST",
        CLASSES,
        make_object("PriorityClass", "scheduling.k8s.io/v1", "meek", value=7, preemptionPolicy="Never"),
    ),
    named(group(schedulingConstraints={"topology": [{"key": "rack"}]}, resourceClaims=[CLAIM]), "good"),
    named(group(schedulingPolicy={"basic": {}}), "plain"),
    named(composite(), "good"),
    named(
        workload(
            template("a"), template("b", schedulingPolicy={"basic": {}}), controllerRef={"kind": "Job", "name": "j"}
        ),
        "good",
    ),
    named(tree(outer(groups=[template("a")])), "tree"),
    named(job(parallelism=2), "single"),
    named(
        job(parallelism=2, scheduling={"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}}),
        "gang",
    ),
    RequestCase(
        "POST",
        "/api/v1/namespaces/default/pods",
        make_object(
            "Pod", "v1", "member", spec={"containers": [CONTAINER], "schedulingGroup": {"podGroupName": "good"}}
        ),
    ),
)
"""Existing objects."""

GROUP_REQUESTS: Final[dict[str, RequestCase]] = {
    "a group without a policy": group(schedulingPolicy={}),
    "a group without a spec": RequestCase("POST", GROUPS, make_object("PodGroup", BETA, "bad")),
    "a group with two policies": group(schedulingPolicy={"basic": {}, **GANG}),
    "a gang with a minimum of 0": group(schedulingPolicy={"gang": {"minCount": 0}}),
    "a gang with a negative minimum": group(schedulingPolicy={"gang": {"minCount": -1}}),
    "a gang without a minimum": group(schedulingPolicy={"gang": {}}),
    "a gang with a text as minimum": group(schedulingPolicy={"gang": {"minCount": "two"}}),
    "a group with an invalid name": group(metadata={"name": "Bad_Name"}),
    "a group with an existing name": group(metadata={"name": "good"}),
    "a group with two topology keys": group(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}),
    "a group with a topology without a key": group(schedulingConstraints={"topology": [{}]}),
    "a group with an invalid topology key": group(schedulingConstraints={"topology": [{"key": "a b"}]}),
    "a group with two disruption modes": group(disruptionMode={"single": {}, "all": {}}),
    "a group with an empty disruption mode": group(disruptionMode={}),
    "a group with five claims": group(resourceClaims=[{**CLAIM, "name": f"c{number}"} for number in range(5)]),
    "a group with two claims of one name": group(resourceClaims=[CLAIM, CLAIM]),
    "a group's claim without a source": group(resourceClaims=[{"name": "gpu"}]),
    "a group's claim with two sources": group(resourceClaims=[{**CLAIM, "resourceClaimTemplateName": "t"}]),
    "a group's claim with an invalid name": group(resourceClaims=[{**CLAIM, "name": "G P U"}]),
    "a group's claim without a name": group(resourceClaims=[{"resourceClaimName": "eight"}]),
    "a group's claim with an invalid claim name": group(resourceClaims=[{"name": "gpu", "resourceClaimName": "A B"}]),
    "a group's claim with an invalid template name": group(
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "A B"}]
    ),
    "a group with a priority above the limit": group(priority=1_000_000_001),
    "a group with another priority than its class": group(priorityClassName="five", priority=6),
    "a group with a missing priority class": group(priorityClassName="nobody"),
    "a group with an invalid priority class name": group(priorityClassName="No Body"),
    "a group with another preemption policy than its class": group(priorityClassName="meek"),
    "a group with an unknown preemption policy": group(preemptionPolicy="Sometimes"),
    "a group with a parent and no workload": group(parentCompositePodGroupName="good"),
    "a group with an invalid parent name": group(parentCompositePodGroupName="A B", workloadRef=REFERENCE),
    "a group with a workload reference without a workload name": group(workloadRef={"templateName": "t"}),
    "a group with a workload reference without a template name": group(workloadRef={"workloadName": "w"}),
    "a group with invalid names in its workload reference": group(
        workloadRef={"workloadName": "A B", "templateName": "A.B"}
    ),
    "a composite group without a policy": composite(schedulingPolicy={}),
    "a composite group with two policies": composite(schedulingPolicy={"basic": {}, "gang": {"minGroupCount": 1}}),
    "a composite gang with a minimum of 0": composite(schedulingPolicy={"gang": {"minGroupCount": 0}}),
    "a composite group without a workload": composite(workloadRef=None),
    "a composite group with two topology keys": composite(
        schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}
    ),
    "a composite group with an empty disruption mode": composite(disruptionMode={}),
    "a composite group with a priority above the limit": composite(priority=1_000_000_001),
    "a composite group with another priority than its class": composite(priorityClassName="five", priority=6),
    "a composite group with another preemption policy than its class": composite(priorityClassName="meek"),
    "a composite group with a missing priority class": composite(priorityClassName="nobody"),
    "a composite group with an unknown preemption policy": composite(preemptionPolicy="Sometimes"),
    "a composite group with an invalid parent name": composite(parentCompositePodGroupName="A B"),
}
WORKLOAD_REQUESTS: Final[dict[str, RequestCase]] = {
    "a workload with an empty spec": RequestCase("POST", WORKLOADS, make_object("Workload", BETA, "bad", spec={})),
    "a workload without groups": workload(),
    "a workload with both kinds of templates": tree(outer(groups=[template("a")]), podGroupTemplates=[template("b")]),
    "a workload with nine groups": workload(*(template(f"t{number}") for number in range(9))),
    "a workload with two groups of one name": workload(template("a"), template("a")),
    "a workload with a group without a name": workload(template("")),
    "a workload with an invalid group name": workload(template("A B")),
    "a workload with a group without a policy": workload(template(schedulingPolicy={})),
    "a workload with a gang with a minimum of 0": workload(template(schedulingPolicy={"gang": {"minCount": 0}})),
    "a workload with two topology keys": workload(
        template(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]})
    ),
    "a workload with two disruption modes": workload(template(disruptionMode={"single": {}, "all": {}})),
    "a workload with a priority above the limit": workload(template(priority=1_000_000_001)),
    "a workload with two priorities": workload(template("a", priority=1), template("b", priority=2)),
    "a workload with two priority classes": workload(
        template("a", priorityClassName="five"), template("b", priorityClassName="meek")
    ),
    "a workload with an unknown preemption policy": workload(template(preemptionPolicy="Sometimes")),
    "a workload with five claims": workload(
        template(resourceClaims=[{**CLAIM, "name": f"c{number}"} for number in range(5)])
    ),
    "a workload's claim without a source": workload(template(resourceClaims=[{"name": "gpu"}])),
    "a workload with a controller without a kind": workload(template(), controllerRef={"name": "j"}),
    "a workload with a controller without a name": workload(template(), controllerRef={"kind": "Job"}),
    "a workload with a controller without an API group": workload(
        template(), controllerRef={"apiGroup": "A B", "kind": "Job", "name": "j"}
    ),
    "a workload with a path as controller name": workload(template(), controllerRef={"kind": "a/b", "name": "c%d"}),
    "a tree without leaves": tree(outer()),
    "a tree with too many levels": tree(
        outer("a", inner=[outer("b", inner=[outer("c", inner=[outer("d", groups=[template("e")])])])])
    ),
    "a tree with a duplicate name": tree(outer("a", groups=[template("a")])),
    "a tree with two priorities": tree(outer("a", priority=1, groups=[template("b", priority=2)])),
    "a tree with nine leaves": tree(outer("a", groups=[template(f"t{number}") for number in range(9)])),
    "a tree with nine branches": tree(*(outer(f"o{number}", groups=[template(f"t{number}")]) for number in range(9))),
    "a tree with a composite gang with a minimum of 0": tree(
        outer("a", groups=[template("b")], schedulingPolicy={"gang": {"minGroupCount": 0}})
    ),
    "a tree with a leaf without a policy": tree(outer("a", groups=[template("b", schedulingPolicy={})])),
}
CHANGES: Final[dict[str, RequestCase]] = {
    "a changed policy of a group": changed("podgroups", replaced("/spec/schedulingPolicy", {"basic": {}})),
    "a gang whose minimum becomes 0": changed("podgroups", replaced("/spec/schedulingPolicy/gang/minCount", 0)),
    "a changed topology of a group": changed(
        "podgroups", replaced("/spec/schedulingConstraints/topology/0/key", "zone")
    ),
    "a removed topology of a group": changed("podgroups", removed("/spec/schedulingConstraints")),
    "a changed disruption mode of a group": changed("podgroups", replaced("/spec/disruptionMode", {"all": {}})),
    "a changed priority of a group": changed("podgroups", replaced("/spec/priority", 3)),
    "a changed priority class of a group": changed("podgroups", added("/spec/priorityClassName", "five")),
    "a changed preemption policy of a group": changed("podgroups", replaced("/spec/preemptionPolicy", "Never")),
    "changed claims of a group": changed("podgroups", replaced("/spec/resourceClaims/0/resourceClaimName", "four")),
    "removed claims of a group": changed("podgroups", removed("/spec/resourceClaims")),
    "a changed workload of a group": changed("podgroups", added("/spec/workloadRef", REFERENCE)),
    "an added parent of a group": changed(
        "podgroups", added("/spec/workloadRef", REFERENCE), added("/spec/parentCompositePodGroupName", "good")
    ),
    "a changed minimum of a composite gang": changed(
        "compositepodgroups", replaced("/spec/schedulingPolicy/gang/minGroupCount", 3)
    ),
    "a changed disruption mode of a composite group": changed(
        "compositepodgroups", replaced("/spec/disruptionMode", {"all": {}})
    ),
    "a changed workload of a composite group": changed(
        "compositepodgroups", replaced("/spec/workloadRef/workloadName", "v")
    ),
    "an added topology of a composite group": changed(
        "compositepodgroups", added("/spec/schedulingConstraints", {"topology": [{"key": "rack"}]})
    ),
    "a changed priority of a composite group": changed("compositepodgroups", replaced("/spec/priority", 3)),
    "an added group of a workload": changed("workloads", added("/spec/podGroupTemplates/-", template("c"))),
    "a removed group of a workload": changed("workloads", removed("/spec/podGroupTemplates/1")),
    "a changed policy of a workload's group": changed(
        "workloads", replaced("/spec/podGroupTemplates/0/schedulingPolicy", {"basic": {}})
    ),
    "a changed priority of a workload's group": changed("workloads", added("/spec/podGroupTemplates/0/priority", 3)),
    "a changed disruption mode of a workload's group": changed(
        "workloads", added("/spec/podGroupTemplates/0/disruptionMode", {"all": {}})
    ),
    "a changed controller of a workload": changed("workloads", replaced("/spec/controllerRef/name", "k")),
    "a removed controller of a workload": changed("workloads", removed("/spec/controllerRef")),
    "a replaced group without a resource version": RequestCase(
        "PUT", f"{GROUPS}/plain", make_object("PodGroup", BETA, "plain", spec={"schedulingPolicy": {"basic": {}}})
    ),
    "a status with claims that the group does not have": merge(
        f"{GROUPS}/good/status", {"status": {"resourceClaimStatuses": [{"name": "net", "resourceClaimName": "x"}]}}
    ),
    "a status with a condition without a type": merge(
        f"{GROUPS}/good/status", {"status": {"conditions": [{"status": "True", "reason": "Scheduled"}]}}
    ),
    "a status with an unknown condition status": merge(
        f"{GROUPS}/good/status",
        {"status": {"conditions": [{**CONDITION, "status": "Perhaps"}]}},
    ),
}
POD_REQUESTS: Final[dict[str, RequestCase]] = {
    "a pod with an empty group reference": pod(schedulingGroup={}),
    "a pod with an invalid group name": pod(schedulingGroup={"podGroupName": "A B"}),
    "a pod with a group reference without a name": pod(schedulingGroup={"podGroupName": ""}),
    "a changed group of a pod": RequestCase(
        "PATCH",
        "/api/v1/namespaces/default/pods/member",
        [replaced("/spec/schedulingGroup/podGroupName", "other")],
        JSON_PATCH,
    ),
    "a job with two policies": job(scheduling={"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}),
    "a job with an empty policy": job(scheduling={"schedulingPolicy": {}}),
    "a job with a gang minimum of 0": job(scheduling={"schedulingPolicy": {"gang": {"minCount": 0}}}),
    "a job with a gang minimum above its parallelism": job(
        parallelism=2, scheduling={"schedulingPolicy": {"gang": {"minCount": 3}}}
    ),
    "a job with two topology keys": job(
        scheduling={
            "schedulingPolicy": {"basic": {}},
            "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]},
        }
    ),
    "a job with two disruption modes": job(
        scheduling={"schedulingPolicy": {"basic": {}}, "disruptionMode": {"single": {}, "all": {}}}
    ),
    "a job with five claims": job(
        scheduling={"resourceClaims": [{**CLAIM, "name": f"c{number}"} for number in range(5)]}
    ),
}
JOB_CHANGES: Final[dict[str, RequestCase]] = {
    "an added group of a job": changed("jobs", added("/spec/scheduling", {}), name="single"),
    "a removed group of a job": changed("jobs", removed("/spec/scheduling"), name="gang"),
    "a changed policy of a job": changed(
        "jobs", replaced("/spec/scheduling/schedulingPolicy", {"basic": {}}), name="gang"
    ),
    "a changed disruption mode of a job": changed(
        "jobs", replaced("/spec/scheduling/disruptionMode", {"single": {}}), name="gang"
    ),
    "an added topology of a job": changed(
        "jobs", added("/spec/scheduling/schedulingConstraints", {"topology": [{"key": "rack"}]}), name="gang"
    ),
    "a parallelism below the gang minimum of a job": changed("jobs", replaced("/spec/parallelism", 1), name="gang"),
    "a gang minimum above the parallelism of a job": changed(
        "jobs", replaced("/spec/scheduling/schedulingPolicy/gang/minCount", 3), name="gang"
    ),
    "a basic job with disruption mode all": job(scheduling={"disruptionMode": {"all": {}}}),
}
FAULTS: Final[dict[str, Data]] = {
    "a status with an invalid condition type": {"type": "A B"},
    "a status with a condition without a reason": {"reason": ""},
    "a status with an invalid condition reason": {"reason": "a b"},
    "a status with a condition without a message": {"status": ""},
    "a status with a negative observed generation": {"observedGeneration": -1},
    "a status with a condition message above the limit": {"message": "x" * 32769},
}
STATUSES: Final[dict[str, RequestCase]] = {
    what: merge(f"{GROUPS}/good/status", {"status": {"conditions": [{**CONDITION, **content}]}})
    for what, content in FAULTS.items()
}
REQUESTS: Final[dict[str, RequestCase]] = {
    **GROUP_REQUESTS,
    **WORKLOAD_REQUESTS,
    **CHANGES,
    **POD_REQUESTS,
    **JOB_CHANGES,
    **STATUSES,
}
OTHER_WORDING: Final = frozenset(("a tree with too many levels",))
"""Intended differences in wording: kube-apiserver prints Go structs."""
