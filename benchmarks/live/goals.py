"""The rows of `benchmarks/goals.yaml`: goals, and their results in the raw data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
import yaml

from benchmarks.live.schedulers import OURS, THEIRS
from moorage.common.errors import InputError

FILE: Final = Path(__file__).resolve().parents[1] / "goals.yaml"
LATENCY: Final = "latency"
BEFORE: Final = "before"
"""The scheduler name of the other checkout."""


@dataclass(frozen=True, slots=True)
class Measure:
    """How a goal is read from the raw data: the figure, the order of the ratio, and its better direction."""

    title: str
    figure: str
    unit: str
    is_theirs_by_ours: bool = False
    is_more_better: bool = False


MEASURES: Final[Mapping[str, Measure]] = {
    "less_cpu": Measure("less CPU", "cpu_seconds", "s", is_theirs_by_ours=True, is_more_better=True),
    "speed": Measure("speed", "pods_per_second", "pods/s", is_more_better=True),
    "last_bind": Measure("last binding", "seconds_to_last_bind", "s"),
    "first_bind": Measure("first binding", "seconds_to_first_bind", "s"),
    "memory": Measure("memory", "peak_mib", "MiB"),
    "p50": Measure("p50", "p50", "ms"),
    "p99": Measure("p99", "p99", "ms"),
}


class GoalRow(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One row, as written."""

    nodes: int
    goals: dict[str, float]
    workload: str = ""
    engine: str = ""
    pods: int = 0
    patience: float = 0.0
    is_new: bool = False
    """Whether the earlier code did not support this workload."""
    limit: str = ""
    """The reason of a missed goal, written by a person."""

    @property
    def name(self) -> str:
        """The name of the workload or of the engine's workload."""
        return self.workload or self.engine

    @property
    def section(self) -> str:
        """The section of the raw data with its rounds."""
        return "engine" if self.engine else LATENCY if self.workload == LATENCY else "drain"

    @property
    def rival(self) -> str:
        """The scheduler that this row compares with."""
        return BEFORE if self.engine else THEIRS

    def turns(self, content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Return all turns of this row."""
        for row in content.get(self.section, ()):
            if (row["workload"], row["nodes"], row["pods"]) == (self.name, self.nodes, self.pods):
                yield row

    def rounds(self, content: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Return the pair of turns of each complete round."""
        by_number: dict[int, dict[str, Mapping[str, Any]]] = {}
        for row in self.turns(content):
            by_number.setdefault(row["number"], {})[row["scheduler"]] = row
        complete = (turns for _, turns in sorted(by_number.items()) if {OURS, self.rival} <= turns.keys())
        return [(turns[OURS], turns[self.rival]) for turns in complete]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one goal: the ratio of the medians, the ratio of each round, and whether the goal is met."""

    row: GoalRow
    measure: Measure
    goal: float
    ours: float
    theirs: float
    ratios: Sequence[float]
    is_bound_only: bool
    """Whether the other scheduler did not finish: the ratio is a lower bound."""

    @property
    def ratio(self) -> float:
        """The ratio of the medians."""
        return _ratio(self.measure, self.ours, self.theirs)

    @property
    def is_met(self) -> bool:
        """Whether the goal is met."""
        return self.ratio >= self.goal if self.measure.is_more_better else self.ratio <= self.goal


def load(path: Path = FILE) -> list[GoalRow]:
    """Read the rows."""
    try:
        rows = msgspec.convert(yaml.safe_load(path.read_text()), list[GoalRow])
    except (OSError, msgspec.ValidationError, yaml.YAMLError) as error:
        raise InputError(str(path), str(error)) from error
    for row in rows:
        if not row.goals.keys() <= MEASURES.keys() or bool(row.workload) == bool(row.engine):
            raise InputError(str(path), f"{row}: a workload or an engine, and goals of {', '.join(MEASURES)}")
    return rows


def judged(row: GoalRow, content: Mapping[str, Any]) -> list[Verdict]:
    """Return the verdict for each goal of a row; no verdicts if the row was not measured."""
    verdicts = []
    for name, goal in row.goals.items():
        measure = MEASURES[name]
        rounds = [turns for turns in row.rounds(content) if all(measure.figure in turn for turn in turns)]
        if rounds:
            own_values, rival_values = ([turn[measure.figure] for turn in turns] for turns in zip(*rounds, strict=True))
            ratios = [_ratio(measure, *pair) for pair in zip(own_values, rival_values, strict=True)]
            is_bound_only = any(_gave_up(turn) for _, turn in rounds)
            verdicts.append(
                Verdict(row, measure, goal, median(own_values), median(rival_values), ratios, is_bound_only)
            )
    return verdicts


def peaks(row: GoalRow, content: Mapping[str, Any]) -> dict[str, float]:
    """Return the median peak memory of a row by scheduler; empty if it was not measured."""
    by_scheduler: dict[str, list[float]] = {}
    for turn in row.turns(content):
        if "peak_mib" in turn:
            by_scheduler.setdefault(turn["scheduler"], []).append(turn["peak_mib"])
    return {scheduler: median(values) for scheduler, values in by_scheduler.items()}


def _gave_up(turn: Mapping[str, Any]) -> bool:
    return "expected" in turn and turn["bound"] < turn["expected"]


def _ratio(measure: Measure, own_value: float, rival_value: float) -> float:
    above, below = (rival_value, own_value) if measure.is_theirs_by_ours else (own_value, rival_value)
    return above / below if below else 0.0
