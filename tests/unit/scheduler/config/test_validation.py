"""Upstream's checks of an entire configuration: paths, values, words and order."""

from typing import Any

import pytest
import yaml
from tests.support.configurations import HEADER, LABEL_NAME, REMOVED, enabling, problems, profile

from moorage.scheduler.config import load_config

LEADER = "leaderElection."

TOP_LEVEL = {
    "parallelism must be positive": (
        {"parallelism": 0},
        ["parallelism: Invalid value: 0: should be an integer value greater than zero"],
    ),
    "burst must not be negative": (
        {"clientConnection": {"burst": -1}},
        ["clientConnection.burst: Invalid value: -1: must be non-negative"],
    ),
    "leader election needs positive durations": (
        {"leaderElection": {"leaseDuration": "-1s", "renewDeadline": "-2s", "retryPeriod": "-3s"}},
        [
            LEADER + 'leaseDuration: Invalid value: "-1s": must be greater than zero',
            LEADER + 'renewDeadline: Invalid value: "-2s": must be greater than zero',
            LEADER + 'retryPeriod: Invalid value: "-3s": must be greater than zero',
        ],
    ),
    "the lease must outlive the deadline, which is what upstream prints": (
        {"leaderElection": {"leaseDuration": "5s"}},
        [LEADER + 'leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`'],
    ),
    "only leases lock": (
        {"leaderElection": {"resourceLock": "endpoints"}},
        [LEADER + 'resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"'],
    ),
    "the percentage is one": (
        {"percentageOfNodesToScore": 101},
        ["percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"],
    ),
    "backoff starts above zero and does not shrink": (
        {"podInitialBackoffSeconds": 0, "podMaxBackoffSeconds": -1},
        [
            "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
            "podMaxBackoffSeconds: Invalid value: -1: must be greater than or equal to PodInitialBackoffSeconds",
        ],
    ),
}

PROFILES = {
    "with several profiles each needs a name": (
        {"profiles": [{}, profile()]},
        ["profiles[0].schedulerName: Required value"],
    ),
    "an empty name is invalid, even for one profile": (
        {"profiles": [{"schedulerName": ""}]},
        ["profiles[0].schedulerName: Required value"],
    ),
    "names are unique": (
        {"profiles": [profile(), profile()]},
        ["profiles[1].schedulerName: Duplicate value: {}"],
    ),
    "a profile's percentage is one too": (
        {"profiles": [profile(percentageOfNodesToScore=-1)]},
        ["profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]"],
    ),
    "removed plugins cannot be enabled": (
        {"profiles": [profile(plugins=enabling("filter", "EBSLimits"))]},
        [f'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": {REMOVED}'],
    ),
    "nor configured": (
        {"profiles": [profile(pluginConfig=[{"name": "CinderLimits"}])]},
        [f'profiles[0].pluginConfig[0]: Invalid value: "CinderLimits": {REMOVED}'],
    ),
    "removed plugins in MultiPoint are found later, when the profile is built": (
        {"profiles": [profile(plugins=enabling("multiPoint", "GCEPDLimits"))]},
        ["profiles[0].plugins.multiPoint.enabled[0]: plugin GCEPDLimits was removed from Kubernetes"],
    ),
    "a plugin is configured once": (
        {"profiles": [profile(pluginConfig=[{"name": "Foo"}, {"name": "Foo"}])]},
        ['profiles[0].pluginConfig[1]: Duplicate value: "Foo"'],
    ),
    "every profile sorts the queue the same way": (
        {
            "profiles": [
                profile(plugins=enabling("queueSort", "PrioritySort")),
                profile(schedulerName="b"),
            ]
        },
        [
            'profiles[1].plugins.queueSort: Invalid value: {"Enabled":null,"Disabled":null}: '
            "must be the same for all profiles"
        ],
    ),
    "and with the same arguments": (
        {
            "profiles": [
                profile(schedulerName=name, plugins=enabling("queueSort", "PrioritySort"), pluginConfig=[config])
                for name, config in (
                    ("a", {"name": "PrioritySort", "args": {"x": 1}}),
                    ("b", {"name": "PrioritySort", "args": {"x": 2}}),
                )
            ]
        },
        ['profiles[1].pluginConfig.args: Invalid value: {"x":2}: queueSort must be the same for all profiles'],
    ),
    "only one plugin sorts": (
        {"profiles": [profile(plugins=enabling("queueSort", "PrioritySort", "PrioritySort"))]},
        [
            "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled",
            'profiles[0].plugins.queueSort.enabled[1]: plugin "PrioritySort" already registered as "QueueSortPlugin"',
        ],
    ),
}


EXTENDERS = {
    "one that scores needs a weight": (
        {"extenders": [{"prioritizeVerb": "p"}]},
        ["extenders[0].weight: Invalid value: 0: must have a positive weight applied to it"],
    ),
    "only one binds": (
        {"extenders": [{"bindVerb": "b"}, {"bindVerb": "b"}]},
        ['extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind'],
    ),
    "a resource belongs to one of them": (
        {"extenders": [{"managedResources": [{"name": "example.com/x"}]}] * 2},
        [
            'extenders[1].managedResources[0].name: Invalid value: "example.com/x": '
            "duplicate extender managed resource name"
        ],
    ),
    "Kubernetes' own resources belong to none": (
        {"extenders": [{"managedResources": [{"name": "cpu"}, {"name": "kubernetes.io/x"}]}]},
        [
            'extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name',
            "extenders[0].managedResources[1].name: "
            'Invalid value: "kubernetes.io/x": is an invalid extended resource name',
        ],
    ),
    "quota names are not resources": (
        {"extenders": [{"managedResources": [{"name": "requests.example.com/x"}]}]},
        [
            'extenders[0].managedResources[0].name: Invalid value: "requests.example.com/x": '
            "is an invalid extended resource name"
        ],
    ),
    "a name must be a name": (
        {"extenders": [{"managedResources": [{"name": ""}, {"name": "/x"}]}]},
        [
            'extenders[0].managedResources[0].name: Invalid value: "": name part must be non-empty',
            f'extenders[0].managedResources[0].name: Invalid value: "": {LABEL_NAME}',
            'extenders[0].managedResources[1].name: Invalid value: "/x": prefix part must be non-empty',
        ],
    ),
}

CASES = {**TOP_LEVEL, **PROFILES, **EXTENDERS}


@pytest.mark.parametrize(("fields", "want"), CASES.values(), ids=CASES)
def test_rejected(fields: dict[str, Any], want: list[str]) -> None:
    assert problems(fields) == want


ACCEPTED = {
    "leader election is not checked when it is off": {
        "leaderElection": {"leaderElect": False, "leaseDuration": "-1s", "resourceLock": "endpoints"}
    },
    "a negative qps": {"clientConnection": {"qps": -1}},
    "disabling an unknown plugin": {"profiles": [{"plugins": {"filter": {"disabled": [{"name": "Nope"}]}}}]},
    "arguments for an unknown plugin": {"profiles": [{"pluginConfig": [{"name": "Nope", "args": {"a": 1}}]}]},
    "one extender that binds": {"extenders": [{"bindVerb": "b", "urlPrefix": "http://x"}]},
}


@pytest.mark.parametrize("fields", ACCEPTED.values(), ids=ACCEPTED)
def test_valid_configuration_is_accepted(fields: dict[str, Any]) -> None:
    assert load_config(yaml.safe_dump({**HEADER, **fields})).profiles


def test_upstreams_sample_in_upstreams_order() -> None:
    constraint = {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Foo"}
    messages = problems(
        {
            "parallelism": -1,
            "profiles": [
                profile(
                    plugins=enabling("filter", "EBSLimits"),
                    pluginConfig=[{"name": "PodTopologySpread", "args": {"defaultConstraints": [constraint]}}],
                ),
                profile(),
            ],
            "percentageOfNodesToScore": 101,
            "podInitialBackoffSeconds": 20,
            "extenders": [{"prioritizeVerb": "p", "managedResources": [{"name": "cpu"}]}],
        }
    )
    args = "profiles[0].pluginConfig[0].args"
    assert messages == [
        "parallelism: Invalid value: -1: should be an integer value greater than zero",
        f'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": {REMOVED}',
        f'{args}.defaultingType: Invalid value: "System": when .defaultConstraints are not empty',
        f"{args}.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
        f"{args}.defaultConstraints[0].topologyKey: Required value: can not be empty",
        f'{args}.defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Foo": '
        'supported values: "DoNotSchedule", "ScheduleAnyway"',
        "profiles[1].schedulerName: Duplicate value: {}",
        "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        "podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds",
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
        'extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name',
    ]
