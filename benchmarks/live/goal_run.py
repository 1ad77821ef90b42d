"""`make bench-goals`: every row of `benchmarks/goals.yaml` in one run, three rounds of each in turns (takes hours)."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.engine import measured_apart
from benchmarks.live import latency, records, workload
from benchmarks.live.comparing import drained
from benchmarks.live.goals import BEFORE, GoalRow, Verdict, judged, load
from benchmarks.live.plane import Plane
from benchmarks.live.schedulers import OURS, is_known
from benchmarks.live.session import control_plane, parser, print_line

ENGINE_SECONDS = 10.0


def main() -> None:
    """Measure all rows, or the given ones, and print each result."""
    command = parser(__doc__, nodes="0")
    command.add_argument("--only", nargs="*", default=[], help="measure only the rows of these workloads")
    command.add_argument(
        "--before", type=Path, help="checkout to compare with: engine rows, and the memory of all other rows"
    )
    options = command.parse_args()
    goal_rows = load()
    if unknown := {*options.only} - {row.name for row in goal_rows}:
        command.error(
            f"unknown rows: {', '.join(sorted(unknown))}; choose from {', '.join(row.name for row in goal_rows)}"
        )
    rows = [row for row in goal_rows if not options.only or row.name in options.only]
    if any(row.engine for row in rows) and options.before is None:
        command.error("engine rows need --before DIR (BEFORE=DIR), a checkout to compare with")
    if options.before is not None and not is_known(_named(options.before)):
        command.error(f"--before {options.before}: not a checkout of moorage")
    with control_plane() as plane:
        for row in rows:
            records.add(options.json, row.section, _measured(plane, row, options), options.flags)
            _print(judged(row, records.read(options.json)))


def _named(checkout: Path) -> str:
    return f"{OURS}@{checkout.resolve()}"


def _measured(plane: Plane, row: GoalRow, options: argparse.Namespace) -> Sequence[Mapping[str, Any]]:
    if row.engine:
        return _engines(row, options)
    work = workload.load(row.workload, row.nodes, row.pods)
    if row.patience:
        work = replace(work, patience=row.patience)
    if work.arriving is not None:
        return latency.measured(plane, work, options)
    rivals = [] if options.before is None or row.is_new else [_named(options.before)]
    rounds = [each.row() for each in drained(plane, work, argparse.Namespace(**{**vars(options), "once": rivals}))]
    return [{**each, "scheduler": BEFORE} if each["scheduler"] in rivals else each for each in rounds]


def _engines(row: GoalRow, options: argparse.Namespace) -> Sequence[Mapping[str, Any]]:
    """Measure the engine of this checkout and of the other in turns."""
    trees = {OURS: Path(__file__).resolve().parents[2], BEFORE: options.before.resolve()}
    results = []
    for number in range(1, options.rounds + 1):
        for scheduler, tree in trees.items() if number % 2 else reversed(trees.items()):
            measured = measured_apart(row.engine, row.nodes, 0, ENGINE_SECONDS, tree)
            results.append(
                {**measured, "pods": row.pods, "placed": measured["pods"], "scheduler": scheduler, "number": number}
            )
            print_line(f"{row.engine} {number} {scheduler}: {measured['pods_per_second']} pods/s")
    return results


def _print(verdicts: Sequence[Verdict]) -> None:
    for each in verdicts:
        rounds = ", ".join(f"{ratio:.2f}" for ratio in each.ratios)
        summary = f"{each.row.name}, {each.row.nodes:,} nodes: {each.measure.title} {each.ratio:.2f} ({rounds})"
        sys.stdout.write(f"{summary}, goal {each.goal:g}: {'met' if each.is_met else 'MISSED'}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
