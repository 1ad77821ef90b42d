"""A control plane with a saved state: every round starts with the same bytes in etcd."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import uvloop
from tests.support.control_plane import ControlPlane

from benchmarks.live.processes import read_cpu_seconds
from benchmarks.live.workload import Workload
from moorage.kube.client.rest import ApiClient

AT_ONCE: Final = 64
QUIET_SHARE: Final = 0.1
"""An API server that takes less than a tenth of a core has finished starting."""
QUIET_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0


class Plane(ControlPlane):
    """The control plane of a benchmark."""

    @property
    def saved(self) -> Path:
        """Return the directory of the saved state."""
        return self.directory / "saved"

    def fill(self, workload: Workload) -> float:
        """Create all objects of a workload in an empty cluster and save the state; return the duration."""
        started = time.monotonic()
        self.end()
        self.flags = workload.server_flags
        shutil.rmtree(self.data, ignore_errors=True)
        self._begin()
        uvloop.run(self._create(workload))
        self.end()
        shutil.rmtree(self.saved, ignore_errors=True)
        shutil.copytree(self.data, self.saved)
        return time.monotonic() - started

    def restore(self) -> None:
        """Restore the saved state."""
        self.end()
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.copytree(self.saved, self.data)
        self._begin()

    def end(self) -> None:
        """Stop in order, so that etcd writes its files completely."""
        for process in (self.api, self.etcd):
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait(STOP_SECONDS)

    def cpu(self) -> tuple[float, float]:
        """Return the CPU seconds of the API server and of etcd."""
        assert self.api is not None
        assert self.etcd is not None
        return read_cpu_seconds(self.api.pid), read_cpu_seconds(self.etcd.pid)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ApiClient]:
        """Return a client with administrator rights."""
        async with ApiClient(self.connection()) as client:
            yield client

    async def quiet(self) -> None:
        """Wait until the server has finished starting: it continues for seconds after it reports ready."""
        deadline = time.monotonic() + QUIET_SECONDS
        calm = 0
        while calm < 2 and time.monotonic() < deadline:
            before = sum(self.cpu())
            await asyncio.sleep(0.5)
            calm = calm + 1 if sum(self.cpu()) - before < QUIET_SHARE * 0.5 else 0

    def _begin(self) -> None:
        self.start_etcd()
        self.start_api_server()

    async def _create(self, workload: Workload) -> None:
        async with self.client() as client:
            for group in workload.objects():
                await asyncio.gather(*(_post(client, group) for _ in range(AT_ONCE)))


async def _post(client: ApiClient, objects: Iterator[tuple[str, bytes]]) -> None:
    for path, body in objects:
        await client.request("POST", path, body)
