"""The search: Optuna proposes candidates, which run seed by seed and are pruned when they fall behind the median.

Only the rows of trials are stored. The same seed produces the same proposals in the same order, so that a stopped
search replays its stored trials and continues.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from statistics import fmean
from typing import Any, Final

import msgspec
from msgspec import Struct

from moorage.common.errors import ConfigError, InputError, did_you_mean
from moorage.lab.experiment import LoadedExperiment
from moorage.lab.results import Results
from moorage.lab.rows import TrialResult, TrialRow
from moorage.lab.running import RunTrials
from moorage.lab.trace import Trace
from moorage.lab.trial import PolicyText, Trial, load_trial_policy
from moorage.lab.tuning.candidates import Setting, tuned_policy
from moorage.lab.tuning.plan import Knob, NumberRange, TunePlan, shown_value

UNPLACED: Final = "unplaced"
COMPLETE, PRUNED, FAILED = "complete", "given up", "failed"
NO_TRACE: Final = Trace("none", ())


class Candidate(Struct, frozen=True, rename="camel"):
    """A tried configuration and the result of each seed; ``error`` is the reason for missing measures."""

    number: int
    settings: dict[str, Any]
    state: str
    values: tuple[float, ...]
    policy: PolicyText
    error: str = ""

    @property
    def mean(self) -> float:
        """The mean over the seeds it was tried with."""
        return fmean(self.values)


class Evaluation(Struct):
    """The rows of a policy so far, by seed."""

    seeds: Sequence[int]
    rows: dict[int, list[TrialRow]]


class Tuner:
    """Tries candidates one after another, the seeds of each wherever ``run`` runs them."""

    def __init__(self, loaded: LoadedExperiment, plan: TunePlan, results: Results, run: RunTrials) -> None:
        self._loaded, self.plan, self._results, self._run = loaded, plan, results, run
        self.base = next(policy for policy in loaded.policies if policy.name == loaded.experiment.compared_with)
        self.seeds = tuple(loaded.experiment.seed_list)

    def search(self, seed: int, on_candidate: Callable[[Candidate], None]) -> None:
        """Try as many candidates as planned; each is handed over when it has been."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(
            direction="maximize" if self.plan.maximize else "minimize",
            sampler=optuna.samplers.TPESampler(seed=seed),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4),
        )
        for _ in range(self.plan.candidates):
            proposal = study.ask()
            settings = [(knob, _suggested(proposal, knob)) for knob in self.plan.knobs()]
            candidate = self._try(proposal, settings)
            if candidate.state == COMPLETE:
                study.tell(proposal, candidate.mean)
            else:
                is_pruned = candidate.state == PRUNED
                study.tell(
                    proposal, state=optuna.trial.TrialState.PRUNED if is_pruned else optuna.trial.TrialState.FAIL
                )
            on_candidate(candidate)

    def _try(self, proposal: Any, settings: list[Setting]) -> Candidate:
        policy = tuned_policy(self.base, settings)
        shown = {knob.name: value for knob, value in settings}
        try:
            load_trial_policy(Trial(NO_TRACE, self._loaded.clusters[0], policy, 0))
        except ConfigError as error:
            return Candidate(proposal.number, shown, FAILED, (), policy, str(error))
        values: list[float] = []
        evaluation = Evaluation(self.seeds, {})
        # Closed at once where it is not needed any more, so that no trial runs on for nothing.
        with closing(self._rows(policy, evaluation)) as rows:
            for row in rows:
                if row.error:
                    return Candidate(proposal.number, shown, FAILED, (), policy, row.error)
                for value in self._complete(evaluation, len(values)):
                    values.append(value)
                    proposal.report(fmean(values), len(values) - 1)
                    if len(values) < len(self.seeds) and proposal.should_prune():
                        return Candidate(proposal.number, shown, PRUNED, tuple(values), policy)
        return Candidate(proposal.number, shown, COMPLETE, tuple(values), policy)

    def values(self, policy: PolicyText, seeds: Sequence[int]) -> dict[int, float]:
        """Return the result of each seed for a policy; raise InputError if a trial fails."""
        evaluation = Evaluation(seeds, {})
        for row in self._rows(policy, evaluation):
            if row.error:
                raise InputError(f"{policy.name}, seed {row.seed}", row.error)
        return dict(zip(seeds, self._complete(evaluation, 0), strict=True))

    def _rows(self, policy: PolicyText, evaluation: Evaluation) -> Generator[TrialRow, None, None]:
        """Run what has not been run; rows come in any order."""
        with closing(self._ran(policy, evaluation.seeds)) as results:
            for result in results:
                evaluation.rows.setdefault(result.trial.seed, []).append(result.trial)
                yield result.trial

    def _ran(self, policy: PolicyText, seeds: Sequence[int]) -> Generator[TrialResult, None, None]:
        trial_results: list[TrialResult] = []

        def missing() -> Iterator[Trial]:
            for seed in seeds:
                for trial in self._loaded.trials((policy,), (seed,)):
                    stored = self._results.find(trial)
                    if stored is None:
                        yield trial
                    else:
                        trial_results.append(stored)

        with closing(self._run(missing())) as running:
            for trial, result in running:
                self._results.keep(trial, result)
                yield from trial_results
                trial_results.clear()
                yield result
        yield from trial_results

    def _complete(self, evaluation: Evaluation, first: int) -> Iterator[float]:
        """Go through the values of seeds whose trials are all there, in order: nothing depends on who ends first."""
        experiment = self._loaded.experiment
        expected = len(experiment.traces) * len(self._loaded.clusters)
        for seed in evaluation.seeds[first:]:
            rows = evaluation.rows.get(seed, ())
            if len(rows) < expected:
                return
            yield fmean(self._value(row) for row in rows)

    def _value(self, row: TrialRow) -> float:
        name = self.plan.measure
        if name == UNPLACED:
            return float(row.unplaced)
        if name not in row.measures:
            measures = [*row.measures, UNPLACED]
            hint = did_you_mean(name, measures) or f"one of {', '.join(measures)}"
            raise InputError(f"{self._loaded.where}, tune", f"trials have no measure {name!r}", hint=hint)
        return row.measures[name]


def _suggested(proposal: Any, knob: Knob) -> Any:
    values = knob.values
    if not isinstance(values, NumberRange):
        # Optuna accepts only plain values, but these may be of any type.
        choice = proposal.suggest_categorical(knob.name, [shown_value(value) for value in values])
        return next(value for value in values if shown_value(value) == choice)
    if isinstance(values.low, int) and isinstance(values.high, int):
        return proposal.suggest_int(knob.name, values.low, values.high, log=values.log)
    return proposal.suggest_float(knob.name, float(values.low), float(values.high), log=values.log)


def settings_text(candidate: Candidate) -> str:
    """Write the settings of a candidate on one line."""
    return ", ".join(f"{name} {shown_value(value)}" for name, value in candidate.settings.items())


def encoded(candidates: Sequence[Candidate]) -> bytes:
    """Write all candidates down, a line each."""
    return b"".join(msgspec.json.encode(candidate, order="deterministic") + b"\n" for candidate in candidates)
