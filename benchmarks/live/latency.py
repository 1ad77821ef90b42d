"""`make bench-latency`: pods arrive at a constant rate; measure from the event of a pod to the event of its binding.

One watch of one client receives both events, so no clocks are compared.
"""

import argparse
import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final

import uvloop

from benchmarks.live import records, workload
from benchmarks.live.plane import Plane
from benchmarks.live.processes import SessionProcess
from benchmarks.live.session import control_plane, parser, print_line, start, turns
from benchmarks.live.tables import show_latencies
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.pod import Pod
from moorage.kube.client.informer import Informer
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import ApiClient

RATE: Final = 100.0
"""Pods a second."""
PATIENCE: Final = 120.0
"""Timeout of the last pods."""
WARM_UP: Final = 100
"""Pods of the warm-up, which are not measured."""


@dataclass(slots=True)
class Latencies:
    """One turn: milliseconds from creation to binding, in the order of the bindings."""

    workload: str
    nodes: int
    pods: int
    scheduler: str
    number: int
    rate: float
    cpu_ms_per_pod: float = 0.0
    milliseconds: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """Return the percentiles and their inputs."""
        return {**{f"p{part}": percentile(self.milliseconds, part) for part in (50, 90, 99, 100)}, **asdict(self)}


class BindingWatcher:
    """Records when a watch receives a pod and its binding."""

    def __init__(self, client: ApiClient) -> None:
        self.created: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        self._informer: Informer[Pod] = Informer(client, BY_TYPE[Pod], self._see)

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._informer.run()

    def _see(self, _kind: Kind, changes: Sequence[Change[Pod]]) -> None:
        now = time.monotonic()
        for change in changes:
            if change.after is not None:
                self.created.setdefault(change.after.name, now)
                if change.after.node_name:
                    self.bound.setdefault(change.after.name, now)


def percentile(values: Sequence[float], part: int) -> float:
    """Return the smallest value that is not below the given percentage of all values; 0 if there are no values.

    >>> percentile([4, 1, 3, 2], 50)
    2
    """
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * part // 100) - 1)] if ordered else 0.0


def main() -> None:
    """Run the benchmark selected on the command line."""
    command = parser(__doc__, nodes="5000")
    command.add_argument("--rate", type=float, default=RATE, help="pods per second (default: %(default)s)")
    command.add_argument("--pods", type=int, default=0, help="number of pods (default: that of the workload)")
    options = command.parse_args()
    with control_plane() as plane:
        for nodes in options.nodes:
            work = workload.load("latency", nodes, options.pods)
            records.add(options.json, "latency", measured(plane, work, options, options.rate), options.flags)
    show_latencies(records.read(options.json))


def measured(
    plane: Plane, work: workload.Workload, options: argparse.Namespace, rate: float = RATE
) -> list[dict[str, Any]]:
    """Create the cluster of a workload, then create pods at a constant rate for each scheduler in turns."""
    print_line(f"latency: created {work.nodes} nodes in {plane.fill(work):.0f} s")
    rows = []
    for number, name in turns(options, plane):
        result = Latencies(work.name, work.nodes, work.pods, name, number, rate)
        uvloop.run(_measure(plane, work, result, partial(start, options, plane, name)))
        rows.append(result.row())
        print_line(f"latency {number} {name}: p50 {rows[-1]['p50']} ms, p99 {rows[-1]['p99']} ms {result.problems}")
    return rows


async def _measure(
    plane: Plane, work: workload.Workload, result: Latencies, start_one: Callable[[], SessionProcess]
) -> None:
    async with plane.client() as client:
        await plane.quiet()
        watcher = BindingWatcher(client)
        watching = asyncio.create_task(watcher.run())
        process = start_one()
        try:
            await _arrive(client, work, range(WARM_UP), result.rate)
            await _all_bound(watcher, WARM_UP)
            before = process.cpu()
            await _arrive(client, work, range(WARM_UP, WARM_UP + work.pods), result.rate)
            await _all_bound(watcher, WARM_UP + work.pods)
            result.cpu_ms_per_pod = round((process.cpu() - before) / work.pods * 1000, 3)
        finally:
            watching.cancel()
            process.stop()
    counted = list(watcher.bound)[WARM_UP:]
    result.milliseconds = [round((watcher.bound[name] - watcher.created[name]) * 1000, 1) for name in counted]
    if len(counted) != work.pods:
        result.problems.append(f"{len(counted)} of {work.pods} pods were bound")


async def _arrive(client: ApiClient, work: workload.Workload, numbers: range, rate: float) -> None:
    """Create pods at fixed times, regardless of the duration of earlier requests."""
    assert work.arriving is not None
    began = time.monotonic()
    posting = []
    for index, number in enumerate(numbers):
        await asyncio.sleep(max(0.0, began + index / rate - time.monotonic()))
        body = work.arriving.template.made(i=number, nodes=work.nodes, pods=work.pods)
        posting.append(asyncio.create_task(client.request("POST", work.arriving.path, body)))
    await asyncio.gather(*posting)


async def _all_bound(watcher: BindingWatcher, count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(watcher.bound) < count and time.monotonic() < deadline:
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    main()
