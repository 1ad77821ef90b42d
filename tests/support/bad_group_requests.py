"""Requests about groups of pods that an API server refuses; all gates of groups are on."""

from typing import Any, Final

from tests.support.api import JSON_PATCH, Data
from tests.support.bad_requests import CONTAINER, Ask, job, merge, pod, thing

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


def group(metadata: Data | None = None, **spec: Any) -> Ask:
    full = {"schedulingPolicy": GANG, **spec}
    return Ask("POST", GROUPS, thing("PodGroup", BETA, "bad", metadata=metadata or {}, spec=full))


def composite(metadata: Data | None = None, **spec: Any) -> Ask:
    full = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}, "workloadRef": REFERENCE, **spec}
    return Ask("POST", COMPOSITES, thing("CompositePodGroup", ALPHA, "bad", metadata=metadata or {}, spec=full))


def template(name: str = "a", **content: Any) -> Data:
    return {"name": name, "schedulingPolicy": GANG, **content}


def outer(name: str = "outer", *, groups: Any = None, inner: Any = None, **content: Any) -> Data:
    children = {"podGroupTemplates": groups, "compositePodGroupTemplates": inner}
    policy = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}
    return {"name": name, **policy, **{key: item for key, item in children.items() if item is not None}, **content}


def workload(*templates: Data, **spec: Any) -> Ask:
    full = {"podGroupTemplates": list(templates), **spec}
    return Ask("POST", WORKLOADS, thing("Workload", BETA, "bad", spec=full))


def tree(*templates: Data, **spec: Any) -> Ask:
    full = {"compositePodGroupTemplates": list(templates), **spec}
    return Ask("POST", TREES, thing("Workload", ALPHA, "bad", spec=full))


def changed(plural: str, *operations: Data, name: str = "good") -> Ask:
    version = {"compositepodgroups": ALPHA, "jobs": "batch/v1"}.get(plural, BETA)
    path = f"/apis/{version}/namespaces/default/{plural}/{name}"
    return Ask("PATCH", path, list(operations), JSON_PATCH)


def replaced(path: str, value: Any) -> Data:
    return {"op": "replace", "path": path, "value": value}


def added(path: str, value: Any) -> Data:
    return {"op": "add", "path": path, "value": value}


def removed(path: str) -> Data:
    return {"op": "remove", "path": path}


def named(ask: Ask, name: str) -> Ask:
    return Ask(ask.method, ask.path, {**ask.body, "metadata": {"name": name}})


GOOD: Final = (
    Ask("POST", CLASSES, thing("PriorityClass", "scheduling.k8s.io/v1", "five", value=5)),
    Ask(
        "POST",
        CLASSES,
        thing("PriorityClass", "scheduling.k8s.io/v1", "meek", value=7, preemptionPolicy="Never"),
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
    Ask(
        "POST",
        "/api/v1/namespaces/default/pods",
        thing("Pod", "v1", "member", spec={"containers": [CONTAINER], "schedulingGroup": {"podGroupName": "good"}}),
    ),
)
"""Existing objects."""

GROUP_REQUESTS: Final[dict[str, Ask]] = {
    "a group without a policy": group(schedulingPolicy={}),
    "a group without a spec": Ask("POST", GROUPS, thing("PodGroup", BETA, "bad")),
    "a group of two policies": group(schedulingPolicy={"basic": {}, **GANG}),
    "a gang of none": group(schedulingPolicy={"gang": {"minCount": 0}}),
    "a gang of less than none": group(schedulingPolicy={"gang": {"minCount": -1}}),
    "a gang that does not say of how many": group(schedulingPolicy={"gang": {}}),
    "a gang of text": group(schedulingPolicy={"gang": {"minCount": "two"}}),
    "a group whose name is none": group(metadata={"name": "Bad_Name"}),
    "a group whose name is taken": group(metadata={"name": "good"}),
    "a group in two topologies": group(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}),
    "a group in a topology without a key": group(schedulingConstraints={"topology": [{}]}),
    "a group in a topology whose key is none": group(schedulingConstraints={"topology": [{"key": "a b"}]}),
    "a group of two modes of disruption": group(disruptionMode={"single": {}, "all": {}}),
    "a group of no mode of disruption": group(disruptionMode={}),
    "a group of five claims": group(resourceClaims=[{**CLAIM, "name": f"c{number}"} for number in range(5)]),
    "a group of two claims of a name": group(resourceClaims=[CLAIM, CLAIM]),
    "a group's claim without a source": group(resourceClaims=[{"name": "gpu"}]),
    "a group's claim of two sources": group(resourceClaims=[{**CLAIM, "resourceClaimTemplateName": "t"}]),
    "a group's claim whose name is none": group(resourceClaims=[{**CLAIM, "name": "G P U"}]),
    "a group's claim without a name": group(resourceClaims=[{"resourceClaimName": "eight"}]),
    "a group's claim on what can be none": group(resourceClaims=[{"name": "gpu", "resourceClaimName": "A B"}]),
    "a group's claim from what can be none": group(
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "A B"}]
    ),
    "a group of too high a priority": group(priority=1_000_000_001),
    "a group whose priority is not that of its class": group(priorityClassName="five", priority=6),
    "a group of a class that is not there": group(priorityClassName="nobody"),
    "a group of a class whose name is none": group(priorityClassName="No Body"),
    "a group whose policy is not that of its class": group(priorityClassName="meek"),
    "a group that preempts when it likes": group(preemptionPolicy="Sometimes"),
    "a group of a parent without a workload": group(parentCompositePodGroupName="good"),
    "a group of a parent whose name is none": group(parentCompositePodGroupName="A B", workloadRef=REFERENCE),
    "a group of a workload without a name": group(workloadRef={"templateName": "t"}),
    "a group of a template without a name": group(workloadRef={"workloadName": "w"}),
    "a group of names that are none": group(workloadRef={"workloadName": "A B", "templateName": "A.B"}),
    "a composite group without a policy": composite(schedulingPolicy={}),
    "a composite group of two policies": composite(schedulingPolicy={"basic": {}, "gang": {"minGroupCount": 1}}),
    "a composite gang of none": composite(schedulingPolicy={"gang": {"minGroupCount": 0}}),
    "a composite group without a workload": composite(workloadRef=None),
    "a composite group in two topologies": composite(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}),
    "a composite group of no mode of disruption": composite(disruptionMode={}),
    "a composite group of too high a priority": composite(priority=1_000_000_001),
    "a composite group whose priority is not that of its class": composite(priorityClassName="five", priority=6),
    "a composite group whose policy is not that of its class": composite(priorityClassName="meek"),
    "a composite group of a class that is not there": composite(priorityClassName="nobody"),
    "a composite group that preempts when it likes": composite(preemptionPolicy="Sometimes"),
    "a composite group of a parent whose name is none": composite(parentCompositePodGroupName="A B"),
}
WORKLOAD_REQUESTS: Final[dict[str, Ask]] = {
    "a workload of nothing": Ask("POST", WORKLOADS, thing("Workload", BETA, "bad", spec={})),
    "a workload of no groups": workload(),
    "a workload of both sorts": tree(outer(groups=[template("a")]), podGroupTemplates=[template("b")]),
    "a workload of nine groups": workload(*(template(f"t{number}") for number in range(9))),
    "a workload of two groups of a name": workload(template("a"), template("a")),
    "a workload of a group without a name": workload(template("")),
    "a workload of a group whose name is none": workload(template("A B")),
    "a workload of a group without a policy": workload(template(schedulingPolicy={})),
    "a workload of a gang of none": workload(template(schedulingPolicy={"gang": {"minCount": 0}})),
    "a workload in two topologies": workload(
        template(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]})
    ),
    "a workload of two modes": workload(template(disruptionMode={"single": {}, "all": {}})),
    "a workload of too high a priority": workload(template(priority=1_000_000_001)),
    "a workload of two priorities": workload(template("a", priority=1), template("b", priority=2)),
    "a workload of two classes": workload(
        template("a", priorityClassName="five"), template("b", priorityClassName="meek")
    ),
    "a workload that preempts when it likes": workload(template(preemptionPolicy="Sometimes")),
    "a workload of five claims": workload(
        template(resourceClaims=[{**CLAIM, "name": f"c{number}"} for number in range(5)])
    ),
    "a workload's claim without a source": workload(template(resourceClaims=[{"name": "gpu"}])),
    "a workload of a controller without a kind": workload(template(), controllerRef={"name": "j"}),
    "a workload of a controller without a name": workload(template(), controllerRef={"kind": "Job"}),
    "a workload of a controller in no group": workload(
        template(), controllerRef={"apiGroup": "A B", "kind": "Job", "name": "j"}
    ),
    "a workload of a controller with a path": workload(template(), controllerRef={"kind": "a/b", "name": "c%d"}),
    "a tree without leaves": tree(outer()),
    "a tree that is too deep": tree(
        outer("a", inner=[outer("b", inner=[outer("c", inner=[outer("d", groups=[template("e")])])])])
    ),
    "a tree of one name twice": tree(outer("a", groups=[template("a")])),
    "a tree of two priorities": tree(outer("a", priority=1, groups=[template("b", priority=2)])),
    "a tree of nine leaves": tree(outer("a", groups=[template(f"t{number}") for number in range(9)])),
    "a tree of nine branches": tree(*(outer(f"o{number}", groups=[template(f"t{number}")]) for number in range(9))),
    "a tree of a composite gang of none": tree(
        outer("a", groups=[template("b")], schedulingPolicy={"gang": {"minGroupCount": 0}})
    ),
    "a tree with a leaf without a policy": tree(outer("a", groups=[template("b", schedulingPolicy={})])),
}
CHANGES: Final[dict[str, Ask]] = {
    "another policy of a group": changed("podgroups", replaced("/spec/schedulingPolicy", {"basic": {}})),
    "a gang that becomes one of none": changed("podgroups", replaced("/spec/schedulingPolicy/gang/minCount", 0)),
    "another topology of a group": changed("podgroups", replaced("/spec/schedulingConstraints/topology/0/key", "zone")),
    "no topology of a group": changed("podgroups", removed("/spec/schedulingConstraints")),
    "another mode of a group": changed("podgroups", replaced("/spec/disruptionMode", {"all": {}})),
    "another priority of a group": changed("podgroups", replaced("/spec/priority", 3)),
    "another class of a group": changed("podgroups", added("/spec/priorityClassName", "five")),
    "another preemption policy of a group": changed("podgroups", replaced("/spec/preemptionPolicy", "Never")),
    "other claims of a group": changed("podgroups", replaced("/spec/resourceClaims/0/resourceClaimName", "four")),
    "no claims of a group": changed("podgroups", removed("/spec/resourceClaims")),
    "another workload of a group": changed("podgroups", added("/spec/workloadRef", REFERENCE)),
    "a parent for a group": changed(
        "podgroups", added("/spec/workloadRef", REFERENCE), added("/spec/parentCompositePodGroupName", "good")
    ),
    "more of a composite gang": changed("compositepodgroups", replaced("/spec/schedulingPolicy/gang/minGroupCount", 3)),
    "another mode of a composite group": changed("compositepodgroups", replaced("/spec/disruptionMode", {"all": {}})),
    "another workload of a composite group": changed(
        "compositepodgroups", replaced("/spec/workloadRef/workloadName", "v")
    ),
    "a topology for a composite group": changed(
        "compositepodgroups", added("/spec/schedulingConstraints", {"topology": [{"key": "rack"}]})
    ),
    "another priority of a composite group": changed("compositepodgroups", replaced("/spec/priority", 3)),
    "one more group of a workload": changed("workloads", added("/spec/podGroupTemplates/-", template("c"))),
    "one group less of a workload": changed("workloads", removed("/spec/podGroupTemplates/1")),
    "another policy of a workload's group": changed(
        "workloads", replaced("/spec/podGroupTemplates/0/schedulingPolicy", {"basic": {}})
    ),
    "another priority of a workload's group": changed("workloads", added("/spec/podGroupTemplates/0/priority", 3)),
    "another mode of a workload's group": changed(
        "workloads", added("/spec/podGroupTemplates/0/disruptionMode", {"all": {}})
    ),
    "another controller of a workload": changed("workloads", replaced("/spec/controllerRef/name", "k")),
    "no controller of a workload": changed("workloads", removed("/spec/controllerRef")),
    "a group without a version in its place": Ask(
        "PUT", f"{GROUPS}/plain", thing("PodGroup", BETA, "plain", spec={"schedulingPolicy": {"basic": {}}})
    ),
    "a status of claims that the group has not": merge(
        f"{GROUPS}/good/status", {"status": {"resourceClaimStatuses": [{"name": "net", "resourceClaimName": "x"}]}}
    ),
    "a status of a condition without a type": merge(
        f"{GROUPS}/good/status", {"status": {"conditions": [{"status": "True", "reason": "Scheduled"}]}}
    ),
    "a status of a condition that is neither": merge(
        f"{GROUPS}/good/status",
        {"status": {"conditions": [{**CONDITION, "status": "Perhaps"}]}},
    ),
}
POD_REQUESTS: Final[dict[str, Ask]] = {
    "a pod of no group": pod(schedulingGroup={}),
    "a pod of a group whose name is none": pod(schedulingGroup={"podGroupName": "A B"}),
    "a pod of a group without a name": pod(schedulingGroup={"podGroupName": ""}),
    "a pod that changes its group": Ask(
        "PATCH",
        "/api/v1/namespaces/default/pods/member",
        [replaced("/spec/schedulingGroup/podGroupName", "other")],
        JSON_PATCH,
    ),
    "a job of two policies": job(scheduling={"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}),
    "a job of no policy": job(scheduling={"schedulingPolicy": {}}),
    "a job that is a gang of none": job(scheduling={"schedulingPolicy": {"gang": {"minCount": 0}}}),
    "a job that is a larger gang than it has pods": job(
        parallelism=2, scheduling={"schedulingPolicy": {"gang": {"minCount": 3}}}
    ),
    "a job in two topologies": job(
        scheduling={
            "schedulingPolicy": {"basic": {}},
            "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]},
        }
    ),
    "a job of two modes": job(
        scheduling={"schedulingPolicy": {"basic": {}}, "disruptionMode": {"single": {}, "all": {}}}
    ),
    "a job of five claims": job(
        scheduling={"resourceClaims": [{**CLAIM, "name": f"c{number}"} for number in range(5)]}
    ),
}
JOB_CHANGES: Final[dict[str, Ask]] = {
    "a group for a job that had none": changed("jobs", added("/spec/scheduling", {}), name="single"),
    "no group for a job that had one": changed("jobs", removed("/spec/scheduling"), name="gang"),
    "another policy of a job": changed(
        "jobs", replaced("/spec/scheduling/schedulingPolicy", {"basic": {}}), name="gang"
    ),
    "another mode of a job": changed("jobs", replaced("/spec/scheduling/disruptionMode", {"single": {}}), name="gang"),
    "a topology for a job": changed(
        "jobs", added("/spec/scheduling/schedulingConstraints", {"topology": [{"key": "rack"}]}), name="gang"
    ),
    "fewer pods of a job than its gang needs": changed("jobs", replaced("/spec/parallelism", 1), name="gang"),
    "a larger gang than a job has pods": changed(
        "jobs", replaced("/spec/scheduling/schedulingPolicy/gang/minCount", 3), name="gang"
    ),
    "a basic job that is disrupted whole": job(scheduling={"disruptionMode": {"all": {}}}),
}
FAULTS: Final[dict[str, Data]] = {
    "a status of a condition whose type is none": {"type": "A B"},
    "a status of a condition without a reason": {"reason": ""},
    "a status of a condition whose reason is none": {"reason": "a b"},
    "a status of a condition that says nothing": {"status": ""},
    "a status of a condition of a generation before the first": {"observedGeneration": -1},
    "a status of a condition that says too much": {"message": "x" * 32769},
}
STATUSES: Final[dict[str, Ask]] = {
    what: merge(f"{GROUPS}/good/status", {"status": {"conditions": [{**CONDITION, **content}]}})
    for what, content in FAULTS.items()
}
REQUESTS: Final[dict[str, Ask]] = {
    **GROUP_REQUESTS,
    **WORKLOAD_REQUESTS,
    **CHANGES,
    **POD_REQUESTS,
    **JOB_CHANGES,
    **STATUSES,
}
LOOSE: Final = frozenset(("a tree that is too deep",))
"""Where the words differ on purpose: kube-apiserver prints its own structs."""
