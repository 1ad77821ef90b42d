"""Invalid arguments of in-tree plugins, with upstream's messages."""

from typing import Any

import pytest
import yaml
from tests.support.plugin_args import LABEL_NAME, LABEL_VALUE, problems, strategy

from moorage.scheduler.config import load_config


def required_terms(**term: Any) -> dict[str, Any]:
    return {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


TERM = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"


OPERATORS = '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'


REFUSED = {
    "candidates out of range": (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 101, "minCandidateNodesAbsolute": -1},
        [
            "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
            "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
        ],
    ),
    "no candidates": (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
        [
            "minCandidateNodesPercentage: Invalid value: 0: "
            "cannot be zero at the same time as minCandidateNodesAbsolute",
            "minCandidateNodesAbsolute: Invalid value: 0: "
            "cannot be zero at the same time as minCandidateNodesPercentage",
        ],
    ),
    "an affinity weight out of range": (
        "InterPodAffinity",
        {"hardPodAffinityWeight": 101},
        ["hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"],
    ),
    "a selector's operator": (
        "NodeAffinity",
        required_terms(matchExpressions=[{"key": "a", "operator": "Foo"}]),
        [f'{TERM}.matchExpressions[0].operator: Unsupported value: "Foo": supported values: {OPERATORS}'],
    ),
    "a selector's key, and no values": (
        "NodeAffinity",
        required_terms(matchExpressions=[{"key": "a b", "operator": "In"}]),
        [
            f'{TERM}.matchExpressions[0].key: Invalid value: "a b": {LABEL_NAME}',
            f"{TERM}.matchExpressions[0].values: Invalid value: null: "
            "for 'in', 'notin' operators, values set can't be empty",
        ],
    ),
    "values where there must be none": (
        "NodeAffinity",
        required_terms(matchExpressions=[{"key": "a", "operator": "Exists", "values": ["x y"]}]),
        [
            f'{TERM}.matchExpressions[0].values: Invalid value: ["x y"]: '
            "values set must be empty for exists and does not exist",
            f'{TERM}.matchExpressions[0].values[0][a]: Invalid value: "x y": {LABEL_VALUE}',
        ],
    ),
    "invalid numbers": (
        "NodeAffinity",
        required_terms(matchExpressions=[{"key": "a", "operator": "Gt", "values": ["x", "1"]}]),
        [
            f'{TERM}.matchExpressions[0].values: Invalid value: ["x","1"]: '
            "for 'Gt', 'Lt' operators, exactly one value is required",
            f'{TERM}.matchExpressions[0].values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ],
    ),
    "fields know In and NotIn, with one value": (
        "NodeAffinity",
        required_terms(
            matchFields=[
                {"key": "metadata.name", "operator": "Exists"},
                {"key": "metadata.name", "operator": "In", "values": ["a", "b"]},
            ]
        ),
        [
            f'{TERM}.matchFields[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
            f'{TERM}.matchFields[1].values: Invalid value: ["a","b"]: must have one element',
        ],
    ),
    "preferred terms, where they weigh something": (
        "NodeAffinity",
        {
            "addedAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": weight, "preference": {"matchExpressions": [{"key": "a", "operator": "Foo"}]}}
                    for weight in (0, 1)
                ]
            }
        },
        [
            "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].matchExpressions[0].operator: "
            f'Unsupported value: "Foo": supported values: {OPERATORS}'
        ],
    ),
    "ignored resources are names": (
        "NodeResourcesFit",
        {"ignoredResources": ["a b"], "ignoredResourceGroups": ["a/b"]},
        [
            f'ignoredResources[0]: Invalid value: "a b": {LABEL_NAME}',
            "ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'",
        ],
    ),
    "a strategy must have a type": (
        "NodeResourcesFit",
        strategy(resources=[{"name": "cpu"}]),
        [
            'scoringStrategy.type: Unsupported value: "": '
            'supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
        ],
    ),
    "a resource weighs at most a hundred": (
        "NodeResourcesFit",
        strategy(type="LeastAllocated", resources=[{"name": "cpu", "weight": 101}, {"name": "x", "weight": -1}]),
        [
            "scoringStrategy.resources[0].weight: Invalid value: 101: "
            "resource weight of cpu not in valid range (0, 100]",
            "scoringStrategy.resources[1].weight: Invalid value: -1: resource weight of x not in valid range (0, 100]",
        ],
    ),
    "the ratio needs its shape": (
        "NodeResourcesFit",
        strategy(type="RequestedToCapacityRatio"),
        [
            "scoringStrategy.requestedToCapacityRatio: Required value: "
            "must be specified when type is RequestedToCapacityRatio"
        ],
    ),
    "a shape needs points": (
        "NodeResourcesFit",
        strategy(type="RequestedToCapacityRatio", requestedToCapacityRatio={}),
        ["scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified"],
    ),
    "other strategies have no shape": (
        "NodeResourcesFit",
        strategy(type="LeastAllocated", requestedToCapacityRatio={}),
        ["scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio"],
    ),
    "balanced resources are unique and weigh one": (
        "NodeResourcesBalancedAllocation",
        {"resources": [{"name": "cpu", "weight": 2}, {"name": "cpu"}]},
        ["resources[0].weight: Invalid value: 2: must be 1", 'resources[1].name: Duplicate value: "cpu"'],
    ),
    "an unknown defaulting": (
        "PodTopologySpread",
        {"defaultingType": "Foo"},
        ['defaultingType: Unsupported value: "Foo": supported values: "System", "List"'],
    ),
    "system defaulting allows no constraints": (
        "PodTopologySpread",
        {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
        ['defaultingType: Invalid value: "System": when .defaultConstraints are not empty'],
    ),
    "each rule of a constraint": (
        "PodTopologySpread",
        {
            "defaultingType": "List",
            "defaultConstraints": [
                {"maxSkew": -1, "topologyKey": "", "whenUnsatisfiable": "Foo", "labelSelector": {}},
                {"maxSkew": 1, "topologyKey": "a b"},
                {"maxSkew": 1, "topologyKey": "a b"},
            ],
        },
        [
            "defaultConstraints[0].maxSkew: Invalid value: -1: not in valid range (0, inf)",
            "defaultConstraints[0].topologyKey: Required value: can not be empty",
            'defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Foo": '
            'supported values: "DoNotSchedule", "ScheduleAnyway"',
            "defaultConstraints[0].labelSelector: Forbidden: "
            "constraint must not define a selector, as they deduced for each pod",
            f'defaultConstraints[1].topologyKey: Invalid value: "a b": {LABEL_NAME}',
            "defaultConstraints[1].whenUnsatisfiable: Required value: can not be empty",
            f'defaultConstraints[2].topologyKey: Invalid value: "a b": {LABEL_NAME}',
            "defaultConstraints[2].whenUnsatisfiable: Required value: can not be empty",
            'defaultConstraints[2]: Duplicate value: "{a b, }"',
        ],
    ),
    "a negative time-out of volumes": (
        "VolumeBinding",
        {"bindTimeoutSeconds": -1},
        [
            "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
        ],
    ),
    "each rule of a shape": (
        "VolumeBinding",
        {
            "shape": [
                {"utilization": 50, "score": 11},
                {"utilization": 50, "score": -1},
                {"utilization": 101, "score": 1},
            ]
        },
        [
            "shape[1].utilization: Invalid value: 50: values must be sorted in increasing order",
            "shape[0].score: Invalid value: 11: not in valid range [0, 10]",
            "shape[1].score: Invalid value: -1: not in valid range [0, 10]",
            "shape[2].utilization: Invalid value: 101: not in valid range [0, 100]",
        ],
    ),
    "time-outs of dynamic resources": (
        "DynamicResources",
        {"filterTimeout": "-1s", "bindingTimeout": "10ms"},
        [
            'filterTimeout: Invalid value: "-1s": must be zero or positive',
            'bindingTimeout: Invalid value: "10ms": must be at least 1 second',
        ],
    ),
}


@pytest.mark.parametrize(("plugin", "args", "want"), REFUSED.values(), ids=REFUSED)
def test_rejected(plugin: str, args: dict[str, Any], want: list[str]) -> None:
    assert problems(plugin, args) == want


REFUSED_BY_GATES = {
    "a shape without storage scoring": (
        "VolumeBinding",
        {"shape": [{"utilization": 0, "score": 0}]},
        "StorageCapacityScoring=false",
        [
            'shape: Invalid value: [{"Utilization":0,"Score":0}]: '
            "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        ],
    ),
    "time-outs without their gates": (
        "DynamicResources",
        {"filterTimeout": "1s", "bindingTimeout": "1s"},
        "DRASchedulerFilterTimeout=false,DRADeviceBindingConditions=false",
        [
            "filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled",
            "bindingTimeout: Forbidden: "
            "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled",
        ],
    ),
}


@pytest.mark.parametrize(("plugin", "args", "gates", "want"), REFUSED_BY_GATES.values(), ids=REFUSED_BY_GATES)
def test_rejected_by_gates(plugin: str, args: dict[str, Any], gates: str, want: list[str]) -> None:
    assert problems(plugin, args, gates) == want


def test_arguments_of_a_plugin_that_is_not_used_are_checked_only_where_upstream_does() -> None:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}},
                "pluginConfig": [{"name": "NodeResourcesFit", "args": strategy(type="Foo")}],
            }
        ],
    }
    profile = load_config(yaml.safe_dump(document)).profiles[0]
    assert profile.find_args("NodeResourcesFit").scoring_strategy.type == "Foo"
