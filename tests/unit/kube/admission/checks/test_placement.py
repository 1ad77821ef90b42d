"""Scheduling constraints of pods, and taints of nodes: each invalid field is reported with its path."""

from typing import Any

import pytest

from moorage.kube.admission.checks.placement import (
    PREFERRED,
    REQUIRED,
    comparisons,
    label_selector,
    node_selector,
    placement,
    taints,
)


def messages(errors: Any) -> list[str]:
    return [f"{error.field}: {error.message}" for error in errors]


def spread(**fields: Any) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}


NODE_TERMS = f"s.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
CONSTRAINTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no constraints": ({}, []),
    "no term of node affinity": (
        {"affinity": {"nodeAffinity": {REQUIRED: {}}}},
        [f"{NODE_TERMS}: Required value: must have at least one node selector term"],
    ),
    "a comparison with two numbers": (
        {
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1", "2"]}]}
                        ]
                    }
                }
            }
        },
        [
            f"{NODE_TERMS}[0].matchExpressions[0].values: Required value: must be specified single value when "
            "`operator` is 'Lt' or 'Gt'"
        ],
    ),
    "a preference without a weight": (
        {"affinity": {"nodeAffinity": {PREFERRED: [{"preference": {}}]}}},
        [f"s.affinity.nodeAffinity.{PREFERRED}[0].weight: Invalid value: 0: must be in the range 1-100"],
    ),
    "a pod affinity term with an invalid selector": (
        {
            "affinity": {
                "podAffinity": {
                    REQUIRED: [
                        {"topologyKey": "a", "labelSelector": {"matchExpressions": [{"key": "b", "operator": "Is"}]}}
                    ]
                }
            }
        },
        [
            f"s.affinity.podAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0].operator: "
            'Invalid value: "Is": not a valid selector operator'
        ],
    ),
    "a preferred term with a heavy weight": (
        {"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 101, "podAffinityTerm": {"topologyKey": "a"}}]}}},
        [f"s.affinity.podAntiAffinity.{PREFERRED}[0].weight: Invalid value: 101: must be in the range 1-100"],
    ),
    "a toleration without a key": (
        {"tolerations": [{"operator": "Equal"}]},
        [
            's.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which '
            'means "match all values and all keys"'
        ],
    ),
    "a toleration of existence with a value": (
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        ["s.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'"],
    ),
    "toleration seconds without NoExecute": (
        {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}]},
        [
            "s.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when "
            "`tolerationSeconds` is set"
        ],
    ),
    "a comparison with a text": (
        {"tolerations": [{"key": "a", "operator": "Lt", "value": "x"}]},
        [
            's.tolerations[0].value: Invalid value: "x": must be a valid decimal integer in canonical form',
            's.tolerations[0].value: Invalid value: "x": strconv.ParseInt: parsing "x": invalid syntax',
        ],
    ),
    "a comparison with a number above 64 bits": (
        {"tolerations": [{"key": "a", "operator": "Gt", "value": "9223372036854775808"}]},
        [
            's.tolerations[0].value: Invalid value: "9223372036854775808": strconv.ParseInt: parsing '
            '"9223372036854775808": value out of range'
        ],
    ),
    "an unknown effect": (
        {"tolerations": [{"key": "a", "effect": "Never"}]},
        [
            's.tolerations[0].effect: Unsupported value: "Never": supported values: "NoSchedule", '
            '"PreferNoSchedule", "NoExecute"'
        ],
    ),
    "a spread constraint without fields": (
        {"topologySpreadConstraints": [{}]},
        [
            "s.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            "s.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
            's.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "": supported values: '
            '"DoNotSchedule", "ScheduleAnyway"',
        ],
    ),
    "domains of a soft constraint": (
        {"topologySpreadConstraints": [spread(whenUnsatisfiable="ScheduleAnyway", minDomains=1)]},
        [
            "s.topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if "
            "whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
        ],
    ),
    "an unknown policy": (
        {"topologySpreadConstraints": [spread(nodeTaintsPolicy="Maybe")]},
        [
            's.topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value: "Maybe": supported values: '
            '"Honor", "Ignore"'
        ],
    ),
    "two equal constraints": (
        {"topologySpreadConstraints": [spread(), spread(maxSkew=2)]},
        ['s.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, DoNotSchedule}"'],
    ),
}


@pytest.mark.parametrize(("spec", "want"), CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_problems_of_constraints(spec: dict[str, Any], want: list[str]) -> None:
    assert messages(placement(spec, "s")) == want


def test_comparisons_are_rejected_while_the_feature_is_disabled() -> None:
    spec = {"tolerations": [{"operator": "Exists"}, {"key": "a", "operator": "Lt", "value": "1"}]}
    assert messages(comparisons(spec, "s")) == [
        's.tolerations[1].operator: Unsupported value: "Lt": supported values: "Equal", "Exists"'
    ]


EXPRESSIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a valid expression": ({"key": "a", "operator": "In", "values": ["b"]}, []),
    "no values": (
        {"key": "a", "operator": "In"},
        ["p.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"],
    ),
    "values of existence": (
        {"key": "a", "operator": "Exists", "values": ["b"]},
        ["p.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"],
    ),
    "a comparison of labels": (
        {"key": "a", "operator": "Gt", "values": ["1"]},
        ['p.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator'],
    ),
}


@pytest.mark.parametrize(("expression", "want"), EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_problems_of_label_selectors(expression: dict[str, Any], want: list[str]) -> None:
    assert messages(label_selector({"matchExpressions": [expression]}, "p")) == want


def test_invalid_keys_and_values_are_reported() -> None:
    expression = {"key": "-", "operator": "In", "values": ["a", "-"]}
    errors = label_selector({"matchLabels": {"b": "-"}, "matchExpressions": [expression]}, "p")
    assert [error.field for error in errors] == [
        "p.matchLabels",
        "p.matchExpressions[0].key",
        "p.matchExpressions[0].values[1]",
    ]


def test_problems_of_field_selectors() -> None:
    fields = [{"key": "status", "operator": "Exists"}, {"key": "metadata.name", "operator": "In", "values": []}]
    assert messages(node_selector({"nodeSelectorTerms": [{"matchFields": fields}]}, "p")) == [
        'p.nodeSelectorTerms[0].matchFields[0].operator: Invalid value: "Exists": not a valid selector operator',
        'p.nodeSelectorTerms[0].matchFields[0].key: Invalid value: "status": not a valid field selector key',
        "p.nodeSelectorTerms[0].matchFields[1].values: Required value: must be only one value when `operator` is "
        "'In' or 'NotIn' for node field selector",
    ]


def test_problems_of_taints() -> None:
    items = [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "b"}, {"key": "c"}]
    assert messages(taints(items, "t")) == [
        't[1]: Duplicate value: {"Key":"a","Value":"b","Effect":"NoSchedule","TimeAdded":null}: taints must be unique '
        "by key and effect pair",
        "t[2].effect: Required value",
    ]
