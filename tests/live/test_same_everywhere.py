"""The plugin of tests/integration/test_same_everywhere.py on a real API server, in `moorage scheduler`."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.live.cluster import LiveCluster
from tests.live.scheduler import scheduler
from tests.live.serving import metric
from tests.support.control_plane import ControlPlane, free_ports
from tests.support.custom_writes import define
from tests.support.ticketing import TICKETS, admit

Live = Callable[[Callable[[LiveCluster], Awaitable[None]]], None]


def flags_with(plane: ControlPlane, directory: Path, plugin: str, port: int = 0) -> list[str]:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig())},
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": plugin}]}}}],
    }
    path = directory / "config.yaml"
    path.write_text(json.dumps(config))
    delegated = (
        f"--{description}-kubeconfig={plane.kubeconfig()}" for description in ("authentication", "authorization")
    )
    return [
        f"--config={path}",
        f"--plugin=tests.support.ticketing:{plugin}",
        "--vmodule=ticketing=4",
        f"--secure-port={port}",
        *delegated,
    ]


def test_plugin_works_on_a_real_server(plane: ControlPlane, live: Live, tmp_path: Path) -> None:
    port, token = free_ports(1)[0], plane.tokens["admin"]

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("a", "b")
        await define(cluster.client, TICKETS)
        with scheduler(plane.kubeconfig(), *flags_with(plane, tmp_path, "Ticketing", port)) as process:
            await admit(cluster.client)
            rounds = await asyncio.to_thread(metric, port, "moorage_plugin_ticketing_rounds_total", token)
            assert rounds['profile="default-scheduler"'] > 0
            assert process.stop() == 0
            assert '"pod is let in" plugin="Ticketing" profile="default-scheduler" pod="default/holder"' in process.log
            assert '"the inspector goes home" plugin="Ticketing"' in process.log
            assert "stopping before all bindings have finished" not in process.log

    live(story)


def test_plugin_that_fails_to_start_is_named(plane: ControlPlane, live: Live, tmp_path: Path) -> None:
    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("a")
        with scheduler(plane.kubeconfig(), *flags_with(plane, tmp_path, "ClosedBooth")) as process:
            assert process.wait() == 1
            assert (
                "starting plugin 'ClosedBooth': ClosedBooth.start raised ConnectionError: the booth is closed"
                in process.log
            )
            assert "Traceback" not in process.log

    live(story)
