"""The arguments of plugins beyond kube-scheduler's: community plugins, GPU sharing, learned scores.

Community plugins are those of sigs.k8s.io/scheduler-plugins, with their names and defaults.
"""

import re
from collections.abc import Iterator
from math import isfinite
from typing import Any, Final

from msgspec import field
from msgspec.structs import replace

from moorage.common.errors import ConfigError, QuantityError
from moorage.kube.api.gpu_sharing import GPU_MODEL, WHOLE_GPU
from moorage.kube.api.quantity import ResourceList, milli_value
from moorage.kube.api.struct import KubeStruct
from moorage.scheduler.config.args import LEAST_ALLOCATED, MOST_ALLOCATED, DefaultPreemptionArgs, ResourceSpec
from moorage.scheduler.config.durations import RFC3339, Duration, GoLayout
from moorage.scheduler.config.problems import invalid, required, unsupported
from moorage.scheduler.config.types import Int32, Int64


class CoschedulingArgs(KubeStruct, frozen=True):
    """Timeouts of pods that wait for their group, and of groups after a failure.

    ``podGroupRejectPercentage`` is read and has no effect: groups are scheduled as a unit and never wait in part.
    """

    permit_waiting_time_seconds: Int64 = 60
    pod_group_backoff_seconds: Int64 = 0
    pod_group_reject_percentage: Int32 = 10


_URL: Final = re.compile(r"https?://[^/\s]+(/\S*)?$")
_DECIMAL: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?", re.ASCII)

LEAST: Final = "Least"
MOST: Final = "Most"


class NodeResourcesAllocatableArgs(KubeStruct, frozen=True):
    """The weights of resources (CPU in thousandths, memory in bytes), and whether less or more is preferred."""

    resources: tuple[ResourceSpec, ...] = (ResourceSpec("cpu", 1 << 20), ResourceSpec("memory", 1))
    mode: str = LEAST


class PreemptionTolerationArgs(DefaultPreemptionArgs, frozen=True):
    """The number of nodes that a preemption evaluates."""


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
    """The label or annotation, its type and the preferred order. ``defaultValue`` applies to nodes without it."""

    metadata_key: str
    metadata_source: str
    metadata_type: str
    scoring_strategy: str
    timestamp_format: str = RFC3339
    default_value: str = ""


METRICS_SERVER: Final = "KubernetesMetricsServer"
PROMETHEUS: Final = "Prometheus"
SIGNAL_FX: Final = "SignalFx"
DEFAULT_TARGET: Final = 40
DEFAULT_MULTIPLIER: Final = "1.5"


class MetricProviderSpec(KubeStruct, frozen=True):
    """The metrics provider, used if there is no load watcher."""

    type: str = ""
    address: str = ""
    token: str = ""
    insecure_skip_verify: bool | None = None


class LoadArgs(KubeStruct, frozen=True):
    """The source of node utilization: a load watcher or a metrics provider."""

    metric_provider: MetricProviderSpec = MetricProviderSpec()
    watcher_address: str = ""


class TargetLoadPackingArgs(LoadArgs, frozen=True):
    """The target utilization, and the expected use of containers without limits or requests."""

    default_requests: ResourceList = field(default_factory=lambda: {"cpu": "1000m"})
    default_requests_multiplier: str = DEFAULT_MULTIPLIER
    target_utilization: Int64 = DEFAULT_TARGET


class LoadVariationRiskBalancingArgs(LoadArgs, frozen=True):
    """The weight of variation: a factor, applied after a root."""

    safe_variance_margin: float = 1.0
    safe_variance_sensitivity: float = 1.0


BY_POLICY: Final = "Policy"
TIGHTEST: Final = "Tightest"
LOOSEST: Final = "Loosest"
FIRST: Final = "First"
RANDOM: Final = "Random"
_SELECTIONS: Final = (BY_POLICY, TIGHTEST, LOOSEST, FIRST, RANDOM)


class GpuShareArgs(KubeStruct, frozen=True):
    """The choice of devices for a share, the random seed, and the node label that groups metrics by pool.

    ``draDriver`` names a driver of dynamic resource allocation for the metrics of devices.

    ``Policy`` leaves the choice to the score plugin of the profile: the best device under FGD, any under GpuRandom, and
    the tightest under all others.
    """

    device_selection: str = BY_POLICY
    seed: Int64 = 0
    pool_label: str = GPU_MODEL
    dra_driver: str = ""


class TypicalShape(KubeStruct, frozen=True):
    """The requests of a typical pod, and its relative frequency."""

    cpu_milli: Int64 = 0
    gpus: Int64 = 0
    gpu_milli: Int64 = 0
    gpu_models: tuple[str, ...] = ()
    pods: Int64 = 1


class FGDArgs(KubeStruct, frozen=True):
    """The typical pods; by default the shapes that cover this percentage of the pods in the cluster."""

    typical_shapes: tuple[TypicalShape, ...] = ()
    coverage_percent: Int64 = 95
    relearn_seconds: Int64 = 300


class GpuRandomArgs(KubeStruct, frozen=True):
    """The random seed: the same seed, pod and nodes give the same node."""

    seed: Int64 = 0


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


def complete_contrib_args(args: Any) -> Any:
    """Apply the defaults of scheduler-plugins after decoding."""
    match args:
        case NodeResourcesAllocatableArgs(resources=resources, mode=mode):
            default = NodeResourcesAllocatableArgs()
            return NodeResourcesAllocatableArgs(resources or default.resources, mode or default.mode)
        case NodeMetadataArgs(timestamp_format=layout):
            return replace(args, timestamp_format=layout or RFC3339)
        case TargetLoadPackingArgs(target_utilization=target, default_requests_multiplier=times):
            target = target if target > 0 else DEFAULT_TARGET
            return replace(args, target_utilization=target, default_requests_multiplier=times or DEFAULT_MULTIPLIER)
        case LoadVariationRiskBalancingArgs(safe_variance_margin=margin, safe_variance_sensitivity=root):
            return replace(
                args,
                safe_variance_margin=1.0 if margin < 0 else margin,
                safe_variance_sensitivity=1.0 if root < 0 else root,
            )
        case _:
            return args


def contrib_args_problems(args: Any, location: str) -> Iterator[ConfigError]:
    """Yield the problems in the arguments of these plugins. Other types are ignored."""
    match args:
        case CoschedulingArgs():
            yield from _coscheduling(args, location)
        case NodeResourcesAllocatableArgs():
            yield from _allocatable(args, location)
        case NodeMetadataArgs():
            yield from _metadata(args, location)
        case LoadArgs():
            yield from _load(args, location)
            if isinstance(args, TargetLoadPackingArgs):
                yield from _packing(args, location)
            if isinstance(args, LoadVariationRiskBalancingArgs):
                yield from _balancing(args, location)
        case GpuShareArgs():
            if args.device_selection not in _SELECTIONS:
                yield unsupported(f"{location}.deviceSelection", args.device_selection, _SELECTIONS)
            if not args.pool_label:
                yield required(f"{location}.poolLabel", "the name of a label of nodes")
        case FGDArgs():
            yield from _fgd(args, location)
        case LearnedScoreArgs():
            yield from _learned_score(args, location)


def _coscheduling(args: CoschedulingArgs, location: str) -> Iterator[ConfigError]:
    for name, seconds in (
        ("permitWaitingTimeSeconds", args.permit_waiting_time_seconds),
        ("podGroupBackoffSeconds", args.pod_group_backoff_seconds),
    ):
        if seconds < 0:
            yield invalid(f"{location}.{name}", seconds, "must not be negative")
    if not 0 <= args.pod_group_reject_percentage <= 100:
        field_path = f"{location}.podGroupRejectPercentage"
        yield invalid(field_path, args.pod_group_reject_percentage, "not in valid range [0, 100]")


def _allocatable(args: NodeResourcesAllocatableArgs, location: str) -> Iterator[ConfigError]:
    if args.mode not in (LEAST, MOST):
        yield unsupported(f"{location}.mode", args.mode, (LEAST, MOST))
    for index, resource in enumerate(args.resources):
        if resource.weight <= 0:
            text = f"resource weight of {resource.name} should be a positive value, got {resource.weight}"
            yield invalid(f"{location}.resources[{index}].weight", resource.weight, text)


def _metadata(args: NodeMetadataArgs, location: str) -> Iterator[ConfigError]:
    if not args.metadata_key:
        yield required(f"{location}.metadataKey", "the name of a label or an annotation")
    if args.metadata_source not in (LABEL, ANNOTATION):
        yield unsupported(f"{location}.metadataSource", args.metadata_source, (LABEL, ANNOTATION))
    strategies = _STRATEGIES.get(args.metadata_type)
    if strategies is None:
        yield unsupported(f"{location}.metadataType", args.metadata_type, (NUMBER, TIMESTAMP))
    elif args.scoring_strategy not in strategies:
        yield unsupported(f"{location}.scoringStrategy", args.scoring_strategy, strategies)
    if args.metadata_type == TIMESTAMP:
        try:
            GoLayout.parse(args.timestamp_format)
        except ValueError as error:
            hint = f'write a Go time layout, such as "{RFC3339}" or "2006-01-02"'
            yield invalid(f"{location}.timestampFormat", args.timestamp_format, str(error), hint=hint)


def _load(args: LoadArgs, location: str) -> Iterator[ConfigError]:
    if args.watcher_address:
        yield from _url(args.watcher_address, f"{location}.watcherAddress")
        return
    provider, field_path = args.metric_provider, f"{location}.metricProvider"
    hint = f"write watcherAddress: http://…, or metricProvider: {{type: {PROMETHEUS}, address: http://…}}"
    if not provider.type:
        yield required(f"{location}.watcherAddress", "no source of node utilization is configured", hint=hint)
    elif provider.type in (METRICS_SERVER, SIGNAL_FX):
        text = "use a load watcher or a Prometheus server"
        yield invalid(f"{field_path}.type", provider.type, text, hint=hint)
    elif provider.type != PROMETHEUS:
        yield unsupported(f"{field_path}.type", provider.type, (PROMETHEUS,))
    else:
        yield from _url(provider.address, f"{field_path}.address")
    if "\n" in provider.token or "\r" in provider.token:
        yield ConfigError(f"{field_path}.token", "a token must be a single line")


def _url(address: str, location: str) -> Iterator[ConfigError]:
    parts = _URL.match(address)
    if parts is None:
        # It is not shown: it may have a password in it.
        yield ConfigError(location, "not a URL of a server", hint="write one such as http://load-watcher:2020")


def _packing(args: TargetLoadPackingArgs, location: str) -> Iterator[ConfigError]:
    if args.target_utilization > 100:
        yield invalid(f"{location}.targetUtilization", args.target_utilization, "not in valid range [1, 100]")
    times = args.default_requests_multiplier
    if not _DECIMAL.fullmatch(times):
        hint = 'write a number in quotes, such as "1.5"'
        yield invalid(f"{location}.defaultRequestsMultiplier", times, "this is not a number", hint=hint)
    for name, amount in args.default_requests.items():
        try:
            milli_value(amount)
        except QuantityError as error:
            yield invalid(f"{location}.defaultRequests.{name}", amount, str(error))


def _balancing(args: LoadVariationRiskBalancingArgs, location: str) -> Iterator[ConfigError]:
    numbers = (
        ("safeVarianceMargin", args.safe_variance_margin),
        ("safeVarianceSensitivity", args.safe_variance_sensitivity),
    )
    for name, value in numbers:
        if not isfinite(value):
            yield invalid(f"{location}.{name}", str(value), "this is not a number")


def _fgd(args: FGDArgs, location: str) -> Iterator[ConfigError]:
    if not 1 <= args.coverage_percent <= 100:
        yield invalid(f"{location}.coveragePercent", args.coverage_percent, "not in valid range [1, 100]")
    if args.relearn_seconds < 1:
        yield invalid(f"{location}.relearnSeconds", args.relearn_seconds, "must be at least 1")
    for index, shape in enumerate(args.typical_shapes):
        field_path = f"{location}.typicalShapes[{index}]"
        if shape.gpus < 0:
            yield invalid(f"{field_path}.gpus", shape.gpus, "must not be negative")
        if shape.gpus > 0 and not 1 <= shape.gpu_milli <= WHOLE_GPU:
            text = f"a shape with GPUs takes 1 to {WHOLE_GPU} thousandths of each"
            yield invalid(f"{field_path}.gpuMilli", shape.gpu_milli, text)
        if shape.cpu_milli < 0:
            yield invalid(f"{field_path}.cpuMilli", shape.cpu_milli, "must not be negative")
        if shape.pods < 1:
            yield invalid(f"{field_path}.pods", shape.pods, "must be at least 1")


def _learned_score(args: LearnedScoreArgs, location: str) -> Iterator[ConfigError]:
    if not args.policy:
        yield required(f"{location}.policy", "module:function, or the path of an .onnx file")
    elif not (args.policy.endswith(ONNX_SUFFIX) or _FUNCTION(args.policy)):
        yield invalid(f"{location}.policy", args.policy, "write module:function, or the path of an .onnx file")
    if args.time_limit.nanoseconds < 0:
        yield invalid(f"{location}.timeLimit", str(args.time_limit), "must not be negative; 0s waits without a limit")
    if args.fallback not in FALLBACKS:
        yield unsupported(f"{location}.fallback", args.fallback, FALLBACKS)
    if not args.resources or len(set(args.resources)) < len(args.resources):
        yield invalid(f"{location}.resources", list(args.resources), "list at least one resource, without duplicates")
