"""Both schedulers drain the same pods in turns."""

import argparse
from functools import partial

import uvloop

from benchmarks.live.checks import problems
from benchmarks.live.drain import Drain, Round
from benchmarks.live.plane import Plane
from benchmarks.live.session import print_line, print_transient, start, turns
from benchmarks.live.workload import Workload


def drained(plane: Plane, work: Workload, options: argparse.Namespace) -> list[Round]:
    """Create the cluster of a workload, and let each scheduler place its pods in each round."""
    print_line(f"{work.name}: creating {work.nodes} nodes and {work.pods} pods")
    print_line(f"{work.name}: created in {plane.fill(work):.0f} s")
    results: list[Round] = []
    for number, name in turns(options, plane):
        result = Round(work.name, work.nodes, work.pods, name, number, work.bound)
        drain = Drain(
            plane, work, partial(start, options, plane, name, (*work.gate_flags, *work.flags)), print_transient
        )
        uvloop.run(drain.run(result, problems))
        results.append(result)
        _print(result)
    return results


def _print(result: Round) -> None:
    figures = result.figures()
    print_line(
        f"{result.title}: {figures['pods_per_second']} pods/s, "
        f"{figures['cpu_ms_per_pod']} ms CPU/pod ({figures['cpu_ms_per_pod_after_start']} after the first bind, at "
        f"{figures['seconds_to_first_bind']} s), {result.peak_mib} MiB, idle {figures['idle_share']:.0%}, "
        f"others {figures['others_share']:.0%}"
    )
    for problem in result.problems[:5]:
        print_line(f"  WRONG: {problem}")
