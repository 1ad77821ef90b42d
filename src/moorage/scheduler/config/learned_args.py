"""The arguments of LearnedScore, which has a trained policy score nodes."""

import re
from collections.abc import Iterator
from typing import Any, Final

from moorage.common.errors import ConfigError
from moorage.kube.api.struct import KubeStruct
from moorage.scheduler.config.args import LEAST_ALLOCATED, MOST_ALLOCATED
from moorage.scheduler.config.durations import Duration
from moorage.scheduler.config.problems import invalid, required, unsupported

NO_FALLBACK: Final = "None"
FALLBACKS: Final = (LEAST_ALLOCATED, MOST_ALLOCATED, NO_FALLBACK)
ONNX_SUFFIX: Final = ".onnx"
_FUNCTION: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*").fullmatch


class LearnedScoreArgs(KubeStruct, frozen=True):
    """The policy that scores nodes, its time limit, and the fallback score.

    With a ``timeLimit`` of 0s the policy runs in the scheduler's process without a limit.
    """

    policy: str
    time_limit: Duration = Duration(50_000_000)
    fallback: str = LEAST_ALLOCATED
    resources: tuple[str, ...] = ("cpu", "memory")


def learned_args_problems(args: Any, where: str) -> Iterator[ConfigError]:
    """Yield the problems in the arguments of LearnedScore; other types are ignored."""
    if not isinstance(args, LearnedScoreArgs):
        return
    if not args.policy:
        yield required(f"{where}.policy", "module:function, or the path of an .onnx file")
    elif not (args.policy.endswith(ONNX_SUFFIX) or _FUNCTION(args.policy)):
        yield invalid(f"{where}.policy", args.policy, "write module:function, or the path of an .onnx file")
    if args.time_limit.nanoseconds < 0:
        yield invalid(f"{where}.timeLimit", str(args.time_limit), "must not be negative; 0s waits without a limit")
    if args.fallback not in FALLBACKS:
        yield unsupported(f"{where}.fallback", args.fallback, FALLBACKS)
    if not args.resources or len(set(args.resources)) < len(args.resources):
        yield invalid(f"{where}.resources", list(args.resources), "name one resource or more, each of them once")
