"""How fast the embedded API server is: creations, bindings and watchers over HTTP, and its memory when full.

    python -m benchmarks.apiserver [--pods 50000] [--nodes 5000] [--watchers 20]

The server runs in a process of its own; the load comes from this one, over plain HTTP with many connections.
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from moorage.apiserver.server import ApiServer

CONNECTIONS = 64
EVENT = b'"object":{"'


def serve(ready: Connection) -> None:
    """Serve until the other side hangs up, and then tell the memory that was needed."""

    async def run() -> None:
        async with ApiServer(plain=True) as server:
            ready.send((server.plain_url, server.token))
            while not ready.poll():
                await asyncio.sleep(0.2)
            usage = resource.getrusage(resource.RUSAGE_SELF)
            ready.send((rss_mebibytes(), usage.ru_utime + usage.ru_stime))

    uvloop.run(run())


def rss_mebibytes() -> float:
    """Return the memory this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Load:
    """Sends requests over a fixed number of connections and counts what watchers are told."""

    def __init__(self, url: str, token: str) -> None:
        where = urlsplit(url)
        self.host, self.port = where.hostname or "", where.port or 0
        self.head = f"Host: {self.host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        self.seen: list[int] = []

    async def send(self, requests: Iterator[tuple[str, bytes]]) -> float:
        """Post all of them and return how many went through per second."""
        started = time.perf_counter()
        counts = await asyncio.gather(*(self._worker(requests) for _ in range(CONNECTIONS)))
        return sum(counts) / (time.perf_counter() - started)

    async def _worker(self, requests: Iterator[tuple[str, bytes]]) -> int:
        reader, writer = await asyncio.open_connection(self.host, self.port)
        count = 0
        for path, body in requests:
            writer.write(f"POST {path} HTTP/1.1\r\n{self.head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            head = await reader.readuntil(b"\r\n\r\n")
            answer = await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
            if not head.startswith(b"HTTP/1.1 201"):
                raise RuntimeError(f"{head.decode()}{answer.decode()}")
            count += 1
        writer.close()
        return count

    async def watch(self, number: int) -> None:
        """Count the events a watcher is told."""
        self.seen.append(0)
        reader, writer = await asyncio.open_connection(self.host, self.port)
        writer.write(f"GET /api/v1/pods?watch=true HTTP/1.1\r\n{self.head}\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        rest = b""
        while chunk := await reader.read(1 << 18):
            self.seen[number] += (rest + chunk).count(EVENT)
            rest = chunk[-len(EVENT) + 1 :]


def node(number: int) -> bytes:
    """Write a node."""
    labels = {"kubernetes.io/hostname": f"node-{number}", "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    capacity = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    thing = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}", "labels": labels}}
    return json.dumps({**thing, "status": status}).encode()


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
    thing = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": f"pod-{number}"}, "target": target}
    return json.dumps(thing).encode()


async def measure(url: str, token: str, pods: int, nodes: int, watchers: int) -> None:
    """Fill the server, with and without watchers, and print what was reached."""
    load = Load(url, token)
    place = "/api/v1/namespaces/default/pods"
    rate = await load.send(("/api/v1/nodes", node(number)) for number in range(nodes))
    say(f"{rate:8.0f} nodes created per second")
    quiet = max(pods - 10_000, 0)
    if quiet:
        rate = await load.send((place, pod(number)) for number in range(quiet))
        say(f"{rate:8.0f} pods created per second, nobody watching")
        rate = await load.send((f"{place}/pod-{number}/binding", binding(number, nodes)) for number in range(quiet))
        say(f"{rate:8.0f} pods bound per second, nobody watching")
    tasks = [asyncio.create_task(load.watch(number)) for number in range(watchers)]
    while len(load.seen) < watchers or min(load.seen, default=quiet) < quiet:
        await asyncio.sleep(0.1)
    watched = range(quiet, pods)
    rate = await load.send((place, pod(number)) for number in watched)
    say(f"{rate:8.0f} pods created per second, {watchers} watching")
    rate = await load.send((f"{place}/pod-{number}/binding", binding(number, nodes)) for number in watched)
    say(f"{rate:8.0f} pods bound per second, {watchers} watching")
    expected = quiet + 2 * len(watched)
    deadline = time.monotonic() + 30
    while min(load.seen, default=expected) < expected and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    lost = sum(expected - seen for seen in load.seen)
    say(f"{lost:8d} events lost of {expected * watchers}")
    for task in tasks:
        task.cancel()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--watchers", type=int, default=20)
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    process.start()
    url, token = ours.recv()
    try:
        uvloop.run(measure(url, token, options.pods, options.nodes, options.watchers))
    finally:
        ours.send("stop")
        memory, seconds = ours.recv()
        process.join()
    say(f"{memory:8.0f} MiB in the server, {seconds:.1f} s of CPU")


if __name__ == "__main__":
    main()
