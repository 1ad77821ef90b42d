"""No pod is lost and no node is overcommitted after crashes and cut connections."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from tests.live.cluster import LiveCluster, bound
from tests.live.proxy import CuttableProxy, through
from tests.live.replicas import Replicas, all_bound
from tests.live.scheduler import scheduler
from tests.support.control_plane import ControlPlane

Live = Callable[[Callable[[LiveCluster], Awaitable[None]]], None]

PENDING: Final = 2000
CUTS: Final = 10
SEED: Final = int(os.environ.get("MOORAGE_SEED", "1"))


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


async def tight_cluster(cluster: LiveCluster, pods: int) -> None:
    """Add exactly the required capacity, so that a miscounted pod is detected."""
    await cluster.add_nodes(*names("node", pods // 40), cpu="4")
    await cluster.add_pods(*names("web", pods), cpu="100m")


async def until_bound(cluster: LiveCluster, count: int) -> None:
    await cluster.wait_for(
        f"{count} pods are bound", lambda pods: sum(1 for pod in pods.values() if pod.node_name) >= count
    )


def test_pods_are_bound_after_an_api_server_crash(plane: ControlPlane, live: Live) -> None:
    """etcd is compacted during the crash, so that everything is relisted."""

    async def story(cluster: LiveCluster) -> None:
        await tight_cluster(cluster, PENDING)
        with scheduler(plane.kubeconfig()) as process:
            await until_bound(cluster, PENDING // 10)
            await asyncio.to_thread(plane.kill_api_server)
            plane.compact()
            await asyncio.to_thread(plane.start_api_server)
            await cluster.wait_for("all pods are bound", bound)
            assert process.is_running

    live(story)


def test_pods_are_bound_despite_repeatedly_cut_connections(plane: ControlPlane, live: Live) -> None:
    """Watches end early, and the responses of completed bindings are lost."""

    async def story(cluster: LiveCluster) -> None:
        chance = Random(SEED)
        async with CuttableProxy(plane.api_port).running() as proxy:
            await tight_cluster(cluster, 600)
            with scheduler(through(plane, proxy.port)) as process:
                await until_bound(cluster, 1)
                for _ in range(CUTS):
                    await asyncio.sleep(chance.uniform(0.05, 0.5))
                    proxy.cut()
                await cluster.wait_for("all pods are bound", bound)
                assert process.is_running

    live(story)


def test_compacted_versions_are_relisted(plane: ControlPlane, live: Live) -> None:
    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("node-0", cpu="4")
        await cluster.add_pods(*names("early", 10))
        with scheduler(plane.kubeconfig()) as process:
            await cluster.wait_for("the first are bound", bound)
            await asyncio.to_thread(plane.kill_api_server)
            plane.compact()
            await asyncio.to_thread(plane.start_api_server)
            await cluster.add_pods(*names("late", 10))
            await cluster.wait_for("all pods are bound", bound)
            assert process.is_running
            assert "resourceVersion expired; listing again" in process.log

    live(story)


def test_standby_takes_over_from_a_killed_leader(plane: ControlPlane, live: Live) -> None:
    async def story(cluster: LiveCluster) -> None:
        await tight_cluster(cluster, 600)
        with Replicas(plane.kubeconfig()).running() as replicas:
            await until_bound(cluster, 1)
            assert replicas.kill_leader(start_again=False)
            await cluster.wait_for("all pods are bound", all_bound(replicas))

    live(story)
