"""Valid objects with groups; both API servers must store them in the same form."""

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
from tests.support.bad_requests import CONTAINER, RequestCase, job, make_object

EVERYTHING: Final[dict[str, Any]] = {
    "schedulingConstraints": {"topology": [{"key": "rack"}]},
    "disruptionMode": {"all": {}},
    "priorityClassName": "meek",
    "priority": 7,
    "preemptionPolicy": "Never",
}
CLAIMS: Final = [{"name": "gpu", "resourceClaimTemplateName": "eight"}]
CLASS: Final = RequestCase(
    "POST", CLASSES, make_object("PriorityClass", "scheduling.k8s.io/v1", "meek", value=7, preemptionPolicy="Never")
)
USUAL: Final = RequestCase(
    "POST", CLASSES, make_object("PriorityClass", "scheduling.k8s.io/v1", "usual", value=3, globalDefault=True)
)
OBJECTS: Final[dict[str, RequestCase]] = {
    "a gang": named(group(), "gang"),
    "a basic group": named(group(schedulingPolicy={"basic": {}}), "basic"),
    "a group with all fields": named(
        group(**EVERYTHING, resourceClaims=CLAIMS, parentCompositePodGroupName="everything", workloadRef=REFERENCE),
        "everything",
    ),
    "a composite group": named(composite(), "plain"),
    "a composite group with all fields": named(composite(**EVERYTHING), "everything"),
    "a workload": named(workload(template("a"), template("b", schedulingPolicy={"basic": {}})), "plain"),
    "a workload with all fields": named(workload(template("a", **EVERYTHING, resourceClaims=CLAIMS)), "everything"),
    "a tree": named(tree(outer("a", inner=[outer("b", groups=[template("c")])])), "tree"),
    "a tree with all fields": named(
        tree(outer("a", **EVERYTHING, groups=[template("b", **EVERYTHING, resourceClaims=CLAIMS)])), "tall"
    ),
    "a job without a group": named(job(parallelism=2), "single"),
    "a job with an empty group": named(job(scheduling={}), "open"),
    "a job with a gang": named(job(scheduling={"schedulingPolicy": {"gang": {}}}), "gang"),
    "a job with all fields": named(
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
    "a member": RequestCase(
        "POST",
        "/api/v1/namespaces/default/pods",
        make_object(
            "Pod", "v1", "member", spec={"containers": [CONTAINER], "schedulingGroup": {"podGroupName": "gang"}}
        ),
    ),
}
PARTS: Final = {
    "podgroups": ("metadata.finalizers", "metadata.generation", "spec", "status"),
    "compositepodgroups": ("metadata.finalizers", "metadata.generation", "spec", "status"),
    "workloads": ("metadata.finalizers", "metadata.generation", "spec"),
    "jobs": ("spec.scheduling",),
    "pods": ("spec.schedulingGroup",),
}
"""The compared fields of each object."""
