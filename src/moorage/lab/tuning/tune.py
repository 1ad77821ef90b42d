"""Tuning: a search with Optuna, the best configuration, and its evaluation on seeds that the search did not use.

Candidates run seed by seed and are pruned when they fall behind the median. Only the rows of trials are stored. The
same seed produces the same proposals in the same order, so that a stopped search replays its stored trials and
continues.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import msgspec
from msgspec import Struct

from moorage.common.errors import ConfigError, InputError, did_you_mean
from moorage.kube.api.documents import read_documents
from moorage.lab.experiment import LoadedExperiment
from moorage.lab.fragmentation import load_trial_policy
from moorage.lab.report.measures import Interval, Measure, compute_difference, find_measure
from moorage.lab.results import Results, RunTrials, ShowTrials
from moorage.lab.trace import Trace
from moorage.lab.trial import PolicyText, Trial, TrialResult, TrialRow
from moorage.lab.tuning.plan import Knob, NumberRange, TunePlan, check_plan, format_value
from moorage.scheduler.config.plugin_facts import IN_TREE_PLUGINS
from moorage.scheduler.config.yaml_text import dump

Content = dict[str, Any]
Setting = tuple[Knob, Any]
"""A knob and its value."""

_HEADER: Final = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def tuned_policy(base: PolicyText, settings: Iterable[Setting]) -> PolicyText:
    """Return a policy with changed settings. Equal settings give equal policies."""
    config_text = msgspec.json.encode(tuned_config(base.config, settings), order="deterministic").decode()
    return msgspec.structs.replace(base, name="candidate", config=config_text)


def tuned_config(text: str, settings: Iterable[Setting]) -> Content:
    """Return a configuration in YAML, or the default one, with changed settings."""
    config: Content = deepcopy(next(iter(read_documents(text, source="configuration")))) if text else dict(_HEADER)
    profiles = config.setdefault("profiles", [])
    if not profiles:
        profiles.append({"schedulerName": "default-scheduler"})
    profile = profiles[0]
    for knob, value in settings:
        if knob.path:
            path = knob.path.split(".")
            entries = profile.setdefault("pluginConfig", [])
            entry = next((candidate for candidate in entries if candidate["name"] == knob.plugin), None)
            if entry is None:
                entry = {"name": knob.plugin, "args": {}}
                entries.append(entry)
            target: Content = entry.setdefault("args", {})
            for step in path[:-1]:
                target = target.setdefault(step, {})
            target[path[-1]] = value
        else:
            _set_weight(profile.setdefault("plugins", {}), knob.plugin, value)
    return config


def _set_weight(plugins: Content, name: str, weight: int) -> None:
    """Set the weight of a plugin at the point that enables it. A weight of 0 disables its score."""
    score: Content = plugins.setdefault("score", {})
    multi_point: Content = plugins.setdefault("multiPoint", {})
    enabled, disabled = score.setdefault("enabled", []), score.setdefault("disabled", [])
    disabled[:] = [entry for entry in disabled if entry["name"] != name]
    score_entries = [entry for entry in enabled if entry["name"] == name]
    if weight == 0:
        enabled[:] = [entry for entry in enabled if entry["name"] != name]
        disabled.append({"name": name})
    elif score_entries:
        score_entries[0]["weight"] = weight
    else:
        existing = [entry for entry in multi_point.setdefault("enabled", []) if entry["name"] == name]
        if existing:
            existing[0]["weight"] = weight
        else:
            multi_point["enabled"].append({"name": name, "weight": weight})
    for point in ("score", "multiPoint"):
        plugins[point] = {key: entries for key, entries in plugins[point].items() if entries}
        if not plugins[point]:
            del plugins[point]


def foreign_plugins(config: Mapping[str, Any]) -> list[str]:
    """Return the plugins of a configuration that kube-scheduler does not have."""
    plugin_names: set[str] = set()
    for profile in config.get("profiles", ()):
        points = (profile.get("plugins") or {}).values()
        plugin_names.update(entry["name"] for point in points for entry in point.get("enabled") or ())
        plugin_names.update(entry["name"] for entry in profile.get("pluginConfig") or ())
    return sorted(plugin_names - IN_TREE_PLUGINS.keys() - {"*"})


BEST: Final = "best.yaml"
CANDIDATES: Final = "candidates.jsonl"
UNPLACED: Final = "unplaced"
COMPLETE, PRUNED, FAILED = "complete", "pruned", "failed"


class Candidate(Struct, frozen=True, rename="camel"):
    """A configuration and its result for each seed. ``error`` is the reason for missing measures."""

    number: int
    settings: dict[str, Any]
    state: str
    values: tuple[float, ...]
    policy: PolicyText
    error: str = ""

    @property
    def mean(self) -> float:
        """The mean over its seeds."""
        return fmean(self.values)

    @property
    def summary(self) -> str:
        """The settings on one line."""
        return ", ".join(f"{name} {format_value(value)}" for name, value in self.settings.items())


class TuneOutcome(Struct):
    """The result of a search so far. ``held_out`` is set after the evaluation."""

    plan: TunePlan
    baseline: str
    base_values: dict[int, float]
    directory: Path
    candidates: list[Candidate]
    best: Candidate | None = None
    held_out: Interval | None = None

    @property
    def measure(self) -> Measure:
        """The objective with its number format."""
        return find_measure(self.plan.measure)

    def is_better(self, candidate: Candidate) -> bool:
        """Return whether a candidate is better than the best so far, or than the initial configuration."""
        if candidate.state != COMPLETE:
            return False
        reference = fmean(self.base_values.values()) if self.best is None else self.best.mean
        return candidate.mean > reference if self.plan.maximize else candidate.mean < reference


class Tuner:
    """Tries candidates in sequence. ``run`` runs the trials of each candidate."""

    def __init__(self, experiment: LoadedExperiment, plan: TunePlan, results: Results, run: RunTrials) -> None:
        self._loaded, self.plan, self._results, self._run = experiment, plan, results, run
        self.base = next(policy for policy in experiment.policies if policy.name == experiment.experiment.baseline_name)
        self.seeds = tuple(experiment.experiment.seed_list)

    def search(self, seed: int, on_candidate: Callable[[Candidate], None]) -> None:
        """Try the planned number of candidates. Report each when it is finished."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(
            direction="maximize" if self.plan.maximize else "minimize",
            sampler=optuna.samplers.TPESampler(seed=seed),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4),
        )
        states = {PRUNED: optuna.trial.TrialState.PRUNED, FAILED: optuna.trial.TrialState.FAIL}
        for _ in range(self.plan.candidates):
            proposal = study.ask()
            settings = [(knob, _suggest(proposal, knob)) for knob in self.plan.knobs()]
            candidate = self._try(proposal, settings)
            if candidate.state == COMPLETE:
                study.tell(proposal, candidate.mean)
            else:
                study.tell(proposal, state=states[candidate.state])
            on_candidate(candidate)

    def _try(self, proposal: Any, settings: list[Setting]) -> Candidate:
        policy = tuned_policy(self.base, settings)
        values: list[float] = []

        def finish(state: str, error: str = "") -> Candidate:
            values_by_name = {knob.name: value for knob, value in settings}
            return Candidate(proposal.number, values_by_name, state, () if error else tuple(values), policy, error)

        try:
            load_trial_policy(Trial(Trace("none", ()), self._loaded.clusters[0], policy, 0))
        except ConfigError as error:
            return finish(FAILED, str(error))
        rows: dict[int, list[TrialRow]] = {}
        # Closing the generator stops the trials that are not needed any more.
        with closing(self._run_missing(policy, self.seeds)) as results:
            for result in results:
                if result.trial.error:
                    return finish(FAILED, result.trial.error)
                rows.setdefault(result.trial.seed, []).append(result.trial)
                for value in self._complete_values(rows, self.seeds[len(values) :]):
                    values.append(value)
                    proposal.report(fmean(values), len(values) - 1)
                    if len(values) < len(self.seeds) and proposal.should_prune():
                        return finish(PRUNED)
        return finish(COMPLETE)

    def evaluate(self, policy: PolicyText, seeds: Sequence[int]) -> dict[int, float]:
        """Return the objective of a policy by seed. Raise InputError if a trial fails."""
        rows: dict[int, list[TrialRow]] = {}
        for result in self._run_missing(policy, seeds):
            if result.trial.error:
                raise InputError(f"{policy.name}, seed {result.trial.seed}", result.trial.error)
            rows.setdefault(result.trial.seed, []).append(result.trial)
        return dict(zip(seeds, self._complete_values(rows, seeds), strict=True))

    def _run_missing(self, policy: PolicyText, seeds: Sequence[int]) -> Generator[TrialResult, None, None]:
        """Run the trials that are not stored. Yield all results, in any order."""
        stored_results: list[TrialResult] = []

        def find_missing() -> Iterator[Trial]:
            for seed in seeds:
                for trial in self._loaded.trials((policy,), (seed,)):
                    result = self._results.find(trial)
                    if result is None:
                        yield trial
                    else:
                        stored_results.append(result)

        with closing(self._run(find_missing())) as running:
            for trial, result in running:
                self._results.store(trial, result)
                yield from stored_results
                stored_results.clear()
                yield result
        yield from stored_results

    def _complete_values(self, rows: dict[int, list[TrialRow]], seeds: Sequence[int]) -> Iterator[float]:
        """Yield the values of the first seeds with complete trials. The order of results has no influence."""
        expected = len(self._loaded.experiment.traces) * len(self._loaded.clusters)
        for seed in seeds:
            if len(rows.get(seed, ())) < expected:
                return
            yield fmean(self._value(row) for row in rows[seed])

    def _value(self, row: TrialRow) -> float:
        name = self.plan.measure
        if name == UNPLACED:
            return float(row.unplaced)
        if name not in row.measures:
            measures = [*row.measures, UNPLACED]
            hint = did_you_mean(name, measures) or f"one of {', '.join(measures)}"
            raise InputError(f"{self._loaded.where}, tune", f"trials have no measure {name!r}", hint=hint)
        return row.measures[name]


def _suggest(proposal: Any, knob: Knob) -> Any:
    values = knob.values
    if not isinstance(values, NumberRange):
        # Optuna accepts only plain values, but these may be of any type.
        choice = proposal.suggest_categorical(knob.name, [format_value(value) for value in values])
        return next(value for value in values if format_value(value) == choice)
    if isinstance(values.low, int) and isinstance(values.high, int):
        return proposal.suggest_int(knob.name, values.low, values.high, log=values.log)
    return proposal.suggest_float(knob.name, float(values.low), float(values.high), log=values.log)


def load_plan(experiment: LoadedExperiment) -> TunePlan:
    """Return the tuning plan of an experiment. Raise InputError if it is missing or invalid."""
    plan, location = experiment.experiment.tune, f"{experiment.where}, tune"
    if plan is None:
        raise InputError(
            location,
            "the tune section is missing",
            hint="add it; the page 'Tune weights and arguments' of the documentation has an example",
        )
    check_plan(plan, tuple(experiment.experiment.seed_list), location)
    try:
        import optuna  # noqa: F401 - reports a missing package early
    except ImportError:
        raise InputError("moorage lab tune", "Optuna is not installed", hint="pip install 'moorage[tune]'") from None
    return plan


def tune(
    experiment: LoadedExperiment,
    plan: TunePlan,
    results: Results,
    run: RunTrials,
    *,
    seed: int = 1,
    show: ShowTrials | None = None,
) -> TuneOutcome:
    """Search, write each better configuration, and evaluate the best one at the end.

    A KeyboardInterrupt ends the search early: results are written, and stored in ``outcome_so_far`` of the exception.
    """
    tuner = Tuner(experiment, plan, results, run)
    base_values = tuner.evaluate(tuner.base, tuner.seeds)
    outcome = TuneOutcome(plan, tuner.base.name, base_values, results.directory, [])

    def record(candidate: Candidate) -> None:
        outcome.candidates.append(candidate)
        if outcome.is_better(candidate):
            outcome.best = candidate
            header = f"# Found by `moorage lab tune {Path(experiment.where).name}`: {candidate.summary}\n"
            results.write(BEST, (header + dump(tuned_config(candidate.policy.config, ()))).encode())
        lines = (msgspec.json.encode(result, order="deterministic") for result in outcome.candidates)
        results.write(CANDIDATES, b"".join(line + b"\n" for line in lines))
        if show is not None:
            best = outcome.best
            status = "nothing better yet" if best is None else f"best so far {outcome.measure.format(best.mean)}"
            show(len(outcome.candidates), plan.candidates, status)

    try:
        tuner.search(seed, record)
        if outcome.best is not None:
            seeds = plan.held_out_seeds(tuner.seeds)
            base, best = tuner.evaluate(tuner.base, seeds), tuner.evaluate(outcome.best.policy, seeds)
            outcome.held_out = compute_difference(best, base)
    except KeyboardInterrupt as interrupt:
        interrupt.outcome_so_far = outcome  # type: ignore[attr-defined]
        raise
    return outcome


def report_lines(outcome: TuneOutcome) -> list[str]:
    """Describe the result and its confidence."""
    measure, plan, best = outcome.measure, outcome.plan, outcome.best
    states = [candidate.state for candidate in outcome.candidates]
    lines = [f"{len(states)} candidates, {states.count(PRUNED)} stopped early, {states.count(FAILED)} failed"]
    failed_candidate = next((candidate for candidate in outcome.candidates if candidate.state == FAILED), None)
    if failed_candidate is not None:
        lines.append(f"first failure: {failed_candidate.summary}: {failed_candidate.error}")
    base = measure.format(fmean(outcome.base_values.values()))
    seeds = len(outcome.base_values)
    if best is None:
        return [*lines, f"nothing is better than {outcome.baseline}, which has {plan.measure} {base} on {seeds} seeds"]
    lines.append(f"best: {best.summary}")
    lines.append(f"searched, {seeds} seeds: {plan.measure} {measure.format(best.mean)}, {outcome.baseline} {base}")
    if (evaluation := outcome.held_out) is not None:
        median = measure.format_difference(evaluation.median)
        runs = f"{evaluation.count} seeds" if evaluation.count > 1 else "1 seed"
        text = f"held out, {runs}: {plan.measure} {median} against {outcome.baseline}"
        if evaluation.count == 1:
            text += "; one seed has no confidence interval"
        else:
            low, high = measure.format_difference(evaluation.low), measure.format_difference(evaluation.high)
            is_significant = evaluation.is_above if plan.maximize else evaluation.is_below
            is_visible = measure.format(abs(evaluation.median)) != measure.format(0.0)
            text += f" (95% confidence: {low} to {high})" + (
                "" if is_significant and is_visible else "; not significant"
            )
        lines.append(text)
    foreign = foreign_plugins(tuned_config(best.policy.config, ()))
    support = f"it requires Moorage for {', '.join(foreign)}" if foreign else "kube-scheduler accepts it, too"
    return [*lines, f"written: {outcome.directory / BEST}; {support}"]
