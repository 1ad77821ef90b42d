"""From a text to a configuration: strict decoding, completion, and the fields set by the user."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from moorage.common.errors import ConfigError, ConfigErrors, UnknownPluginError
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import (
    KNOWN_PLUGINS,
    Duration,
    ExtensionPoint,
    PluginFacts,
    SchedulerConfiguration,
    default_config,
    load_config,
    load_config_file,
)
from moorage.scheduler.config.types import LeaderElection

API_VERSION, KIND = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
HEADER = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"


class SpotArgs(msgspec.Struct, frozen=True, rename="camel"):
    label_key: str
    max_share: int = 50
    grace: Duration = Duration.of(seconds=5)
    zones: list[str] = []
    limits: dict[str, int] = {}


SPOT = {**KNOWN_PLUGINS, "Spot": PluginFacts(frozenset({ExtensionPoint.FILTER}), SpotArgs)}


def load(**fields: Any) -> SchedulerConfiguration:
    return load_config(yaml.safe_dump({"apiVersion": API_VERSION, "kind": KIND, **fields}))


def with_spot(args: Any, **profile: Any) -> str:
    plugins = {"filter": {"enabled": [{"name": "Spot"}]}}
    entries = [] if args is None else [{"name": "Spot", "args": args}]
    return HEADER + yaml.safe_dump({"profiles": [{"plugins": plugins, "pluginConfig": entries, **profile}]})


NOT_WRITTEN = {
    "a percentage": (lambda config: config.percentage_of_nodes_to_score, {}, None),
    "a written percentage of zero": (
        lambda config: config.percentage_of_nodes_to_score,
        {"percentageOfNodesToScore": 0},
        0,
    ),
    "a null percentage": (
        lambda config: config.percentage_of_nodes_to_score,
        {"percentageOfNodesToScore": None},
        None,
    ),
    "qps": (lambda config: config.client_connection.qps, {}, None),
    "a written qps of zero is upstream's default": (
        lambda config: config.client_connection.qps,
        {"clientConnection": {"qps": 0}},
        50.0,
    ),
    "a written qps": (lambda config: config.client_connection.qps, {"clientConnection": {"qps": 7}}, 7.0),
    "burst": (lambda config: config.client_connection.burst, {}, None),
    "a written burst of zero is upstream's default": (
        lambda config: config.client_connection.burst,
        {"clientConnection": {"burst": 0}},
        100,
    ),
}


@pytest.mark.parametrize(("read", "fields", "want"), NOT_WRITTEN.values(), ids=NOT_WRITTEN)
def test_unset_fields_are_none(read: Any, fields: dict[str, Any], want: Any) -> None:
    assert read(load(**fields)) == want


COMPLETED = {
    "contention profiling follows profiling": (lambda c: c.enable_contention_profiling, {}, True),
    "and stays off with it": (lambda c: c.enable_contention_profiling, {"enableProfiling": False}, False),
    "unless it is written": (
        lambda c: c.enable_contention_profiling,
        {"enableProfiling": False, "enableContentionProfiling": True},
        True,
    ),
    "empty leader election values are the defaults": (
        lambda c: c.leader_election,
        {"leaderElection": {"leaseDuration": "0s", "resourceName": "", "resourceLock": ""}},
        LeaderElection(),
    ),
    "no profiles are one": (lambda c: [p.scheduler_name for p in c.profiles], {"profiles": []}, ["default-scheduler"]),
    "a single profile needs no name": (
        lambda c: c.profiles[0].scheduler_name,
        {"profiles": [{"percentageOfNodesToScore": 3}]},
        "default-scheduler",
    ),
    "a null profile is an empty one": (lambda c: len(c.profiles), {"profiles": [None]}, 1),
    "an integer may be written as 16.0": (lambda c: c.parallelism, {"parallelism": 16.0}, 16),
    "an extender waits five seconds": (
        lambda c: c.extenders[0].http_timeout,
        {"extenders": [{"urlPrefix": "http://x"}]},
        Duration.of(seconds=5),
    ),
    "what extenders hide replaces ignoredResources": (
        lambda c: c.profiles[0].args_of("NodeResourcesFit").ignored_resources,
        {
            "extenders": [{"managedResources": [{"name": "example.com/x", "ignoredByScheduler": True}]}],
            "profiles": [
                {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/mine"]}}]}
            ],
        },
        ("example.com/x",),
    ),
    "default arguments are appended after the user's, by name": (
        lambda c: [entry.name for entry in c.profiles[0].plugin_config][:3],
        {"profiles": [{"pluginConfig": [{"name": "VolumeBinding"}]}]},
        ["VolumeBinding", "DefaultPreemption", "DynamicResources"],
    ),
    "arguments of unknown plugins stay plain data": (
        lambda c: c.profiles[0].args_of("Theirs"),
        {"profiles": [{"pluginConfig": [{"name": "Theirs", "args": {"a": [1, "x"]}}]}]},
        {"a": [1, "x"]},
    ),
}


@pytest.mark.parametrize(("read", "fields", "want"), COMPLETED.values(), ids=COMPLETED)
def test_completed(read: Any, fields: dict[str, Any], want: Any) -> None:
    assert read(load(**fields)) == want


def test_a_profiles_own_percentage_wins() -> None:
    config = load(percentageOfNodesToScore=30, profiles=[{"percentageOfNodesToScore": 0}])
    assert config.percentage_for(config.profiles[0]) == 0
    config = load(percentageOfNodesToScore=30)
    assert config.percentage_for(config.profiles[0]) == 30


def test_empty_file_is_the_default_configuration() -> None:
    assert load_config(HEADER) == default_config()


def test_gates_choose_the_default_plugins() -> None:
    gates = FeatureGates.parse("GenericWorkload=true")
    names = [plugin.name for plugin in load_config(HEADER, gates=gates).profiles[0].plugins.multi_point.enabled]
    assert names[-1] == "GangScheduling"


NOT_DECODED = {
    "an unknown field": (HEADER + "parallelsm: 3", ["parallelsm: unknown field", "did you mean 'parallelism'?"]),
    "an unknown field that resembles none lists those there are": (
        HEADER + "profiles: [{plugins: {filter: {zzz: 1}}}]",
        ["profiles[0].plugins.filter.zzz: unknown field", "the fields here are disabled, enabled"],
    ),
    "a field of another case": (HEADER + "Parallelism: 3", ["Parallelism: unknown field"]),
    "an unknown argument": (
        HEADER + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrateg: {}}}]}]",
        ["profiles[0].pluginConfig[0].args.scoringStrateg: unknown field", "did you mean 'scoringStrategy'?"],
    ),
    "a field twice": (
        HEADER + "parallelism: 3\nparallelism: 4",
        ["parallelism: duplicate field, again on line 4", "keep one of them"],
    ),
    "a nested field twice": (
        HEADER + "profiles:\n- schedulerName: a\n  schedulerName: b",
        ["profiles[0].schedulerName: duplicate field, again on line 5"],
    ),
    "a text for a number": (HEADER + "parallelism: abc", ["parallelism: expected an integer", 'found "abc"']),
    "a number that is too large": (
        HEADER + "parallelism: 3000000000",
        ["parallelism: expected an integer from -2147483648 to 2147483647, found 3000000000"],
    ),
    "a number for a text": (
        HEADER + "profiles: [{schedulerName: 12}]",
        ["profiles[0].schedulerName: expected a text, found 12", "put it in quotes"],
    ),
    "YAML's short bool for a text": (
        HEADER + "profiles: [{schedulerName: y}]",
        ["profiles[0].schedulerName: expected a text, found true", "put it in quotes"],
    ),
    "a text for a bool": (HEADER + "enableProfiling: maybe", ["enableProfiling: expected true or false"]),
    "a mapping for a list": (HEADER + "profiles: {}\nextenders: {a: 1}", ["extenders: expected a list"]),
    "a list for a mapping": (HEADER + "leaderElection: []", ["leaderElection: expected a mapping of fields, found []"]),
    "a number for a duration": (
        HEADER + "leaderElection: {leaseDuration: 15}",
        ["leaderElection.leaseDuration: expected a duration with its unit"],
    ),
    "a duration of an unknown unit": (
        HEADER + "leaderElection: {leaseDuration: 15x}",
        ['leaderElection.leaseDuration: time: unknown unit "x" in duration "15x"'],
    ),
    "arguments of another plugin": (
        HEADER + "profiles: [{pluginConfig: [{name: NodeAffinity, args: {kind: VolumeBindingArgs}}]}]",
        [
            "profiles[0].pluginConfig[0]: args for plugin NodeAffinity were not of type "
            "NodeAffinityArgs.kubescheduler.config.k8s.io, got VolumeBindingArgs.kubescheduler.config.k8s.io"
        ],
    ),
    "arguments of another version": (
        HEADER + f"profiles: [{{pluginConfig: [{{name: NodeAffinity, args: {{apiVersion: {API_VERSION}beta3}}}}]}}]",
        ['no kind "NodeAffinityArgs" is registered for version "kubescheduler.config.k8s.io/v1beta3"'],
    ),
    "arguments that are no mapping": (
        HEADER + "profiles: [{pluginConfig: [{name: NodeAffinity, args: 3}]}]",
        ["profiles[0].pluginConfig[0].args: expected a mapping of fields, found 3"],
    ),
    "every mistake at once": (
        HEADER + "parallelism: abc\nparalelism: 1\nleaderElection: {leaseDuration: 1}",
        ["parallelism: expected", "paralelism: unknown field", "leaderElection.leaseDuration: expected"],
    ),
    "values of the wrong type do not hide invalid ones elsewhere": (
        HEADER + "parallelism: many\npodInitialBackoffSeconds: -1\n"
        "profiles: [{percentageOfNodesToScore: 500, plugins: {filter: {enabled: [{name: Nope}]}}}]",
        [
            "parallelism: expected an integer",
            "podInitialBackoffSeconds: Invalid value: -1",
            "profiles[0].percentageOfNodesToScore: Invalid value: 500",
            "no plugin is named 'Nope'",
        ],
    ),
    "unknown fields do not hide invalid values": (
        HEADER + "parallelism: -1\nparalelism: 1",
        ["paralelism: unknown field", "parallelism: Invalid value: -1"],
    ),
    "no kind": (f"apiVersion: {API_VERSION}", ["Object 'Kind' is missing", f"write apiVersion: {API_VERSION}"]),
    "no apiVersion": (f"kind: {KIND}", ["Object 'apiVersion' is missing"]),
    "another kind": ("apiVersion: v1\nkind: Pod", [f"couldn't decode as {KIND}, got v1, Kind=Pod"]),
    "a misspelt kind": (f"apiVersion: {API_VERSION}\nkind: KubeSchedulerConfig", [f"did you mean '{KIND}'?"]),
    "an empty file": ("", [f"expected a {KIND}, found nothing"]),
    "a list": ("- a", [f"expected a {KIND}, found a list"]),
    "no YAML": ("a: [b\nc: d", ["the configuration, line 2, column 2: this is not YAML"]),
    "a tab in YAML": ("a:\n\tb: 1", ["the configuration, line 2, column 1: this is not YAML"]),
    "a character that YAML forbids": ("a: \x00", ["the configuration: this is not YAML"]),
}


@pytest.mark.parametrize(("text", "wanted"), NOT_DECODED.values(), ids=NOT_DECODED)
def test_not_decoded(text: str, wanted: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        load_config(text)
    assert [part for part in wanted if part not in str(refusal.value)] == []


NEAR = {
    "beside a value that could not be read": HEADER + "leaderElection: {leaseDuration: 5, renewDeadline: 20s}",
    "after an element that could not be read": HEADER
    + "extenders: [3, {urlPrefix: 'http://a', filterVerb: f, weight: -1, prioritizeVerb: p}]",
    "after arguments that could not be read": HEADER
    + "profiles: [{pluginConfig: [{name: NodeAffinity, args: 3},"
    + "{name: InterPodAffinity, args: {hardPodAffinityWeight: 900}}]}]",
    "of profiles when none could be read": HEADER + "profiles: [3]",
}


@pytest.mark.parametrize("text", NEAR.values(), ids=NEAR)
def test_values_next_to_an_unreadable_value_are_not_reported(text: str) -> None:
    with pytest.raises(ConfigErrors) as refusal:
        load_config(text)
    assert len(refusal.value.errors) == 1


DECODED = {
    "JSON with tabs": f'{{\n\t"apiVersion": "{API_VERSION}",\n\t"kind": "{KIND}",\n\t"parallelism": 3}}',
    "only the first document counts": HEADER + "parallelism: 3\n---\njunk: true",
    "merge keys": HEADER + "parallelism: 3\nprofiles:\n- &a {schedulerName: a}\n- {<<: *a, schedulerName: b}",
    "a date is a text": HEADER + "parallelism: 3\nprofiles: [{schedulerName: 2026-01-01}]",
}


@pytest.mark.parametrize("text", DECODED.values(), ids=DECODED)
def test_decoded(text: str) -> None:
    assert load_config(text).parallelism == 3


def test_unknown_plugin_error_suggests_similar_names() -> None:
    with pytest.raises(ConfigErrors) as refusal:
        load(profiles=[{"plugins": {"filter": {"enabled": [{"name": "NodeResourceFit"}]}}}])
    (error,) = refusal.value.errors
    assert isinstance(error, UnknownPluginError)
    assert (error.where, error.hint) == ("profiles[0].plugins.filter.enabled[0]", "did you mean 'NodeResourcesFit'?")


def test_third_party_arguments_are_their_own_struct() -> None:
    config = load_config(
        with_spot({"labelKey": "spot", "grace": "1m", "zones": ["a"], "limits": {"a": 3}}), catalogue=SPOT
    )
    want = SpotArgs("spot", grace=Duration.of(seconds=60), zones=["a"], limits={"a": 3})
    assert config.profiles[0].args_of("Spot") == want


THIRD_PARTY_REFUSED = {
    "a missing argument": ({"maxShare": 1}, "profiles[0].pluginConfig[0].args.labelKey: Required value"),
    "no arguments at all": (None, "give Spot an entry in pluginConfig with labelKey"),
    "a wrong type": (
        {"labelKey": "a", "maxShare": "x"},
        'profiles[0].pluginConfig[0].args.maxShare: expected an integer, found "x"',
    ),
    "a wrong type deep down": (
        {"labelKey": "a", "limits": {"a": "x"}},
        "profiles[0].pluginConfig[0].args.limits[...]: Expected `int`, got `str`",
    ),
    "an unknown argument": ({"labelKey": "a", "labelKye": "b"}, "did you mean 'labelKey'?"),
}


@pytest.mark.parametrize(("args", "want"), THIRD_PARTY_REFUSED.values(), ids=THIRD_PARTY_REFUSED)
def test_third_party_arguments_refused(args: Any, want: str) -> None:
    with pytest.raises(ConfigErrors) as refusal:
        load_config(with_spot(args), catalogue=SPOT)
    assert want in str(refusal.value)


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(HEADER + "parallelism: 7")
    assert load_config_file(path).parallelism == 7


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"/nowhere/config\.yaml: the file cannot be read: No such file"):
        load_config_file("/nowhere/config.yaml")


def test_binary_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="the file is not UTF-8 text"):
        load_config_file(path)
