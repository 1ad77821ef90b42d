"""`make bench`: both schedulers drain the same pending pods on the same control plane, taking turns."""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import uvloop

from benchmarks.live import records, schedulers, workload
from benchmarks.live.checks import problems
from benchmarks.live.drain import Drain, Round
from benchmarks.live.plane import Plane
from benchmarks.live.tables import show
from moorage.errors import MoorageError

RAW: Final = Path(".bench") / "latest.json"


def main() -> None:
    """Measure what the command line asks for."""
    options = _options()
    signal.signal(signal.SIGTERM, _terminated)
    try:
        with plane() as running:
            for nodes in options.nodes:
                for name in options.workloads:
                    rounds = _compare(running, workload.load(name, nodes, options.pods), options)
                    records.add(options.json, "drain", [each.row() for each in rounds])
        show(records.read(options.json))
    except MoorageError as error:
        sys.exit(f"bench: {error}")
    except KeyboardInterrupt:
        sys.exit("bench: stopped; what was measured so far is in the raw data")


@contextmanager
def plane() -> Iterator[Plane]:
    """Run a control plane for as long as the block lasts."""
    folder = Path(tempfile.mkdtemp(prefix="moorage-bench-"))
    running = Plane(folder)
    try:
        running.prepare()
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


def say(line: str) -> None:
    """Show progress."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")


def _compare(running: Plane, work: workload.Workload, options: argparse.Namespace) -> list[Round]:
    say(f"{work.name}: making {work.nodes} nodes and {work.pods} pods")
    say(f"{work.name}: made in {running.fill(work):.0f} s")
    done: list[Round] = []
    for number in range(1, options.rounds + 1):
        # Who goes first changes: whatever the machine does in the meantime hits both.
        for name in options.schedulers if number % 2 else reversed(options.schedulers):
            running.restore()
            start = partial(schedulers.start, name, running, options.flags if name == schedulers.OURS else ())
            drain = Drain(running, work, start, partial(_progress, f"{work.name} {number} {name}"))
            result = Round(work.name, work.nodes, work.pods, name, number, work.bound)
            uvloop.run(drain.run(result, problems))
            done.append(result)
            _tell(result)
    return done


def _progress(what: str, line: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{what}: {line}")


def _tell(result: Round) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    figures = result.figures()
    say(
        f"{result.workload} {result.number} {result.scheduler}: {figures['pods_per_second']} pods/s, "
        f"{figures['cpu_ms_per_pod']} ms CPU/pod ({figures['cpu_ms_per_pod_after_start']} after the first bind, at "
        f"{figures['seconds_to_first_bind']} s), {result.peak_mib} MiB, idle {figures['idle_share']:.0%}, "
        f"others {figures['others_share']:.0%}"
    )
    for problem in result.problems[:5]:
        say(f"  WRONG: {problem}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    parser.add_argument("--workloads", type=_names, default="basic", help="names with commas between, or all")
    parser.add_argument("--nodes", type=_numbers, default="5000", help="sizes with commas between")
    parser.add_argument("--pods", type=int, default=0, help="how many pods (default: what the workload says)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--schedulers", type=_schedulers, default=",".join(schedulers.NAMES))
    parser.add_argument("--flags", type=str.split, default=(), help="more flags for moorage, to try something out")
    parser.add_argument("--json", type=Path, default=RAW, help="where the raw data goes (default: %(default)s)")
    return parser.parse_args()


def _names(text: str) -> Sequence[str]:
    return workload.names() if text == "all" else text.split(",")


def _numbers(text: str) -> Sequence[int]:
    return [int(part) for part in text.split(",")]


def _schedulers(text: str) -> Sequence[str]:
    chosen = text.split(",")
    if not set(chosen) <= set(schedulers.NAMES):
        raise argparse.ArgumentTypeError(f"{text!r}: write one or both of {', '.join(schedulers.NAMES)}")
    return chosen


def _terminated(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
