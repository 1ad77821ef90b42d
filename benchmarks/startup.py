"""How long it takes from starting a process to the first pod: `moorage scheduler` to a binding, `moorage up` to a pod
that runs.

    python -m benchmarks.startup [--times 5]

Each row is the median of several processes. CPU seconds are measured up to the same moment. They vary less than the
clock on a busy machine.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import uvloop

from benchmarks.apiserver import cpu_seconds, node, pod, print_line
from benchmarks.installed import compile_program
from moorage.cluster.apiserver.requests.request import ApiRequest, ApiResponse
from moorage.cluster.apiserver.server import ApiServer
from moorage.kube.api.pod import Pod
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient

COMMAND: Final = (sys.executable, "-c", "from moorage.cli.main import main; main()")
PODS: Final = "/api/v1/namespaces/default/pods"
NODES: Final = 100
PATIENCE: Final = 60.0
LOOK_SECONDS: Final = 0.002


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[tuple[int, float]]:
    """Run a command for the duration of the block; yield its process id and start time."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as log, subprocess.Popen([*COMMAND, *arguments], stdout=log, stderr=log) as process:
        try:
            yield process.pid, began
        except TimeoutError:
            log.seek(0)
            print_line(log.read().decode())
            raise
        finally:
            # Kill it: its shutdown is not measured, and it would wait for a server that waits for it.
            process.kill()


async def until_bound(directory: Path) -> tuple[float, float]:
    """Start a scheduler on a cluster with a pending pod; return seconds and CPU seconds until it is bound."""
    async with ApiServer() as server, asyncio.timeout(PATIENCE):
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(json.dumps(server.kubeconfig()))
        for number in range(NODES):
            ask(server, "/api/v1/nodes", node(number))
        ask(server, PODS, pod(0))
        bound = asyncio.Event()

        def look(resource: str, change: Any) -> None:
            if resource == "pods" and change.after is not None and change.after.typed(Pod).node_name:
                bound.set()

        server.api.store.subscribe(look)
        async with running("scheduler", f"--kubeconfig={kubeconfig}", "--secure-port=0") as (process, began):
            await bound.wait()
            return time.perf_counter() - began, cpu_seconds(process)


def ask(server: ApiServer, path: str, body: bytes) -> None:
    """Create an object directly in the store, without HTTP."""
    answer = server.api.answer(ApiRequest("POST", path, body=body))
    if not isinstance(answer, ApiResponse) or answer.status != 201:
        raise RuntimeError(str(answer))


async def until_running(directory: Path) -> tuple[float, float]:
    """Start a cluster with a pod in its manifests; return seconds and CPU seconds until the pod runs."""
    manifest, kubeconfig = directory / "pod.json", directory / "kubeconfig"
    manifest.write_bytes(pod(0))
    kubeconfig.unlink(missing_ok=True)
    arguments = ("up", "--nodes", str(NODES), "-f", str(manifest), "--kubeconfig", str(kubeconfig), "--for", "60s")
    async with asyncio.timeout(PATIENCE), running(*arguments) as (process, began):
        while not kubeconfig.is_file() or not kubeconfig.stat().st_size:
            await asyncio.sleep(LOOK_SECONDS)
        async with ApiClient(load_connection(str(kubeconfig))) as client, client.stream(f"{PODS}?watch=true") as chunks:
            async for chunk in chunks:
                if b'"phase":"Running"' in chunk:
                    return time.perf_counter() - began, cpu_seconds(process)
    raise RuntimeError("the watch ended before the pod ran")


async def measure(times: int) -> None:
    """Print a row for each command."""
    with tempfile.TemporaryDirectory() as name:
        for title, once in (("scheduler: first binding", until_bound), ("up: first pod running", until_running)):
            samples = [await once(Path(name)) for _ in range(times)]
            clock, cpu = (statistics.median(values) for values in zip(*samples, strict=True))
            print_line(f"{title:28} {clock:6.2f} s   {cpu:6.2f} s of CPU")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    compile_program()
    uvloop.run(measure(times))


if __name__ == "__main__":
    main()
