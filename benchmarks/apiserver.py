"""Measure the embedded API server: creations, bindings and watchers over HTTP, and its memory when full.

    python -m benchmarks.apiserver [--pods 50000] [--nodes 5000] [--watchers 20]

The server runs in a separate process. This process creates the load, over plain HTTP with many connections.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import uvloop

from moorage.cluster.apiserver.server import ApiServer
from moorage.common.memory import relax_gc

CONNECTIONS = 64
EVENT = b'"object":{"'


def serve(ready: Connection) -> None:
    """Serve as `moorage up` does until the other end closes the pipe, then send back the peak memory."""
    relax_gc()

    async def run() -> None:
        async with ApiServer(plain=True) as server:
            ready.send((server.plain_url, server.token))
            while not ready.poll():
                await asyncio.sleep(0.2)
            usage = resource.getrusage(resource.RUSAGE_SELF)
            ready.send((rss_mebibytes(), usage.ru_utime + usage.ru_stime))

    uvloop.run(run())


def rss_mebibytes() -> float:
    """Return the current memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def print_line(line: str) -> None:
    """Print a line immediately."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Client(asyncio.Protocol):
    """One connection that posts requests one after the other; it does little work, because it shares the machine."""

    def __init__(self, requests: Iterator[bytes], total: asyncio.Future[int]) -> None:
        self._requests = requests
        self._total = total
        self._sent = 0
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def _next(self) -> None:
        assert self._transport is not None
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            self._total.set_result(self._sent)
            return
        self._sent += 1
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Send the next request when the response is complete."""
        buffer = self._buffer
        buffer += data
        end = buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        at = buffer.index(b"Content-Length: ") + 16
        if len(buffer) < end + 4 + int(buffer[at : buffer.index(b"\r", at)]):
            return
        if not buffer.startswith(b"HTTP/1.1 201"):
            self._total.set_exception(RuntimeError(buffer.decode()))
            return
        buffer.clear()
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report an unexpected disconnect."""
        if not self._total.done():
            self._total.set_exception(exc or RuntimeError("the server hung up"))


class Load:
    """Sends requests over a fixed number of connections and counts the events that watchers receive."""

    def __init__(self, url: str, token: str, server: int) -> None:
        where = urlsplit(url)
        self.host, self.port = where.hostname or "", where.port or 0
        self.head = f"Host: {self.host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        self.seen: list[int] = []
        self.server = server

    async def send(self, title: str, requests: Iterable[tuple[str, bytes]]) -> None:
        """Post all requests; print the rate and the server's CPU time per request."""
        ready = iter([self._rendered(path, body) for path, body in requests])
        loop = asyncio.get_running_loop()
        started, cpu_before = time.perf_counter(), cpu_seconds(self.server)
        totals = [loop.create_future() for _ in range(CONNECTIONS)]
        for future in totals:
            await loop.create_connection(partial(Client, ready, future), self.host, self.port)
        count = sum(await asyncio.gather(*totals))
        rate = count / (time.perf_counter() - started)
        cost = (cpu_seconds(self.server) - cpu_before) / count * 1e6
        print_line(f"{rate:8.0f} {title} per second, {cost:.0f} µs of the server's CPU each")

    def _rendered(self, path: str, body: bytes) -> bytes:
        return f"POST {path} HTTP/1.1\r\n{self.head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    async def watch(self, number: int) -> None:
        """Count the events that a watcher receives."""
        self.seen.append(0)
        reader, writer = await asyncio.open_connection(self.host, self.port)
        writer.write(f"GET /api/v1/pods?watch=true HTTP/1.1\r\n{self.head}\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        tail = b""
        while chunk := await reader.read(1 << 18):
            self.seen[number] += (tail + chunk).count(EVENT)
            tail = chunk[-len(EVENT) + 1 :]


def cpu_seconds(process: int) -> float:
    """Return the CPU seconds of a process and its children."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(
        cpu_seconds(int(pid)) for pid in children
    )


def node(number: int) -> bytes:
    """Write a node."""
    labels = {"kubernetes.io/hostname": f"node-{number}", "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    capacity = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}", "labels": labels}}
    return json.dumps({**manifest, "status": status}).encode()


def pod(number: int) -> bytes:
    """Write a pod as a ReplicaSet would."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    metadata = {"name": f"pod-{number}", "labels": {"app": f"web-{number % 50}"}, "ownerReferences": [owner]}
    resources = {"requests": {"cpu": "100m", "memory": "200Mi"}, "limits": {"memory": "200Mi"}}
    container = {"name": "web", "image": "registry/web:1.0", "ports": [{"containerPort": 80}], "resources": resources}
    spec = {"containers": [container]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).encode()


def binding(number: int, nodes: int) -> bytes:
    """Write the binding of a pod."""
    target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % nodes}"}
    manifest = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": f"pod-{number}"}, "target": target}
    return json.dumps(manifest).encode()


async def measure(load: Load, pods: int, nodes: int, watchers: int) -> None:
    """Fill the server, with and without watchers, and print the rates."""
    path = "/api/v1/namespaces/default/pods"

    def creations(numbers: range) -> Iterator[tuple[str, bytes]]:
        return ((path, pod(number)) for number in numbers)

    def bindings(numbers: range) -> Iterator[tuple[str, bytes]]:
        return ((f"{path}/pod-{number}/binding", binding(number, nodes)) for number in numbers)

    await load.send("nodes created", (("/api/v1/nodes", node(number)) for number in range(nodes)))
    quiet = range(max(pods - 10_000, 0))
    if quiet:
        await load.send("pods created, no watchers,", creations(quiet))
        await load.send("pods bound, no watchers,", bindings(quiet))
    tasks = [asyncio.create_task(load.watch(number)) for number in range(watchers)]
    while len(load.seen) < watchers or min(load.seen, default=len(quiet)) < len(quiet):
        await asyncio.sleep(0.1)
    watched = range(len(quiet), pods)
    await load.send(f"pods created, {watchers} watching,", creations(watched))
    await load.send(f"pods bound, {watchers} watching,", bindings(watched))
    expected = len(quiet) + 2 * len(watched)
    deadline = time.monotonic() + 30
    while min(load.seen, default=expected) < expected and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    missing = sum(expected - received for received in load.seen)
    print_line(f"{missing:8d} events lost of {expected * watchers}")
    for task in tasks:
        task.cancel()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--watchers", type=int, default=20)
    options = parser.parse_args()
    connection, server_connection = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(server_connection,))
    process.start()
    url, token = connection.recv()
    try:
        load = Load(url, token, process.pid or 0)
        uvloop.run(measure(load, options.pods, options.nodes, options.watchers))
    finally:
        connection.send("stop")
        memory, seconds = connection.recv()
        process.join()
    print_line(f"{memory:8.0f} MiB in the server, {seconds:.1f} s of CPU")


if __name__ == "__main__":
    main()
