"""Convert old configurations to v1: the result of each field and name, and the notes about it."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.support.old_configurations import WEIGHTED, args_of, old, only, only_profile, policy, score

from moorage.common.errors import ConfigError, ConfigErrors
from moorage.scheduler.config import load_config, to_yaml
from moorage.scheduler.config.conversion import Effect, convert_provider, convert_text
from moorage.scheduler.config.conversion.tables import (
    REMOVED,
    STRATEGIES,
)


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


YODA = """
apiVersion: v1
kind: ConfigMap
data:
  scheduler-config.yaml: |
    apiVersion: kubescheduler.config.k8s.io/v1alpha1
    kind: KubeSchedulerConfiguration
    schedulerName: yoda-scheduler
    plugins:
      queueSort: {enabled: [{name: yoda}]}
      filter: {enabled: [{name: yoda}]}
      postFilter: {enabled: [{name: yoda}]}
      score: {enabled: [{name: yoda}]}
"""


def test_notes_list_the_points_at_which_a_third_party_plugin_is_not_enabled() -> None:
    """The configuration of a well-known tutorial; the plugin also reserves today."""
    (converted,) = convert_text(YODA, "f")
    (note,) = [note.text for note in converted.notes if "is not enabled at" in note.text]
    missing = note.partition("is not enabled at ")[2].partition(":")[0].split(", ")
    assert {"preFilter", "reserve", "permit", "preBind"} <= {*missing}
    assert {"filter", "preScore", "score", "queueSort"}.isdisjoint(missing)
    assert "multiPoint" in note


def test_plugin_under_multi_point_lacks_no_point() -> None:
    text = old("v1beta3", profiles=[{"plugins": {"multiPoint": {"enabled": [{"name": "yoda"}]}}}])
    assert not [note for note in convert_text(text, "f")[0].notes if "is not enabled at" in note.text]


def test_v1_file_is_unchanged_and_noted() -> None:
    (converted,) = convert_text(old("v1"), "f")
    assert [str(note) for note in converted.notes] == [
        "unchanged: apiVersion: the configuration is already v1; nothing was changed"
    ]


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


def test_policy_in_a_separate_source_is_lost() -> None:
    source = {"policy": {"configMap": {"namespace": "kube-system", "name": "p"}}}
    (converted,) = convert_text(old("v1alpha1", algorithmSource=source), "f")
    assert [str(note) for note in converted.notes if note.effect is Effect.LOST] == [
        "lost: algorithmSource.policy.configMap: the Policy in kube-system/p is another file: convert it"
    ]
