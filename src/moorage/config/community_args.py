"""The arguments of the plugins of sigs.k8s.io/scheduler-plugins that come with Moorage: names and defaults as there."""

from collections.abc import Iterator
from typing import Any

from moorage.api.struct import KubeStruct
from moorage.config.problems import invalid
from moorage.config.types import Int32, Int64
from moorage.errors import ConfigError


class CoschedulingArgs(KubeStruct, frozen=True):
    """How long a pod may wait for the rest of its group, and a group after a failure.

    ``podGroupRejectPercentage`` is read and has no effect: a group is tried as a whole, and no part of it waits.
    """

    permit_waiting_time_seconds: Int64 = 60
    pod_group_backoff_seconds: Int64 = 0
    pod_group_reject_percentage: Int32 = 10


def community_args_problems(args: Any, where: str) -> Iterator[ConfigError]:
    """Yield what is wrong with the arguments of such a plugin; others are none of its business."""
    match args:
        case CoschedulingArgs():
            yield from _coscheduling(args, where)


def _coscheduling(args: CoschedulingArgs, where: str) -> Iterator[ConfigError]:
    for name, seconds in (
        ("permitWaitingTimeSeconds", args.permit_waiting_time_seconds),
        ("podGroupBackoffSeconds", args.pod_group_backoff_seconds),
    ):
        if seconds < 0:
            yield invalid(f"{where}.{name}", seconds, "must not be negative")
    if not 0 <= args.pod_group_reject_percentage <= 100:
        place = f"{where}.podGroupRejectPercentage"
        yield invalid(place, args.pod_group_reject_percentage, "not in valid range [0, 100]")
