"""A policy in a child process, so that its time limit always holds.

A thread is not enough: a blocked thread cannot be ended, it competes for the interpreter, and C code may never release
the interpreter lock. A process is killed and replaced.
"""

from time import monotonic
from typing import Final

import msgspec
import numpy as np

from moorage.common.child_process import BlockingChild, RestartPolicy
from moorage.contrib.learned_score.policies import Observation, UnusablePolicy
from moorage.contrib.learned_score.worker import LOADING_SECONDS, PolicyQuestion, PolicyReply
from moorage.scheduler.framework.status import FloatArray

SLOW: Final = "slow"
RAISED: Final = "raised"
NONSENSE: Final = "nonsense"
NOT_RUNNING: Final = "not_running"
REASONS: Final = (SLOW, RAISED, NONSENSE, NOT_RUNNING)

WORKER: Final = "moorage.contrib.learned_score.worker"

_replies: Final = msgspec.msgpack.Decoder(PolicyReply)


class PolicyFailure(Exception):
    """A policy returned no usable scores. ``reason`` is one of REASONS."""

    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


class PolicyProcess:
    """The child process. It is replaced when it exceeds its time limit, after a pause that doubles each time."""

    def __init__(self, policy: str, seconds: float) -> None:
        self._policy = policy
        self._seconds = seconds
        self._child: BlockingChild | None = None
        self._is_ready = False
        self._restarts = RestartPolicy()

    def start(self) -> None:
        """Start the process and wait until the policy is loaded. Raise UnusablePolicy if it cannot be loaded."""
        child = self._spawn()
        try:
            self._read_greeting(child, LOADING_SECONDS)
        except TimeoutError:
            self.close()
            raise UnusablePolicy(f"the policy {self._policy} is not loaded after {LOADING_SECONDS:g} s") from None
        except UnusablePolicy:
            self.close()
            raise

    def ask(self, observation: Observation) -> FloatArray:
        """Return the scores of the nodes within the time limit. Raise PolicyFailure without a result."""
        deadline = monotonic() + self._seconds
        child = self._ready_child()
        try:
            child.send(PolicyQuestion.of(observation), deadline)
            reply = child.receive(_replies, deadline)
        except TimeoutError:
            self._replace_later()
            raise PolicyFailure(SLOW, f"no response after {self._seconds:g} s") from None
        except OSError as error:
            self._replace_later()
            raise PolicyFailure(NOT_RUNNING, f"its process ended: {error}") from error
        self._restarts.succeeded()
        if reply.problem:
            raise PolicyFailure(NONSENSE if reply.is_nonsense else RAISED, reply.problem)
        return np.frombuffer(reply.scores, dtype=np.float64)

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
        self._child = None
        self._is_ready = False

    def _spawn(self) -> BlockingChild:
        self._child = BlockingChild(WORKER, self._policy, str(self._seconds))
        return self._child

    def _ready_child(self) -> BlockingChild:
        """Return a process with a loaded policy. If necessary, start one without waiting for it."""
        if self._child is None and self._restarts.remaining:
            raise PolicyFailure(NOT_RUNNING, "its process ended recently")
        child = self._child or self._spawn()
        if not self._is_ready:
            try:
                self._read_greeting(child, 0.0)
            except TimeoutError:
                raise PolicyFailure(NOT_RUNNING, "its process is being started") from None
            except (OSError, UnusablePolicy) as error:
                self._replace_later()
                raise PolicyFailure(NOT_RUNNING, str(error)) from error
        return child

    def _read_greeting(self, child: BlockingChild, seconds: float) -> None:
        greeting = child.receive(_replies, monotonic() + seconds)
        if greeting.problem:
            raise UnusablePolicy(greeting.problem)
        self._is_ready = True

    def _replace_later(self) -> None:
        self.close()
        self._restarts.failed()
