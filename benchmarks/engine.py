"""`make bench-engine`: measure the engine alone, with all nodes scored, for several workloads and cluster sizes.

Each row runs in a separate process: its memory is its own, and no row warms up another.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.drain import measure
from benchmarks.engine_workloads import WORKLOADS

SIZES: Final = (1_000, 5_000, 20_000, 100_000)
SIZES_OF: Final = {
    "preemption": (1_000, 5_000),
    "storm": (1_000, 5_000),
    "hopeless": (1_000, 5_000),
    "devices": (1_000, 5_000),
    "csi-volumes": (1_000, 5_000),
}
EXISTING: Final = (10_000, 50_000)
HERE: Final = Path(__file__).resolve().parents[1]


def cases(only: list[str], sizes: list[int]) -> Iterator[tuple[str, int, int]]:
    """List the rows: every workload at its sizes, then identical pods among many existing ones."""
    for name in only or WORKLOADS:
        for size in SIZES_OF.get(name, SIZES):
            if not sizes or size in sizes:
                yield name, size, 0
    if not only:
        for existing in EXISTING:
            yield "identical", 5_000, existing
            yield "spread-hard", 5_000, existing


def main() -> None:
    """Measure, print the table, and write the rows to the output file if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("workloads", nargs="*", choices=[[], *WORKLOADS], help="only these (default: all)")
    parser.add_argument("--nodes", type=int, action="append", default=[], help="only this size; may be repeated")
    parser.add_argument("--seconds", type=float, default=3.0, help="duration of each row")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    parser.add_argument("--one", nargs=3, metavar=("WORKLOAD", "NODES", "EXISTING"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, nodes, existing = options.one
        measured = measure(WORKLOADS[name], int(nodes), existing_pods=int(existing), seconds=options.seconds)
        sys.stdout.write(json.dumps(measured.row()) + "\n")
        return
    rows = [measured_apart(*case, options.seconds) for case in cases(options.workloads, options.nodes)]
    _show(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def measured_apart(name: str, nodes: int, existing: int, seconds: float, tree: Path = HERE) -> dict[str, Any]:
    """Measure one row in a separate process with the code of a checkout."""
    sys.stderr.write(f"{name}, {nodes} nodes, {existing} pods there\n")
    command = [sys.executable, "-m", "benchmarks.engine", "--seconds", str(seconds)]
    process = subprocess.run(
        [*command, "--one", name, str(nodes), str(existing)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
    )
    row: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return row


def _show(rows: list[dict[str, Any]]) -> None:
    table = Table(*(name.replace("_", " ") for name in rows[0]))
    for row in rows:
        table.add_row(*(f"{value:,}" if not isinstance(value, str) else value for value in row.values()))
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
