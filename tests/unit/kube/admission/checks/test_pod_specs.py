"""Pods and pod templates: each invalid field is reported with its path."""

from typing import Any

import pytest

from moorage.kube.admission.checks.pod_specs import pod_spec, pod_template

CONTAINER = {"name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}
VALID: dict[str, Any] = {"containers": [CONTAINER], "restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{**CONTAINER, **fields}]}


def ports(*items: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return container(ports=list(items)) | spec


def resources(**fields: Any) -> dict[str, Any]:
    return container(resources=fields)


PROBLEMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a valid pod": ({}, []),
    "no containers": ({"containers": []}, ["spec.containers: Required value"]),
    "a container without name and image": (
        {"containers": [CONTAINER | {"name": "", "image": ""}]},
        ["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"],
    ),
    "two containers of one name": (
        {"initContainers": [CONTAINER]},
        ['spec.containers[0].name: Duplicate value: "c"'],
    ),
    "an unknown restart policy": (
        {"restartPolicy": "Now"},
        [
            'spec.restartPolicy: Unsupported value: "Now": supported values: "Always", "OnFailure", "Never"',
        ],
    ),
    "a deadline of zero": (
        {"activeDeadlineSeconds": 0},
        ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
    ),
    "a mount of a missing volume": (
        container(volumeMounts=[{"name": "v", "mountPath": "/v"}, {"name": "w"}]) | {"volumes": [{"name": "w"}]},
        [
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
            "spec.containers[0].volumeMounts[1].mountPath: Required value",
        ],
    ),
    "a mount of a parent directory": (
        container(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "a/../b"}]) | {"volumes": [{"name": "v"}]},
        ["spec.containers[0].volumeMounts.subPath: Invalid value: \"a/../b\": must not contain '..'"],
    ),
    "a mount of an absolute path": (
        container(volumeMounts=[{"name": "v", "mountPath": "/v", "subPathExpr": "/a"}]) | {"volumes": [{"name": "v"}]},
        ['spec.containers[0].volumeMounts.subPathExpr: Invalid value: "/a": must be a relative path'],
    ),
    "no DNS configuration": (
        {"dnsPolicy": "None"},
        ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
    ),
    "no DNS server": (
        {"dnsPolicy": "None", "dnsConfig": {}},
        [
            "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when "
            "`dnsPolicy` is None"
        ],
    ),
    "the network of the node in a user namespace": (
        {"hostUsers": False, "hostNetwork": True},
        ["spec.hostNetwork: Forbidden: when `hostUsers` is false"],
    ),
    "an unmasked proc file system": (
        container(securityContext={"procMount": "Unmasked"}),
        [
            'spec.containers[0].securityContext.procMount: Invalid value: "Unmasked": '
            "`hostUsers` must be false to use `Unmasked`"
        ],
    ),
    "a local seccomp profile without a name": (
        container(securityContext={"seccompProfile": {"type": "Localhost"}}),
        [
            "spec.containers[0].securityContext.seccompProfile.localhostProfile: Required value: "
            "must be set when seccomp type is Localhost"
        ],
    ),
    "a probe of an init container": (
        {"initContainers": [CONTAINER | {"name": "i", "startupProbe": {"exec": {"command": ["true"]}}}]},
        [
            "spec.initContainers[0].startupProbe: Forbidden: "
            "may not be set for init containers without restartPolicy=Always"
        ],
    ),
    "huge pages without memory": (
        resources(limits={"hugepages-2Mi": "4Mi"}),
        ["spec.containers[0].resources: Forbidden: HugePages require cpu or memory"],
    ),
    "a long port name of an init container": (
        {"initContainers": [CONTAINER | {"name": "i", "ports": [{"containerPort": 1, "name": "toolongportname-x"}]}]},
        [
            'spec.initContainers[0].ports[0].name: Invalid value: "toolongportname-x": '
            "must be no more than 15 characters"
        ],
    ),
    "two volumes of one name": (
        {"volumes": [{"name": "v"}, {"name": "v"}]},
        ['spec.volumes[1].name: Duplicate value: "v"'],
    ),
    "a volume of two types": (
        {"volumes": [{"name": "v", "configMap": {}, "emptyDir": {}}]},
        [
            "spec.volumes[0].emptyDir: Forbidden: may not specify more than 1 volume type",
            "spec.volumes[0].configMap.name: Required value",
        ],
    ),
    "a request above its limit": (
        resources(requests={"cpu": "2"}, limits={"cpu": "1"}),
        [
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ],
    ),
    "an extended resource without a limit": (
        resources(requests={"example.com/gpu": 1}),
        [
            "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
        ],
    ),
    "a limit of an extended resource that differs from the request": (
        resources(requests={"example.com/gpu": 1}, limits={"example.com/gpu": 2}),
        [
            'spec.containers[0].resources.requests: Invalid value: "1": must be equal to example.com/gpu limit of 2',
        ],
    ),
    "a fraction of an extended resource": (
        resources(limits={"example.com/gpu": "500m"}),
        ['spec.containers[0].resources.limits[example.com/gpu]: Invalid value: "500m": must be an integer'],
    ),
    "a negative limit": (
        resources(limits={"memory": "-1"}),
        [
            'spec.containers[0].resources.limits[memory]: Invalid value: "-1": must be greater than or equal to 0',
        ],
    ),
    "a claim that the pod does not have": (
        resources(claims=[{"name": "gpu"}]),
        [
            'spec.containers[0].resources.claims[0]: Not found: "gpu": must be one of the names in '
            "pod.spec.resourceClaims which is empty",
        ],
    ),
    "two containers on one host port": (
        ports({"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80}),
        ['spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"'],
    ),
    "another port on the host's network": (
        ports({"containerPort": 1, "hostPort": 80, "protocol": "IP"}, hostNetwork=True),
        [
            "spec.containers[0].ports[0].hostPort: Invalid value: 80: must match `containerPort` when `hostNetwork` "
            "is true",
            'spec.containers[0].ports[0].protocol: Unsupported value: "IP": supported values: "SCTP", "TCP", "UDP"',
        ],
    ),
    "a port without a number": (ports({}), ["spec.containers[0].ports[0].containerPort: Required value"]),
    "a claim by name and by template": (
        {"resourceClaims": [{"name": "a", "resourceClaimName": "b", "resourceClaimTemplateName": "c"}]},
        [
            'spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":"b",'
            '"ResourceClaimTemplateName":"c"}: at most one of `resourceClaimName`, `resourceClaimTemplateName` may be '
            "specified",
        ],
    ),
    "a repeated gate of a pod that has a node": (
        {"schedulingGates": [{"name": "a"}, {"name": "a"}], "nodeName": "n"},
        [
            'spec.schedulingGates[1]: Duplicate value: "a"',
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ],
    ),
    "a group without a name": (
        {"schedulingGroup": {}},
        ["spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of: `podGroupName`"],
    ),
}


@pytest.mark.parametrize(("change", "want"), PROBLEMS.values(), ids=PROBLEMS)
def test_problems_of_a_pod(change: dict[str, Any], want: list[str]) -> None:
    assert [f"{error.field}: {error.message}" for error in pod_spec(VALID | change, "spec")] == want


def test_problems_of_a_template() -> None:
    template = {"metadata": {"labels": {"app": "-"}}, "spec": VALID | {"dnsPolicy": ""}}
    assert [error.field for error in pod_template(template, "t")] == ["t.labels", "t.spec.dnsPolicy"]
