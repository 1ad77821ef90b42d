"""Ask both sides about many clusters, and show the smallest ones on which they differ."""

import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from tests.conformance.compare import Difference, differences
from tests.conformance.coverage import Coverage
from tests.conformance.generator import Case, generate
from tests.conformance.oracle import Oracle, OracleError
from tests.conformance.shrink import shrink

Decide = Callable[[Case], list[dict[str, Any]]]


@dataclass(frozen=True)
class Options:
    """What to run, and how much of it to show."""

    seed: str
    count: int
    features: frozenset[str] = frozenset()
    search: str = "all"
    first: int = 0
    show: int = 3
    shrinks: bool = True
    save: Path | None = None


@dataclass
class Outcome:
    """What came of a run."""

    coverage: Coverage = field(default_factory=Coverage)
    differing: int = 0
    clusters: list[Case] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        seen = self.coverage
        return (
            f"{seen.clusters} clusters, {seen.pods} pods, {seen.verdicts} node verdicts, {self.differing} differences"
        )


def fuzz(options: Options, oracle: Oracle, ours: Decide, console: Console) -> Outcome:
    """Compare as many clusters as asked for."""
    outcome = Outcome()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("comparing", total=options.count)
        for number in range(options.first, options.first + options.count):
            case = generate(f"{options.seed}/{number}", features=options.features, search=options.search)
            _compare(case, options, oracle, ours, outcome, bar.console)
            bar.advance(task)
    return outcome


def _compare(case: Case, options: Options, oracle: Oracle, ours: Decide, outcome: Outcome, console: Console) -> None:  # noqa: PLR0913, PLR0917
    found, theirs = _ask_both(case, oracle, ours)
    if theirs is None:
        outcome.refused.append(case.seed)
        return
    outcome.coverage.add(theirs)
    if not found:
        return
    outcome.differing += len({item.pod for item in found})
    outcome.clusters.append(case)
    if len(outcome.clusters) <= options.show:
        _show(case, found, options, oracle, ours, console)


def _ask_both(case: Case, oracle: Oracle, ours: Decide) -> tuple[list[Difference], list[dict[str, Any]] | None]:
    """Let both sides decide at the same time; no decisions of theirs when they refuse the cluster."""
    oracle.ask(case)
    own, crash = _guarded(ours, case)
    try:
        theirs = oracle.answer()
    except OracleError:
        return [], None
    if crash is not None:
        return [crash], theirs
    return differences(own, theirs), theirs


def _guarded(ours: Decide, case: Case) -> tuple[list[dict[str, Any]], Difference | None]:
    try:
        return ours(case), None
    except Exception as error:  # whatever we raise where kube-scheduler decides is a difference
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        text = f"{type(error).__name__}: {error} ({place})"
        return [], Difference("*", "raised", f"raised {type(error).__name__} {place}", text, "decisions")


def _show(
    case: Case, found: list[Difference], options: Options, oracle: Oracle, ours: Decide, console: Console
) -> None:  # noqa: PLR0913, PLR0917
    kinds = {item.kind for item in found}

    def still_differs(smaller: Case) -> bool:
        now, _ = _ask_both(smaller, oracle, ours)
        return bool(kinds & {item.kind for item in now})

    if options.shrinks:
        case = shrink(case, still_differs)
        found, _ = _ask_both(case, oracle, ours)
    console.rule(f"seed {case.seed}")
    for thing in (*case.objects, *([case.config] if case.config else ())):
        console.print_json(json.dumps(thing), indent=None, highlight=False)
    for item in found[:12]:
        console.print(str(item), markup=False, highlight=False)
    if options.save is not None:
        options.save.mkdir(parents=True, exist_ok=True)
        path = options.save / f"{case.seed.replace('/', '-')}.json"
        path.write_text(json.dumps({"seed": case.seed, **case.request(0)}, indent=1))
