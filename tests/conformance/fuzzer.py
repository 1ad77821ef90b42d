"""Run both sides on many clusters, and show the smallest ones on which they differ."""

import json
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress

from moorage.common.version import RELEASE
from tests.conformance.compare import Difference, differences
from tests.conformance.coverage import Coverage
from tests.conformance.generator import Case, generate
from tests.conformance.oracle import Oracle, OracleError
from tests.conformance.shrink import shrink

MAX_OBJECTS: Final = 30
REPETITIONS: Final = 30
"""Runs of a cluster that differs: some results of kube-scheduler depend on the order of a Go map."""
Decide = Callable[[Case], list[dict[str, Any]]]


@dataclass(frozen=True)
class Options:
    """The clusters to run, and the amount of output."""

    seed: str
    count: int
    features: frozenset[str] = frozenset()
    search: str = "all"
    without: tuple[str, ...] = ()
    first: int = 0
    show: int = 3
    shrinks: bool = True
    save: Path | None = None
    release: str = RELEASE


@dataclass
class Outcome:
    """The result of a run."""

    coverage: Coverage = field(default_factory=Coverage)
    differing: int = 0
    varying: int = 0
    clusters: list[Case] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        observed = self.coverage
        groups = f"{observed.groups} attempts of groups, " if observed.groups else ""
        counted = f"{observed.clusters} clusters, {observed.pods} pods, {groups}{observed.verdicts} node verdicts"
        varying = f" ({self.varying} clusters have varying results of kube-scheduler)" if self.varying else ""
        return f"{counted}, {self.differing} differences{varying}"


class Fuzzer:
    """Both sides, and the output for differences."""

    def __init__(self, options: Options, oracle: Oracle, decide: Decide, console: Console) -> None:
        self._options = options
        self._oracle = oracle
        self._ours = decide
        self._console = console
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Compare the requested number of clusters."""
        selected = self._options
        with Progress(console=self._console, transient=True, disable=not self._console.is_terminal) as bar:
            task = bar.add_task("comparing", total=selected.count)
            for number in range(selected.first, selected.first + selected.count):
                self._compare(generate(f"{selected.seed}/{number}", features=selected.features, search=selected.search))
                bar.advance(task)
        return self.outcome

    def _compare(self, case: Case) -> None:
        mismatches, upstream = self._ask_both(case)
        if upstream is None:
            self.outcome.refused.append(case.seed)
            return
        self.outcome.coverage.add(upstream)
        if not mismatches:
            return
        if any(self._agrees(case) for _ in range(REPETITIONS)):
            self.outcome.varying += 1
            return
        self.outcome.differing += len({item.pod for item in mismatches})
        self.outcome.clusters.append(case)
        self.outcome.kinds[", ".join(sorted({item.kind for item in mismatches}))] += 1
        if len(self.outcome.clusters) <= self._options.show:
            self._show(case, mismatches)

    def _agrees(self, case: Case) -> bool:
        mismatches, upstream = self._ask_both(case)
        return upstream is not None and not mismatches

    def _ask_both(self, case: Case) -> tuple[list[Difference], list[dict[str, Any]] | None]:
        """Run both sides in parallel; return no decisions of the oracle if it rejects the cluster."""
        case = case.without(self._options.without)
        self._oracle.ask(case)
        own, crash = guarded(self._ours, case)
        try:
            upstream = self._oracle.answer()
        except OracleError:
            return [], None
        return [crash] if crash is not None else differences(own, upstream), upstream

    def _show(self, case: Case, mismatches: list[Difference]) -> None:
        kinds = {item.kind for item in mismatches}

        def still_differs(smaller: Case) -> bool:
            now, _ = self._ask_both(smaller)
            return bool(kinds & {item.kind for item in now})

        if self._options.shrinks:
            case = shrink(case, still_differs)
            mismatches, _ = self._ask_both(case)
        self._console.rule(f"seed {case.seed}")
        for obj in (*([case.config] if case.config else ()), *case.objects[:MAX_OBJECTS]):
            self._console.print(json.dumps(obj), markup=False, highlight=False)
        if len(case.objects) > MAX_OBJECTS:
            self._console.print(f"and {len(case.objects) - MAX_OBJECTS} more objects", highlight=False)
        for item in mismatches[:12]:
            self._console.print(str(item), markup=False, highlight=False)
        if self._options.save is not None:
            _save(case, self._options.save)


def guarded(decide: Decide, case: Case) -> tuple[list[dict[str, Any]], Difference | None]:
    """Run one side; an exception is a difference."""
    try:
        return decide(case), None
    except Exception as error:  # any exception of ours where kube-scheduler decides is a difference
        where = traceback.extract_tb(error.__traceback__)[-1]
        location = f"{Path(where.filename).name}:{where.lineno}"
        text = f"{type(error).__name__}: {error} ({location})"
        return [], Difference("*", "raised", f"raised {type(error).__name__} {location}", text, "decisions")


def _save(case: Case, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{case.seed.replace('/', '-')}.json"
    path.write_text(json.dumps({"seed": case.seed, **case.request(0)}, indent=1))
