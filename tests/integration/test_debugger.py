"""SIGUSR2 to a running scheduler: it logs its state and compares it with the API."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import yaml

from moorage.cluster.apiserver.server import ApiServer
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient
from tests.live.cluster import LiveCluster
from tests.live.scheduler import SchedulerProcess, scheduler

SECONDS = 60.0


async def until(is_so: Callable[[], bool], description: str) -> None:
    deadline = asyncio.get_running_loop().time() + SECONDS
    while not is_so():
        assert asyncio.get_running_loop().time() < deadline, description
        await asyncio.sleep(0.05)


async def dumped(process: SchedulerProcess) -> str:
    """Request a dump and return the later log lines."""
    before = len(process.log)
    process.send(signal.SIGUSR2)
    await until(
        lambda: any(text in process.log[before:] for text in ("pods agree", "mismatch in pods")), "no dump came"
    )
    return process.log[before:]


def test_cache_and_queue_are_dumped_and_agree_with_the_api(tmp_path: Path) -> None:
    async def main() -> None:
        async with ApiServer() as server:
            kubeconfig = tmp_path / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump(server.kubeconfig()))
            async with ApiClient(load_connection(str(kubeconfig))) as client:
                cluster = LiveCluster(client)
                await cluster.add_nodes("node-0")
                await cluster.add_pods("fits")
                await cluster.add_pods("too-big", cpu="64")
                with scheduler(kubeconfig) as process:
                    await cluster.wait_for("one pod is bound", lambda pods: bool(pods["fits"].node_name))
                    await until(lambda: "too-big" in process.log, process.log)
                    report = await dumped(process)
                    assert "pods [default/fits" in report
                    assert "default/too-big: unschedulable" in report
                    assert "rejected by [NodeResourcesFit]" in report
                    assert "nodes agree with the API" in report
                    assert "pods agree with the API" in report

    asyncio.run(main())
