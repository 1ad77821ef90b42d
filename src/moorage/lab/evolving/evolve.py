"""Evolution: generations of score functions, the winner as a plugin, and its evaluation on held-out traces.

Each candidate runs in the sandbox of ``moorage.lab.evaluate``, which caches results by content. The built-in proposer
repeats its proposals with the same seed, and those of a command are stored: a stopped search continues.
"""

import math
import multiprocessing
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from moorage.common.errors import InputError, did_you_mean
from moorage.common.user_files import read_file, read_text
from moorage.kube.api.codec import UNREADABLE
from moorage.lab.evaluating import Candidate as CandidateSource
from moorage.lab.evaluating import Evaluation, evaluate, with_score
from moorage.lab.evolving.evolve_plan import EvolvePlan, check_evolve_plan
from moorage.lab.evolving.expressions import (
    FEATURES,
    Expression,
    cross,
    format_expression,
    generate_expression,
    measure_size,
    mutate,
    write_code,
)
from moorage.lab.experiment import LoadedExperiment, load_experiment
from moorage.lab.report.measures import Interval, compute_difference, find_measure
from moorage.lab.results import Results, ShowTrials, count_cores
from moorage.lab.trial import PolicyText
from moorage.scheduler.config.yaml_text import dump

WINNER, CONFIG, LINEAGE, REPORT = "evolved.py", "evolved.yaml", "lineage.jsonl", "lineage.txt"
MAX_LINEAGE: Final = 1 << 28
PLUGIN: Final = "evolved:evolved"
PROPOSAL_SECONDS: Final = 300.0
PARENTS_SHOWN: Final = 5
"""Number of the best candidates, and of the last failures, that a command receives."""
TOURNAMENT: Final = 3
RETRIES: Final = 20


class ProposedCode(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The code of a candidate, and its origin."""

    code: str
    parents: tuple[int, ...] = ()
    origin: str = "random"
    expression: str = ""
    size: int = 0
    """The size of the expression. Equal candidates are ordered by size."""
    error: str = ""
    """The reason for missing code."""


class Individual(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A candidate with its result; a row of ``lineage.jsonl``."""

    id: int
    generation: int
    proposal: ProposedCode
    status: str
    value: float | None = None
    measures: dict[str, float] = {}
    error: str = ""


class Proposer(Protocol):
    """Proposes the candidates of a generation."""

    def propose(self, generation: int, count: int, ranked: Sequence[Individual]) -> Iterator[ProposedCode]:
        """Yield new candidates. ``ranked`` has the successful ones, the best first, and then the failed ones."""


class GeneticProposer:
    """Proposes expression trees: random ones at first, then mutations and crossovers of good candidates."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._expressions: dict[str, Expression] = {}

    def propose(self, generation: int, count: int, ranked: Sequence[Individual]) -> Iterator[ProposedCode]:
        """Yield candidates that differ from all earlier ones, if that is possible."""
        parents = [individual for individual in ranked if individual.value is not None]
        # The best candidates are the population. Other candidates remain in the lineage only.
        parents = parents[: max(2, count // 2)]
        for _ in range(count):
            for _ in range(RETRIES):
                expression, ids, origin = self._breed(parents)
                code = write_code(expression)
                if code not in self._expressions:
                    break
            self._expressions[code] = expression
            yield ProposedCode(code, ids, origin, format_expression(expression), measure_size(expression))

    def _breed(self, parents: Sequence[Individual]) -> tuple[Expression, tuple[int, ...], str]:
        choice = self._random.random()
        if not parents or choice < 0.1:
            return generate_expression(self._random), (), "random"
        first = self._select(parents)
        if choice < 0.5 or len(parents) < 2:
            return mutate(self._random, self._expressions[first.proposal.code]), (first.id,), "mutation"
        second = self._select(parents)
        trees = (self._expressions[parent.proposal.code] for parent in (first, second))
        return cross(self._random, *trees), (first.id, second.id), "crossover"

    def _select(self, parents: Sequence[Individual]) -> Individual:
        return parents[min(self._random.randrange(len(parents)) for _ in range(TOURNAMENT))]


class CommandProposer:
    """Runs a command for each candidate: it reads JSON on standard input, and writes code on standard output."""

    def __init__(self, command: str, plan: EvolvePlan, stored: Sequence[Individual]) -> None:
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise InputError("--propose", f"cannot be split into words: {error}") from None
        if not self._command:
            raise InputError("--propose", "the command is empty", hint="write a command such as 'python propose.py'")
        self._plan = plan
        self._stored = [individual.proposal for individual in stored]

    def propose(self, generation: int, count: int, ranked: Sequence[Individual]) -> Iterator[ProposedCode]:
        """Yield the proposals of an earlier run of the same search, then new ones."""
        best = [individual for individual in ranked if individual.value is not None][:PARENTS_SHOWN]
        failures = [individual for individual in ranked if individual.value is None][-PARENTS_SHOWN:]
        for number in range(count):
            if self._stored:
                yield self._stored.pop(0)
                continue
            message = {
                "objective": {"measure": self._plan.measure, "direction": "max" if self._plan.maximize else "min"},
                "generation": generation,
                "number": number,
                "signature": "score(pod, node) -> number from 0 to 100; the node with the highest score is selected",
                "features": {name: {"about": about, "code": code} for name, (about, code) in FEATURES.items()},
                "best": [_describe_parent(individual) for individual in best],
                "failed": [_describe_parent(individual) for individual in failures],
            }
            ids = tuple(individual.id for individual in best)
            yield self._run(msgspec.json.encode(message), ids)

    def _run(self, message: bytes, ids: tuple[int, ...]) -> ProposedCode:
        try:
            process = subprocess.run(
                self._command, input=message, capture_output=True, timeout=PROPOSAL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return ProposedCode("", ids, "command", error=f"no proposal after {PROPOSAL_SECONDS:g} seconds")
        except OSError as error:
            raise InputError("--propose", f"cannot run {self._command[0]}: {error.strerror or error}") from None
        code = strip_fences(process.stdout.decode(errors="replace"))
        if process.returncode or not code.strip():
            lines = process.stderr.decode(errors="replace").strip().splitlines() or ["no code on standard output"]
            return ProposedCode(
                "", ids, "command", error=f"the command ended with {process.returncode}: {lines[-1][:200]}"
            )
        return ProposedCode(code, ids, "command")


def _describe_parent(individual: Individual) -> dict[str, Any]:
    fields = {"id": individual.id, "code": individual.proposal.code, "status": individual.status}
    if individual.value is None:
        return fields | {"error": individual.error}
    return fields | {"value": individual.value, "measures": individual.measures}


def strip_fences(text: str) -> str:
    r"""Return the first fenced block of a text, or the text: language models often write Markdown.

    >>> strip_fences("Here it is:\n```python\nscore = None\n```\nDone.")
    'score = None\n'
    """
    lines = text.splitlines(keepends=True)
    fences = [number for number, line in enumerate(lines) if line.startswith("```")]
    if not fences:
        return text
    return "".join(lines[fences[0] + 1 : fences[1] if len(fences) > 1 else None])


class EvolveOutcome(Struct):
    """The result of a search so far. ``held_out`` is set after the evaluation."""

    plan: EvolvePlan
    baseline: str
    base_value: float
    directory: Path
    individuals: list[Individual]
    seeds: int
    held_out: Interval | None = None

    def ranked(self) -> list[Individual]:
        """Return all candidates: successful ones by value, shorter ones first if equal, and then the failed ones."""
        sign = -1 if self.plan.maximize else 1

        def key(individual: Individual) -> tuple[float, int, int]:
            value = math.inf if individual.value is None else sign * individual.value
            return value, individual.proposal.size, individual.id

        return sorted(self.individuals, key=key)

    @property
    def best(self) -> Individual | None:
        """The best candidate, if it is better than the baseline."""
        first = next(iter(self.ranked()), None)
        return first if first is not None and self.compute_gain(first.value) > 0 else None

    def compute_gain(self, value: float | None) -> float:
        """Return by how much a value is better than the baseline, or negative if it is worse."""
        if value is None:
            return -math.inf
        return value - self.base_value if self.plan.maximize else self.base_value - value


def load_evolve_plan(loaded: LoadedExperiment) -> EvolvePlan:
    """Return the plan of an experiment. Raise InputError if it is missing or invalid."""
    experiment, location = loaded.experiment, f"{loaded.where}, evolve"
    plan = experiment.evolve
    if plan is None:
        raise InputError(
            location,
            "the evolve section is missing",
            hint="add it; the page 'Search for policies' of the documentation has an example",
        )
    check_evolve_plan(plan, tuple(experiment.seed_list), location)
    if not plan.held_out_experiment and all(map(experiment.is_exact, experiment.traces)):
        problem = "a fixed trace is the same for all seeds"
        raise InputError(f"{location}.heldOut", problem, hint="write heldOutExperiment: FILE, with other traces")
    return plan


def evolve(
    experiment: LoadedExperiment,
    plan: EvolvePlan,
    results: Results,
    *,
    seed: int = 1,
    workers: int = 0,
    command: str = "",
    show: ShowTrials | None = None,
) -> EvolveOutcome:
    """Search, write the winner and the lineage after each generation, and evaluate the winner on held-out traces.

    A KeyboardInterrupt ends the search early: results are written, and stored in ``outcome_so_far`` of the exception.
    """
    lineage = _read_lineage(results.directory / LINEAGE) if command else []
    proposer: Proposer = CommandProposer(command, plan, lineage) if command else GeneticProposer(seed)
    sandbox = _Sandbox(results.directory / "cache", plan, workers)
    path, seeds = Path(experiment.where), tuple(experiment.experiment.seed_list)
    base = _find_baseline(experiment)
    base_value = _read_value(sandbox.run(base, path, seeds), plan, f"{experiment.where}, {base.name}")
    outcome = EvolveOutcome(plan, base.name, base_value, results.directory, [], len(seeds))
    total = plan.generations * plan.population
    try:
        for generation in range(plan.generations):
            proposals: list[tuple[ProposedCode, Future[Evaluation] | None]] = []
            for proposal in proposer.propose(generation, plan.population, outcome.ranked()):
                future = sandbox.submit(proposal.code, path, seeds) if proposal.code else None
                proposals.append((proposal, future))
            for proposal, future in proposals:
                evaluation = Evaluation("invalid", error=proposal.error) if future is None else future.result()
                outcome.individuals.append(_judge(len(outcome.individuals), generation, proposal, evaluation, plan))
                _write(outcome, experiment, results)
                if show is not None:
                    show(len(outcome.individuals), total, f"generation {generation + 1}")
        if outcome.best is not None:
            outcome.held_out = _evaluate_held_out(experiment, plan, sandbox, outcome.best.proposal.code)
            _write(outcome, experiment, results)
    except KeyboardInterrupt as interrupt:
        interrupt.outcome_so_far = outcome  # type: ignore[attr-defined]
        raise
    finally:
        sandbox.close()
    return outcome


class _Sandbox:
    """Evaluates candidates in parallel processes, with a cache."""

    def __init__(self, cache: Path, plan: EvolvePlan, workers: int) -> None:
        self._cache, self._plan = cache, plan
        # The threads only wait for the processes of the candidates.
        self._pool = ThreadPoolExecutor(workers or count_cores())

    def run(self, candidate: CandidateSource, experiment: Path, seeds: Sequence[int]) -> Evaluation:
        return evaluate(candidate, experiment, time_limit=self._plan.time_limit, seeds=seeds, cache=self._cache)

    def submit(self, candidate: CandidateSource, experiment: Path, seeds: Sequence[int]) -> "Future[Evaluation]":
        return self._pool.submit(self.run, candidate, experiment, seeds)

    def close(self) -> None:
        """Stop running candidates. Their results are not needed any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            with suppress(ValueError):  # it has just been closed
                process.kill()
        self._pool.shutdown()


def _find_baseline(experiment: LoadedExperiment) -> PolicyText:
    return next(policy for policy in experiment.policies if policy.name == experiment.experiment.baseline_name)


def _read_value(evaluation: Evaluation, plan: EvolvePlan, location: str) -> float:
    if not evaluation.is_ok:
        raise InputError(location, f"{evaluation.status}: {evaluation.error}")
    if plan.measure not in evaluation.measures:
        hint = did_you_mean(plan.measure, list(evaluation.measures)) or f"one of {', '.join(evaluation.measures)}"
        raise InputError(location, f"trials have no measure {plan.measure!r}", hint=hint)
    return evaluation.measures[plan.measure]


def _judge(
    number: int, generation: int, proposal: ProposedCode, evaluation: Evaluation, plan: EvolvePlan
) -> Individual:
    value = evaluation.measures.get(plan.measure)
    error = evaluation.error or ("" if value is not None else f"its trials have no measure {plan.measure!r}")
    return Individual(number, generation, proposal, evaluation.status, value, evaluation.measures, error)


def _evaluate_held_out(loaded: LoadedExperiment, plan: EvolvePlan, sandbox: _Sandbox, code: str) -> Interval | None:
    """Return the difference between the winner and the baseline, seed by seed."""
    seeds: Sequence[int] = plan.held_out_seeds(tuple(loaded.experiment.seed_list))
    if plan.held_out_experiment:
        loaded = load_experiment(loaded.directory / plan.held_out_experiment)
        experiment = loaded.experiment
        seeds = experiment.seed_list[:1] if all(map(experiment.is_exact, experiment.traces)) else experiment.seed_list
    base = _find_baseline(loaded)
    values: list[dict[int, float]] = []
    for name, candidate in (("winner", code), (base.name, base)):
        futures = {seed: sandbox.submit(candidate, Path(loaded.where), (seed,)) for seed in seeds}
        location = f"{loaded.where}, {name}"
        values.append({seed: _read_value(future.result(), plan, location) for seed, future in futures.items()})
    return compute_difference(*values)


def _read_lineage(path: Path) -> list[Individual]:
    if not path.exists():
        return []
    try:
        return [msgspec.json.decode(line, type=Individual) for line in read_file(path, limit=MAX_LINEAGE).splitlines()]
    except UNREADABLE as error:
        hint = "remove the file, or choose another --out"
        raise InputError(str(path), f"not a lineage: {error}", hint=hint) from None


def _write(outcome: EvolveOutcome, experiment: LoadedExperiment, results: Results) -> None:
    """Write the lineage and, if one is better than the baseline, the best candidate as a plugin."""
    lines = (msgspec.json.encode(individual, order="deterministic") for individual in outcome.individuals)
    results.write(LINEAGE, b"".join(line + b"\n" for line in lines))
    results.write(REPORT, "".join(f"{line}\n" for line in describe_lineage(outcome)).encode())
    best = outcome.best
    if best is not None:
        results.write(WINNER, write_plugin(best, outcome, Path(experiment.where).name).encode())
        config = msgspec.json.decode(with_score(experiment, PLUGIN).config)
        results.write(CONFIG, dump(config).encode())


def write_plugin(winner: Individual, outcome: EvolveOutcome, experiment: str) -> str:
    """Return the module of a plugin with the code of the winner."""
    value = find_measure(outcome.plan.measure).format(winner.value or 0.0)
    return (
        f"# Found by `moorage lab evolve {experiment}`: candidate {winner.id}, {outcome.plan.measure} {value}.\n"
        f"{winner.proposal.code.rstrip()}\n\n\n"
        "from moorage import score_function  # noqa: E402\n\n\n"
        "@score_function\ndef evolved(pod, node):\n    return round(score(pod, node))\n"
    )


def describe_lineage(outcome: EvolveOutcome) -> list[str]:
    """Describe each generation, and the ancestors of the best candidate."""
    measure = find_measure(outcome.plan.measure)
    lines = [f"{outcome.baseline}: {measure.key} {measure.format(outcome.base_value)}", ""]
    for generation in sorted({individual.generation for individual in outcome.individuals}):
        members = [individual for individual in outcome.ranked() if individual.generation == generation]
        values = [individual.value for individual in members if individual.value is not None]
        summary = "all failed"
        if values:
            best, mean = measure.format(values[0]), measure.format(fmean(values))
            summary = f"best {best} (candidate {members[0].id}), mean {mean}, {len(members) - len(values)} failed"
        lines.append(f"generation {generation + 1}: {len(members)} candidates, {summary}")
    ranked = outcome.ranked()
    if ranked and ranked[0].value is not None:
        lines += ["", "ancestors of the best candidate:", *_describe_ancestors(outcome, ranked[0])]
    return lines


def _describe_ancestors(outcome: EvolveOutcome, winner: Individual) -> Iterator[str]:
    measure = find_measure(outcome.plan.measure)
    queue, ids = [winner.id], set()
    while queue:
        if (number := queue.pop()) not in ids:
            ids.add(number)
            queue += outcome.individuals[number].proposal.parents
    for number in sorted(ids, reverse=True):
        individual = outcome.individuals[number]
        proposal = individual.proposal
        parents = f" of {', '.join(map(str, proposal.parents))}" if proposal.parents else ""
        value = "failed" if individual.value is None else measure.format(individual.value)
        expression = f": {proposal.expression}" if proposal.expression else ""
        yield f"  {number}: {value}, {proposal.origin}{parents}{expression}"


def describe_outcome(outcome: EvolveOutcome) -> list[str]:
    """Describe the result and its confidence."""
    plan, best, measure = outcome.plan, outcome.best, find_measure(outcome.plan.measure)
    failures = [individual for individual in outcome.individuals if individual.value is None]
    lines = [f"{len(outcome.individuals)} candidates, {len(failures)} failed"]
    if failures:
        lines.append(f"first failure: candidate {failures[0].id}: {failures[0].status}: {failures[0].error}")
    base = measure.format(outcome.base_value)
    if best is None or best.value is None:
        seeds = f"{outcome.seeds} seeds" if outcome.seeds != 1 else "1 seed"
        return [*lines, f"nothing is better than {outcome.baseline}, which has {plan.measure} {base} on {seeds}"]
    expression = f": {best.proposal.expression}" if best.proposal.expression else ""
    lines.append(f"best: candidate {best.id}{expression}")
    lines.append(f"searched: {plan.measure} {measure.format(best.value)}, {outcome.baseline} {base}")
    if (interval := outcome.held_out) is not None:
        lines.append(_describe_held_out(outcome, interval, outcome.compute_gain(best.value)))
    return [*lines, f"written: {outcome.directory / WINNER}, {CONFIG}, {REPORT}"]


def _describe_held_out(outcome: EvolveOutcome, interval: Interval, searched_gain: float) -> str:
    plan, measure = outcome.plan, find_measure(outcome.plan.measure)
    median = measure.format_difference(interval.median)
    runs = "1 run" if interval.count == 1 else f"{interval.count} seeds"
    text = f"held out, {runs}: {plan.measure} {median} against {outcome.baseline}"
    gain = interval.median if plan.maximize else -interval.median
    is_significant = interval.is_above if plan.maximize else interval.is_below
    if interval.count == 1:
        text += "; one run has no confidence interval"
    else:
        low, high = measure.format_difference(interval.low), measure.format_difference(interval.high)
        text += f" (95% confidence: {low} to {high})" + ("" if is_significant else "; not significant")
    # Less than half of the gain on new traces: the winner fits the searched traces more than the objective.
    return f"{text}; overfitted to the searched traces" if gain < searched_gain / 2 else text


def make_program_evaluator(
    experiment: Path | str, *, maximize: str = "", minimize: str = "", time_limit: float = 60.0
) -> Callable[[str], dict[str, Any]]:
    """Return ``evaluate(program_path)`` for OpenEvolve and similar programs: it returns metrics, more is better.

    ``combined_score`` is above 0 and increases with the objective. It is 0 if the program fails.
    """
    if bool(maximize) == bool(minimize):
        raise InputError("make_program_evaluator", "the objective is missing or ambiguous", hint="write maximize=...")

    def evaluate_program(program_path: str) -> dict[str, Any]:
        result = evaluate(read_text(program_path), experiment, time_limit=time_limit)
        if not result.is_ok:
            return {"combined_score": 0.0, "error": f"{result.status}: {result.error}"}
        value = _read_value(result, EvolvePlan(maximize, minimize), str(experiment))
        gain = value if maximize else -value
        return {**result.measures, "combined_score": 1 + gain if gain >= 0 else 1 / (1 - gain)}

    return evaluate_program
