"""Rules of custom resources in CEL."""

import copy
import json
from typing import Any

import pytest
from tests.support.api import ApiHarness, Data, definition

from moorage.cluster.apiserver.discovery.custom_rules import MAX_RULES
from moorage.kube.cel.cost import estimate_cost, measure_fields
from moorage.kube.cel.expressions import OUT_OF_BUDGET, compile_rule

QUOTAS = "/apis/example.org/v1/namespaces/default/quotas"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FIELDS: Data = {
    "low": {"type": "integer"},
    "high": {"type": "integer"},
    "ratio": {"type": "number"},
    "foo-bar": {"type": "string"},
    "names": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "ports": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.port == oldSelf.port", "message": "port is immutable"}],
        },
    },
}


def defined(*rules: Data | str, **fields: Data) -> Data:
    """Return a definition with rules in its spec."""
    data = definition()
    schema = data["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    written = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    properties = copy.deepcopy(FIELDS) | fields
    schema["properties"] = {"spec": {"type": "object", "properties": properties, "x-kubernetes-validations": written}}
    return data


def quota(**spec: Any) -> Data:
    return {"apiVersion": "example.org/v1", "kind": "Quota", "metadata": {"name": "q"}, "spec": spec}


REJECTED: dict[str, tuple[Data | str, Data, str]] = {
    "a false rule": ("self.low <= self.high", {"low": 2, "high": 1}, "failed rule: self.low <= self.high"),
    "its own message": ({"rule": "self.low > 1", "message": "too low"}, {"low": 1}, "too low"),
    "a computed message": (
        {"rule": "self.low > 1", "messageExpression": "'low is %d'.format([self.low])"},
        {"low": 1},
        "low is 1",
    ),
    "a missing field": ("self.low > 1", {}, "no such key: low"),
    "an escaped name": ("self.foo__dash__bar == 'a'", {"foo-bar": "b"}, "failed rule"),
    "a loop": ("self.names.all(n, n.startsWith('a'))", {"names": ["a", "b"]}, "failed rule"),
    "a number without a fraction": ("self.ratio / 2.0 > 0.6", {"ratio": 1}, "failed rule"),
    "an optional old value": (
        {"rule": "oldSelf.hasValue() || self.low == 0", "optionalOldSelf": True},
        {"low": 1},
        "failed rule",
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_violated_rules_are_reported(case: str) -> None:
    rule, spec, message = REJECTED[case]
    client = ApiHarness()
    client.create(DEFINITIONS, defined(rule))
    cause = client.request("POST", QUOTAS, quota(**spec), want=422)["details"]["causes"][0]
    assert cause["field"] == "spec"
    assert message in cause["message"]


def test_other_reason_and_path() -> None:
    rule = {"rule": "has(self.low)", "reason": "FieldValueRequired", "fieldPath": ".low", "message": "set it"}
    client = ApiHarness()
    client.create(DEFINITIONS, defined(rule))
    cause = client.request("POST", QUOTAS, quota(), want=422)["details"]["causes"][0]
    assert cause == {"reason": "FieldValueRequired", "message": "Required value: set it", "field": "spec.low"}
    client.create(QUOTAS, quota(low=1))


def test_transition_rules_compare_with_the_stored_object() -> None:
    client = ApiHarness()
    client.create(DEFINITIONS, defined({"rule": "self.low == oldSelf.low", "message": "low is immutable"}))
    stored = client.create(QUOTAS, quota(low=1, ports=[{"name": "a", "port": 1}, {"name": "b", "port": 2}]))
    stored["spec"]["low"] = 2
    cause = client.request("PUT", f"{QUOTAS}/q", stored, want=422)["details"]["causes"][0]
    assert "low is immutable" in cause["message"]
    stored["spec"] = {"low": 1, "ports": [{"name": "b", "port": 3}, {"name": "c", "port": 3}]}
    causes = client.request("PUT", f"{QUOTAS}/q", stored, want=422)["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["spec.ports[0]"], "items of a list map correspond by their keys"
    stored["spec"]["ports"][0]["port"] = 2
    client.request("PUT", f"{QUOTAS}/q", stored)


def test_rules_wait_until_types_are_right() -> None:
    client = ApiHarness()
    client.create(DEFINITIONS, defined("self.low > 1"))
    causes = client.request("POST", QUOTAS, quota(low="a"), want=422)["details"]["causes"]
    assert [(cause["reason"], cause["field"]) for cause in causes] == [
        ("FieldValueTypeInvalid", "spec.low"),
        ("FieldValueInvalid", "<nil>"),
    ]
    assert "some validation rules were not checked" in causes[1]["message"]


@pytest.mark.parametrize("rule", ["self.low >", "lo > 1", "self.other > 1", ""])
def test_definitions_with_wrong_rules_are_rejected(rule: str) -> None:
    cause = ApiHarness().request("POST", DEFINITIONS, defined(rule), want=422)["details"]["causes"][0]
    assert cause["field"].endswith("properties[spec].x-kubernetes-validations[0].rule")


def test_rules_that_cannot_be_evaluated_are_reported() -> None:
    client = ApiHarness()
    response = client.send("POST", DEFINITIONS, defined("self.names.sortBy(n, n).size() == 0"))
    assert response.status == 201
    assert any("not enforced" in warning for warning in response.warnings)
    client.create(QUOTAS, quota(names=["a"]))


def test_fields_of_custom_objects_are_not_those_of_workloads() -> None:
    client = ApiHarness()
    client.create(DEFINITIONS, defined(template={"type": "string"}))
    assert client.create(QUOTAS, quota(template="a"))["spec"] == {"template": "a"}


WRONG_SCHEMAS: dict[str, tuple[Data, str]] = {
    "a field without a type": ({"properties": {"a": {}}}, "properties[a].type"),
    "a reference": ({"$ref": "#/x"}, "$ref"),
    "a list without items": ({"properties": {"a": {"type": "array"}}}, "properties[a].items"),
    "a list map without keys": (
        {"properties": {"a": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}}},
        "properties[a].x-kubernetes-list-map-keys",
    ),
    "a column of an unknown type": ({}, "additionalPrinterColumns[0].type"),
}


@pytest.mark.parametrize("case", WRONG_SCHEMAS)
def test_schemas_that_are_not_structural_are_rejected(case: str) -> None:
    change, field = WRONG_SCHEMAS[case]
    data = definition()
    version = data["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"] |= change
    if not change:
        version["additionalPrinterColumns"][0]["type"] = "text"
    causes = ApiHarness().request("POST", DEFINITIONS, data, want=422)["details"]["causes"]
    assert any(cause["field"].endswith(field) for cause in causes), causes


TOO_EXPENSIVE = {
    "replaced text that multiplies": "self.foo__dash__bar" + ".replace('a', 'aaaaaaaaaa')" * 6 + " != ''",
    "strings that double": "cel.bind(a, self.foo__dash__bar, " + "cel.bind(a, a + a, " * 15 + "a != ''" + ")" * 16,
    "loops in loops": "self.names.all(a, self.names.all(b, self.names.all(c, a + b + c != '')))",
    "a pattern with many instructions": "self.foo__dash__bar.matches('(a{1,100}){1,10}b')",
    "a message that multiplies": "false",
}


@pytest.mark.parametrize("case", TOO_EXPENSIVE)
def test_rules_that_may_cost_too_much_are_not_evaluated(case: str) -> None:
    client = ApiHarness()
    message = "self.names.map(a, self.names.map(b, self.names.join(a)).join('')).join('')"
    client.create(DEFINITIONS, defined({"rule": TOO_EXPENSIVE[case], "messageExpression": message}))
    large = quota(**{"foo-bar": "a" * 200_000}, names=[str(number) for number in range(1000)])
    assert OUT_OF_BUDGET in client.request("POST", QUOTAS, large, want=422)["message"]


def test_loops_over_long_lists_are_within_the_budget() -> None:
    client = ApiHarness()
    rule = "self.names.all(n, n.matches('^[a-z0-9]+$')) && self.names.exists(n, n == '1')"
    client.create(DEFINITIONS, defined(rule))
    client.create(QUOTAS, quota(**{"foo-bar": "a" * 200_000}, names=[str(number) for number in range(8000)]))


def test_rules_of_many_items_share_one_budget() -> None:
    client = ApiHarness()
    rules = [{"rule": "true"}]
    lines = {"type": "array", "items": {"type": "string", "x-kubernetes-validations": rules}}
    client.create(DEFINITIONS, defined(lines=lines))
    reply = client.request("POST", QUOTAS, quota(lines=["a"] * 15_000), want=422)
    assert OUT_OF_BUDGET in reply["message"]


def test_number_and_length_of_rules_are_limited() -> None:
    client = ApiHarness()
    many = defined(*(f"self.low > {number}" for number in range(MAX_RULES)))
    assert "must have at most 1000 items" in client.request("POST", DEFINITIONS, many, want=422)["message"]
    response = client.send("POST", DEFINITIONS, defined(" && ".join(["self.low > 1"] * 2000)))
    assert any("longer than 16384 characters" in warning for warning in response.warnings)


def test_size_of_a_nested_value_is_not_overestimated() -> None:
    """Otherwise deep custom resources would exceed the budget of their rules."""
    value: Any = "x" * 100
    for name in "abcdefgh":
        value = {name: [value, "y"], "other": "z" * 1000}
    assert measure_fields(value).weight <= len(json.dumps(value))


def test_comparing_an_optional_field_of_large_items_is_cheap() -> None:
    """An absent field has no size; the size of the item is not assumed instead."""
    rule = "self.all(a, !has(a.name) || self.exists_one(b, has(b.name) && a.name == b.name))"
    program = compile_rule(rule)
    assert program.tree is not None
    filters = [{"type": "header", "set": [{"name": "x", "value": "y" * 50}], "more": {"a": ["b" * 50] * 5}}] * 5
    items = [{"backends": [{"port": 80, "filters": filters}], "path": {"value": f"/{n}"}} for n in range(16)]
    assert estimate_cost(program.tree, {"self": measure_fields(items)}) < 10_000


def test_bound_of_several_items_is_the_largest_of_theirs() -> None:
    items = [{"a": {"b": ["x" * 100] * 10}, "c": number} for number in range(3)]
    assert measure_fields(items).entry().weight == max(measure_fields(item).weight for item in items)
