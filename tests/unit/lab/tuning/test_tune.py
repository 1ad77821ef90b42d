"""Tuning: valid searches, resulting configurations, and a search from beginning to end."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from moorage.common.errors import InputError
from moorage.lab.experiment import LoadedExperiment, load_experiment
from moorage.lab.results import Results
from moorage.lab.running import Ran, run_here
from moorage.lab.trial import PolicyText, Trial
from moorage.lab.tuning.candidates import foreign_plugins, tuned_config, tuned_policy
from moorage.lab.tuning.plan import Knob, NumberRange
from moorage.lab.tuning.search import COMPLETE, PRUNED
from moorage.lab.tuning.tune import TuneOutcome, plan_of, report_lines, tune
from moorage.scheduler.config.catalogue import KNOWN_PLUGINS
from moorage.scheduler.config.expansion import expand_plugins
from moorage.scheduler.wiring.policy import collect_plugins, load_policy

optuna = pytest.importorskip("optuna", reason="needs Optuna: pip install 'moorage[tune]'")

FIT, BALANCED = "NodeResourcesFit", "NodeResourcesBalancedAllocation"
STRATEGY = Knob(FIT, "scoringStrategy.type", ("LeastAllocated", "MostAllocated"))


def weight(plugin: str) -> Knob:
    return Knob(plugin, "", NumberRange(0, 10))


def weights_of(text: str) -> dict[str, int]:
    """Read a configuration as the scheduler does, and return the weights of its score plugins."""
    profile = load_policy(collect_plugins(), text).config.profiles[0]
    return dict(expand_plugins(profile, lambda name: KNOWN_PLUGINS[name].points).score_weights)


BASES: dict[str, str] = {
    "nothing": "",
    "a file that weighs it at score": """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {score: {disabled: [{name: NodeResourcesFit}], enabled: [{name: NodeResourcesFit, weight: 7}]}}}]
""",
    "a file that weighs it everywhere": """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: NodeResourcesFit, weight: 7}]}}}]
""",
}


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_a_weight_counts_wherever_the_profile_has_it(base: str) -> None:
    tuned = weights_of(tuned_policy(PolicyText("base", base), [(weight(FIT), 4)]).config)
    assert tuned == {**weights_of(base), FIT: 4}
    without = weights_of(tuned_policy(PolicyText("base", base), [(weight(FIT), 0)]).config)
    assert without == {name: count for name, count in weights_of(base).items() if name != FIT}


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


def test_foreign_plugins_of_a_configuration() -> None:
    own_settings = [(weight(FIT), 1), (STRATEGY, "MostAllocated")]
    assert foreign_plugins(tuned_config("", own_settings)) == []
    assert foreign_plugins(tuned_config("", [*own_settings, (weight("FGD"), 3)])) == ["FGD"]


EXPERIMENT: dict[str, Any] = {
    "name": "room for large jobs",
    "traces": [{"preset": "batch", "pods": 20}],
    "clusters": [{"name": "c", "pools": [{"name": "p", "count": 10, "cpu": 8, "memory": "32Gi"}]}],
    "configurations": [{"name": "default"}],
    "seeds": 3,
    "options": {"arrivalsOnly": True, "skipUnplaced": True, "inflate": 0.6, "shuffle": True, "podRows": False},
    "tune": {
        "minimize": "nodes.used",
        "candidates": 9,
        "heldOut": 6,
        "weights": {FIT: {"from": 0, "to": 10}, BALANCED: {"from": 0, "to": 10}},
        "args": {FIT: {"scoringStrategy.type": ["LeastAllocated", "MostAllocated"]}},
    },
}


def loaded(folder: Path, **tuned: Any) -> LoadedExperiment:
    content = {**EXPERIMENT, "tune": {**EXPERIMENT["tune"], **tuned}}
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(content))
    return load_experiment(path)


class Counting:
    """Runs trials here, and counts them; stops like a Ctrl-C after the given number."""

    def __init__(self, most: int = 10**6) -> None:
        self.count, self._most = 0, most

    def __call__(self, trials: Iterable[Trial]) -> Ran:
        for trial in trials:
            if self.count >= self._most:
                raise KeyboardInterrupt
            self.count += 1
            yield from run_here([trial])


def tuned(folder: Path, run: Counting, **changed: Any) -> TuneOutcome:
    experiment = loaded(folder, **changed)
    return tune(experiment, plan_of(experiment), Results(folder / "out"), run)


def test_result_beats_the_default_profile_on_held_out_seeds(tmp_path: Path) -> None:
    outcome = tuned(tmp_path, Counting())
    assert outcome.best is not None
    assert outcome.held_out is not None
    assert outcome.held_out.count == 6
    assert outcome.held_out.is_below
    lines = report_lines(outcome)
    assert any("held out, 6 seeds: nodes.used −" in line for line in lines)
    assert lines[-1].endswith("best.yaml; kube-scheduler takes it as well")
    best_config = (tmp_path / "out" / "best.yaml").read_text()
    assert weights_of(best_config)[BALANCED] == outcome.best.settings[f"weight of {BALANCED}"]
    assert (tmp_path / "out" / "candidates.jsonl").read_bytes().count(b"\n") == 9


def test_candidates_below_the_median_are_pruned(tmp_path: Path) -> None:
    outcome = tuned(tmp_path, run := Counting(), candidates=10)
    by_state = {candidate.state: candidate for candidate in outcome.candidates}
    assert by_state.keys() == {COMPLETE, PRUNED}
    assert by_state[PRUNED].settings[f"{FIT}.scoringStrategy.type"] == "LeastAllocated"
    assert len(by_state[PRUNED].values) < 3
    assert run.count < 3 * 11 + 2 * 6
    pruned = sum(candidate.state == PRUNED for candidate in outcome.candidates)
    assert report_lines(outcome)[0] == f"10 candidates, {pruned} given up early, 0 failed"


def test_stopped_search_resumes_with_the_same_result(tmp_path: Path) -> None:
    uninterrupted, parts = tmp_path / "whole", tmp_path / "parts"
    uninterrupted.mkdir()
    parts.mkdir()
    all_of_them, remaining = Counting(), Counting()
    expected = tuned(uninterrupted, all_of_them, candidates=5)
    with pytest.raises(KeyboardInterrupt) as stopped:
        tuned(parts, Counting(most=11), candidates=5)
    so_far = stopped.value.outcome_so_far  # type: ignore[attr-defined]
    assert 0 < len(so_far.candidates) < 5
    assert (parts / "out" / "candidates.jsonl").exists()
    resumed = tuned(parts, remaining, candidates=5)
    assert remaining.count == all_of_them.count - 11
    assert report_lines(resumed)[:-1] == report_lines(expected)[:-1]
    assert (parts / "out" / "best.yaml").read_bytes() == (uninterrupted / "out" / "best.yaml").read_bytes()
    assert (parts / "out" / "candidates.jsonl").read_bytes() == (
        uninterrupted / "out" / "candidates.jsonl"
    ).read_bytes()


def test_missing_improvement_is_reported(tmp_path: Path) -> None:
    outcome = tuned(tmp_path, Counting(), minimize="overcommitted", candidates=2)
    assert outcome.best is None
    assert report_lines(outcome)[-1].startswith("nothing is better than default, which has overcommitted 0")
    assert not (tmp_path / "out" / "best.yaml").exists()


def test_failing_candidate_does_not_affect_other_candidates(tmp_path: Path) -> None:
    outcome = tuned(
        tmp_path,
        Counting(),
        candidates=3,
        weights={},
        args={"DefaultPreemption": {"minCandidateNodesPercentage": {"from": 101, "to": 200}}},
    )
    assert [candidate.state for candidate in outcome.candidates] == ["failed"] * 3
    assert "minCandidateNodesPercentage" in report_lines(outcome)[1]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no objective": ({"minimize": ""}, "write maximize: MEASURE, or minimize: MEASURE"),
    "two objectives": ({"maximize": "allocation.cpu"}, "it needs one objective"),
    "a measure that is none": ({"minimize": "node.used", "candidates": 1}, "did you mean 'nodes.used'"),
    "nothing to tune": ({"weights": {}, "args": {}}, "write weights: or args:"),
    "no candidates": ({"candidates": 0}, "write 1 or more"),
    "a seed that is searched with": ({"heldOut": [2, 9]}, "seed 2 is searched with as well"),
    "nothing held out": ({"heldOut": 0}, "no seeds are held out"),
    "a range without numbers": ({"weights": {FIT: {"from": 4, "to": 4}}}, "`to` must be above `from`"),
    "a weight of a half": ({"weights": {FIT: {"from": 0.5, "to": 4}}}, "a whole number from 0 to 100"),
    "one value": ({"args": {FIT: {"scoringStrategy.type": ["LeastAllocated"]}}}, "1 values leave no choice"),
    "a logarithm of 0": ({"args": {FIT: {"x": {"from": 0, "to": 4, "log": True}}}}, "log needs numbers above 0"),
}


@pytest.mark.parametrize(("changed", "problem"), WRONG.values(), ids=WRONG)
def test_invalid_settings_are_rejected(changed: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        tuned(tmp_path, Counting(), **changed)
    assert problem in str(raised.value)


def test_an_experiment_that_tunes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in EXPERIMENT.items() if key != "tune"}))
    with pytest.raises(InputError, match="the tune section is missing"):
        plan_of(load_experiment(path))
