"""`make bench`, `make bench-start`: both schedulers drain the same pending pods on the same control plane, in turns."""

import argparse
from collections.abc import Sequence
from functools import partial

import uvloop

from benchmarks.live import records, workload
from benchmarks.live.checks import problems
from benchmarks.live.drain import Drain, Round
from benchmarks.live.plane import Plane
from benchmarks.live.session import control_plane, murmur, parser, say, start, turns
from benchmarks.live.tables import show_drains


def main() -> None:
    """Measure what the command line asks for."""
    command = parser(__doc__, nodes="5000")
    command.add_argument("--workloads", type=_names, default="basic", help="names with commas between, or all")
    command.add_argument("--pods", type=int, default=0, help="how many pods (default: what the workload says)")
    options = command.parse_args()
    with control_plane() as plane:
        works = [workload.load(name, nodes, options.pods) for nodes in options.nodes for name in options.workloads]
        for work in works:
            rounds = _compare(plane, work, options)
            records.add(options.json, "drain", [each.row() for each in rounds], options.flags)
    show_drains(records.read(options.json))


def _compare(plane: Plane, work: workload.Workload, options: argparse.Namespace) -> list[Round]:
    say(f"{work.name}: making {work.nodes} nodes and {work.pods} pods")
    say(f"{work.name}: made in {plane.fill(work):.0f} s")
    done: list[Round] = []
    for number, name in turns(options, plane):
        result = Round(work.name, work.nodes, work.pods, name, number, work.bound)
        drain = Drain(plane, work, partial(start, options, plane, name, (*work.gate_flags, *work.flags)), murmur)
        uvloop.run(drain.run(result, problems))
        done.append(result)
        _tell(result)
    return done


def _tell(result: Round) -> None:
    figures = result.figures()
    say(
        f"{result.title}: {figures['pods_per_second']} pods/s, "
        f"{figures['cpu_ms_per_pod']} ms CPU/pod ({figures['cpu_ms_per_pod_after_start']} after the first bind, at "
        f"{figures['seconds_to_first_bind']} s), {result.peak_mib} MiB, idle {figures['idle_share']:.0%}, "
        f"others {figures['others_share']:.0%}"
    )
    for problem in result.problems[:5]:
        say(f"  WRONG: {problem}")


def _names(text: str) -> Sequence[str]:
    return workload.drained() if text == "all" else text.split(",")


if __name__ == "__main__":
    main()
