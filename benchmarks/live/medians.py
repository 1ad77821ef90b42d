"""Medians of rounds, Moorage next to kube-scheduler, and whether the goals of the design are met."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any, Final

from benchmarks.live import workload
from benchmarks.live.schedulers import OURS, THEIRS
from benchmarks.live.workload import Goal

GOAL_NODES: Final = 5_000
"""The design states its goals for this many nodes."""
IDLE: Final = 0.05
"""No core is idle when the machine is idle for less than this share of the time."""
OTHERS: Final = 0.1
"""With a larger share of CPU used by unrelated programs, a measurement is not representative of idle cores."""

Row = Mapping[str, Any]
Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One workload at one size: the medians of both schedulers; empty if not measured or without bindings."""

    workload: str
    title: str
    nodes: int
    pods: int
    ours: Figures
    theirs: Figures
    goal: Goal | None
    problems: int
    rounds: int

    @property
    def speedup(self) -> float:
        """Return Moorage's pods per second divided by kube-scheduler's."""
        return _ratio(self.ours, self.theirs, "pods_per_second")

    @property
    def cpu_ratio(self) -> float:
        """Return kube-scheduler's CPU divided by Moorage's."""
        return _ratio(self.theirs, self.ours, "cpu_ms_per_pod")

    @property
    def goal_here(self) -> Goal | None:
        """Return the goal of the design at this size."""
        return self.goal if self.nodes == GOAL_NODES else None

    @property
    def meets_cpu(self) -> bool:
        """Whether the CPU ratio reaches the goal."""
        return self.goal is not None and self.cpu_ratio >= self.goal.less_cpu

    @property
    def meets_speed(self) -> bool:
        """Whether the speedup reaches the goal."""
        return self.goal is not None and self.speedup >= self.goal.speedup

    @property
    def leaves_no_core_idle(self) -> bool:
        """Whether all cores were busy while Moorage placed pods."""
        return self.ours["idle_share"] <= IDLE and self.ours["others_share"] <= OTHERS

    @property
    def judgement(self) -> str:
        """Describe whether and how the goal is met; empty without a comparison."""
        if self.goal_here is None or not self.ours or not self.theirs:
            return ""
        if self.problems:
            return "missed"
        if self.meets_cpu and self.meets_speed:
            return "met"
        if self.meets_cpu and self.leaves_no_core_idle:
            return "met: CPU at its goal, no core idle"
        return "missed"


def comparisons(rows: Iterable[Row]) -> list[Comparison]:
    """Group the rounds by workload and size."""

    def key(row: Row) -> tuple[int, str, int]:
        return row["nodes"], row["workload"], row["pods"]

    return [_compared(*sizes, list(group)) for sizes, group in groupby(sorted(rows, key=key), key)]


def latencies(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the medians of the turns of each scheduler at each size."""

    def key(row: Row) -> tuple[int, str]:
        return row["nodes"], row["scheduler"]

    return [
        {"nodes": nodes, "scheduler": scheduler, **_medians(list(group))}
        for (nodes, scheduler), group in groupby(sorted(rows, key=key), key)
    ]


def _compared(nodes: int, name: str, pods: int, rows: Sequence[Row]) -> Comparison:
    own_rows = [row for row in rows if row["scheduler"] == OURS]
    rival_rows = [row for row in rows if row["scheduler"] == THEIRS]
    work = workload.load(name, nodes)
    return Comparison(
        workload=name,
        title=work.title,
        nodes=nodes,
        pods=pods,
        ours=_medians(own_rows),
        theirs=_medians(rival_rows),
        goal=work.goal,
        problems=sum(bool(row["problems"]) for row in rows),
        rounds=max(len(own_rows), len(rival_rows)),
    )


def _ratio(above: Figures, below: Figures, figure: str) -> float:
    """Divide one median by another; 0 if either is missing or too small to measure."""
    return above[figure] / below[figure] if above and below and below[figure] else 0.0


def _medians(rows: Sequence[Row]) -> Figures:
    """Return the medians of rounds; empty if no round bound a pod, because the cost per pod is unknown then."""
    if not any(row.get("bound", True) for row in rows):
        return {}
    names = [name for name, value in rows[0].items() if isinstance(value, float | int) and name != "number"]
    return {name: median(row[name] for row in rows) for name in names}
