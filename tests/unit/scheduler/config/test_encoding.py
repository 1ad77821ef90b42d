"""The completed configuration, printed as kube-scheduler's --write-config-to prints it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.common.errors import ConfigError
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import completed_view, default_config, load_config, to_json, to_yaml, without_secrets

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
DEFAULT = Path(__file__).with_name("default_configuration.yaml")


def view(gates: str = "", **fields: Any) -> dict[str, Any]:
    return completed_view(load_config(yaml.safe_dump({**HEADER, **fields}), gates=FeatureGates.parse(gates)))


@pytest.mark.release("1.37")
def test_the_default_configuration_to_the_byte() -> None:
    assert to_yaml(completed_view(default_config(gates=FeatureGates()))) == DEFAULT.read_text(encoding="utf-8")


@pytest.mark.release("1.37")
def test_json_output_has_the_same_content() -> None:
    printed = to_json(completed_view(default_config(gates=FeatureGates())))
    assert json.loads(printed) == yaml.safe_load(DEFAULT.read_text(encoding="utf-8"))


def test_printed_output_parses_to_the_same_value() -> None:
    once = to_yaml(completed_view(default_config()))
    assert to_yaml(completed_view(load_config(once))) == once


def args_of(plugin: str, config: dict[str, Any]) -> Any:
    return next(entry["args"] for entry in config["profiles"][0]["pluginConfig"] if entry["name"] == plugin)


def configured(plugin: str, args: Any, gates: str = "") -> Any:
    return args_of(plugin, view(gates, profiles=[{"pluginConfig": [{"name": plugin, "args": args}]}]))


KIND = {"apiVersion": "kubescheduler.config.k8s.io/v1"}
AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    },
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
}
ARGS = {
    "affinity unchanged": (
        "NodeAffinity",
        {"addedAffinity": AFFINITY},
        {**KIND, "kind": "NodeAffinityArgs", "addedAffinity": AFFINITY},
    ),
    "a constraint with its required fields": (
        "PodTopologySpread",
        {
            "defaultingType": "List",
            "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}
            ],
        },
        {
            **KIND,
            "kind": "PodTopologySpreadArgs",
            "defaultingType": "List",
            "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}
            ],
        },
    ),
    "a resource with an empty name": (
        "NodeResourcesBalancedAllocation",
        {"resources": [{"name": "", "weight": 1}]},
        {
            **KIND,
            "kind": "NodeResourcesBalancedAllocationArgs",
            "resources": [{"name": "", "weight": 1}],
        },
    ),
    "durations as Go prints them": (
        "DynamicResources",
        {"filterTimeout": "0s", "bindingTimeout": "90m"},
        {**KIND, "kind": "DynamicResourcesArgs", "filterTimeout": "0s", "bindingTimeout": "1h30m0s"},
    ),
    "arguments of a plugin without arguments are kept unchanged": (
        "NodeName",
        {"hello": [1, "2", True, None]},
        {"hello": [1, "2", True, None]},
    ),
}


@pytest.mark.parametrize(("plugin", "args", "want"), ARGS.values(), ids=ARGS)
def test_args(plugin: str, args: Any, want: Any) -> None:
    assert configured(plugin, args) == want


def test_a_time_out_whose_gate_is_off_is_null() -> None:
    config = view("DRASchedulerFilterTimeout=false,DRADeviceBindingConditions=false")
    assert args_of("DynamicResources", config) == {**KIND, "kind": "DynamicResourcesArgs", "filterTimeout": None}


def test_arguments_of_plugins_that_are_not_used_are_omitted() -> None:
    config = view(
        profiles=[
            {
                "plugins": {"multiPoint": {"disabled": [{"name": "VolumeBinding"}]}},
                "pluginConfig": [{"name": "VolumeBinding"}, {"name": "Theirs", "args": {}}, {"name": "NodeName"}],
            }
        ]
    )
    names = [entry["name"] for entry in config["profiles"][0]["pluginConfig"]]
    assert names == sorted(names)
    assert not {"VolumeBinding", "Theirs", "NodeName"} & set(names)


def test_merged_plugins_with_the_weights_they_have() -> None:
    plugins = {"score": {"enabled": [{"name": "NodeAffinity", "weight": 5}], "disabled": [{"name": "*"}]}}
    profile = view(profiles=[{"plugins": plugins, "percentageOfNodesToScore": 40}])["profiles"][0]
    assert profile["percentageOfNodesToScore"] == 40
    assert profile["plugins"]["score"] == {
        "enabled": [{"name": "NodeAffinity", "weight": 5}],
        "disabled": [{"name": "*", "weight": 0}],
    }


def test_extenders_omit_empty_fields() -> None:
    extenders = [
        {
            "urlPrefix": "http://a",
            "filterVerb": "filter",
            "httpTimeout": "1500ms",
            "tlsConfig": {"insecure": True, "caData": "QUJD"},
            "managedResources": [{"name": "example.com/a", "ignoredByScheduler": True}, {"name": "example.com/b"}],
        },
        {"ignorable": True},
    ]
    assert view(extenders=extenders)["extenders"] == [
        {**extenders[0], "httpTimeout": "1.5s"},
        {"urlPrefix": "", "ignorable": True, "httpTimeout": "5s"},
    ]


TOP_LEVEL = {
    "a float32 as Go prints it": ({"clientConnection": {"qps": 0.1}}, "  qps: 0.1\n"),
    "a complete float without a point": ({"clientConnection": {"qps": 20.0}}, "  qps: 20\n"),
    "a star in single quotes": ({"profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}]}}}]}, "name: '*'\n"),
    "a text that looks like a bool in double ones": ({"profiles": [{"schedulerName": "true"}]}, 'Name: "true"\n'),
    "a single letter too": ({"profiles": [{"schedulerName": "n"}]}, 'Name: "n"\n'),
    "a number as well": ({"profiles": [{"schedulerName": "12"}]}, 'Name: "12"\n'),
    "delayCacheUntilActive when it is on": ({"delayCacheUntilActive": True}, "delayCacheUntilActive: true\n"),
}


@pytest.mark.parametrize(("fields", "want"), TOP_LEVEL.values(), ids=TOP_LEVEL)
def test_configuration_is_encoded_as_yaml(fields: dict[str, Any], want: str) -> None:
    text = json.dumps({**HEADER, **fields})
    assert want in to_yaml(completed_view(load_config(text)))


SECRET = "c2VjcmV0LXdvcmQ="


TEXT = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: https://me:pass-word@extender.example:8443/scheduler
  filterVerb: filter
  tlsConfig: {keyData: %s, certData: Y2VydA==, serverName: here}
- urlPrefix: http://other.example
  filterVerb: filter
"""


def test_logged_configuration_has_no_keys_and_no_passwords() -> None:
    config = load_config(TEXT % SECRET)
    view = completed_view(config)
    assert SECRET in to_yaml(view)
    logged = to_yaml(without_secrets(view))
    assert SECRET not in logged
    assert "pass-word" not in logged
    assert "https://extender.example:8443/scheduler" in logged
    assert "serverName: here" in logged
    assert SECRET in to_yaml(view), "what --write-config-to writes stays complete"
    assert SECRET not in repr(config)
    assert "secret-word" not in repr(config)


def test_key_with_invalid_base64_is_not_shown() -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(TEXT % "not-base64-but-secret!")
    assert "expected base64 text" in str(raised.value)
    assert "secret" not in str(raised.value)
