"""MutatingAdmissionPolicies: which objects they change, and the errors of kube-apiserver if a change fails."""

from typing import Any

import pytest
from tests.support.api import ApiHarness, Data

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def apply(expression: str) -> Data:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> Data:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def policy(*mutations: Data, name: str = "p", **spec: Any) -> Data:
    rule = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["pods", "configmaps", "deployments"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "mutations": list(mutations),
            "reinvocationPolicy": "Never",
            **spec,
        },
    }


def enforced(*policies: Data, **binding: Any) -> ApiHarness:
    api = ApiHarness()
    for written in policies:
        name = written["metadata"]["name"]
        api.create(f"{ADMISSION}/mutatingadmissionpolicies", written)
        bound = {"metadata": {"name": name}, "spec": {"policyName": name, **binding}}
        api.create(f"{ADMISSION}/mutatingadmissionpolicybindings", bound)
    return api


def config_map(**data: str) -> Data:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def pod(**spec: Any) -> Data:
    containers = [{"name": "c", "image": "app"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}


SIDECAR = """Object{
    spec: Object.spec{
        initContainers: [Object.spec.initContainers{
            name: "mesh", // a sidecar
            image: object.spec.containers.size() > 0 ? "mesh:" + "1" : "none",
            restartPolicy: "Always"
        }]
    }
}"""


def test_applied_fields_are_merged_and_get_defaults() -> None:
    created = enforced(policy(apply(SIDECAR))).create(PODS, pod(initContainers=[{"name": "init", "image": "i"}]))
    init, mesh = created["spec"]["initContainers"]
    assert (init["name"], mesh["name"], mesh["image"]) == ("init", "mesh", "mesh:1")
    assert (mesh["restartPolicy"], mesh["terminationMessagePath"]) == ("Always", "/dev/termination-log")


CHANGED: dict[str, tuple[list[Data], Data]] = {
    "a map": ([apply('Object{data: {"a": "1"}}')], {"a": "1", "b": "2"}),
    "an optional field": ([apply('Object{?data: optional.of({"a": string(1 < 2 ? 3 : 4)})}')], {"a": "3", "b": "2"}),
    "an absent optional field": ([apply("Object{?data: optional.none()}")], {"b": "2"}),
    "a patch": ([patch('[JSONPatch{op: "replace", path: "/data/b", value: "3"}]')], {"b": "3"}),
    "a patch with an object": (
        [patch('[JSONPatch{op: "add", path: "/data", value: Object.data{x: "y"}}]')],
        {"x": "y"},
    ),
    "a patch with a failing test": (
        [patch('[JSONPatch{op: "test", path: "/data/b", value: "3"}, JSONPatch{op: "remove", path: "/data/b"}]')],
        {"b": "2"},
    ),
    "two mutations": (
        [apply('Object{data: {"b": "3"}}'), apply("Object{data: {'c': object.data.b}}")],
        {"b": "3", "c": "3"},
    ),
}


@pytest.mark.parametrize(("mutations", "expected"), CHANGED.values(), ids=CHANGED)
def test_object_is_changed(mutations: list[Data], expected: Data) -> None:
    assert enforced(policy(*mutations)).create(CONFIG_MAPS, config_map(b="2"))["data"] == expected


FAILED: dict[str, tuple[Data, str]] = {
    "an atomic list": (
        apply('Object{spec: Object.spec{containers: [Object.spec.containers{name: "c", args: ["a"]}]}}'),
        "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
        ".spec.containers[0].args",
    ),
    "an unknown field": (
        apply("Object{spec: Object.spec{replica: 1}}"),
        "error applying patch: failed to convert patch object to typed object: .spec.replica: "
        "field not declared in schema",
    ),
    "an expression that fails": (
        apply("Object{spec: Object.spec{priority: object.spec.nothing}}"),
        "expression 'Object{spec: Object.spec{priority: object.spec.nothing}}' resulted in error: no such key: nothing",
    ),
}


@pytest.mark.parametrize(("mutation", "why"), FAILED.values(), ids=FAILED)
def test_failed_mutation_denies_the_write_unless_it_is_ignored(mutation: Data, why: str) -> None:
    answer = enforced(policy(mutation)).request("POST", PODS, pod(), want=403)
    text = f"policy 'p' with binding 'p' denied request: {why}"
    assert (answer["message"], answer["reason"]) == (text, "Invalid")
    assert answer["details"]["causes"] == [{"message": text}]
    enforced(policy(mutation, failurePolicy="Ignore")).create(PODS, pod())


def test_policy_without_its_parameter_denies_the_write() -> None:
    written = policy(apply("Object{data: params.data}"), paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
    api = enforced(written, paramRef={"name": "c", "parameterNotFoundAction": "Deny"})
    answer = api.request("POST", PODS, pod(), want=403)
    why = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    assert (answer["message"], answer["reason"]) == (f"policy 'p' with binding 'p' denied request: {why}", "Forbidden")


def test_parameters_conditions_and_variables_are_used() -> None:
    written = policy(
        apply("Object{metadata: Object.metadata{labels: variables.wanted}}"),
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[{"name": "wanted", "expression": "params.data"}],
        matchConditions=[{"name": "no-skip", "expression": "!has(object.metadata.annotations)"}],
    )
    api = enforced(written, paramRef={"name": "c", "parameterNotFoundAction": "Allow"})
    assert "labels" not in api.request("POST", f"{PODS}?dryRun=All", pod(), want=201)["metadata"]
    api.create(CONFIG_MAPS, config_map(team="a"))
    assert api.request("POST", f"{PODS}?dryRun=All", pod(), want=201)["metadata"]["labels"] == {"team": "a"}
    skipped = pod()
    skipped["metadata"]["annotations"] = {"skip": ""}
    assert "labels" not in api.create(PODS, skipped)["metadata"]


@pytest.mark.parametrize(("reinvocation", "seen"), [("Never", "false"), ("IfNeeded", "true")])
def test_policy_is_reinvoked_after_the_changes_of_others(reinvocation: str, seen: str) -> None:
    first = policy(
        apply('Object{data: {"seen": string("b" in object.data)}}'), name="a", reinvocationPolicy=reinvocation
    )
    second = policy(apply('Object{data: {"b": "1"}}'), name="b")
    assert enforced(first, second).create(CONFIG_MAPS, config_map(a="1"))["data"]["seen"] == seen


def test_escaped_key_is_patched() -> None:
    key = '"/metadata/annotations/" + jsonpatch.escapeKey("a~b/c")'
    empty = 'JSONPatch{op: "add", path: "/metadata/annotations", value: {}}'
    written = policy(patch(f'[{empty}, JSONPatch{{op: "add", path: {key}, value: "1"}}]'))
    answer = enforced(written).request("POST", CONFIG_MAPS, config_map(), want=422)
    assert 'metadata.annotations: Invalid value: "a~b/c"' in answer["message"]


def test_status_is_not_changed_by_a_policy_for_new_objects() -> None:
    created = enforced(policy(apply('Object{status: Object.status{phase: "Running"}}'))).create(PODS, pod())
    assert created["status"]["phase"] == "Pending"


def test_updates_and_apply_requests_are_changed_and_validated() -> None:
    api = enforced(policy(apply("Object{metadata: Object.metadata{labels: {'old': string(oldObject != null)}}}")))
    assert api.create(CONFIG_MAPS, config_map(a="1"))["metadata"]["labels"] == {"old": "false"}
    updated = api.request("PUT", f"{CONFIG_MAPS}/c", config_map(a="2"), want=200)
    assert updated["metadata"]["labels"] == {"old": "true"}
    invalid = enforced(policy(apply("Object{metadata: Object.metadata{labels: {'a': '-'}}}")))
    invalid.request("POST", CONFIG_MAPS, config_map(a="1"), want=422)


def test_changed_fields_have_no_owner() -> None:
    api = enforced(policy(apply('Object{data: {"a": "1"}}')))
    created = api.request("POST", f"{CONFIG_MAPS}?fieldManager=m", config_map(b="2"), want=201)
    assert created["metadata"]["managedFields"][0]["fieldsV1"] == {"f:data": {".": {}, "f:b": {}}}


INVALID: dict[str, tuple[Data, str]] = {
    "no reinvocation policy": (policy(apply("Object{}"), reinvocationPolicy=""), "spec.reinvocationPolicy: Required"),
    "no mutations": (policy(), "spec.mutations: Required value: mutations must contain at least one item"),
    "no rules": (policy(apply("Object{}"), matchConstraints={}), "spec.matchConstraints.resourceRules: Required"),
    "another operation": (
        policy(
            apply("Object{}"),
            matchConstraints={
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}
                ]
            },
        ),
        'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE"',
    ),
    "two kinds of patches": (
        policy({**apply("Object{}"), **patch("[]"), "patchType": "JSONPatch"}),
        "spec.mutations[0].applyConfiguration: Invalid value: "
        '"{applyConfiguration}": must not be specified when patchType is JSONPatch',
    ),
}


@pytest.mark.parametrize(("written", "message"), INVALID.values(), ids=INVALID)
def test_invalid_policy_is_rejected(written: Data, message: str) -> None:
    answer = ApiHarness().request("POST", f"{ADMISSION}/mutatingadmissionpolicies", written, want=422)
    assert message in answer["message"]
