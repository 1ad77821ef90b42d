"""Credential programs with children that do not end: a killed client leaves no process behind."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

CLIENT = """
import asyncio, sys
from moorage.common.clock import SteadyClock
from moorage.kube.client.credentials import ExecCredentials, ExecPlugin

program = "sleep 1000 & echo $$ $! > {fifo}; wait"
plugin = ExecPlugin("sh", "client.authentication.k8s.io/v1", ["-c", program], interactive_mode="Never")
asyncio.run(ExecCredentials(plugin, None, {{}}, SteadyClock()).renew())
"""
SECONDS = 20.0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals the children of a killed process")
def test_killed_client_leaves_no_program_and_no_child(tmp_path: Path) -> None:
    fifo = tmp_path / "pids"
    os.mkfifo(fifo)
    with subprocess.Popen([sys.executable, "-c", CLIENT.format(fifo=fifo)]) as client:
        descriptors = []
        try:
            pids = [int(pid) for pid in fifo.read_text().split()]
            descriptors = [os.pidfd_open(pid) for pid in pids]
            client.send_signal(signal.SIGKILL)
            for descriptor in descriptors:
                ended, _, _ = select.select([descriptor], [], [], SECONDS)
                assert ended
        finally:
            client.kill()
            for descriptor in descriptors:
                os.close(descriptor)


LISTING = """
import asyncio
from moorage.common.errors import ApiError
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient

async def list_all():
    async with ApiClient(load_connection({kubeconfig!r})) as client:
        async def list_twice(kind):
            try:
                await client.list(kind)
            except ApiError:
                await client.list(kind)
        await asyncio.gather(*(list_twice(kind) for kind in (Node, Pod) * 4), client.list(Node))

asyncio.run(list_all())
"""


def test_failing_program_of_several_requests_ends_the_command(tmp_path: Path) -> None:
    """asyncio once waited forever for the second start, which was canceled with the other requests."""
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "false", "interactiveMode": "Never"}}
    named = {"name": "x"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [named | {"context": {"cluster": "x", "user": "x"}}],
        "clusters": [named | {"cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [named | {"user": user}],
    }
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(content))
    code = LISTING.format(kubeconfig=str(kubeconfig))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert "exited with code 1" in ended.stderr
