"""Tuning: a search from beginning to end."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.support.lab import read_score_weights

from moorage.common.errors import InputError
from moorage.lab.experiment import LoadedExperiment, load_experiment
from moorage.lab.report.measures import Interval
from moorage.lab.results import Ran, Results, run_here
from moorage.lab.trial import PolicyText, Trial
from moorage.lab.tuning.plan import Knob, NumberRange, TunePlan
from moorage.lab.tuning.tune import (
    COMPLETE,
    PRUNED,
    Candidate,
    TuneOutcome,
    foreign_plugins,
    load_plan,
    report_lines,
    tune,
    tuned_config,
    tuned_policy,
)

optuna = pytest.importorskip("optuna", reason="needs Optuna: pip install 'moorage[tune]'")

FIT, BALANCED = "NodeResourcesFit", "NodeResourcesBalancedAllocation"


EXPERIMENT: dict[str, Any] = {
    "name": "large jobs",
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


def loaded(directory: Path, **tuned: Any) -> LoadedExperiment:
    content = {**EXPERIMENT, "tune": {**EXPERIMENT["tune"], **tuned}}
    path = directory / "experiment.yaml"
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


def run_tune(directory: Path, run: Counting, **changed: Any) -> TuneOutcome:
    experiment = loaded(directory, **changed)
    return tune(experiment, load_plan(experiment), Results(directory / "out"), run)


def test_result_beats_the_default_profile_on_held_out_seeds(tmp_path: Path) -> None:
    outcome = run_tune(tmp_path, Counting())
    assert outcome.best is not None
    assert outcome.held_out is not None
    assert outcome.held_out.count == 6
    assert outcome.held_out.is_below
    lines = report_lines(outcome)
    assert any("held out, 6 seeds: nodes.used −" in line for line in lines)
    assert lines[-1].endswith("best.yaml; kube-scheduler accepts it, too")
    best_config = (tmp_path / "out" / "best.yaml").read_text()
    assert read_score_weights(best_config)[BALANCED] == outcome.best.settings[f"weight of {BALANCED}"]
    assert (tmp_path / "out" / "candidates.jsonl").read_bytes().count(b"\n") == 9


HELD_OUT = {
    "an interval above 0": (Interval(0.02, 0.01, 0.03, 8), "(95% confidence: +1.0 points to +3.0 points)"),
    "an interval that includes 0": (Interval(0.02, -0.01, 0.03, 8), "; not significant"),
    "a difference below the resolution": (Interval(1e-5, 1e-6, 2e-5, 8), "; not significant"),
    "one seed": (Interval(0.02, 0.02, 0.02, 1), "+2.0 points against base; one seed has no confidence interval"),
}


@pytest.mark.parametrize("name", HELD_OUT)
def test_confidence_of_the_result_is_reported(name: str) -> None:
    interval, ending = HELD_OUT[name]
    best = Candidate(0, {}, "complete", (0.9,), PolicyText("candidate"))
    plan = TunePlan(maximize="allocation.cpu")
    lines = report_lines(TuneOutcome(plan, "base", {1: 0.8}, Path("out"), [best], best, interval))
    assert lines[-2].endswith(ending)


def test_candidates_below_the_median_are_pruned(tmp_path: Path) -> None:
    outcome = run_tune(tmp_path, run := Counting(), candidates=10)
    by_state = {candidate.state: candidate for candidate in outcome.candidates}
    assert by_state.keys() == {COMPLETE, PRUNED}
    assert by_state[PRUNED].settings[f"{FIT}.scoringStrategy.type"] == "LeastAllocated"
    assert len(by_state[PRUNED].values) < 3
    assert run.count < 3 * 11 + 2 * 6
    pruned = sum(candidate.state == PRUNED for candidate in outcome.candidates)
    assert report_lines(outcome)[0] == f"10 candidates, {pruned} stopped early, 0 failed"


def test_stopped_search_resumes_with_the_same_result(tmp_path: Path) -> None:
    uninterrupted, parts = tmp_path / "whole", tmp_path / "parts"
    uninterrupted.mkdir()
    parts.mkdir()
    complete, remaining = Counting(), Counting()
    expected = run_tune(uninterrupted, complete, candidates=5)
    with pytest.raises(KeyboardInterrupt) as stopped:
        run_tune(parts, Counting(most=11), candidates=5)
    so_far = stopped.value.outcome_so_far  # type: ignore[attr-defined]
    assert 0 < len(so_far.candidates) < 5
    assert (parts / "out" / "candidates.jsonl").exists()
    resumed = run_tune(parts, remaining, candidates=5)
    assert remaining.count == complete.count - 11
    assert report_lines(resumed)[:-1] == report_lines(expected)[:-1]
    assert (parts / "out" / "best.yaml").read_bytes() == (uninterrupted / "out" / "best.yaml").read_bytes()
    assert (parts / "out" / "candidates.jsonl").read_bytes() == (
        uninterrupted / "out" / "candidates.jsonl"
    ).read_bytes()


def test_missing_improvement_is_reported(tmp_path: Path) -> None:
    outcome = run_tune(tmp_path, Counting(), minimize="overcommitted", candidates=2)
    assert outcome.best is None
    assert report_lines(outcome)[-1].startswith("nothing is better than default, which has overcommitted 0")
    assert not (tmp_path / "out" / "best.yaml").exists()


def test_failing_candidate_does_not_affect_other_candidates(tmp_path: Path) -> None:
    outcome = run_tune(
        tmp_path,
        Counting(),
        candidates=3,
        weights={},
        args={"DefaultPreemption": {"minCandidateNodesPercentage": {"from": 101, "to": 200}}},
    )
    assert [candidate.state for candidate in outcome.candidates] == ["failed"] * 3
    assert "minCandidateNodesPercentage" in report_lines(outcome)[1]


def test_unknown_measure_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"did you mean 'nodes\.used'"):
        run_tune(tmp_path, Counting(), minimize="node.used", candidates=1)


def test_missing_tune_section_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in EXPERIMENT.items() if key != "tune"}))
    with pytest.raises(InputError, match="the tune section is missing"):
        load_plan(load_experiment(path))


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
