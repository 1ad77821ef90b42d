"""One round: a scheduler is started on a cluster full of pending pods and watched until all are placed."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from benchmarks.live.churn import churning
from benchmarks.live.counting import BINDING, requests
from benchmarks.live.plane import Plane
from benchmarks.live.processes import Machine, SessionProcess, read_cpu_seconds
from benchmarks.live.workload import Workload
from moorage.kube.client.rest import ApiClient

SETTLE_SECONDS: Final = 90.0
SHORT: Final = 0.2
LONG: Final = 1.0
"""Reading the metrics costs the server milliseconds: read them often only around the first and last binding."""

PrintLine = Callable[[str], None]
Check = Callable[[ApiClient, Workload], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class Reading:
    """The state at one moment: CPU seconds, except ``seconds`` (since the scheduler was started) and ``bound``."""

    seconds: float
    bound: int
    scheduler: float
    api: float
    etcd: float
    bench: float
    idle: float
    busy: float


@dataclass(slots=True)
class Round:
    """The measurements of one round; the raw data of the report is a list of rounds."""

    workload: str
    nodes: int
    pods: int
    scheduler: str
    number: int
    expected: int
    readings: list[Reading] = field(default_factory=list)
    requests: dict[str, int] = field(default_factory=dict)
    refused_bindings: int = 0
    settled_cpu: float = 0.0
    peak_mib: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Return the prefix of progress lines."""
        return f"{self.workload} {self.number} {self.scheduler}"

    @property
    def first(self) -> Reading:
        """Return the first reading with a binding."""
        return next((reading for reading in self.readings if reading.bound), self.readings[-1])

    @property
    def last(self) -> Reading:
        """Return the first reading with all bindings, or the last reading."""
        return next((reading for reading in self.readings if reading.bound >= self.expected), self.readings[-1])

    def row(self) -> dict[str, Any]:
        """Return the figures, and the readings they come from."""
        return {**self.figures(), **asdict(self), "readings": [list(asdict(each).values()) for each in self.readings]}

    def figures(self) -> dict[str, float]:
        """Compute the figures of the tables."""
        first, last = self.first, self.last
        seconds = last.seconds - first.seconds
        bound = last.bound - first.bound
        cores = seconds * (os.cpu_count() or 1)
        measured = sum(getattr(last, name) - getattr(first, name) for name in ("scheduler", "api", "etcd", "bench"))

        def ms_per_pod(cpu: float, pods: int) -> float:
            return round(cpu / pods * 1000, 3) if pods else 0.0

        def share(cpu: float) -> float:
            return round(cpu / cores, 3) if cores else 0.0

        return {
            "bound": last.bound,
            "pods_per_second": round(bound / seconds, 1) if seconds else 0.0,
            "seconds_to_first_bind": round(first.seconds, 2),
            "seconds_to_last_bind": round(last.seconds, 2),
            "cpu_seconds": last.scheduler,
            "cpu_ms_per_pod": ms_per_pod(last.scheduler, last.bound),
            "cpu_ms_per_pod_after_start": ms_per_pod(last.scheduler - first.scheduler, bound),
            "cpu_ms_per_pod_settled": ms_per_pod(self.settled_cpu, last.bound),
            "api_cpu_ms_per_pod": ms_per_pod(last.api - first.api, bound),
            "etcd_cpu_ms_per_pod": ms_per_pod(last.etcd - first.etcd, bound),
            "server_cpu_ms_per_pod": ms_per_pod(last.api + last.etcd - first.api - first.etcd, bound),
            "idle_share": share(last.idle - first.idle),
            "others_share": share(max(0.0, last.busy - first.busy - measured)),
        }


class Drain:
    """Runs one round with the scheduler that ``start`` starts."""

    def __init__(
        self, plane: Plane, workload: Workload, start: Callable[[], SessionProcess], print_line: PrintLine
    ) -> None:
        self.plane = plane
        self.workload = workload
        self._start = start
        self._print_line = print_line

    async def run(self, result: Round, check: Check) -> None:
        """Start the scheduler, measure until all pods are placed, stop it and check the cluster."""
        async with self.plane.client() as client:
            await self.plane.quiet()
            before = await requests(client)
            process = self._start()
            churn = asyncio.create_task(churning(client, self.workload))
            try:
                await self._measure(client, process, result)
                await self._settle(client, process, result, check)
                now = await requests(client)
            finally:
                churn.cancel()
                process.stop()
            with suppress(asyncio.CancelledError):
                await churn
            if now.bound > result.expected:
                result.problems.append(f"{now.bound} bindings were made for {result.expected} pods")
            result.requests = now.since(before)
            result.refused_bindings = now.refused[BINDING]

    async def _measure(self, client: ApiClient, process: SessionProcess, result: Round) -> None:
        progress = time.monotonic()
        while True:
            if not process.is_running:
                raise RuntimeError(f"{result.scheduler} exited:\n{process.log_end}")
            now = await requests(client)
            result.readings.append(self._read(process, now.bound))
            if len(result.readings) > 1 and now.bound > result.readings[-2].bound:
                progress = time.monotonic()
                after = result.readings[-1].seconds
                self._print_line(f"{result.title}: {now.bound} of {result.expected} bound after {after:.1f} s")
            if now.bound >= result.expected:
                return
            if time.monotonic() - progress > (patience := self.workload.patience):
                result.problems.append(f"only {now.bound} of {result.expected} bound: no binding for {patience:g} s")
                return
            await asyncio.sleep(_pause(result))

    def _read(self, process: SessionProcess, bound: int) -> Reading:
        api, etcd = self.plane.cpu()
        machine = Machine.now()
        return Reading(
            seconds=round(time.monotonic() - process.started, 3),
            bound=bound,
            scheduler=round(process.cpu(), 2),
            api=round(api, 2),
            etcd=round(etcd, 2),
            bench=round(read_cpu_seconds(os.getpid()), 2),
            idle=round(machine.idle, 2),
            busy=round(machine.busy, 2),
        )

    async def _settle(self, client: ApiClient, process: SessionProcess, result: Round, check: Check) -> None:
        """Wait for pending writes, then check the cluster; retry, because problems may be temporary."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            await _until_quiet(process)
            result.settled_cpu = result.settled_cpu or round(process.cpu(), 2)
            problems = await check(client, self.workload)
            if not problems or time.monotonic() > deadline or result.problems:
                break
        result.problems += problems
        result.peak_mib = round(process.peak_mib(), 1)


def _pause(result: Round) -> float:
    """Return the time to the next reading: short around the first and the last binding."""
    first, now = result.first, result.readings[-1]
    if not now.bound or now.seconds == first.seconds:
        return SHORT
    rate = (now.bound - first.bound) / (now.seconds - first.seconds)
    remaining = (result.expected - now.bound) / rate if rate else LONG
    return max(SHORT / 2, min(LONG, remaining / 2))


async def _until_quiet(process: SessionProcess) -> None:
    """Wait until the scheduler is idle for a second, at most 15 seconds."""
    for _ in range(15):
        before = process.cpu()
        await asyncio.sleep(1.0)
        if process.cpu() - before < 0.1:
            return
