"""The arguments of the plugins of sigs.k8s.io/scheduler-plugins that come with Moorage: names and defaults as there."""

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from moorage.api.struct import KubeStruct
from moorage.config.args import DefaultPreemptionArgs, ResourceSpec
from moorage.config.go_times import RFC3339, GoLayout
from moorage.config.problems import invalid, required, unsupported
from moorage.config.types import Int32, Int64
from moorage.errors import ConfigError


class CoschedulingArgs(KubeStruct, frozen=True):
    """How long a pod may wait for the rest of its group, and a group after a failure.

    ``podGroupRejectPercentage`` is read and has no effect: a group is tried as a whole, and no part of it waits.
    """

    permit_waiting_time_seconds: Int64 = 60
    pod_group_backoff_seconds: Int64 = 0
    pod_group_reject_percentage: Int32 = 10


LEAST: Final = "Least"
MOST: Final = "Most"


class NodeResourcesAllocatableArgs(KubeStruct, frozen=True):
    """Which resources count how much (CPU in thousandths, memory in bytes), and whether little or much is good."""

    resources: tuple[ResourceSpec, ...] = (ResourceSpec("cpu", 1 << 20), ResourceSpec("memory", 1))
    mode: str = LEAST


class PreemptionTolerationArgs(DefaultPreemptionArgs, frozen=True):
    """How many nodes a preemption looks at."""


LABEL: Final = "Label"
ANNOTATION: Final = "Annotation"
NUMBER: Final = "Number"
TIMESTAMP: Final = "Timestamp"
HIGHEST: Final = "Highest"
LOWEST: Final = "Lowest"
NEWEST: Final = "Newest"
OLDEST: Final = "Oldest"
_STRATEGIES: Final = {NUMBER: (HIGHEST, LOWEST), TIMESTAMP: (NEWEST, OLDEST)}


class NodeMetadataArgs(KubeStruct, frozen=True):
    """Which label or annotation counts, what stands there, and what is good; ``defaultValue`` is for nodes without."""

    metadata_key: str
    metadata_source: str
    metadata_type: str
    scoring_strategy: str
    timestamp_format: str = RFC3339
    default_value: str = ""


def complete_community_args(args: Any) -> Any:
    """Fill in what scheduler-plugins fills in after decoding."""
    match args:
        case NodeResourcesAllocatableArgs(resources=resources, mode=mode):
            default = NodeResourcesAllocatableArgs()
            return NodeResourcesAllocatableArgs(resources or default.resources, mode or default.mode)
        case NodeMetadataArgs(timestamp_format=layout):
            return replace(args, timestamp_format=layout or RFC3339)
        case _:
            return args


def community_args_problems(args: Any, where: str) -> Iterator[ConfigError]:
    """Yield what is wrong with the arguments of such a plugin; others are none of its business."""
    match args:
        case CoschedulingArgs():
            yield from _coscheduling(args, where)
        case NodeResourcesAllocatableArgs():
            yield from _allocatable(args, where)
        case NodeMetadataArgs():
            yield from _metadata(args, where)


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


def _allocatable(args: NodeResourcesAllocatableArgs, where: str) -> Iterator[ConfigError]:
    if args.mode not in (LEAST, MOST):
        yield unsupported(f"{where}.mode", args.mode, (LEAST, MOST))
    for index, resource in enumerate(args.resources):
        if resource.weight <= 0:
            text = f"resource weight of {resource.name} should be a positive value, got {resource.weight}"
            yield invalid(f"{where}.resources[{index}].weight", resource.weight, text)


def _metadata(args: NodeMetadataArgs, where: str) -> Iterator[ConfigError]:
    if not args.metadata_key:
        yield required(f"{where}.metadataKey", "the name of a label or an annotation")
    if args.metadata_source not in (LABEL, ANNOTATION):
        yield unsupported(f"{where}.metadataSource", args.metadata_source, (LABEL, ANNOTATION))
    strategies = _STRATEGIES.get(args.metadata_type)
    if strategies is None:
        yield unsupported(f"{where}.metadataType", args.metadata_type, (NUMBER, TIMESTAMP))
    elif args.scoring_strategy not in strategies:
        yield unsupported(f"{where}.scoringStrategy", args.scoring_strategy, strategies)
    if args.metadata_type == TIMESTAMP:
        try:
            GoLayout.parse(args.timestamp_format)
        except ValueError as error:
            hint = f'write a layout of Go, such as "{RFC3339}" or "2006-01-02"'
            yield invalid(f"{where}.timestampFormat", args.timestamp_format, str(error), hint=hint)
