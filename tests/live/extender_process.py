"""`moorage extender` as a process, started as by a user, and the stanza that it prints."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.live.cluster import PATIENCE
from tests.live.serving import answered

COMMAND: Final = (sys.executable, "-c", "from moorage.cli.main import main; main()", "extender", "--port=0")


@asynccontextmanager
async def extender(kubeconfig: Path, *flags: str) -> AsyncIterator[list[dict[str, Any]]]:
    """Run an extender for the duration of the block; yield the extenders of its stanza once it is ready."""
    with tempfile.TemporaryFile("w+b") as output:
        command = [*COMMAND, f"--kubeconfig={kubeconfig}", *flags]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=os.environ)

        def read_output() -> str:
            return os.pread(output.fileno(), 1 << 20, 0).decode()

        try:
            deadline = time.monotonic() + PATIENCE
            while "httpTimeout" not in read_output():
                assert process.poll() is None, read_output()
                assert time.monotonic() < deadline, read_output()
                await asyncio.sleep(0.1)
            stanza: list[dict[str, Any]] = yaml.safe_load(read_output().partition("\n\n")[0])["extenders"]
            while await asyncio.to_thread(answered, f"{stanza[0]['urlPrefix']}/readyz") != 200:
                assert time.monotonic() < deadline, read_output()
                await asyncio.sleep(0.1)
            yield stanza
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0, read_output()
        except BaseException as error:
            error.add_note(f"the output of the extender:\n{read_output()[-6000:]}")
            raise
        finally:
            process.kill()
            process.wait()
