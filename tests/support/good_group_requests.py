"""Objects about groups that API servers store, each with what both should have made of it."""

from typing import Any, Final

from tests.support.bad_group_requests import (
    CLASSES,
    REFERENCE,
    composite,
    group,
    named,
    outer,
    template,
    tree,
    workload,
)
from tests.support.bad_requests import CONTAINER, Ask, job, thing

EVERYTHING: Final[dict[str, Any]] = {
    "schedulingConstraints": {"topology": [{"key": "rack"}]},
    "disruptionMode": {"all": {}},
    "priorityClassName": "meek",
    "priority": 7,
    "preemptionPolicy": "Never",
}
CLAIMS: Final = [{"name": "gpu", "resourceClaimTemplateName": "eight"}]
CLASS: Final = Ask(
    "POST", CLASSES, thing("PriorityClass", "scheduling.k8s.io/v1", "meek", value=7, preemptionPolicy="Never")
)
USUAL: Final = Ask(
    "POST", CLASSES, thing("PriorityClass", "scheduling.k8s.io/v1", "usual", value=3, globalDefault=True)
)
OBJECTS: Final[dict[str, Ask]] = {
    "a gang": named(group(), "gang"),
    "a basic group": named(group(schedulingPolicy={"basic": {}}), "basic"),
    "a group of everything": named(
        group(**EVERYTHING, resourceClaims=CLAIMS, parentCompositePodGroupName="everything", workloadRef=REFERENCE),
        "everything",
    ),
    "a composite group": named(composite(), "plain"),
    "a composite group of everything": named(composite(**EVERYTHING), "everything"),
    "a workload": named(workload(template("a"), template("b", schedulingPolicy={"basic": {}})), "plain"),
    "a workload of everything": named(workload(template("a", **EVERYTHING, resourceClaims=CLAIMS)), "everything"),
    "a tree": named(tree(outer("a", inner=[outer("b", groups=[template("c")])])), "tree"),
    "a tree of everything": named(
        tree(outer("a", **EVERYTHING, groups=[template("b", **EVERYTHING, resourceClaims=CLAIMS)])), "tall"
    ),
    "a job without a group": named(job(parallelism=2), "single"),
    "a job that leaves its group open": named(job(scheduling={}), "open"),
    "a job that is a gang": named(job(scheduling={"schedulingPolicy": {"gang": {}}}), "gang"),
    "a job of everything": named(
        job(
            scheduling={
                "schedulingPolicy": {"gang": {"minCount": 1}},
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
                "disruptionMode": {"all": {}},
                "resourceClaims": CLAIMS,
            }
        ),
        "everything",
    ),
    "a member": Ask(
        "POST",
        "/api/v1/namespaces/default/pods",
        thing("Pod", "v1", "member", spec={"containers": [CONTAINER], "schedulingGroup": {"podGroupName": "gang"}}),
    ),
}
PARTS: Final = {
    "podgroups": ("metadata.finalizers", "metadata.generation", "spec", "status"),
    "compositepodgroups": ("metadata.finalizers", "metadata.generation", "spec", "status"),
    "workloads": ("metadata.finalizers", "metadata.generation", "spec"),
    "jobs": ("spec.scheduling",),
    "pods": ("spec.schedulingGroup",),
}
"""The compared part of each."""
