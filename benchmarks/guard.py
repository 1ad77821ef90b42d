"""`make guard`: compare the cost of a scheduled pod with recorded ceilings; counts, not times.

Three counts are the same on every machine, under any load: function calls (Python and C), peak bytes (an additional
pass over all nodes shows here), and memory blocks that remain allocated. Each workload runs in a separate process with
a fixed hash seed. `make guard-record` writes new ceilings, a tenth above the present counts.
"""

import argparse
import asyncio
import gc
import json
import math
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.drain import Rig
from benchmarks.engine_workloads import WORKLOADS
from moorage.common.version import RELEASE, RELEASES
from moorage.kube.features import FeatureGates

CEILINGS: Final = Path(__file__).with_name("guard.json")
GUARDED: Final = (
    *("identical", "own-shape", "anti-affinity", "affinity", "spread-hard", "spread-soft", "storm"),
    *("daemonset", "devices"),
)
NODES: Final = 1_000
WARM_UP: Final = 200
COUNTED: Final = 200
SLACK: Final = 1.1
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"

Counts = Mapping[str, float]


def main() -> None:
    """Count, and compare with the ceilings or write them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write new ceilings instead of comparing")
    parser.add_argument("--emulated-version", default=RELEASE, choices=RELEASES, help="Kubernetes release to emulate")
    parser.add_argument("--one", choices=WORKLOADS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            _print_line(json.dumps(runner.run(counted(options.one, options.emulated_version))))
        return
    results = {name: _counted_apart(name, options.emulated_version) for name in GUARDED}
    if options.record:
        ceilings = {
            name: {kind: math.ceil(n * SLACK) for kind, n in counts.items()} for name, counts in results.items()
        }
        CEILINGS.write_text(json.dumps({"python": PYTHON, "ceilings": ceilings}, indent=1) + "\n")
        return
    recorded = json.loads(CEILINGS.read_text())
    if recorded["python"] != PYTHON:
        _print_line(
            f"The ceilings were recorded with Python {recorded['python']}, this is {PYTHON}: counts differ by a little."
        )
    sys.exit(1 if judged(results, recorded["ceilings"]) else 0)


def judged(results: Mapping[str, Counts], ceilings: Mapping[str, Counts]) -> int:
    """Print the counts next to their ceilings; return the number of counts above them."""
    above = 0
    for name, counts in results.items():
        for kind, count in counts.items():
            ceiling = ceilings.get(name, {}).get(kind, 0)
            above += count > ceiling
            _print_line(f"{name:15} {kind:18} {count:12,.1f} of {ceiling:10,} {'TOO MANY' if count > ceiling else ''}")
    if above:
        _print_line(
            f"{above} counts are above their ceilings: make pods cheaper, or justify it and run `make guard-record`"
        )
    return above


async def counted(name: str, release: str = RELEASE) -> Counts:
    """Count the calls and the memory of a placed pod after a warm-up."""
    rig = Rig(WORKLOADS[name], NODES, features=FeatureGates(release=release))
    await _place(rig, WARM_UP)
    return {
        "calls": await _calls(rig),
        "passing_bytes": await _passing_bytes(rig),
        "blocks_kept": await _blocks_kept(rig),
    }


async def _calls(rig: Rig) -> float:
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    rig.add(COUNTED)
    sys.setprofile(count)
    await rig.drain()
    sys.setprofile(None)
    return calls / COUNTED


async def _passing_bytes(rig: Rig) -> float:
    total = 0
    tracemalloc.start()
    for _ in range(COUNTED):
        rig.add(1)
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        await rig.drain()
        total += tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return total / COUNTED


async def _blocks_kept(rig: Rig) -> float:
    gc.collect()
    before = sys.getallocatedblocks()
    await _place(rig, COUNTED)
    gc.collect()
    return (sys.getallocatedblocks() - before) / COUNTED


async def _place(rig: Rig, pods: int) -> None:
    rig.add(pods)
    await rig.drain()


def _counted_apart(name: str, release: str) -> Counts:
    command = [sys.executable, "-m", "benchmarks.guard", "--one", name, "--emulated-version", release]
    process = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, "PYTHONHASHSEED": "0"})
    counts: Counts = json.loads(process.stdout)
    return counts


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
