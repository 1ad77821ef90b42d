"""The child process that runs a policy: it receives observations and sends scores.

``python -P -m moorage.contrib.learned_score.worker PARENT POLICY SECONDS``. It ends with its parent: when it is idle,
its input ends. While a policy computes, an alarm of the kernel ends it, even if the policy never releases the
interpreter lock.
"""

import signal
from contextlib import suppress
from typing import Final

import msgspec
import numpy as np

from moorage.common.child_process import ParentChannel
from moorage.contrib.learned_score.policies import (
    InvalidScoresError,
    Observation,
    ScoringFunction,
    UnusablePolicy,
    compute_scores,
    load_policy_function,
)
from moorage.scheduler.framework.faults import described

ALARM_SECONDS: Final = 5.0
"""Time after the limit of a reply at which the process ends. Its parent has replaced it before."""
LOADING_SECONDS: Final = 60.0


class PolicyQuestion(msgspec.Struct, array_like=True, frozen=True):
    """An encoded observation: numbers of four bytes, the nodes row by row."""

    nodes: bytes
    pod: bytes
    count: int

    @classmethod
    def of(cls, observation: Observation) -> "PolicyQuestion":
        return cls(observation.nodes.tobytes(), observation.pod.tobytes(), len(observation.nodes))

    def read(self) -> Observation:
        nodes = np.frombuffer(self.nodes, dtype=np.float32).reshape(self.count, -1)
        return Observation(nodes, np.frombuffer(self.pod, dtype=np.float32))


class PolicyReply(msgspec.Struct, array_like=True, frozen=True):
    """The scores, numbers of eight bytes, or the problem, and whether the policy returned invalid scores or raised."""

    scores: bytes = b""
    problem: str = ""
    is_nonsense: bool = False


def serve(channel: ParentChannel, policy: str, seconds: float) -> None:
    """Load a policy, report that, and reply to questions until the parent closes the channel."""
    signal.setitimer(signal.ITIMER_REAL, LOADING_SECONDS)
    try:
        function = load_policy_function(policy)
    except UnusablePolicy as error:
        channel.send(PolicyReply(problem=str(error)))
        return
    except Exception as error:  # the author's module may raise anything
        problem = f"the policy {policy} cannot be imported: {described(error)}"
        channel.send(PolicyReply(problem=problem))
        return
    channel.send(PolicyReply())
    questions = msgspec.msgpack.Decoder(PolicyQuestion)
    while (question := channel.receive(questions)) is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds + ALARM_SECONDS)
        reply = call_policy(function, question.read())
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        channel.send(reply)


def call_policy(function: ScoringFunction, observation: Observation) -> PolicyReply:
    """Return the scores of a policy, or a description of its exception."""
    try:
        return PolicyReply(compute_scores(function, observation).tobytes())
    except InvalidScoresError as error:
        return PolicyReply(problem=str(error), is_nonsense=True)
    except Exception as error:  # the author's code may raise anything
        return PolicyReply(problem=described(error))


def main() -> None:
    """Serve the policy that the command line names."""
    # Ctrl-C is for the scheduler, which closes the channel when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = ParentChannel()
    policy, seconds = channel.arguments
    with suppress(BrokenPipeError, ConnectionResetError):
        serve(channel, policy, float(seconds))


if __name__ == "__main__":
    main()
