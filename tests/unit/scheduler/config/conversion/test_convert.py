"""Convert old configurations to v1: the result of each field and name, and the notes about it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from moorage.common.errors import ConfigError, ConfigErrors
from moorage.scheduler.config import load_config, to_yaml
from moorage.scheduler.config.conversion import Effect, convert_provider, convert_text
from moorage.scheduler.config.conversion.tables import (
    OLD_WEIGHTS,
    PREDICATES,
    PRIORITIES,
    REMOVED,
    SELECTOR_SPREADS,
    STRATEGIES,
    VOLUME_LIMITS,
)

GROUP = "kubescheduler.config.k8s.io"


def old(version: str, **fields: Any) -> str:
    return json.dumps({"apiVersion": f"{GROUP}/{version}", "kind": "KubeSchedulerConfiguration", **fields})


def only(text: str) -> dict[str, Any]:
    (converted,) = convert_text(text, "f")
    return converted.data


def only_profile(text: str) -> dict[str, Any]:
    (profile,) = only(text)["profiles"]
    fields: dict[str, Any] = profile
    return fields


def args_of(profile: dict[str, Any], plugin: str) -> Any:
    return next((entry["args"] for entry in profile.get("pluginConfig", ()) if entry["name"] == plugin), None)


def lost(text: str) -> list[str]:
    (converted,) = convert_text(text, "f")
    return [note.where for note in converted.notes if note.effect is Effect.LOST]


def score(**sets: Any) -> dict[str, Any]:
    return {"score": {key: [{"name": name} for name in names] for key, names in sets.items()}}


WEIGHTED = [{"name": name, "weight": weight} for name, weight in OLD_WEIGHTS.items()]


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1", "v1beta2"])
def test_old_default_weights_are_written_out(version: str) -> None:
    assert only_profile(old(version))["plugins"] == {"multiPoint": {"enabled": WEIGHTED}}


def test_since_v1beta3_the_default_weights_are_the_same() -> None:
    assert only_profile(old("v1beta3")) == {"schedulerName": "default-scheduler"}


def test_top_level_fields_move_to_the_profile() -> None:
    text = old(
        "v1alpha1",
        schedulerName="yoda",
        plugins={"postFilter": {"enabled": [{"name": "yoda"}]}, "queueSort": {"enabled": [{"name": "yoda"}]}},
        pluginConfig=[{"name": "yoda", "args": {"master": "m"}}],
        hardPodAffinitySymmetricWeight=7,
        bindTimeoutSeconds=9,
        disablePreemption=True,
    )
    profile = only_profile(text)
    assert profile["schedulerName"] == "yoda"
    assert profile["plugins"] == {
        "multiPoint": {"enabled": WEIGHTED, "disabled": [{"name": "DefaultPreemption"}]},
        "preScore": {"enabled": [{"name": "yoda"}]},
        "queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "yoda"}]},
    }
    assert args_of(profile, "yoda") == {"master": "m"}
    assert args_of(profile, "InterPodAffinity") == {"hardPodAffinityWeight": 7}
    assert args_of(profile, "VolumeBinding") == {"bindTimeoutSeconds": 9}


def test_lock_fields_are_renamed() -> None:
    election = {"lockObjectName": "a", "lockObjectNamespace": "b", "resourceLock": "endpoints", "leaderElect": True}
    converted = only(old("v1alpha1", leaderElection=election))["leaderElection"]
    assert converted == {"resourceName": "a", "resourceNamespace": "b", "resourceLock": "leases", "leaderElect": True}


def test_post_filter_means_something_else_since_v1alpha2() -> None:
    plugins = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}, "unreserve": {"enabled": [{"name": "x"}]}}
    points = only_profile(old("v1alpha2", profiles=[{"plugins": plugins}]))["plugins"]
    assert points["postFilter"] == {"disabled": [{"name": "DefaultPreemption"}]}
    assert points["reserve"] == {"enabled": [{"name": "x"}]}


RESOURCE_SCORERS = {
    "none said": ({}, None, {}),
    "the other one": (
        score(disabled=["NodeResourcesLeastAllocated"], enabled=["NodeResourcesMostAllocated"]),
        "MostAllocated",
        {},
    ),
    "none left": (
        score(disabled=["NodeResourcesLeastAllocated"]),
        None,
        {"disabled": [{"name": "NodeResourcesFit"}]},
    ),
    "all but one": (
        score(disabled=["*"], enabled=["NodeResourcesLeastAllocated"]),
        None,
        {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 1}]},
    ),
}


@pytest.mark.parametrize(("plugins", "strategy", "scores"), RESOURCE_SCORERS.values(), ids=RESOURCE_SCORERS)
def test_scorers_of_resources_are_strategies(plugins: Any, strategy: str | None, scores: Any) -> None:
    profile = only_profile(old("v1beta1", profiles=[{"plugins": plugins}]))
    args = args_of(profile, "NodeResourcesFit")
    assert (args and args["scoringStrategy"]["type"]) == strategy
    assert profile["plugins"].get("score", {}) == scores


def test_two_scorers_of_resources_are_one_too_many() -> None:
    plugins = score(enabled=["NodeResourcesMostAllocated"])
    assert lost(old("v1beta1", profiles=[{"plugins": plugins}])) == [
        "profiles[0].plugins.score NodeResourcesMostAllocated"
    ]


def test_the_arguments_of_a_strategy_move() -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    plugins = score(disabled=["NodeResourcesLeastAllocated"], enabled=["RequestedToCapacityRatio"])
    args = {"apiVersion": f"{GROUP}/v1beta1", "kind": "X", "shape": shape, "resources": [{"name": "a.b/c"}]}
    given_args = [{"name": "RequestedToCapacityRatio", "args": args}]
    profile = only_profile(old("v1beta1", profiles=[{"plugins": plugins, "pluginConfig": given_args}]))
    assert args_of(profile, "NodeResourcesFit")["scoringStrategy"] == {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "a.b/c", "weight": 1}],
        "requestedToCapacityRatio": {"shape": shape},
    }


def test_labels_that_nodes_must_have_are_an_added_affinity() -> None:
    args = [{"name": "NodeLabel", "args": {"presentLabels": ["a"], "absentLabels": ["b"]}}]
    profile = only_profile(old("v1beta1", profiles=[{"pluginConfig": args}]))
    (term,) = args_of(profile, "NodeAffinity")["addedAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "DoesNotExist"}]


def test_scorer_removed_before_its_version_still_becomes_a_strategy() -> None:
    profile = only_profile(old("v1beta3", profiles=[{"plugins": score(enabled=["NodeResourcesMostAllocated"])}]))
    assert args_of(profile, "NodeResourcesFit")["scoringStrategy"]["type"] == "MostAllocated"


@pytest.mark.parametrize("plugin", sorted(REMOVED))
def test_a_plugin_that_has_gone_is_lost(plugin: str) -> None:
    profiles = [{"plugins": score(enabled=[plugin])}]
    assert lost(old("v1beta1", profiles=profiles)) == [f"profiles[0].plugins.score {plugin}"]


def test_default_constraints_set_the_list_defaulting_type() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    args = [{"name": "PodTopologySpread", "args": {"defaultConstraints": [constraint]}}]
    profile = only_profile(old("v1beta1", profiles=[{"pluginConfig": args}]))
    assert args_of(profile, "PodTopologySpread")["defaultingType"] == "List"


def test_policy_in_a_separate_source_is_lost() -> None:
    source = {"policy": {"configMap": {"namespace": "kube-system", "name": "p"}}}
    (converted,) = convert_text(old("v1alpha1", algorithmSource=source), "f")
    assert [str(note) for note in converted.notes if note.effect is Effect.LOST] == [
        "lost: algorithmSource.policy.configMap: the Policy in kube-system/p is not in this file: convert it"
    ]


def policy(**fields: Any) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "Policy", **fields})


@pytest.mark.parametrize("name", sorted(PREDICATES))
def test_every_predicate_is_a_plugin(name: str) -> None:
    plugins = only_profile(policy(predicates=[{"name": name}], priorities=[]))["plugins"]
    disabled = {entry["name"] for entry in plugins["multiPoint"]["disabled"]}
    assert disabled.isdisjoint(PREDICATES[name])
    assert "VolumeRestrictions" in disabled or name == "NoDiskConflict"


@pytest.mark.parametrize("name", sorted(name for name, found in PRIORITIES.items() if found.plugin))
def test_every_priority_is_a_plugin_with_its_weight(name: str) -> None:
    plugins = only_profile(policy(predicates=[], priorities=[{"name": name, "weight": 4}]))["plugins"]
    assert plugins["score"]["enabled"] == [{"name": PRIORITIES[name].plugin, "weight": 4}]


def test_policy_without_plugins_uses_the_defaults_of_its_version() -> None:
    profile = only_profile(policy())
    weights = {entry["name"]: entry["weight"] for entry in profile["plugins"]["score"]["enabled"]}
    assert set(weights.values()) == {1}
    assert "multiPoint" not in profile["plugins"]


def test_removed_fields_of_extenders() -> None:
    """The example file of Kubernetes contains apiVersion, and old decoders ignored case."""
    extender = {"URLPrefix": "http://x", "apiVersion": "v1beta1", "filterVerb": "f", "nodecachecapable": True}
    (converted,) = convert_text(policy(extenders=[extender]), "old")
    assert converted.data["extenders"] == [{"urlPrefix": "http://x", "filterVerb": "f", "nodeCacheCapable": True}]
    assert converted.notes.are_faithful
    (converted_with_unknown,) = convert_text(policy(extenders=[{**extender, "colour": "red"}]), "old")
    assert [note.where for note in converted_with_unknown.notes if note.effect is Effect.LOST] == [
        "extenders[0].colour"
    ]


@pytest.mark.parametrize("version", ["v1beta3", "v1"])
@pytest.mark.parametrize("disabled", [[], ["PrioritySort"], ["*"]])
def test_third_party_plugins_at_all_points(version: str, disabled: list[str]) -> None:
    """A third-party plugin sorts the queue only if no other enabled plugin does."""
    point = {"enabled": [{"name": "Coscheduler"}, {"name": "Other"}], "disabled": [{"name": name} for name in disabled]}
    enabled = [{"name": name} for name in ("NodeResourcesFit", "DefaultBinder")] if "*" in disabled else []
    plugins = {"multiPoint": {**point, "enabled": [*point["enabled"], *enabled]}}
    text = old(version, profiles=[{"schedulerName": "mine", "plugins": plugins}])
    (converted,) = convert_text(text, "old")
    assert converted.notes.are_faithful


def test_of_two_ways_to_score_resources_the_heavier_one_stays_whole() -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    ratio = {"name": "ratio", "weight": 5, "argument": {"requestedToCapacityRatioArguments": {"shape": shape}}}
    least = {"name": "LeastRequestedPriority", "weight": 2}
    for priorities, weight, strategy in (
        ([least, ratio], 5, "RequestedToCapacityRatio"),
        ([{**least, "weight": 7}, ratio], 7, "LeastAllocated"),
    ):
        profile = only_profile(policy(priorities=priorities))
        assert args_of(profile, "NodeResourcesFit")["scoringStrategy"]["type"] == strategy
        assert {"name": "NodeResourcesFit", "weight": weight} in profile["plugins"]["score"]["enabled"]
        assert len(lost(policy(priorities=priorities))) == 1


def test_extenders_of_a_policy() -> None:
    extender = {"urlPrefix": "https://x", "filterVerb": "f", "enableHttps": True, "httpTimeout": 1_500_000_000}
    (converted,) = only(policy(extenders=[extender]))["extenders"]
    assert converted == {"urlPrefix": "https://x", "filterVerb": "f", "enableHTTPS": True, "httpTimeout": "1.5s"}


LOST_OF_POLICIES = {
    "an unknown predicate": {"predicates": [{"name": "Mine"}]},
    "an unknown priority": {"priorities": [{"name": "Mine"}]},
    "service affinity": {"predicates": [{"name": "S", "argument": {"serviceAffinity": {"labels": ["r"]}}}]},
    "service anti-affinity": {"priorities": [{"name": "S", "argument": {"serviceAntiAffinity": {"label": "r"}}}]},
    "a preferred label": {"priorities": [{"name": "S", "argument": {"labelPreference": {"label": "r"}}}]},
    "limits": {"priorities": [{"name": "ResourceLimitsPriority", "weight": 1}]},
    "two strategies": {"priorities": [{"name": "LeastRequestedPriority"}, {"name": "MostRequestedPriority"}]},
    "an unknown field": {"predicats": []},
    "no list": {"predicates": 5},
}


@pytest.mark.parametrize("fields", LOST_OF_POLICIES.values(), ids=LOST_OF_POLICIES)
def test_policy_fields_that_are_lost(fields: dict[str, Any]) -> None:
    assert len(lost(policy(**fields))) == 1


def test_inside_of_config_maps_and_lists() -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"policy.cfg": policy(), "other": "text"}}
    text = yaml.safe_dump_all([{"kind": "List", "items": [config_map]}, json.loads(old("v1beta2"))])
    first, second = convert_text(text, "f")
    assert (first.where, second.where) == ("f, ConfigMap key policy.cfg", "f, document 2")


def test_providers() -> None:
    default, packing = convert_provider("DefaultProvider"), convert_provider("ClusterAutoscalerProvider")
    plugins = {"multiPoint": {"enabled": WEIGHTED}}
    assert default.data["profiles"] == [{"schedulerName": "default-scheduler", "plugins": plugins}]
    assert packing.data["profiles"][0]["plugins"] == plugins
    assert args_of(packing.data["profiles"][0], "NodeResourcesFit")["scoringStrategy"]["type"] == "MostAllocated"
    assert not convert_provider("Mine").notes.are_faithful


@pytest.mark.parametrize("text", ["", "a: b", "kind: ConfigMap\ndata: {a: b}", "- 1"])
def test_a_text_without_a_configuration(text: str) -> None:
    with pytest.raises(ConfigError, match="no scheduler configuration"):
        convert_text(text, "f")


def test_a_version_that_never_was() -> None:
    with pytest.raises(ConfigError, match=r"'kubescheduler\.config\.k8s\.io/v2' is not a version"):
        convert_text(old("v2"), "f")


def test_configurations_invalid_in_v1_are_rejected() -> None:
    with pytest.raises(ConfigErrors):
        convert_text(old("v1beta2", podInitialBackoffSeconds=-1), "f")


GONE = frozenset((*STRATEGIES, *REMOVED, "SelectorSpread", "EBSLimits", "NodeLabel"))
NAMES = st.sampled_from(["NodeAffinity", "*", "Mine", *sorted(GONE)])
SETS = st.fixed_dictionaries(
    {
        "enabled": st.lists(NAMES.filter(lambda name: name != "*"), unique=True, max_size=3),
        "disabled": st.lists(NAMES, unique=True, max_size=2),
    }
)
VERSIONS = st.sampled_from(["v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3"])


@given(VERSIONS, SETS)
def test_converted_configurations_are_valid(version: str, sets: dict[str, list[str]]) -> None:
    ratio = {"name": "RequestedToCapacityRatio", "args": {"shape": [{"utilization": 1, "score": 1}]}}
    profile = {"plugins": score(**sets), "pluginConfig": [ratio]}
    (converted,) = convert_text(old(version, **(profile if version == "v1alpha1" else {"profiles": [profile]})), "f")
    (converted_profile,) = converted.data["profiles"]
    plugin_names = {
        entry["name"] for rows in converted_profile.get("plugins", {}).values() for entry in rows.get("enabled", ())
    }
    assert plugin_names.isdisjoint(GONE)
    if "Mine" not in plugin_names:
        load_config(to_yaml(converted.data))


def test_the_page_names_everything() -> None:
    page = (Path(__file__).parents[5] / "docs" / "reference" / "old-configurations.md").read_text()
    names = {*PREDICATES, *PRIORITIES, *STRATEGIES, *REMOVED, *SELECTOR_SPREADS, *VOLUME_LIMITS}
    assert {name for name in names if f"| `{name}` |" not in page} == set()
