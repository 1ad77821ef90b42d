"""Measure the pause of a reload: building the plugins, and re-admitting all pending pods in one swap."""

import argparse
import asyncio
import sys
from statistics import median
from time import perf_counter

from moorage.cluster.offline import InstantApi
from moorage.common.clock import SystemClock
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.engine.task_pool import TaskBackground
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.testing import make_node, make_pod


def main() -> None:
    """Measure, and print the median and the maximum in milliseconds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reload", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pods", type=int, default=100_000, help="pending pods, half active and half rejected")
    parser.add_argument("--rounds", type=int, default=7, help="reloads")
    options = parser.parse_args()
    times = asyncio.run(measure(options.pods, options.rounds))
    for step, seconds in times.items():
        sys.stdout.write(f"{step}: median {median(seconds) * 1e3:.1f} ms, maximum {max(seconds) * 1e3:.1f} ms\n")


async def measure(pods: int, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each step, for each reload."""
    config, registry = default_config(), Registry(IN_TREE)
    scheduler = Scheduler(
        config,
        registry,
        cluster=InstantApi(),
        background=TaskBackground(),
        clock=SystemClock(),
        features=FeatureGates(),
    )
    scheduler.handlers.apply(None, make_node("n"))
    times: dict[str, list[float]] = {"build": [], "swap": []}
    for _ in range(rounds):
        fill(scheduler, pods)
        began = perf_counter()
        profiles = scheduler.build_profiles(config, registry)
        built = perf_counter()
        scheduler.change_profiles(profiles)
        times["build"].append(built - began)
        times["swap"].append(perf_counter() - built)
        assert len(scheduler.queue) == pods
    return times


def fill(scheduler: Scheduler, pods: int) -> None:
    """Add pending pods under the same names. A plugin rejects every second one."""
    queue = scheduler.queue
    for number in range(pods // 2):
        queue.add(make_pod(f"rejected-{number}", uid=f"r-{number}"))
        queued = queue.pop()
        while isinstance(queued, QueuedPodInfo):
            queued.rejected_by({"NodeResourcesFit"})
            queue.add_unschedulable(queued, queued.pod)
            queued = queue.pop()
    for number in range(pods - pods // 2):
        queue.add(make_pod(f"active-{number}", uid=f"a-{number}"))


if __name__ == "__main__":
    main()
