"""From a text to a configuration: strict decoding, completion, and the fields set by the user."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.support.configurations import enabling, problems, profile

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
def test_unset_fields_have_no_value(read: Any, fields: dict[str, Any], want: Any) -> None:
    assert read(load(**fields)) == want


COMPLETED = {
    "contention profiling follows profiling": (lambda c: c.enable_contention_profiling, {}, True),
    "and remains off with it": (lambda c: c.enable_contention_profiling, {"enableProfiling": False}, False),
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
        lambda c: c.profiles[0].find_args("NodeResourcesFit").ignored_resources,
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
    "arguments of unknown plugins remain plain data": (
        lambda c: c.profiles[0].find_args("Theirs"),
        {"profiles": [{"pluginConfig": [{"name": "Theirs", "args": {"a": [1, "x"]}}]}]},
        {"a": [1, "x"]},
    ),
}


@pytest.mark.parametrize(("read", "fields", "want"), COMPLETED.values(), ids=COMPLETED)
def test_completed(read: Any, fields: dict[str, Any], want: Any) -> None:
    assert read(load(**fields)) == want


def test_percentage_of_the_profile_takes_precedence() -> None:
    config = load(percentageOfNodesToScore=30, profiles=[{"percentageOfNodesToScore": 0}])
    assert config.find_percentage(config.profiles[0]) == 0
    config = load(percentageOfNodesToScore=30)
    assert config.find_percentage(config.profiles[0]) == 30


def test_empty_file_is_the_default_configuration() -> None:
    assert load_config(HEADER) == default_config()


@pytest.mark.release("1.37")
def test_gates_choose_the_default_plugins() -> None:
    gates = FeatureGates.parse("GenericWorkload=true")
    names = [plugin.name for plugin in load_config(HEADER, gates=gates).profiles[0].plugins.multi_point.enabled]
    assert names[-1] == "GangScheduling"


def test_unknown_plugin_error_suggests_similar_names() -> None:
    with pytest.raises(ConfigErrors) as refusal:
        load(profiles=[{"plugins": {"filter": {"enabled": [{"name": "NodeResourceFit"}]}}}])
    (error,) = refusal.value.errors
    assert isinstance(error, UnknownPluginError)
    assert (error.where, error.hint) == ("profiles[0].plugins.filter.enabled[0]", "did you mean 'NodeResourcesFit'?")


def test_third_party_arguments_have_a_separate_struct() -> None:
    config = load_config(
        with_spot({"labelKey": "spot", "grace": "1m", "zones": ["a"], "limits": {"a": 3}}), catalogue=SPOT
    )
    want = SpotArgs("spot", grace=Duration.of(seconds=60), zones=["a"], limits={"a": 3})
    assert config.profiles[0].find_args("Spot") == want


THIRD_PARTY_REFUSED = {
    "a missing argument": ({"maxShare": 1}, "profiles[0].pluginConfig[0].args.labelKey: Required value"),
    "no arguments": (None, "add an entry for Spot to pluginConfig with labelKey"),
    "a wrong type": (
        {"labelKey": "a", "maxShare": "x"},
        'profiles[0].pluginConfig[0].args.maxShare: expected an integer, found "x"',
    ),
    "a wrong type deep down": (
        {"labelKey": "a", "limits": {"a": "x"}},
        "profiles[0].pluginConfig[0].args.limits[...]: expected an integer, found a string",
    ),
    "an unknown argument": ({"labelKey": "a", "labelKye": "b"}, "did you mean 'labelKey'?"),
}


@pytest.mark.parametrize(("args", "want"), THIRD_PARTY_REFUSED.values(), ids=THIRD_PARTY_REFUSED)
def test_third_party_arguments_rejected(args: Any, want: str) -> None:
    with pytest.raises(ConfigErrors) as refusal:
        load_config(with_spot(args), catalogue=SPOT)
    assert want in str(refusal.value)


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(HEADER + "parallelism: 7")
    assert load_config_file(path).parallelism == 7


def test_missing_file() -> None:
    with pytest.raises(ConfigError, match=r"/nowhere/config\.yaml: the file does not exist"):
        load_config_file("/nowhere/config.yaml")


def test_binary_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="the file is not UTF-8 text"):
        load_config_file(path)


COMMENTS = {
    "a comment as the first line": f"// mine\n{HEADER}",
    "a comment with a colon as the first line": f"// note: mine\n{HEADER}",
    "a comment after the apiVersion": HEADER.replace("/v1\n", "/v1 // the version\n"),
    "a comment after the kind": HEADER.replace("Configuration\n", "Configuration // the kind\n"),
    "the kind as a comment": HEADER.replace("kind:", "// kind:"),
    "a comment between lines": f"{HEADER}profiles:\n// the default\n- schedulerName: a\n",
    "a comment after a number": f"{HEADER}parallelism: 16 // threads\n",
    "a comment in JSON": '{\n// mine\n"apiVersion": "kubescheduler.config.k8s.io/v1"}',
}


@pytest.mark.parametrize("text", COMMENTS.values(), ids=COMMENTS)
def test_comment_in_the_style_of_c_gets_a_hint(text: str) -> None:
    with pytest.raises(ConfigError, match="'#' begins a comment"):
        load_config(text)


def test_url_is_not_a_comment() -> None:
    with pytest.raises(ConfigError) as refusal:
        load_config(f"{HEADER}extenders: [{{urlPrefix: http://127.0.0.1, filterVerbs: filter}}]")
    assert "begins a comment" not in str(refusal.value)


FORMER = {
    "schedulerName": ("mine", "belongs under profiles"),
    "plugins": ({}, "belongs under profiles"),
    "pluginConfig": ([], "belongs under profiles"),
    "disablePreemption": (True, "DefaultPreemption"),
    "hardPodAffinitySymmetricWeight": (3, "hardPodAffinityWeight"),
    "bindTimeoutSeconds": (100, "VolumeBinding"),
    "algorithmSource": ({"provider": "DefaultProvider"}, "replaced by profiles"),
    "healthzBindAddress": ("0.0.0.0:10251", "--secure-port"),
    "metricsBindAddress": ("0.0.0.0:10251", "--secure-port"),
    "leaderElection": ({"lockObjectName": "x"}, "write resourceName"),
}


@pytest.mark.parametrize(("field", "value", "hint"), [(field, *case) for field, case in FORMER.items()], ids=FORMER)
def test_field_of_an_older_version_gets_a_hint(field: str, value: Any, hint: str) -> None:
    with pytest.raises(ConfigErrors, match=rf"{field}.*: unknown field\n *hint: .*{hint}"):
        load(**{field: value})


BUILDING = {
    "a plugin that does not exist": (
        {"profiles": [profile(plugins=enabling("filter", "NodeNam"))]},
        ["profiles[0].plugins.filter.enabled[0]: no plugin is named 'NodeNam'"],
    ),
    "a plugin that cannot do what it is enabled for": (
        {"profiles": [profile(plugins=enabling("score", "NodeName"))]},
        ['profiles[0].plugins.score.enabled[0]: plugin "NodeName" does not extend ScorePlugin plugin'],
    ),
    "a plugin enabled twice": (
        {"profiles": [profile(plugins=enabling("multiPoint", "NodeName", "NodeName"))]},
        ['profiles[0].plugins.multiPoint: plugin "NodeName" already registered as "PreFilterPlugin"'],
    ),
    "nothing left that sorts or binds": (
        {"profiles": [profile(plugins={"multiPoint": {"disabled": [{"name": "*"}]}})]},
        [
            'profiles[0].plugins.queueSort: only one queue sort plugin required for profile with scheduler name "a", '
            "but got 0",
            'profiles[0].plugins.bind: at least one bind plugin is needed for profile with scheduler name "a"',
        ],
    ),
    "plugins named only by podGroupPostFilter get no default arguments": (
        {
            "profiles": [
                profile(
                    plugins={
                        **enabling("podGroupPostFilter", "DefaultPreemption"),
                        "multiPoint": {"disabled": [{"name": "DefaultPreemption"}]},
                    }
                )
            ]
        },
        [
            'profiles[0].pluginConfig: initializing plugin "DefaultPreemption": got args of type <nil>, '
            "want *DefaultPreemptionArgs"
        ],
    ),
    "a resource hidden by an extender from a plugin that is not there": (
        {
            "extenders": [{"managedResources": [{"name": "example.com/x", "ignoredByScheduler": True}]}],
            "profiles": [profile(plugins={"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}})],
        },
        ["extenders: can't find NodeResourcesFitArgs in plugin config"],
    ),
}


@pytest.mark.parametrize(("fields", "want"), BUILDING.values(), ids=BUILDING)
def test_rejected(fields: dict[str, Any], want: list[str]) -> None:
    assert problems(fields) == want
