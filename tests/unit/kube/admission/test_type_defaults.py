"""Defaults by type: a pod template gets those of a pod."""

import copy
from typing import Any

import pytest
from tests.support.api import Data

from moorage.kube.admission.type_defaults import set_defaults
from moorage.kube.schema import find_kind_schema

TEMPLATE_PATHS: dict[str, tuple[str, tuple[str, ...]]] = {
    "CronJob": ("batch/v1", ("spec", "jobTemplate", "spec", "template", "spec")),
    "DaemonSet": ("apps/v1", ("spec", "template", "spec")),
    "Deployment": ("apps/v1", ("spec", "template", "spec")),
    "Job": ("batch/v1", ("spec", "template", "spec")),
    "PodTemplate": ("v1", ("template", "spec")),
    "ReplicaSet": ("apps/v1", ("spec", "template", "spec")),
    "ReplicationController": ("v1", ("spec", "template", "spec")),
    "StatefulSet": ("apps/v1", ("spec", "template", "spec")),
}
POD_SPEC: Data = {
    "serviceAccount": "builder",
    "hostNetwork": False,
    "containers": [
        {
            "name": "web",
            "image": "web",
            "ports": [{"containerPort": 80}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"grpc": {"port": 80}, "periodSeconds": 0},
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
        }
    ],
    "volumes": [{"name": "a"}, {"name": "b", "secret": {"secretName": "s"}}, {"name": "c", "hostPath": {"path": "/"}}],
}
PROBE: Data = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
WITH_DEFAULTS: Data = {
    "serviceAccount": "builder",
    "serviceAccountName": "builder",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "containers": [
        {
            "name": "web",
            "image": "web",
            "imagePullPolicy": "Always",
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "livenessProbe": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, **PROBE},
            "readinessProbe": {"grpc": {"port": 80, "service": ""}, **PROBE},
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        }
    ],
    "volumes": [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "secret": {"secretName": "s", "defaultMode": 420}},
        {"name": "c", "hostPath": {"path": "/", "type": ""}},
    ],
}


def defaulted(api_version: str, kind: str, body: Data) -> Data:
    schema = find_kind_schema(api_version, kind)
    assert schema is not None
    data = {"metadata": {"name": "it"}, **copy.deepcopy(body)}
    set_defaults(data, schema)
    return data


@pytest.mark.parametrize("kind", TEMPLATE_PATHS)
def test_pod_templates_have_the_defaults_of_pods(kind: str) -> None:
    api_version, path = TEMPLATE_PATHS[kind]
    body: Data = POD_SPEC
    for key in reversed(path):
        body = {key: body}
    content: Any = defaulted(api_version, kind, body)
    for key in path:
        content = content[key]
    assert content == WITH_DEFAULTS


def test_allocatable_amounts_of_a_node_default_to_its_capacity() -> None:
    status = {"capacity": {"cpu": "1", "memory": "100n"}}
    assert defaulted("v1", "Node", {"status": status})["status"]["allocatable"] == {"cpu": "1", "memory": "1m"}


def test_priority_classes_preempt() -> None:
    priority_class = defaulted("scheduling.k8s.io/v1", "PriorityClass", {})
    assert priority_class["preemptionPolicy"] == "PreemptLowerPriority"


def test_only_pods_enable_service_links() -> None:
    assert defaulted("v1", "Pod", {"spec": POD_SPEC})["spec"] == {**WITH_DEFAULTS, "enableServiceLinks": True}


PULL_POLICIES = {
    "web": "Always",
    "web:latest": "Always",
    "web:1": "IfNotPresent",
    "host:5000/web": "Always",
    "Host.io/web": "Always",
    "web@sha256:" + "a" * 64: "IfNotPresent",
    "web:latest@sha256:" + "a" * 64: "Always",
    "<image>": "IfNotPresent",
    "": "IfNotPresent",
}


@pytest.mark.parametrize("image", PULL_POLICIES)
def test_default_pull_policy_follows_the_tag(image: str) -> None:
    spec = defaulted("v1", "Pod", {"spec": {"containers": [{"name": "a", "image": image}]}})["spec"]
    assert spec["containers"][0]["imagePullPolicy"] == PULL_POLICIES[image]


SPECS: dict[str, tuple[str, str, Data, Data]] = {
    "templates of claims request one device": (
        "resource.k8s.io/v1",
        "ResourceClaimTemplate",
        {"spec": {"devices": {"requests": [{"name": "a", "firstAvailable": [{"name": "b"}]}]}}},
        {
            "spec": {
                "devices": {
                    "requests": [
                        {"name": "a", "firstAvailable": [{"name": "b", "allocationMode": "ExactCount", "count": 1}]}
                    ]
                }
            }
        },
    ),
    "claims for all devices have no count": (
        "resource.k8s.io/v1",
        "ResourceClaim",
        {"devices": {"requests": [{"name": "a", "exactly": {"allocationMode": "All"}}]}},
        {"devices": {"requests": [{"name": "a", "exactly": {"allocationMode": "All"}}]}},
    ),
    "drivers attach": (
        "storage.k8s.io/v1",
        "CSIDriver",
        {},
        {"attachRequired": True, "storageCapacity": False, "preventPodSchedulingIfMissing": False},
    ),
    "load balancers get node ports": (
        "v1",
        "Service",
        {"type": "LoadBalancer"},
        {"externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": True, "sessionAffinity": "None"},
    ),
    "sticky sessions end": (
        "v1",
        "Service",
        {"sessionAffinity": "ClientIP"},
        {"type": "ClusterIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}},
    ),
    "ports of network policies have a protocol": (
        "networking.k8s.io/v1",
        "NetworkPolicy",
        {"egress": [{"ports": [{"port": 80}]}]},
        {
            "egress": [{"ports": [{"port": 80, "protocol": "TCP"}]}],
            "policyTypes": ["Ingress", "Egress"],
            "podSelector": {},
        },
    ),
    "definitions have names and a conversion": (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        {"names": {"kind": "Quota", "plural": "quotas"}},
        {
            "conversion": {"strategy": "None"},
            "names": {"kind": "Quota", "plural": "quotas", "singular": "quota", "listKind": "QuotaList"},
        },
    ),
    "conversion webhooks have a port": (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": "a"}}}}},
        {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": "a", "port": 443}}}}},
    ),
    "a deployment that recreates pods has no rolling update": (
        "apps/v1",
        "Deployment",
        {"strategy": {"type": "Recreate"}},
        {"strategy": {"type": "Recreate"}, "replicas": 1},
    ),
    "a job with a failure policy waits for terminated pods": (
        "batch/v1",
        "Job",
        {"podFailurePolicy": {"rules": []}, "parallelism": 2},
        {"podReplacementPolicy": "Failed", "parallelism": 2, "backoffLimit": 6},
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_defaults_of_specs(name: str) -> None:
    api_version, kind, spec, want = SPECS[name]
    content = defaulted(api_version, kind, {"spec": spec})["spec"]
    assert {key: content.get(key) for key in want} == want


def test_claim_templates_of_stateful_sets_are_complete_claims() -> None:
    template = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    (claim,) = defaulted("apps/v1", "StatefulSet", {"spec": {"volumeClaimTemplates": [template]}})["spec"][
        "volumeClaimTemplates"
    ]
    assert claim == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {}, "volumeMode": "Filesystem"},
        "status": {"phase": "Pending"},
    }
