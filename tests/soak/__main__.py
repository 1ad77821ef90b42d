"""`python -m tests.soak [--minutes 30]`: two replicas on a real API server, under churn and faults; nothing may grow.

Watches are cut, and the API server and the scheduler's processes are killed and restarted: the leader's during the
first half, the standby's during the second. The leader is measured in the second half.
"""

import argparse
import asyncio
import logging
import os
import signal
import time
from collections import Counter
from contextlib import AsyncExitStack
from random import Random
from typing import Any, Final

import structlog
from rich.console import Console
from rich.table import Table

from moorage.kube.client.rest import ApiClient
from tests.live.cluster import Kubelets, LiveCluster, patiently
from tests.live.controllers import controller_manager
from tests.live.invariants import check, check_any_time
from tests.live.kills import PROCESSES, drivers, run_in_background
from tests.live.proxy import CuttableProxy, through
from tests.live.replicas import Replicas
from tests.soak.churn import Churn
from tests.soak.measuring import Growth, Meter
from tests.soak.probing import LIVE, NO_ANSWER, Prober
from tests.support.control_plane import ControlPlane, control_plane, free_ports

LEASE: Final = (
    "--leader-elect-lease-duration=30s",
    "--leader-elect-renew-deadline=25s",
    "--leader-elect-retry-period=2s",
)
"""Longer than a restart of the API server, so the leader keeps its lease."""
PROGRESS_SECONDS: Final = 10.0
CUT_SECONDS: Final = (5.0, 15.0)
MIN_KILL_SECONDS: Final = 10.0
MIN_RESTART_SECONDS: Final = 50.0
MIN_MINUTES_TO_JUDGE: Final = 10.0
"""A shorter soak prints the growth of memory without a verdict: the start dominates it."""


class Soak:
    """The faults, the observations during the run, and the final report."""

    def __init__(self, plane: ControlPlane, minutes: float, seed: int, console: Console) -> None:
        self.problems: list[str] = []
        self.faults: Counter[str] = Counter()
        self._plane = plane
        self._seconds = 60 * minutes
        self._chance = Random(seed)
        self._console = console
        self._seed = seed
        self._began = time.monotonic()

    @property
    def _is_second_half(self) -> bool:
        return time.monotonic() - self._began > self._seconds / 2

    async def run(self) -> None:
        """Run the soak, and print the results."""
        ports = free_ports(2)
        reviews = [
            f"--{description}-kubeconfig={self._plane.kubeconfig()}"
            for description in ("authentication", "authorization")
        ]
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(ApiClient(self._plane.connection()))
            cluster = LiveCluster(client)
            await stack.enter_async_context(run_in_background(Kubelets(client).run(), cluster.witness.run()))
            await stack.enter_async_context(drivers(cluster, self._seed))
            churn = Churn(cluster, self._chance)
            await churn.make_room()
            proxy = await stack.enter_async_context(CuttableProxy(self._plane.api_port).running())
            own = [[f"--secure-port={port}", *reviews] for port in ports]
            replicas = Replicas(through(self._plane, proxy.port), *LEASE, own_flags=own)
            stack.enter_context(replicas.running())
            prober = Prober(ports, self._plane.tokens["admin"])
            meter = Meter(replicas, ports, prober)
            self._began = time.monotonic()
            await self._endure(cluster, churn, proxy, replicas, meter, prober)
            await self._settle(cluster, churn, replicas)
        self._judge(prober, list(meter.growth(self._began + self._seconds / 2, self._seconds / 20)))
        self._report(cluster, churn, replicas, prober)

    async def _endure(
        self, cluster: LiveCluster, churn: Churn, proxy: CuttableProxy, replicas: Replicas, meter: Meter, prober: Prober
    ) -> None:
        work = (
            churn.run(),
            prober.run(),
            meter.run(),
            self._cutting(proxy),
            self._restarting(),
            self._killing(replicas),
            self._watching(cluster),
            self._telling(cluster, churn, meter),
        )
        tasks = [asyncio.create_task(each) for each in work]
        try:
            done, _ = await asyncio.wait(tasks, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
            for task in done:  # no task ends without an error
                await task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _cutting(self, proxy: CuttableProxy) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(*CUT_SECONDS))
            proxy.cut()
            self.faults["all connections cut"] += 1

    async def _restarting(self) -> None:
        """Kill and restart the API server; every second time, compact all versions."""
        while True:
            await asyncio.sleep(max(MIN_RESTART_SECONDS, self._seconds / 8))
            # Not interrupted: a stopped server at the end would not be a result.
            await asyncio.shield(asyncio.to_thread(self._restart))

    def _restart(self) -> None:
        self._plane.kill_api_server()
        if self.faults["API server killed"] % 2:
            self._plane.compact()
        self._plane.start_api_server()
        self.faults["API server killed"] += 1

    async def _killing(self, replicas: Replicas) -> None:
        """Kill only after a replica has led for a while; two restarting replicas would do no work."""
        pause = max(MIN_KILL_SECONDS, self._seconds / 40)
        led_since = time.monotonic()
        while True:
            await asyncio.sleep(0.5)
            replicas.keep_up()
            if not replicas.leading():
                led_since = time.monotonic()
            elif time.monotonic() - led_since > pause:
                led_since = time.monotonic()
                process, second = self._chance.choice(PROCESSES), self._is_second_half
                kill = replicas.kill_standby if second else replicas.kill_leader
                await asyncio.to_thread(kill, only_child=process == "scheduler")
                self.faults[f"{process} of who {'waits' if second else 'leads'} killed"] += 1

    async def _watching(self, cluster: LiveCluster) -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            await patiently(lambda: check_any_time(cluster, nodes_leave=True))

    async def _telling(self, cluster: LiveCluster, churn: Churn, meter: Meter) -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            waiting = sum(1 for pod in cluster.witness.pods.values() if not pod.node_name)
            now = ", ".join(f"{name} {value:.0f}" for name, value in meter.latest.items() if "threads" not in name)
            pods = f"{churn.created} pods created, {cluster.witness.bound} bound, {waiting} wait"
            line = f"{time.monotonic() - self._began:5.0f} s  {pods}, {self.faults.total()} faults; {now}"
            self._console.print(line, soft_wrap=True, highlight=False)

    async def _settle(self, cluster: LiveCluster, churn: Churn, replicas: Replicas) -> None:
        """Wait until all created pods are bound, and check the invariants."""
        async with run_in_background(_keeping_up(replicas)):
            await churn.settle()
            await cluster.wait_for("all pods are bound", lambda pods: all(pod.node_name for pod in pods.values()))
            await churn.settle()
            await check(cluster)

    def _judge(self, prober: Prober, growth: list[Growth]) -> None:
        table = Table("who leads, second half", "first", "last", "growth an hour", "± at 95 %", "growth", "allowed", "")
        for each in growth:
            hourly = (each.slope.per_second * 3600, each.slope.margin * 3600)
            complete = each.slope.per_second * each.seconds
            verdict = "GROWS" if each.is_too_much else "ok"
            numbers = (each.first, each.last, *hourly, complete, each.quantity.allowed)
            table.add_row(each.quantity.name, *(f"{number:.1f}" for number in numbers), verdict)
        self._console.print(table)
        if self._seconds >= 60 * MIN_MINUTES_TO_JUDGE:
            self.problems += [f"{each.quantity.name} grows" for each in growth if each.is_too_much]
            if not growth:
                self.problems.append("nothing was measured for long enough to tell whether it grows")
        else:
            self._console.print(f"Growth is judged from {MIN_MINUTES_TO_JUDGE:g} minutes on.")
        if red := set(prober.answers[LIVE].statuses) - {"200", NO_ANSWER}:
            self.problems.append(f"{LIVE} was answered with {sorted(red)}")

    def _report(self, cluster: LiveCluster, churn: Churn, replicas: Replicas, prober: Prober) -> None:
        table = Table("what happened", "how often")
        rows: dict[str, Any] = {
            "pods created": churn.created,
            "pods bound, each once": cluster.witness.bound,
            "deleted nodes": churn.nodes_gone,
            **dict(sorted(self.faults.items())),
            "expired leases": replicas.losses,
            **prober.answers,
        }
        for name, value in rows.items():
            table.add_row(name, str(value))
        self._console.print(table)


async def _keeping_up(replicas: Replicas) -> None:
    while True:
        replicas.keep_up()
        await asyncio.sleep(0.5)


def main() -> int:
    """Run the soak; return whether all checks passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MOORAGE_SEED", "1")))
    options = parser.parse_args()
    console = Console(width=140)
    # Outages of the server are intended and need no log.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # always stop the started processes
    with control_plane() as plane, controller_manager(plane):
        soak = Soak(plane, options.minutes, options.seed, console)
        try:
            asyncio.run(soak.run())
        except AssertionError as broken:
            notes = "\n".join(getattr(broken, "__notes__", ()))
            soak.problems.append(f"{broken}\n{notes}")
    for problem in soak.problems:
        console.print(f"PROBLEM {problem}", soft_wrap=True, markup=False, highlight=False)
    console.print("It held." if not soak.problems else f"{len(soak.problems)} problems")
    return 1 if soak.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
