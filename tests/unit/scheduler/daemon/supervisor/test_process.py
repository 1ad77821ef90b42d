"""Two processes that share a page, and end together: with real forks, since nothing else behaves like one."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moorage.common.clock import boot_time
from moorage.scheduler.daemon.supervisor.process import HELD_UNTIL, SharedState


def test_lease_is_held_until_its_expiry() -> None:
    page = SharedState()
    assert not page.is_held()
    page[HELD_UNTIL] = boot_time() + 60
    assert page.is_held()
    page[HELD_UNTIL] = boot_time()
    assert not page.is_held()


SPLIT = """
import sys, time
from moorage.scheduler.daemon.supervisor.process import fork_scheduler
from moorage.common.errors import InputError

def supervise(ends):
    print(ends.other, flush=True)
    {supervise}

def schedule(ends):
    {schedule}

sys.exit(fork_scheduler(supervise, schedule))
"""


def test_processes_share_their_state() -> None:
    program = SPLIT.format(
        supervise="ends.socket.recv(1); return int(ends.state[0])", schedule="ends.state[0] = 7.0; return 0"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, stdout=subprocess.DEVNULL).returncode == 7


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part is Linux's")
def test_a_blocked_child_dies_with_its_parent() -> None:
    program = SPLIT.format(supervise="time.sleep(60)", schedule="import re; re.match('(a+)+$', 'a' * 64 + '!')")
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = Path(f"/proc/{int(parent.stdout.readline())}")
        assert child.exists()
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        deadline = time.monotonic() + 300
        while child.exists() and "State:\tZ" not in (child / "status").read_text():
            assert time.monotonic() < deadline, "an orphan is left"


def test_child_does_not_continue_the_program_of_its_parent() -> None:
    program = SPLIT.format(supervise="return 3", schedule="raise InputError('--config', 'no')") + "\nprint('twice')"
    process = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert process.returncode == 3
    assert process.stdout.count("\n") == 1
