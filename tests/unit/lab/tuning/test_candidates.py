"""Configurations of candidates: weights and arguments in the first profile."""

import msgspec
import pytest
from tests.support.lab import read_score_weights

from moorage.lab.trial import PolicyText
from moorage.lab.tuning.candidates import foreign_plugins, tuned_config, tuned_policy
from moorage.lab.tuning.plan import Knob, NumberRange

FIT = "NodeResourcesFit"
STRATEGY = Knob(FIT, "scoringStrategy.type", ("LeastAllocated", "MostAllocated"))


def weight(plugin: str) -> Knob:
    return Knob(plugin, "", NumberRange(0, 10))


BASES: dict[str, str] = {
    "default configuration": "",
    "weight at score": """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {score: {disabled: [{name: NodeResourcesFit}], enabled: [{name: NodeResourcesFit, weight: 7}]}}}]
""",
    "weight at multiPoint": """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: NodeResourcesFit, weight: 7}]}}}]
""",
}


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_weight_is_set_where_the_profile_enables_the_plugin(base: str) -> None:
    tuned = read_score_weights(tuned_policy(PolicyText("base", base), [(weight(FIT), 4)]).config)
    assert tuned == {**read_score_weights(base), FIT: 4}
    without = read_score_weights(tuned_policy(PolicyText("base", base), [(weight(FIT), 0)]).config)
    assert without == {name: count for name, count in read_score_weights(base).items() if name != FIT}


def test_arguments_are_merged_with_existing_ones() -> None:
    base = msgspec.json.encode(
        tuned_config("", [(Knob(FIT, "ignoredResources", ()), ["example.com/x"]), (STRATEGY, "LeastAllocated")])
    ).decode()
    config = tuned_config(
        base, [(STRATEGY, "MostAllocated"), (Knob("InterPodAffinity", "hardPodAffinityWeight", ()), 3)]
    )
    args = {entry["name"]: entry["args"] for entry in config["profiles"][0]["pluginConfig"]}
    assert args == {
        FIT: {"ignoredResources": ["example.com/x"], "scoringStrategy": {"type": "MostAllocated"}},
        "InterPodAffinity": {"hardPodAffinityWeight": 3},
    }


def test_plugins_that_kube_scheduler_lacks_are_listed() -> None:
    own_settings = [(weight(FIT), 1), (STRATEGY, "MostAllocated")]
    assert foreign_plugins(tuned_config("", own_settings)) == []
    assert foreign_plugins(tuned_config("", [*own_settings, (weight("FGD"), 3)])) == ["FGD"]
