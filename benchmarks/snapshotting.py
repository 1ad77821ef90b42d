"""Measure `moorage snapshot` end to end on a full cluster, and the cost of reading the snapshot.

    python -m benchmarks.snapshotting [--nodes 15000] [--pods 100000]

The cluster is the embedded API server in a separate process, filled over HTTP. The command runs as for a user.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from benchmarks.apiserver import Load, node, pod, print_line, serve


def running(number: int, nodes: int) -> bytes:
    """Write a bound pod."""
    manifest = json.loads(pod(number))
    manifest["spec"]["nodeName"] = f"node-{number % nodes}"
    return json.dumps(manifest).encode()


async def fill(load: Load, nodes: int, pods: int) -> None:
    """Make the cluster."""

    def created() -> Iterator[tuple[str, bytes]]:
        return (("/api/v1/namespaces/default/pods", running(number, nodes)) for number in range(pods))

    await load.send("nodes created", (("/api/v1/nodes", node(number)) for number in range(nodes)))
    await load.send("pods created", created())


def kubeconfig(url: str, token: str) -> str:
    """Write a kubeconfig."""
    cluster = {"name": "box", "cluster": {"server": url}}
    user, context = {"name": "box", "user": {"token": token}}, {"cluster": "box", "user": "box"}
    contexts = [{"name": "box", "context": context}]
    return json.dumps({"clusters": [cluster], "users": [user], "contexts": contexts, "current-context": "box"})


def timed(title: str, *command: str) -> None:
    """Run a command and print its cost."""
    began = time.perf_counter()
    process = subprocess.Popen([Path(sys.executable).with_name("moorage"), *command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    took, cpu = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
    print_line(
        f"{took:8.1f} s, {cpu:.1f} s of CPU, {usage.ru_maxrss / 1024:.0f} MiB: {title} (exit {process.returncode})"
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=15_000)
    parser.add_argument("--pods", type=int, default=100_000)
    options = parser.parse_args()
    connection, server_connection = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(server_connection,))
    process.start()
    url, token = connection.recv()
    try:
        uvloop.run(fill(Load(url, token, process.pid or 0), options.nodes, options.pods))
        with TemporaryDirectory() as directory:
            config, saved = Path(directory) / "kubeconfig", Path(directory) / "cluster.json.gz"
            config.write_text(kubeconfig(url, token))
            timed("moorage snapshot", "snapshot", str(saved), "--kubeconfig", str(config))
            print_line(f"{saved.stat().st_size / 2**20:8.1f} MiB in the file")
            timed(
                "moorage snapshot --anonymize",
                "snapshot",
                str(saved.with_name("anonymous.json.gz")),
                "--anonymize",
                "--kubeconfig",
                str(config),
            )
            timed("moorage explain of a pod in it", "explain", "pod-1", "--snapshot", str(saved))
    finally:
        connection.send("stop")
        connection.recv()
        process.join()


if __name__ == "__main__":
    main()
