"""ValidatingAdmissionPolicies: which writes they cover and deny, with the errors of kube-apiserver."""

from typing import Any

import pytest
from tests.support.api import ApiHarness, Data

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SMALL = {"expression": "object.spec.replicas <= 5"}
WRITES = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["deployments"],
}


def policy(*validations: Data, rule: Data | None = None, match: Data | None = None, **spec: Any) -> Data:
    constraints = {"resourceRules": [{**WRITES, **(rule or {})}], **(match or {})}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": constraints, "validations": list(validations) or [SMALL], **spec},
    }


def binding(**spec: Any) -> Data:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny"], **spec},
    }


def deployment(replicas: int = 7, **labels: str) -> Data:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "app"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


def enforced(written: Data, bound: Data | None = None) -> ApiHarness:
    api = ApiHarness()
    api.create(f"{ADMISSION}/validatingadmissionpolicies", written)
    api.create(f"{ADMISSION}/validatingadmissionpolicybindings", bound or binding())
    return api


DENIED: dict[str, tuple[Data, int, str, str]] = {
    "a false expression": (policy(), 422, "Invalid", "failed expression: object.spec.replicas <= 5"),
    "its own message and reason": (
        policy({**SMALL, "message": "too many", "reason": "Forbidden"}),
        403,
        "Forbidden",
        "too many",
    ),
    "a computed message with a variable": (
        policy(
            {"expression": "variables.n <= 5", "messageExpression": "'n is ' + string(variables.n)"},
            variables=[{"name": "n", "expression": "object.spec.replicas"}],
        ),
        422,
        "Invalid",
        "n is 7",
    ),
    "an expression that fails": (
        policy({"expression": "object.metadata.labels.y == '1'"}),
        422,
        "Invalid",
        "expression 'object.metadata.labels.y == '1'' resulted in error: no such key: y",
    ),
    "the user of the request": (
        policy({"expression": "request.userInfo.username == 'jane'"}),
        422,
        "Invalid",
        "failed expression: request.userInfo.username == 'jane'",
    ),
    "the namespace of the object": (
        policy({"expression": "namespaceObject.metadata.name != 'default'"}),
        422,
        "Invalid",
        "failed expression: namespaceObject.metadata.name != 'default'",
    ),
    "a condition that is met": (
        policy(matchConditions=[{"name": "large", "expression": "object.spec.replicas > 6"}]),
        422,
        "Invalid",
        "failed expression: object.spec.replicas <= 5",
    ),
}


@pytest.mark.parametrize(("written", "code", "reason", "message"), DENIED.values(), ids=DENIED)
def test_write_is_denied(written: Data, code: int, reason: str, message: str) -> None:
    answer = enforced(written).request("POST", DEPLOYMENTS, deployment(team="b"), want=code)
    denial = f"ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {message}"
    assert answer["reason"] == reason
    assert answer["message"] == f'deployments.apps "web" is forbidden: {denial}'
    assert answer["details"]["causes"] == [{"message": denial}]


ADMITTED: dict[str, tuple[Data, Data]] = {
    "the expression is true": (policy({"expression": "object.spec.replicas == 7"}), binding()),
    "only warnings are required": (policy(), binding(validationActions=["Warn"])),
    "the binding is for another policy": (policy(), binding(policyName="other")),
    "another operation": (policy(rule={"operations": ["DELETE"]}), binding()),
    "another resource": (policy(rule={"resources": ["statefulsets", "deployments/scale"]}), binding()),
    "another group": (policy(rule={"apiGroups": ["batch"]}), binding()),
    "another scope": (policy(rule={"scope": "Cluster"}), binding()),
    "another name": (policy(rule={"resourceNames": ["db"]}), binding()),
    "an exact match of another version": (
        policy(rule={"apiVersions": ["v2"]}, match={"matchPolicy": "Exact"}),
        binding(),
    ),
    "an excluded resource": (policy(match={"excludeResourceRules": [WRITES]}), binding()),
    "another label": (policy(match={"objectSelector": {"matchLabels": {"team": "a"}}}), binding()),
    "another namespace": (
        policy(),
        binding(matchResources={"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "prod"}}}),
    ),
    "a condition that is not met": (
        policy(matchConditions=[{"name": "small", "expression": "object.spec.replicas < 6"}]),
        binding(),
    ),
    "an ignored error": (policy({"expression": "object.metadata.labels.y == '1'"}, failurePolicy="Ignore"), binding()),
}


@pytest.mark.parametrize(("written", "bound"), ADMITTED.values(), ids=ADMITTED)
def test_write_is_admitted(written: Data, bound: Data) -> None:
    enforced(written, bound).create(DEPLOYMENTS, deployment())


def test_updates_and_deletions_are_reviewed_with_the_old_object() -> None:
    api = enforced(
        policy(
            {"expression": "oldObject == null || (object != null && object.spec.replicas >= oldObject.spec.replicas)"},
            rule={"operations": ["*"]},
        )
    )
    api.request("POST", DEPLOYMENTS, deployment(3), want=201)
    api.request("PUT", f"{DEPLOYMENTS}/web", deployment(4), want=200)
    api.request("PUT", f"{DEPLOYMENTS}/web", deployment(2), want=422)
    api.request("DELETE", f"{DEPLOYMENTS}/web", want=422)


LIMITS: Data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits"}, "data": {"max": "5"}}


@pytest.mark.parametrize(
    ("missing", "has_limits", "code"),
    [("Deny", True, 422), ("Deny", False, 422), ("Allow", False, 201)],
    ids=["exceeded", "missing and denied", "missing and allowed"],
)
def test_parameters_are_read_from_objects(missing: str, has_limits: bool, code: int) -> None:
    written = policy(
        {"expression": "object.spec.replicas <= int(params.data.max)"},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
    )
    api = enforced(written, binding(paramRef={"name": "limits", "parameterNotFoundAction": missing}))
    if has_limits:
        api.create("/api/v1/namespaces/default/configmaps", LIMITS)
        api.request("POST", f"{DEPLOYMENTS}?dryRun=All", deployment(5), want=201)
    api.request("POST", DEPLOYMENTS, deployment(), want=code)


def test_deleted_binding_denies_nothing() -> None:
    api = enforced(policy())
    api.request("DELETE", f"{ADMISSION}/validatingadmissionpolicybindings/b", want=200)
    api.request("POST", DEPLOYMENTS, deployment(), want=201)


def test_expression_that_cannot_be_compiled_is_reported() -> None:
    """kube-apiserver supports the authorizer; without it, the expression is not enforced."""
    written = policy({"expression": "authorizer.group('').resource('pods').check('get').allowed()"})
    response = ApiHarness().send("POST", f"{ADMISSION}/validatingadmissionpolicies", written)
    assert response.warnings[0].startswith("spec.validations[0]: this expression is not enforced: ")
    enforced(written).create(DEPLOYMENTS, deployment())


def test_expensive_expression_is_stopped() -> None:
    text = "true"
    for name in "abcdefg":
        text = f"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all({name}, {text})"
    answer = enforced(policy({"expression": text})).request("POST", DEPLOYMENTS, deployment(), want=422)
    assert "running out of cost budget" in answer["message"]


def test_variables_share_the_budget_of_the_policy() -> None:
    variables = [{"name": f"v{number}", "expression": "object.metadata.annotations"} for number in range(900)]
    large = deployment(replicas=1)
    large["metadata"]["annotations"] = {f"a{number}": "x" * 1000 for number in range(200)}
    answer = enforced(policy(variables=variables)).request("POST", DEPLOYMENTS, large, want=422)
    assert "running out of cost budget" in answer["message"]
    enforced(policy(variables=variables, failurePolicy="Ignore")).create(DEPLOYMENTS, large)


def test_number_of_expressions_is_limited() -> None:
    written = policy(variables=[{"name": f"v{number}", "expression": "1"} for number in range(1000)])
    answer = ApiHarness().request("POST", f"{ADMISSION}/validatingadmissionpolicies", written, want=422)
    assert "must have at most 1000 items" in answer["message"]
