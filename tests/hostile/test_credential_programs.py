"""Credential programs whose children do not end: a killed client leaves no process behind."""

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
def test_killed_client_leaves_no_program_and_no_child_of_it(tmp_path: Path) -> None:
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
