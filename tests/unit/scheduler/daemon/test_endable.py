"""A program whose interpreter looks at nothing any more ends all the same."""

import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import os, signal, sys, time
from moorage.scheduler.daemon.endable import run_endable

def work():
    {work}

sys.exit(run_endable(work))
"""
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)"


def started(work: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM.format(work=work)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


CODES = {
    "the end": ("return 0", 0),
    "a code": ("return 3", 3),
    "an exception": ("raise ValueError", 1),
    "an exit that nobody sees": ("os._exit(7)", 7),
    "an abort": ("os.kill(os.getpid(), signal.SIGABRT)", 128 + signal.SIGABRT),
}


@pytest.mark.parametrize(("work", "code"), CODES.values(), ids=CODES)
def test_its_exit_code_is_that_of_the_work(work: str, code: int) -> None:
    with started(work) as program:
        program.communicate(timeout=30)
    assert program.returncode == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on(number: signal.Signals) -> None:
    with started(
        f"signal.signal({number}, lambda *_: os._exit(5)); print('up', flush=True); time.sleep(60)"
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "up\n"
        program.send_signal(number)
        assert program.wait(30) == 5


def test_who_is_deaf_is_killed_at_the_second_signal() -> None:
    with started(f"{DEAF}; print('up', flush=True); 3 ** (10 ** 9)") as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "up\n"
        program.send_signal(signal.SIGTERM)
        time.sleep(0.5)  # two signals in a row may be one key press
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 128 + signal.SIGTERM
        assert program.stderr is not None
        assert "does not end by itself" in program.stderr.read()


def test_the_work_ends_with_who_minds_it() -> None:
    with started("print(os.getpid(), flush=True); time.sleep(60)") as program:
        assert program.stdout is not None
        child = int(program.stdout.readline())
        program.kill()
        program.wait(30)
        assert not program.stdout.read(), f"process {child} still holds its end of the pipe"
