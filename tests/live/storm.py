"""A preemption storm: every node is full, and many pods arrive that may preempt others.

``python -m tests.live.storm --nodes 2000 --preemptors 500 --rounds 3`` has both schedulers weather it in turn.
"""

import argparse
import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from rich.console import Console

from moorage.kube.client.rest import ApiClient
from tests.live.cluster import NAMESPACE, LiveCluster
from tests.live.scheduler import COMMAND, scheduler
from tests.support.control_plane import ControlPlane, control_plane

PER_NODE: Final = 4
PATIENCE: Final = 180.0
"""Seconds without a binding after which pending pods are treated as stranded."""
OURS, THEIRS = "moorage", "kube-scheduler"
HIGH: Final = {"metadata": {"name": "storm"}, "value": 1000}


@dataclass(frozen=True)
class Aftermath:
    """The result of a storm, and the time of the last binding."""

    bound: int
    evicted: int
    seconds: float


@dataclass(frozen=True)
class Storm:
    """The number of full nodes, and of pods that each need to preempt one pod."""

    nodes: int
    preemptors: int

    @property
    def names(self) -> list[str]:
        """The preemptors."""
        return [f"high-{number}" for number in range(self.preemptors)]

    async def prepare(self, cluster: LiveCluster) -> None:
        """Fill the cluster with pods that terminate immediately, and create pending ones."""
        await cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", HIGH)
        nodes = [f"node-{number}" for number in range(self.nodes)]
        await cluster.add_nodes(*nodes, cpu="32")
        for node in nodes:
            victims = [f"low-{node}-{number}" for number in range(PER_NODE)]
            await cluster.add_pods(*victims, cpu="8", nodeName=node, terminationGracePeriodSeconds=0)
        await cluster.add_pods(*self.names, cpu="8", priorityClassName="storm")

    async def run(self, cluster: LiveCluster, plane: ControlPlane, name: str) -> Aftermath:
        """Run a scheduler until the pods are placed; the cluster's witness must be running."""
        config = plane.directory / "unlimited.yaml"
        config.write_text(yaml.safe_dump(_unlimited(plane.kubeconfig())))
        program = COMMAND if name == OURS else (str(plane.programs / THEIRS), f"--config={config}")
        with scheduler(plane.kubeconfig(), program=program) as process:
            began = latest = time.monotonic()
            bound = 0
            while bound < self.preemptors and time.monotonic() - latest < PATIENCE:
                await asyncio.sleep(0.05)
                now = self._bound(cluster)
                if now > bound:
                    bound, latest = now, time.monotonic()
            process.stop()
        # Listed, because the witness may not have seen the last evictions yet.
        remaining = sum(1 for name in await cluster.pods() if name.startswith("low-"))
        return Aftermath(bound, self.nodes * PER_NODE - remaining, latest - began)

    def _bound(self, cluster: LiveCluster) -> int:
        pods = cluster.witness.pods
        keys = (f"{NAMESPACE}/{name}" for name in self.names)
        return sum(1 for key in keys if key in pods and pods[key].node_name)


def _unlimited(kubeconfig: Path) -> dict[str, object]:
    """Raise kube-scheduler's client limit of 50 requests per second, which would dominate the time."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 100_000, "burst": 100_000},
    }


async def weather(storm: Storm, plane: ControlPlane, name: str = OURS) -> Aftermath:
    """Run a scheduler on an empty cluster with a storm."""
    async with ApiClient(plane.connection()) as client:
        cluster = LiveCluster(client)
        await storm.prepare(cluster)
        witness = asyncio.create_task(cluster.witness.run())
        try:
            return await storm.run(cluster, plane, name)
        finally:
            witness.cancel()
            await asyncio.gather(witness, return_exceptions=True)


def main() -> int:
    """Print the result of each round; fail if Moorage stranded a pod or evicted a pod unnecessarily."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.storm", description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--preemptors", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scheduler", choices=(OURS, THEIRS), action="append")
    arguments = parser.parse_args()
    storm = Storm(arguments.nodes, arguments.preemptors)
    console = Console()
    failed = False
    for _ in range(arguments.rounds):
        for name in arguments.scheduler or (THEIRS, OURS):
            with control_plane() as plane:
                remaining = asyncio.run(weather(storm, plane, name))
            console.print(f"{name}: {remaining.bound} bound, {remaining.evicted} evicted, {remaining.seconds:.1f} s")
            failed |= name == OURS and (remaining.bound, remaining.evicted) != (storm.preemptors, storm.preemptors)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
