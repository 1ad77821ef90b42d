"""Each type is checked at every path."""

from typing import Any

import pytest

from moorage.kube.admission.checks.type_checks import type_problems
from moorage.kube.schema import find_kind_schema

HOOK = {
    "name": "a.example.org",
    "clientConfig": {"url": "https://example.org"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
REFERENCE = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
PROBLEMS: dict[str, tuple[str, str, dict[str, Any], list[str]]] = {
    "an enumeration inside of a template": (
        "apps/v1",
        "Deployment",
        {"spec": {"template": {"spec": {"preemptionPolicy": "Often"}}}},
        ["spec.template.spec.preemptionPolicy: Unsupported value"],
    ),
    "items of a list": (
        "storage.k8s.io/v1",
        "CSIDriver",
        {"spec": {"volumeLifecycleModes": ["Persistent", "Other"]}},
        ["spec.volumeLifecycleModes[1]: Unsupported value"],
    ),
    "a missing required field": ("node.k8s.io/v1", "RuntimeClass", {}, ["handler: Required value"]),
    "an address": (
        "v1",
        "Pod",
        {"spec": {"hostAliases": [{"ip": "here"}]}},
        ["spec.hostAliases[0].ip: Invalid value"],
    ),
    "a valid webhook": ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", {"webhooks": [HOOK]}, []),
    "a webhook with a short name and no server": (
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        {"webhooks": [{**HOOK, "name": "a.b", "clientConfig": {}}]},
        ["webhooks[0].clientConfig: Required value", "webhooks[0].name: Invalid value"],
    ),
    "an autoscaler with more pods at least than at most": (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {"spec": {"scaleTargetRef": REFERENCE, "minReplicas": 3, "maxReplicas": 2}},
        ["spec.maxReplicas: Invalid value"],
    ),
    "address ranges of a load balancer": (
        "v1",
        "Service",
        {"spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8", "x"], "ports": [{"port": 1}]}},
        ["spec.LoadBalancerSourceRanges[1]: Invalid value"],
    ),
    "contradicting amounts of a limit range": (
        "v1",
        "LimitRange",
        {
            "spec": {
                "limits": [{"type": "Container", "min": {"cpu": "3"}, "max": {"cpu": "2"}, "default": {"cpu": "1"}}]
            }
        },
        ["spec.limits[0].min[cpu]: Invalid value", "spec.limits[0].default[cpu]: Invalid value"],
    ),
    "a limit range of an unknown type": (
        "v1",
        "LimitRange",
        {"spec": {"limits": [{"type": "X"}]}},
        ["spec.limits[0].type: Invalid value"],
    ),
    "a grace period of a readiness probe": (
        "v1",
        "Pod",
        {"spec": {"containers": [{"readinessProbe": {"terminationGracePeriodSeconds": 1}}]}},
        ["spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value"],
    ),
    "the last port of a named port": (
        "networking.k8s.io/v1",
        "NetworkPolicy",
        {"spec": {"egress": [{"ports": [{"port": "dns", "endPort": 9}, {"endPort": 9}]}]}},
        [
            "spec.egress[0].ports[0].endPort: Invalid value",
            "spec.egress[0].ports[1].endPort: Invalid value",
        ],
    ),
    "ports of a service without names, and a node port": (
        "v1",
        "Service",
        {"spec": {"type": "ClusterIP", "ports": [{"port": 1, "nodePort": 30000}, {"port": 1}]}},
        [
            "spec.ports[0].name: Required value",
            "spec.ports[0].nodePort: Forbidden",
            "spec.ports[1].name: Required value",
            "spec.ports[1]: Duplicate value",
        ],
    ),
    "a job with indexes that is not indexed": (
        "batch/v1",
        "Job",
        {"spec": {"backoffLimitPerIndex": 1, "managedBy": "me"}},
        ["spec.backoffLimitPerIndex: Invalid value", "spec.managedBy: Invalid value"],
    ),
    "a container that mounts two volumes at one path": (
        "v1",
        "Pod",
        {"spec": {"containers": [{"volumeMounts": [{"mountPath": "/a"}, {"mountPath": "/a"}], "envFrom": [{}]}]}},
        ["spec.containers[0].envFrom: Invalid value", "spec.containers[0].volumeMounts[1].mountPath: Invalid value"],
    ),
    "an init container with a lifecycle": (
        "v1",
        "Pod",
        {"spec": {"initContainers": [{"lifecycle": {}}]}},
        ["spec.initContainers[0].lifecycle: Forbidden"],
    ),
    "a node port of a headless service": (
        "v1",
        "Service",
        {"spec": {"type": "NodePort", "clusterIP": "None"}},
        ["spec.clusterIPs[0]: Invalid value"],
    ),
    "a port for health checks of a service without a balancer": (
        "v1",
        "Service",
        {"spec": {"type": "ClusterIP", "healthCheckNodePort": 30000, "loadBalancerSourceRanges": ["10.0.0.0/8"]}},
        ["spec.healthCheckNodePort: Invalid value", "spec.LoadBalancerSourceRanges: Forbidden"],
    ),
    "a binding of a policy without a spec": (
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        {},
        ["spec.policyName: Required value", "spec.validationActions: Required value"],
    ),
    "a policy without validations": (
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        {"spec": {"matchConstraints": {"resourceRules": []}}},
        ["spec.validations: Required value", "spec.auditAnnotations: Required value"],
    ),
    "an invalid network, and an exception outside": (
        "networking.k8s.io/v1",
        "NetworkPolicy",
        {
            "spec": {
                "egress": [
                    {"to": [{"ipBlock": {"cidr": "{{.CIDR}}"}}]},
                    {"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16", "10.1.0.0/16"]}}]},
                ]
            }
        },
        ["spec.egress[0].to[0].ipBlock.cidr: Invalid value", "spec.egress[1].to[0].ipBlock.except[0]: Invalid value"],
    ),
    "a driver with a short period and tokens that are not requested": (
        "storage.k8s.io/v1",
        "CSIDriver",
        {"spec": {"nodeAllocatableUpdatePeriodSeconds": 3, "serviceAccountTokenInSecrets": True}},
        [
            "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value",
            "spec.serviceAccountTokenInSecrets: Invalid value",
        ],
    ),
    "an unknown scope": (
        "v1",
        "ResourceQuota",
        {"spec": {"scopes": ["BestEffort", "Other"]}},
        ["spec.scopes: Invalid value"],
    ),
    "a limit of an unknown resource": (
        "v1",
        "LimitRange",
        {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1", "core": "1"}}]}},
        ["spec.limits[0].max[core]: Invalid value"],
    ),
    "a revision without data": ("apps/v1", "ControllerRevision", {"revision": 1}, ["data: Required value"]),
    "a volume with an attributes class of no driver": (
        "v1",
        "PersistentVolume",
        {"spec": {"nodeAffinity": {}, "volumeAttributesClassName": "gold"}},
        ["spec.nodeAffinity.required: Required value", "spec.csi: Required value"],
    ),
    "an unknown field reference": (
        "v1",
        "Pod",
        {"spec": {"containers": [{"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}]}},
        ["spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value"],
    ),
}


@pytest.mark.parametrize(("version", "kind", "data", "want"), PROBLEMS.values(), ids=PROBLEMS)
def test_problems_by_type(version: str, kind: str, data: dict[str, Any], want: list[str]) -> None:
    schema = find_kind_schema(version, kind)
    assert schema is not None
    found = [f"{error.field}: {error.message.partition(':')[0]}" for error in type_problems(data, schema)]
    assert found == want
