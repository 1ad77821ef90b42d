"""Names, numbers and selectors below the spec of an object."""

import copy
from typing import Any

import pytest
from tests.support.api import ApiHarness, Data

NOT_A_SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of"
CONTAINER: Data = {"name": "c", "image": "app"}


def pod(container: Data | None = None, **spec: Any) -> Data:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{**CONTAINER, **(container or {})}], **copy.deepcopy(spec)},
    }


def probe(**action: Any) -> Data:
    return pod({"livenessProbe": {"httpGet": {"port": 80, **action}}})


REFUSED_PODS: dict[str, tuple[Data, str]] = {
    "an account": (
        pod(serviceAccountName="$(a)"),
        f'spec.serviceAccountName: Invalid value: "$(a)": {NOT_A_SUBDOMAIN}',
    ),
    "the mode of a volume": (
        pod(volumes=[{"name": "v", "secret": {"secretName": "s", "defaultMode": 512}}]),
        "spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal)",
    ),
    "a user": (
        pod(securityContext={"runAsUser": -1}),
        "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
    ),
    "a scheme": (
        probe(scheme="ftp"),
        'livenessProbe.httpGet.scheme: Unsupported value: "ftp": supported values: "HTTP", "HTTPS"',
    ),
    "a named port": (probe(port="Not Valid!"), 'livenessProbe.httpGet.port: Invalid value: "Not Valid!": must contain'),
    "a key": (
        pod({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a b"}}}]}),
        'env[0].valueFrom.secretKeyRef.key: Invalid value: "a b": a valid config key',
    ),
    "a profile": (pod(securityContext={"seccompProfile": {"type": "a"}}), "seccompProfile.type: Unsupported value"),
}


@pytest.mark.parametrize(("written", "message"), REFUSED_PODS.values(), ids=REFUSED_PODS)
def test_invalid_pod_is_rejected(written: Data, message: str) -> None:
    answer = ApiHarness().request("POST", "/api/v1/namespaces/default/pods", written, want=422)
    assert message in answer["message"]


def rules(**fields: Any) -> Data:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    policy = {"type": "Pods", "value": 1, "periodSeconds": 60}
    scale_up = {"policies": [{**policy, **fields.pop("policy", {})}], **fields}
    return {"spec": {"scaleTargetRef": target, "maxReplicas": 2, "behavior": {"scaleUp": scale_up}}}


def peer(selector: Data) -> Data:
    return {"spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": selector}]}]}}


def webhook(**fields: Any) -> Data:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    valid = {
        "name": "a.example.org",
        "clientConfig": {"url": "https://a.example.org"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [rule | fields.pop("rule", {})],
    }
    return {"webhooks": [valid | fields]}


SCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
NETWORK_POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
REFUSED: dict[str, tuple[str, Data, str]] = {
    "the period of a policy": (SCALERS, rules(policy={"periodSeconds": 1801}), "must be less than or equal to 1800"),
    "the value of a policy": (
        SCALERS,
        rules(policy={"value": 0}),
        "policies[0].value: Invalid value: 0: must be",
    ),
    "a window": (SCALERS, rules(stabilizationWindowSeconds=3601), "must be less than or equal to 3600"),
    "a choice of policies": (SCALERS, rules(selectPolicy="Most"), 'Unsupported value: "Most"'),
    "an operator of a peer": (
        NETWORK_POLICIES,
        peer({"matchExpressions": [{"key": "a", "operator": "Like"}]}),
        'from[0].podSelector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator',
    ),
    "a label of a peer": (NETWORK_POLICIES, peer({"matchLabels": {"a": "b c"}}), "from[0].podSelector.matchLabels"),
    "a port of a rule": (
        NETWORK_POLICIES,
        {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 70000}]}]}},
        "spec.ingress[0].ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    "an operation": (WEBHOOKS, webhook(rule={"operations": ["READ"]}), 'operations[0]: Unsupported value: "READ"'),
    "a review version": (WEBHOOKS, webhook(admissionReviewVersions=["V1"]), "a DNS-1035 label must consist of"),
    "a provisioner": (
        "/apis/storage.k8s.io/v1/storageclasses",
        {"provisioner": "not valid"},
        'provisioner: Invalid value: "not valid": name part must consist of',
    ),
    "a driver": (
        "/api/v1/persistentvolumes",
        {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": {"driver": "a" * 64}}},
        "spec.csi.driver: Too long: may not be more than 63 bytes",
    ),
}


@pytest.mark.parametrize(("path", "fields", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_object_is_rejected(path: str, fields: Data, message: str) -> None:
    answer = ApiHarness().request("POST", path, {"metadata": {"name": "web"}, **fields}, want=422)
    assert message in answer["message"]
    assert len({tuple(sorted(cause.items())) for cause in answer["details"]["causes"]}) == len(
        answer["details"]["causes"]
    )
