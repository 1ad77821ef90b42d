"""A real control plane for specs of upstream's suite, with Moorage or kube-scheduler as its scheduler."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from moorage.cluster.controllers.builtin_controllers import kubelet_controllers
from moorage.cluster.controllers.fake_nodes import NodeShape, fake_node
from moorage.cluster.controllers.manager import ControllerManager
from moorage.common.clock import SystemClock
from moorage.kube.client.rest import ApiClient
from tests.live.controllers import CONTROLLERS, controller_manager
from tests.live.scenarios.combinations import SERVED, gate_flags, scheduling
from tests.support.control_plane import ControlPlane, control_plane

#: All specs need a namespace with a service account and a certificate, and its deletion.
GROUPS: Final = "podgroup-protection-controller"
SHAPE: Final = NodeShape({"cpu": "4", "memory": "8Gi", "pods": "110"}, zones=0)


@contextmanager
def real_cluster(nodes: int, gates: str, program: str, flags_of_scheduler: list[str]) -> Iterator[Path]:
    """Run kube-apiserver, its controllers, fake kubelets and a scheduler for the duration of the block."""
    served = [SERVED] if gates else []
    with control_plane(*gate_flags(gates), *served, "--allow-privileged=true") as plane:
        flags = [*gate_flags(gates), f"--root-ca-file={plane.directory / 'certs' / 'apiserver.crt'}"]
        controllers = ["*", *CONTROLLERS, *([GROUPS] if gates else [])]
        with (
            controller_manager(plane, *controllers, flags=flags),
            _kubelets(plane, nodes),
            scheduling(plane.kubeconfig(), program, gates=gates, flags=flags_of_scheduler),
        ):
            yield plane.kubeconfig()


@contextmanager
def _kubelets(plane: ControlPlane, nodes: int) -> Iterator[None]:
    """Run the kubelets in a thread, because another thread waits for the spec."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(_run(plane, nodes))

    def work() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    thread = threading.Thread(target=work, name="kubelets")
    thread.start()
    try:
        yield
        assert thread.is_alive(), "the kubelets have exited"
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(task.cancel)
        thread.join()


async def _run(plane: ControlPlane, nodes: int) -> None:
    async with ApiClient(plane.connection()) as client:
        for number in range(nodes):
            content = fake_node(f"node-{number}", 0, SHAPE, time.time())
            await client.request("POST", "/api/v1/nodes", msgspec.json.encode(content))
        await ControllerManager(client, kubelet_controllers(SystemClock())).run()
