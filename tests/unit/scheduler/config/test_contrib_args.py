"""Arguments of community plugins: names and defaults of scheduler-plugins, and rejected values."""

from typing import Any

import msgspec
import pytest

from moorage.common.errors import ConfigErrors
from moorage.scheduler.config import KNOWN_PLUGINS, completed_view, load_config, to_yaml, without_secrets
from moorage.scheduler.config.args import ResourceSpec
from moorage.scheduler.config.contrib_args import (
    CoschedulingArgs,
    NodeResourcesAllocatableArgs,
    PreemptionTolerationArgs,
)
from moorage.scheduler.config.plugin_facts import COMMUNITY_PLUGINS


def loaded(plugin: str, args: dict[str, Any] | None) -> Any:
    """Load a configuration that enables a plugin with arguments, or without any."""
    points = KNOWN_PLUGINS[plugin].points
    plugins: dict[str, Any] = {"multiPoint": {"enabled": [{"name": plugin}]}}
    if "queueSort" in points:
        plugins["queueSort"] = {"disabled": [{"name": "*"}], "enabled": [{"name": plugin}]}
    profile: dict[str, Any] = {"plugins": plugins}
    if args is not None:
        profile["pluginConfig"] = [{"name": plugin, "args": args}]
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = load_config(msgspec.json.encode({**head, "profiles": [profile]}).decode())
    return config.profiles[0].find_args(plugin)


DEFAULTS: dict[str, Any] = {
    "Coscheduling": CoschedulingArgs(60, 0, 10),
    "PreemptionToleration": PreemptionTolerationArgs(10, 100),
    "NodeResourcesAllocatable": NodeResourcesAllocatableArgs(
        (ResourceSpec("cpu", 1 << 20), ResourceSpec("memory", 1)), "Least"
    ),
}


@pytest.mark.parametrize(("plugin", "args"), DEFAULTS.items(), ids=DEFAULTS)
def test_defaults(plugin: str, args: Any) -> None:
    assert loaded(plugin, None) == args
    assert loaded(plugin, {}) == args
    assert loaded(plugin, {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{plugin}Args"}) == args


WATCHER = {"watcherAddress": "http://watcher:2020"}
PROMETHEUS = {"type": "Prometheus", "address": "http://prometheus:9090"}
NUMBERS = {"metadataKey": "k", "metadataSource": "Label", "metadataType": "Number", "scoringStrategy": "Highest"}


def test_empty_values_are_defaulted() -> None:
    args = loaded("NodeResourcesAllocatable", {"resources": [], "mode": ""})
    assert args == DEFAULTS["NodeResourcesAllocatable"]
    times = {**NUMBERS, "metadataType": "Timestamp", "scoringStrategy": "Newest", "timestampFormat": ""}
    assert loaded("NodeMetadata", times).timestamp_format == "2006-01-02T15:04:05Z07:00"


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "a negative waiting time": (
        "Coscheduling",
        {"permitWaitingTimeSeconds": -1},
        "permitWaitingTimeSeconds: Invalid value: -1: must not be negative",
    ),
    "a negative backoff": (
        "Coscheduling",
        {"podGroupBackoffSeconds": -1},
        "podGroupBackoffSeconds: Invalid value: -1: must not be negative",
    ),
    "more than all": (
        "Coscheduling",
        {"podGroupRejectPercentage": 101},
        "podGroupRejectPercentage: Invalid value: 101: not in valid range [0, 100]",
    ),
    "a weight of nothing": (
        "NodeResourcesAllocatable",
        {"resources": [{"name": "cpu", "weight": 0}]},
        "resources[0].weight: Invalid value: 0: resource weight of cpu should be a positive value, got 0",
    ),
    "neither least nor most": (
        "NodeResourcesAllocatable",
        {"mode": "Middle"},
        'mode: Unsupported value: "Middle": supported values: "Least", "Most"',
    ),
    "more nodes than there are": (
        "PreemptionToleration",
        {"minCandidateNodesPercentage": 101},
        "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
    ),
    "no key": ("NodeMetadata", {**NUMBERS, "metadataKey": ""}, "metadataKey: Required value"),
    "no strategy": (
        "NodeMetadata",
        {"metadataKey": "k", "metadataSource": "Label", "metadataType": "Number"},
        "scoringStrategy: Required value",
    ),
    "another source": (
        "NodeMetadata",
        {**NUMBERS, "metadataSource": "Taint"},
        'metadataSource: Unsupported value: "Taint": supported values: "Label", "Annotation"',
    ),
    "another type": (
        "NodeMetadata",
        {**NUMBERS, "metadataType": "Text"},
        'metadataType: Unsupported value: "Text": supported values: "Number", "Timestamp"',
    ),
    "a strategy of times for numbers": (
        "NodeMetadata",
        {**NUMBERS, "scoringStrategy": "Newest"},
        'scoringStrategy: Unsupported value: "Newest": supported values: "Highest", "Lowest"',
    ),
    "an invalid layout": (
        "NodeMetadata",
        {**NUMBERS, "metadataType": "Timestamp", "scoringStrategy": "Oldest", "timestampFormat": "%Y-%m-%d"},
        'timestampFormat: Invalid value: "%Y-%m-%d": the year (2006) is missing',
    ),
    "no metric provider": (
        "TargetLoadPacking",
        {},
        "watcherAddress: Required value: no source of node utilization is configured",
    ),
    "an unsupported metric provider": (
        "LoadVariationRiskBalancing",
        {"metricProvider": {"type": "KubernetesMetricsServer"}},
        'metricProvider.type: Invalid value: "KubernetesMetricsServer": use a load watcher',
    ),
    "an unknown metric provider": (
        "LoadVariationRiskBalancing",
        {"metricProvider": {"type": "Nagios"}},
        'metricProvider.type: Unsupported value: "Nagios": supported values: "Prometheus"',
    ),
    "an invalid address": (
        "TargetLoadPacking",
        {"watcherAddress": "watcher:2020"},
        "watcherAddress: not a URL of a server",
    ),
    "no address": (
        "TargetLoadPacking",
        {"metricProvider": {"type": "Prometheus"}},
        "metricProvider.address: not a URL of a server",
    ),
    "a token of two lines": (
        "TargetLoadPacking",
        {"metricProvider": {**PROMETHEUS, "token": "a\r\nHost: b"}},
        "metricProvider.token: a token must be a single line",
    ),
    "busier than a node can be": (
        "TargetLoadPacking",
        {**WATCHER, "targetUtilization": 101},
        "targetUtilization: Invalid value: 101: not in valid range [1, 100]",
    ),
    "a multiplier that is not a number": (
        "TargetLoadPacking",
        {**WATCHER, "defaultRequestsMultiplier": "twice"},
        'defaultRequestsMultiplier: Invalid value: "twice": this is not a number',
    ),
    "a default that is not a quantity": (
        "TargetLoadPacking",
        {**WATCHER, "defaultRequests": {"cpu": "one"}},
        "defaultRequests.cpu: Invalid value: \"one\": 'one' is not a quantity",
    ),
    "an argument that there is not": (
        "Coscheduling",
        {"permitWaitingSeconds": 1},
        "permitWaitingSeconds: unknown field",
    ),
    "arguments of another plugin": (
        "Coscheduling",
        {"kind": "CoschedulerArgs", "apiVersion": "kubescheduler.config.k8s.io/v1"},
        "args for plugin Coscheduling were not of type CoschedulingArgs",
    ),
}


@pytest.mark.parametrize(("plugin", "args", "problem"), WRONG.values(), ids=WRONG)
def test_errors_are_reported_with_their_path(plugin: str, args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigErrors) as raised:
        loaded(plugin, args)
    (error,) = raised.value.errors
    assert str(error).startswith("profiles[0].pluginConfig[0]")
    assert problem in str(error)


def test_every_plugin_is_in_the_table_of_defaults() -> None:
    with_args = {name for name, facts in COMMUNITY_PLUGINS.items() if facts.args and not facts.required_args}
    assert DEFAULTS.keys() | {"TargetLoadPacking", "LoadVariationRiskBalancing"} == with_args


def test_defaults_of_load_plugins() -> None:
    packing = loaded("TargetLoadPacking", {**WATCHER, "targetUtilization": 0})
    assert (packing.target_utilization, packing.default_requests_multiplier) == (40, "1.5")
    assert packing.default_requests == {"cpu": "1000m"}
    balancing = loaded("LoadVariationRiskBalancing", {"metricProvider": PROMETHEUS, "safeVarianceMargin": -1})
    assert (balancing.safe_variance_margin, balancing.safe_variance_sensitivity) == (1.0, 1.0)


def test_plugin_credentials_are_not_shown() -> None:
    provider = {"type": "Prometheus", "address": "http://me:secret@prometheus:9090", "token": "secret"}
    plugins = {"multiPoint": {"enabled": [{"name": "TargetLoadPacking"}]}}
    entry = {"name": "TargetLoadPacking", "args": {"metricProvider": provider}}
    profile = {"schedulerName": "x", "plugins": plugins, "pluginConfig": [entry]}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = load_config(msgspec.json.encode({**head, "profiles": [profile]}).decode())
    assert "secret" not in to_yaml(without_secrets(completed_view(config)))
    assert "secret" in to_yaml(completed_view(config)), "whoever asks for the file gets it whole"
