"""Tuning from beginning to end: search, keep the best as a configuration, and judge it by seeds that it never saw."""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from msgspec import Struct

from moorage.common.errors import InputError
from moorage.lab.experiment import LoadedExperiment
from moorage.lab.report.measures import MEASURES, Measure
from moorage.lab.report.statistics import Interval, difference_of
from moorage.lab.results import Results
from moorage.lab.running import RunTrials
from moorage.lab.tuning.candidates import foreign_plugins, tuned_config
from moorage.lab.tuning.plan import TunePlan, check_plan
from moorage.lab.tuning.search import COMPLETE, FAILED, PRUNED, Candidate, Tuner, encoded, settings_text
from moorage.scheduler.config.dumping import dump

BEST: Final = "best.yaml"
CANDIDATES: Final = "candidates.jsonl"
ShowCandidates = Callable[[int, int, str], None]


class TuneOutcome(Struct):
    """The result of a search so far; ``held_out`` is set after the evaluation."""

    plan: TunePlan
    baseline: str
    base_values: dict[int, float]
    folder: Path
    candidates: list[Candidate]
    best: Candidate | None = None
    held_out: Interval | None = None
    base_held_out: float = 0.0

    @property
    def measure(self) -> Measure:
        """The measure that counts, as reports write it."""
        name = self.plan.measure
        return next((measure for measure in MEASURES if measure.key == name), Measure(name, name, 0, "number"))

    def is_better(self, candidate: Candidate) -> bool:
        """Return whether a candidate is better than the best so far, or than the initial configuration."""
        if candidate.state != COMPLETE:
            return False
        against = fmean(self.base_values.values()) if self.best is None else self.best.mean
        return candidate.mean > against if self.plan.maximize else candidate.mean < against


def plan_of(loaded: LoadedExperiment) -> TunePlan:
    """Return the tuning plan of an experiment; raise InputError if it is missing or invalid."""
    plan, where = loaded.experiment.tune, f"{loaded.where}, tune"
    if plan is None:
        raise InputError(where, "the tune section is missing", hint="see docs/how-to/tune-weights.md")
    check_plan(plan, tuple(loaded.experiment.seed_list), where)
    try:
        import optuna  # noqa: F401 - reports a missing package early
    except ImportError:
        raise InputError("moorage lab tune", "Optuna is not installed", hint="pip install 'moorage[tune]'") from None
    return plan


def tune(
    loaded: LoadedExperiment,
    plan: TunePlan,
    results: Results,
    run: RunTrials,
    *,
    seed: int = 1,
    show: ShowCandidates | None = None,
) -> TuneOutcome:
    """Search, write each better configuration, and evaluate the best one at the end.

    A KeyboardInterrupt ends the search early: results are written, and stored in ``outcome_so_far`` of the exception.
    """
    tuner = Tuner(loaded, plan, results, run)
    base_values = tuner.values(tuner.base, tuner.seeds)
    outcome = TuneOutcome(plan, tuner.base.name, base_values, results.folder, [])

    def tried(candidate: Candidate) -> None:
        outcome.candidates.append(candidate)
        if outcome.is_better(candidate):
            outcome.best = candidate
            results.write(BEST, config_text(loaded, candidate).encode())
        results.write(CANDIDATES, encoded(outcome.candidates))
        if show is not None:
            show(len(outcome.candidates), plan.candidates, _standing(outcome))

    try:
        tuner.search(seed, tried)
        if outcome.best is not None:
            _judge(tuner, outcome)
    except KeyboardInterrupt as interrupt:
        interrupt.outcome_so_far = outcome  # type: ignore[attr-defined]
        raise
    return outcome


def _judge(tuner: Tuner, outcome: TuneOutcome) -> None:
    assert outcome.best is not None
    seeds = outcome.plan.held_out_seeds(tuner.seeds)
    base, best = tuner.values(tuner.base, seeds), tuner.values(outcome.best.policy, seeds)
    outcome.held_out = difference_of(best, base)
    outcome.base_held_out = fmean(base.values())


def config_text(loaded: LoadedExperiment, candidate: Candidate) -> str:
    """Write the configuration of a candidate with a descriptive header."""
    head = f"# Found by `moorage lab tune {Path(loaded.where).name}`: {settings_text(candidate)}\n"
    return head + dump(_config_of(candidate))


def _config_of(candidate: Candidate) -> dict[str, Any]:
    return tuned_config(candidate.policy.config, ())


def _standing(outcome: TuneOutcome) -> str:
    best = outcome.best
    return "nothing better yet" if best is None else f"best so far {outcome.measure.shown(best.mean)}"


def report_lines(outcome: TuneOutcome) -> list[str]:
    """Describe the result and its confidence."""
    measure, plan, best = outcome.measure, outcome.plan, outcome.best
    states = [candidate.state for candidate in outcome.candidates]
    lines = [f"{len(states)} candidates, {states.count(PRUNED)} given up early, {states.count(FAILED)} failed"]
    failed = next((candidate for candidate in outcome.candidates if candidate.state == FAILED), None)
    if failed is not None:
        lines.append(f"the first that failed: {settings_text(failed)}: {failed.error}")
    base = measure.shown(fmean(outcome.base_values.values()))
    seeds = len(outcome.base_values)
    if best is None:
        return [*lines, f"nothing is better than {outcome.baseline}, which has {plan.measure} {base} on {seeds} seeds"]
    lines.append(f"best: {settings_text(best)}")
    lines.append(f"searched, {seeds} seeds: {plan.measure} {measure.shown(best.mean)}, {outcome.baseline} {base}")
    if (evaluation := outcome.held_out) is not None:
        low, high = measure.shown_difference(evaluation.low), measure.shown_difference(evaluation.high)
        sure = evaluation.is_above if plan.maximize else evaluation.is_below
        lines.append(
            f"held out, {evaluation.count} seeds: {plan.measure} {measure.shown_difference(evaluation.median)} against "
            f"{outcome.baseline} (95% sure: {low} to {high})" + ("" if sure else "; that may be chance")
        )
    foreign = foreign_plugins(_config_of(best))
    takes = f"it needs Moorage, for {', '.join(foreign)}" if foreign else "kube-scheduler takes it as well"
    return [*lines, f"written: {outcome.folder / BEST}; {takes}"]
