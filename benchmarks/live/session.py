"""Shared by all benchmarks on the control plane: start and stop, turns, progress, and options."""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

from benchmarks.live import schedulers
from benchmarks.live.plane import Plane
from benchmarks.live.processes import SessionProcess
from moorage.common.errors import MoorageError

RAW: Final = Path(".bench") / "latest.json"
WHO: Final = f"comma-separated list of {', '.join(schedulers.NAMES)} and {schedulers.OURS}@/another/checkout"


@contextmanager
def control_plane() -> Iterator[Plane]:
    """Run a control plane for the duration of the block; stop all processes, even after errors."""
    signal.signal(signal.SIGTERM, _interrupted)
    directory = Path(tempfile.mkdtemp(prefix="moorage-bench-"))
    plane = Plane(directory)
    try:
        plane.prepare()
        yield plane
    except MoorageError as error:
        sys.exit(f"bench: {error}")
    except KeyboardInterrupt:
        sys.exit("bench: stopped; the raw data contains the finished workloads")
    finally:
        plane.stop()
        shutil.rmtree(directory, ignore_errors=True)


def turns(options: argparse.Namespace, plane: Plane) -> Iterator[tuple[int, str]]:
    """Restore the saved state for each turn; yield the number of the round and the scheduler.

    The schedulers of ``options.once`` have one turn, at the end.
    """
    for number in range(1, options.rounds + 1):
        # The order alternates, so that changes of the machine's load affect both.
        for name in options.schedulers if number % 2 else reversed(options.schedulers):
            plane.restore()
            yield number, name
    for name in options.once:
        plane.restore()
        yield 1, name


def start(options: argparse.Namespace, plane: Plane, name: str, flags: Sequence[str] = ()) -> SessionProcess:
    """Start a scheduler with the flags of a workload; Moorage also with the flags of the command line."""
    return schedulers.start(name, plane, (*flags, *(options.flags if schedulers.is_ours(name) else ())))


def print_line(line: str) -> None:
    """Print a line of progress."""
    sys.stderr.write(f"{_clear()}{time.strftime('%H:%M:%S')} {line}\n")


def print_transient(line: str) -> None:
    """Print progress that the next line overwrites; only on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{_clear()}{line}")


def parser(description: str | None, nodes: str) -> argparse.ArgumentParser:
    """Return a parser with the common options."""
    arguments = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    arguments.add_argument(
        "--nodes", type=_numbers, default=nodes, help="comma-separated numbers of nodes (default: %(default)s)"
    )
    arguments.add_argument("--rounds", type=int, default=3, help="rounds per scheduler (default: %(default)s)")
    arguments.add_argument("--schedulers", type=_schedulers, default=",".join(schedulers.NAMES), help=WHO)
    arguments.add_argument("--flags", type=str.split, default=(), help="additional flags for moorage")
    arguments.set_defaults(once=())
    arguments.add_argument("--json", type=Path, default=RAW, help="output file of the raw data (default: %(default)s)")
    return arguments


def _numbers(text: str) -> Sequence[int]:
    return [int(part) for part in text.split(",")]


def _schedulers(text: str) -> Sequence[str]:
    names = text.split(",")
    if not all(map(schedulers.is_known, names)):
        raise argparse.ArgumentTypeError(f"{text!r}: write {WHO}")
    return names


def _clear() -> str:
    return "\r\x1b[K" if sys.stderr.isatty() else ""


def _interrupted(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt
