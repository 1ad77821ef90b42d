"""Policy files: predicates, priorities and extenders."""

from typing import Any

import pytest
from tests.support.old_configurations import args_of, lost, only, only_profile, policy

from moorage.scheduler.config.conversion import Effect, convert_text
from moorage.scheduler.config.conversion.tables import (
    PREDICATES,
    PRIORITIES,
)


@pytest.mark.parametrize("name", sorted(PREDICATES))
def test_every_predicate_is_a_plugin(name: str) -> None:
    plugins = only_profile(policy(predicates=[{"name": name}], priorities=[]))["plugins"]
    disabled = {entry["name"] for entry in plugins["multiPoint"]["disabled"]}
    assert disabled.isdisjoint(PREDICATES[name])
    assert "VolumeRestrictions" in disabled or name == "NoDiskConflict"


@pytest.mark.parametrize("name", sorted(name for name, items in PRIORITIES.items() if items.plugin))
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


def test_resource_scorer_with_the_larger_weight_is_kept() -> None:
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
