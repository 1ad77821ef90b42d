"""The process in which a policy runs: observations come in over a socket, scores go out.

``python -m moorage.contrib.learned_score.worker FD POLICY SECONDS``. It ends with its parent: while it waits, the
socket ends; while a policy computes, the kernel's alarm does it, even if the policy never lets go of the interpreter.
"""

import signal
import socket
import struct
import sys
from contextlib import suppress
from typing import Final

import msgspec
import numpy as np

from moorage.contrib.learned_score.observation import Observation
from moorage.contrib.learned_score.policies import (
    NonsenseAnswer,
    ScoringFunction,
    UnusablePolicy,
    load_policy_function,
    scores_by,
)
from moorage.scheduler.framework.faults import described, place_of

LENGTH: Final = struct.Struct("!I")
ALARM_SECONDS: Final = 5.0
"""So long after its limit an answer ends the process; its parent has given up on it long before."""
LOADING_SECONDS: Final = 60.0


class PolicyQuestion(msgspec.Struct, array_like=True, frozen=True):
    """An observation as it is sent: numbers of four bytes, the nodes row by row."""

    nodes: bytes
    pod: bytes
    count: int

    @classmethod
    def of(cls, observation: Observation) -> "PolicyQuestion":
        """Write an observation down."""
        return cls(observation.nodes.tobytes(), observation.pod.tobytes(), len(observation.nodes))

    def read(self) -> Observation:
        """Read it again."""
        nodes = np.frombuffer(self.nodes, dtype=np.float32).reshape(self.count, -1)
        return Observation(nodes, np.frombuffer(self.pod, dtype=np.float32))


class PolicyReply(msgspec.Struct, array_like=True, frozen=True):
    """The scores, numbers of eight bytes; or what was wrong, and whether the policy answered nonsense or raised."""

    scores: bytes = b""
    problem: str = ""
    is_nonsense: bool = False


def framed(message: PolicyQuestion | PolicyReply) -> bytes:
    """Write a message with its length before it."""
    content = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(content)) + content


def serve(link: socket.socket, policy: str, seconds: float) -> None:
    """Load a policy, say so, and answer questions until the other side is gone."""
    signal.setitimer(signal.ITIMER_REAL, LOADING_SECONDS)
    try:
        function = load_policy_function(policy)
    except UnusablePolicy as error:
        link.sendall(framed(PolicyReply(problem=str(error))))
        return
    except Exception as error:  # the author's module may raise anything
        problem = f"the policy {policy} cannot be imported: {described(error)}{place_of(error)}"
        link.sendall(framed(PolicyReply(problem=problem)))
        return
    link.sendall(framed(PolicyReply()))
    with link.makefile("rb") as stream:
        while header := stream.read(LENGTH.size):
            question = msgspec.msgpack.decode(stream.read(LENGTH.unpack(header)[0]), type=PolicyQuestion)
            signal.setitimer(signal.ITIMER_REAL, seconds + ALARM_SECONDS)
            reply = replied(function, question.read())
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            link.sendall(framed(reply))


def replied(function: ScoringFunction, observation: Observation) -> PolicyReply:
    """Ask a policy, and put what it raises into words."""
    try:
        return PolicyReply(scores_by(function, observation).tobytes())
    except NonsenseAnswer as error:
        return PolicyReply(problem=str(error), is_nonsense=True)
    except Exception as error:  # the author's code may raise anything
        return PolicyReply(problem=f"{type(error).__name__}: {described(error)}{place_of(error)}")


def main() -> None:
    """Serve the policy that the command line names."""
    # Whoever presses Ctrl-C means the scheduler, which closes the socket when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    descriptor, policy, seconds = sys.argv[1:]
    with socket.socket(fileno=int(descriptor)) as link, suppress(BrokenPipeError, ConnectionResetError):
        serve(link, policy, float(seconds))


if __name__ == "__main__":
    main()
