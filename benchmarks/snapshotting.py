"""How long `moorage snapshot` takes, end to end, on a full cluster, and what it and its reading cost.

    python -m benchmarks.snapshotting [--nodes 15000] [--pods 100000]

The cluster is the embedded API server in a process of its own, filled over HTTP; the command is run as a user would.
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

from benchmarks.apiserver import Load, node, pod, say, serve


def running(number: int, nodes: int) -> bytes:
    """Write a pod that has a node."""
    written = json.loads(pod(number))
    written["spec"]["nodeName"] = f"node-{number % nodes}"
    return json.dumps(written).encode()


async def fill(load: Load, nodes: int, pods: int) -> None:
    """Make the cluster."""

    def created() -> Iterator[tuple[str, bytes]]:
        return (("/api/v1/namespaces/default/pods", running(number, nodes)) for number in range(pods))

    await load.send("nodes created", (("/api/v1/nodes", node(number)) for number in range(nodes)))
    await load.send("pods created", created())


def kubeconfig(url: str, token: str) -> str:
    """Write what kubectl would need."""
    cluster = {"name": "box", "cluster": {"server": url}}
    user, context = {"name": "box", "user": {"token": token}}, {"cluster": "box", "user": "box"}
    named = [{"name": "box", "context": context}]
    return json.dumps({"clusters": [cluster], "users": [user], "contexts": named, "current-context": "box"})


def timed(what: str, *command: str) -> None:
    """Run a command, and say what it took."""
    began = time.perf_counter()
    process = subprocess.Popen([Path(sys.executable).with_name("moorage"), *command], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    took, cpu = time.perf_counter() - began, used.ru_utime + used.ru_stime
    say(f"{took:8.1f} s, {cpu:.1f} s of CPU, {used.ru_maxrss / 1024:.0f} MiB: {what} (exit {process.returncode})")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=15_000)
    parser.add_argument("--pods", type=int, default=100_000)
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    process.start()
    url, token = ours.recv()
    try:
        uvloop.run(fill(Load(url, token, process.pid or 0), options.nodes, options.pods))
        with TemporaryDirectory() as folder:
            config, saved = Path(folder) / "kubeconfig", Path(folder) / "cluster.json.gz"
            config.write_text(kubeconfig(url, token))
            timed("moorage snapshot", "snapshot", str(saved), "--kubeconfig", str(config))
            say(f"{saved.stat().st_size / 2**20:8.1f} MiB in the file")
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
        ours.send("stop")
        ours.recv()
        process.join()


if __name__ == "__main__":
    main()
