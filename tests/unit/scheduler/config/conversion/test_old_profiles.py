"""Profiles of earlier versions: weights, extension points, scorers and arguments."""

from typing import Any

import pytest
from tests.support.old_configurations import GROUP, WEIGHTED, args_of, lost, old, only_profile, score

from moorage.scheduler.config.conversion import convert_text
from moorage.scheduler.config.conversion.tables import (
    REMOVED,
)


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1", "v1beta2"])
def test_old_default_weights_are_written_out(version: str) -> None:
    assert only_profile(old(version))["plugins"] == {"multiPoint": {"enabled": WEIGHTED}}


def test_since_v1beta3_the_default_weights_are_the_same() -> None:
    assert only_profile(old("v1beta3")) == {"schedulerName": "default-scheduler"}


def test_post_filter_means_something_else_since_v1alpha2() -> None:
    plugins = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}, "unreserve": {"enabled": [{"name": "x"}]}}
    points = only_profile(old("v1alpha2", profiles=[{"plugins": plugins}]))["plugins"]
    assert points["postFilter"] == {"disabled": [{"name": "DefaultPreemption"}]}
    assert points["reserve"] == {"enabled": [{"name": "x"}]}


RESOURCE_SCORERS = {
    "no value": ({}, None, {}),
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
    "all except one": (
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


def test_two_resource_scorers_are_an_error() -> None:
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
def test_a_removed_plugin_is_lost(plugin: str) -> None:
    profiles = [{"plugins": score(enabled=[plugin])}]
    assert lost(old("v1beta1", profiles=profiles)) == [f"profiles[0].plugins.score {plugin}"]


def test_default_constraints_set_the_list_defaulting_type() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    args = [{"name": "PodTopologySpread", "args": {"defaultConstraints": [constraint]}}]
    profile = only_profile(old("v1beta1", profiles=[{"pluginConfig": args}]))
    assert args_of(profile, "PodTopologySpread")["defaultingType"] == "List"


@pytest.mark.parametrize("version", ["v1beta3", "v1"])
@pytest.mark.parametrize("disabled", [[], ["PrioritySort"], ["*"]])
def test_third_party_plugins_at_every_point(version: str, disabled: list[str]) -> None:
    """A third-party plugin sorts the queue only if no other enabled plugin does."""
    point = {"enabled": [{"name": "Coscheduler"}, {"name": "Other"}], "disabled": [{"name": name} for name in disabled]}
    enabled = [{"name": name} for name in ("NodeResourcesFit", "DefaultBinder")] if "*" in disabled else []
    plugins = {"multiPoint": {**point, "enabled": [*point["enabled"], *enabled]}}
    text = old(version, profiles=[{"schedulerName": "mine", "plugins": plugins}])
    (converted,) = convert_text(text, "old")
    assert converted.notes.are_faithful
