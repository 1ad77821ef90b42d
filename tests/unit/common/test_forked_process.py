"""A program ends even if its interpreter handles no signals."""

import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import os, signal, sys, time
from moorage.common.forked_process import run_in_child

def work():
    {work}

sys.exit(run_in_child(work))
"""
IGNORE_SIGNALS = "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)"


def start(work: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM.format(work=work)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


CODES = {
    "success": ("return 0", 0),
    "exit code": ("return 3", 3),
    "exception": ("raise ValueError", 1),
    "os._exit": ("os._exit(7)", 7),
    "abort": ("os.kill(os.getpid(), signal.SIGABRT)", 128 + signal.SIGABRT),
}


@pytest.mark.parametrize(("work", "code"), CODES.values(), ids=CODES)
def test_exit_code_is_that_of_the_child(work: str, code: int) -> None:
    with start(work) as program:
        program.communicate(timeout=300)
    assert program.returncode == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_is_forwarded_to_the_child(number: signal.Signals) -> None:
    # Short sleeps: a signal that arrives just before a long one would wait for its end.
    sleep = "[time.sleep(0.1) for _ in range(600)]"
    with start(f"signal.signal({number}, lambda *_: os._exit(5)); print('up', flush=True); {sleep}") as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "up\n"
        program.send_signal(number)
        assert program.wait(30) == 5


def test_child_that_ignores_signals_is_killed_at_the_second_one() -> None:
    with start(f"{IGNORE_SIGNALS}; print('up', flush=True); 3 ** (10 ** 9)") as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "up\n"
        program.send_signal(signal.SIGTERM)
        time.sleep(0.5)  # two signals in a row may be one key press
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 128 + signal.SIGTERM
        assert program.stderr is not None
        assert "shutdown timed out" in program.stderr.read()


def test_child_ends_with_its_parent() -> None:
    with start("print(os.getpid(), flush=True); time.sleep(60)") as program:
        assert program.stdout is not None
        child = int(program.stdout.readline())
        program.kill()
        program.wait(30)
        assert not program.stdout.read(), f"process {child} still holds its end of the pipe"
