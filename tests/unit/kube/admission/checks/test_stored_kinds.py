"""Validation of RBAC objects, Ingresses, API services and secrets."""

import pytest
from tests.support.api import ApiHarness, Data

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NETWORKING = "/apis/networking.k8s.io/v1/namespaces/default"
REF = {"kind": "ClusterRole", "name": "view"}
ACCOUNT = {"kind": "ServiceAccount", "name": "a"}
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
HTTP = {"paths": [{"path": "/", "pathType": "Prefix", "backend": BACKEND}]}
SERVICE = {"group": "example.org", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
OBJECTS: dict[str, tuple[str, Data, str]] = {
    "a cluster role binding needs the namespace of an account": (
        f"{RBAC}/clusterrolebindings",
        {"roleRef": REF, "subjects": [ACCOUNT]},
        "subjects[0].namespace: Required value",
    ),
    "a role binding has a namespace itself": (
        f"{RBAC}/namespaces/default/rolebindings",
        {"roleRef": REF, "subjects": [ACCOUNT]},
        "",
    ),
    "a role binding needs a role": (
        f"{RBAC}/namespaces/default/rolebindings",
        {"roleRef": {"kind": "Role"}},
        "roleRef.name: Required value",
    ),
    "a rule needs verbs": (
        f"{RBAC}/clusterroles",
        {"rules": [{"apiGroups": [""], "resources": ["pods"]}]},
        "rules[0].verbs: Required value",
    ),
    "a cluster role may name URLs": (
        f"{RBAC}/clusterroles",
        {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/"]}]},
        "",
    ),
    "an Ingress needs a backend or rules": (
        f"{NETWORKING}/ingresses",
        {"spec": {}},
        "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified",
    ),
    "the host of an Ingress is a name": (
        f"{NETWORKING}/ingresses",
        {"spec": {"rules": [{"host": "10.1.2.3", "http": HTTP}]}},
        'spec.rules[0].host: Invalid value: "10.1.2.3": must be a DNS name, not an IP address',
    ),
    "the host of an Ingress may be a wildcard": (
        f"{NETWORKING}/ingresses",
        {"spec": {"rules": [{"host": "*.example.org", "http": HTTP}]}},
        "",
    ),
    "an API service is named for its version and group": (
        "/apis/apiregistration.k8s.io/v1/apiservices",
        {"spec": SERVICE},
        'metadata.name: Invalid value: "it": must be `spec.version+"."+spec.group`: "v1.example.org"',
    ),
    "a secret is base64": (
        "/api/v1/namespaces/default/secrets",
        {"data": {"a": "not base64"}},
        "illegal base64 data at input byte 3",
    ),
    "a TLS secret needs its keys": (
        "/api/v1/namespaces/default/secrets",
        {"type": "kubernetes.io/tls", "data": {"tls.crt": "YQ=="}},
        "data[tls.key]: Required value",
    ),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_accepted_or_rejected_as_upstream(name: str) -> None:
    path, body, problem = OBJECTS[name]
    response = ApiHarness().send("POST", path, {"metadata": {"name": "it"}, **body})
    assert (response.status >= 400) == bool(problem), response.body
    assert problem in response.body.decode().replace('\\"', '"')
