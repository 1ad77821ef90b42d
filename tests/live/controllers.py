"""Run kube-controller-manager on the test's API server, with only the controllers for storage and devices."""

import asyncio
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from moorage.common.errors import NotFound
from moorage.kube.client.rest import ApiClient
from tests.live.cluster import NAMESPACE, PATIENCE, LiveCluster
from tests.support.control_plane import ControlPlane

PROGRAM: Final = "kube-controller-manager"
COLLECTOR: Final = "garbage-collector-controller"
CONTROLLERS: Final = (
    "statefulset-controller",
    "persistentvolume-binder-controller",
    "ephemeral-volume-controller",
    "resourceclaim-controller",
    # Without these, claims are never deleted: finalizers and the objects of deleted pods remain.
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
    COLLECTOR,
)


ORPHAN: Final = {
    "metadata": {
        "name": "orphan",
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "none", "uid": "3f0f2c41-6d0e-4a39-9d3e-0a4f0f1a2b3c"}
        ],
    }
}
"""An object that the garbage collector deletes as soon as it works; it is the last controller to start."""


@contextmanager
def controller_manager(plane: ControlPlane, *controllers: str, flags: Sequence[str] = ()) -> Iterator[None]:
    """Run all or the named controllers for the duration of the block; print their log if they end early."""
    process = _started(plane, controllers or CONTROLLERS, flags)
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(f"the controllers ended by themselves:\n{plane.log(PROGRAM)}")
    finally:
        process.kill()
        process.wait()


def _started(plane: ControlPlane, controllers: Sequence[str], flags: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the controllers and wait until they work; they exit if the server is slow."""
    deadline = time.monotonic() + PATIENCE
    process = _spawned(plane, controllers, flags)
    while COLLECTOR in controllers and not asyncio.run(_removes_orphans(plane)):
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise RuntimeError(f"the controllers did not start:\n{plane.log(PROGRAM)}")
        if process.poll() is not None:
            process = _spawned(plane, controllers, flags)
    return process


async def _removes_orphans(plane: ControlPlane, seconds: float = 5.0) -> bool:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    deadline = time.monotonic() + seconds
    async with ApiClient(plane.connection()) as client:
        await LiveCluster(client).create(path, ORPHAN)
        while time.monotonic() < deadline:
            try:
                await client.request("GET", f"{path}/orphan")
            except NotFound:
                return True
            await asyncio.sleep(0.1)
    return False


def _spawned(plane: ControlPlane, controllers: Sequence[str], flags: Sequence[str]) -> subprocess.Popen[bytes]:
    return plane.spawn(
        PROGRAM,
        f"--kubeconfig={plane.kubeconfig()}",
        f"--controllers={','.join(controllers)}",
        f"--service-account-private-key-file={plane.directory / 'sa.key'}",
        f"--cert-dir={plane.directory / 'controller-certs'}",
        "--secure-port=0",
        "--leader-elect=false",
        "--use-service-account-credentials=false",
        # Retry bindings soon if the PV controller missed their event.
        "--pvclaimbinder-sync-period=3s",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        *flags,
    )
