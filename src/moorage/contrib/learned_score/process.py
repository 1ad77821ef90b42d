"""A policy in a process of its own, so that a limit holds whatever the policy does.

A thread would not do: nobody can end one that hangs, it would go on to take turns at the interpreter, and in C it need
not even let go of it. A process is killed, and another one started in its place.
"""

import os
import socket
import subprocess
import sys
from contextlib import suppress
from time import monotonic
from typing import Final

import msgspec
import numpy as np

from moorage.contrib.learned_score import worker
from moorage.contrib.learned_score.observation import Observation
from moorage.contrib.learned_score.policies import UnusablePolicy
from moorage.contrib.learned_score.worker import LENGTH, LOADING_SECONDS, PolicyQuestion, PolicyReply, framed
from moorage.scheduler.framework.status import FloatArray

SLOW: Final = "slow"
RAISED: Final = "raised"
NONSENSE: Final = "nonsense"
NOT_RUNNING: Final = "not_running"
REASONS: Final = (SLOW, RAISED, NONSENSE, NOT_RUNNING)

MAX_PAUSE: Final = 60.0
_STUCK_SECONDS: Final = 1.0


class NoAnswer(Exception):
    """A policy gave no answer that can be used; ``reason`` is one of REASONS."""

    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


class PolicyProcess:
    """Starts the process, asks it, and replaces it when it takes too long; after each time in a row a pause doubles."""

    def __init__(self, policy: str, seconds: float) -> None:
        self._policy = policy
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._is_ready = False
        self._pause = 0.0
        self._not_before = 0.0

    def start(self) -> None:
        """Start the process and wait until the policy is loaded; UnusablePolicy if it cannot be."""
        self._spawn()
        try:
            self._read_greeting(LOADING_SECONDS)
        except TimeoutError:
            self.close()
            raise UnusablePolicy(f"the policy {self._policy} is not loaded after {LOADING_SECONDS:g} s") from None
        except UnusablePolicy:
            self.close()
            raise

    def ask(self, observation: Observation) -> FloatArray:
        """Have nodes scored within the limit; NoAnswer says why there are no scores."""
        deadline = monotonic() + self._seconds
        link = self._ready_link()
        try:
            link.settimeout(self._seconds)
            link.sendall(framed(PolicyQuestion.of(observation)))
            reply = self._receive(deadline)
        except TimeoutError:
            self._replace_later()
            raise NoAnswer(SLOW, f"there was no answer after {self._seconds:g} s") from None
        except OSError as error:
            self._replace_later()
            raise NoAnswer(NOT_RUNNING, f"its process ended: {error}") from error
        self._pause = 0.0
        if reply.problem:
            raise NoAnswer(NONSENSE if reply.is_nonsense else RAISED, reply.problem)
        return np.frombuffer(reply.scores, dtype=np.float64)

    def close(self) -> None:
        """End the process, whatever it is doing."""
        if self._link is not None:
            self._link.close()
        if self._process is not None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STUCK_SECONDS)
        self._process = self._link = None
        self._is_ready = False

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", worker.__name__, str(theirs.fileno()), self._policy, str(self._seconds)],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                # What a plugin may import, its policy may.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            )
        self._link = ours

    def _ready_link(self) -> socket.socket:
        """Return the way to a process that has loaded its policy; start one if there is none, and wait for nobody."""
        if self._link is None:
            if monotonic() < self._not_before:
                raise NoAnswer(NOT_RUNNING, "its process was ended a moment ago")
            self._spawn()
        assert self._link is not None
        if not self._is_ready:
            try:
                self._read_greeting(0.0)
            except TimeoutError:
                raise NoAnswer(NOT_RUNNING, "its process is being started") from None
            except (OSError, UnusablePolicy) as error:
                self._replace_later()
                raise NoAnswer(NOT_RUNNING, str(error)) from error
        return self._link

    def _read_greeting(self, seconds: float) -> None:
        greeting = self._receive(monotonic() + seconds)
        if greeting.problem:
            raise UnusablePolicy(greeting.problem)
        self._is_ready = True

    def _replace_later(self) -> None:
        self.close()
        self._pause = min(MAX_PAUSE, 2.0 * self._pause or 1.0)
        self._not_before = monotonic() + self._pause

    def _receive(self, deadline: float) -> PolicyReply:
        (length,) = LENGTH.unpack(self._read(LENGTH.size, deadline))
        return msgspec.msgpack.decode(self._read(length, deadline), type=PolicyReply)

    def _read(self, count: int, deadline: float) -> bytes:
        assert self._link is not None
        content = b""
        while len(content) < count:
            # With 0 the socket would not wait at all, and say so by another exception.
            self._link.settimeout(max(deadline - monotonic(), 1e-6))
            more = self._link.recv(count - len(content))
            if not more:
                raise ConnectionResetError("it closed the connection")
            content += more
        return content
