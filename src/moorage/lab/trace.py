"""A trace: arrivals, requests and durations of pods, jobs, gangs, and failures; also builds the pods."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from moorage.kube.api.codec import convert
from moorage.kube.api.container import Container, ResourceRequirements
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_MILLI, GPU_MODEL
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod, PodSpec, SchedulingGroup
from moorage.kube.api.pod_groups import GangPolicy, PodGroup, PodGroupPolicy, PodGroupSpec
from moorage.kube.api.quantity import Quantity
from moorage.lab.formats import Amount, Count, GpuCount, Name, Priority

APP_LABEL: Final = "app"
GANG: Final = "moorage.io/gang"
GANG_SIZE: Final = "moorage.io/gang-size"
"""The annotations of a gang for the plugin Coscheduling."""
LIMIT_PREFIX: Final = "moorage.io/limit-"
"""Prefix of the resources that limit the pods of an app on a node."""


class TracePod(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """One line of a trace: a pod that arrives. Times are seconds from the beginning of the trace."""

    name: Name
    arrives: Amount = 0.0
    runs: Amount | None = None
    """Duration after binding; endless by default."""
    cpu_milli: Count = 0
    memory_mib: Count = 0
    gpus: GpuCount = 0
    gpu_milli: Count = 0
    """Requested part of each GPU, in thousandths."""
    gpu_models: tuple[str, ...] = ()
    """Accepted GPU models; any by default."""
    kind: str = field(default="", name="class")
    """Class for waiting times: a quality of service, a kind of workload."""
    tenant: str = ""
    """The user, team or virtual cluster for fairness; the class by default."""
    priority: Priority = 0
    fails: Count = 0
    """Number of failed runs before one succeeds. Each failure is followed by a new pod."""
    retries: Count | None = None
    """Number of new pods after failures and evictions; unlimited by default."""
    job: str = ""
    """The job of the pod. A pod without one is its own job."""
    gang: str = ""
    """The gang of the pod: its members start to work when ``gang_size`` members have a node."""
    gang_size: Count = 0
    after: tuple[str, ...] = ()
    """Jobs that must finish first: the pod arrives when they have, but not before ``arrives``."""
    max_per_node: Count = 0
    """Maximum number of pods with the same label ``app`` on a node; unlimited by default."""
    namespace: str = "default"
    labels: dict[str, str] = {}
    requests: dict[str, Quantity] = {}
    """Additional requests: extended resources."""
    spec: dict[str, Any] = {}
    """Other fields of a pod's spec: affinity, tolerations, spread constraints."""

    @property
    def gpu_request(self) -> int:
        """GPU request in thousandths."""
        return self.gpus * self.gpu_milli

    @property
    def job_name(self) -> str:
        """The job, or the pod itself."""
        return self.job or self.name

    @property
    def tenant_name(self) -> str:
        """The tenant, or the class."""
        return self.tenant or self.kind


class NodeOutage(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """One line of a trace: the failure of a node. Permanent without an end."""

    node: str
    down: Amount
    up: Amount | None = None


Shape = tuple[int, int, int, tuple[str, ...]]
"""Milli-CPU, number of GPUs, thousandths of each, and accepted models."""


class TraceFacts(Struct, frozen=True):
    """Sums over all pods of a trace."""

    pods: int = 0
    last_arrival: float = 0.0
    longest_run: float = 0.0
    shapes: dict[Shape, int] = {}
    """Number of pods of each shape."""
    limits: dict[str, int] = {}
    """Maximum number of pods per node by app."""
    jobs: dict[str, int] = {}
    """Number of pods of each job that other jobs wait for."""

    @property
    def has_gpus(self) -> bool:
        """Whether a pod requests GPUs."""
        return any(gpus for _, gpus, _, _ in self.shapes)


def collect_facts(pods: Iterable[TracePod]) -> TraceFacts:
    """Compute the sums. Memory does not grow with the number of pods, which are read again if jobs await other jobs."""
    count, last, longest = 0, 0.0, 0.0
    shapes: Counter[Shape] = Counter()
    limits: dict[str, int] = {}
    awaited: set[str] = set()
    for pod in pods:
        count += 1
        last, longest = max(last, pod.arrives), max(longest, pod.runs or 0.0)
        models = tuple(sorted(set(pod.gpu_models)))
        shapes[(pod.cpu_milli, pod.gpus, pod.gpu_milli, models) if pod.gpus else (pod.cpu_milli, 0, 0, ())] += 1
        if pod.max_per_node:
            app = pod.labels.get(APP_LABEL, "")
            limits[app] = min(limits.get(app, pod.max_per_node), pod.max_per_node)
        awaited.update(pod.after)
    sizes = Counter(pod.job_name for pod in pods if pod.job_name in awaited) if awaited else {}
    return TraceFacts(count, last, longest, dict(shapes), limits, dict(sizes))


class Trace(Struct, frozen=True):
    """The pods and outages of a trace, in the order of its lines."""

    name: str
    pods: tuple[TracePod, ...]
    outages: tuple[NodeOutage, ...] = ()

    @property
    def facts(self) -> TraceFacts:
        """Sums over all pods."""
        return collect_facts(self.pods)


class PodMaker:
    """Builds the pods that an API server would store.

    Pods with equal requests share one spec, which saves memory and time. The members of a gang have annotations for
    the plugin Coscheduling and, with ``has_groups``, refer to a PodGroup.
    """

    def __init__(self, *, has_groups: bool = False) -> None:
        self._has_groups = has_groups
        self._specs: dict[object, tuple[PodSpec, dict[str, str]]] = {}

    def make(self, line: TracePod, lost_runs: int = 0) -> Pod:
        """Build the pod of a line, or its replacement after lost runs."""
        more = msgspec.json.encode((line.requests, line.spec)) if line.requests or line.spec else b""
        key: tuple[object, ...]
        key = (line.cpu_milli, line.memory_mib, line.gpus, line.gpu_milli, line.gpu_models, line.priority, more)
        key += (line.labels.get(APP_LABEL, ""),) if line.max_per_node else ()
        shared = self._specs.get(key)
        if shared is None:
            shared = self._specs[key] = (make_spec(line), _gpu_annotations(line))
        name = f"{line.name}-{lost_runs}" if lost_runs else line.name
        spec, annotations = shared
        if line.gang:
            annotations = {**annotations, GANG: line.gang, GANG_SIZE: str(line.gang_size)}
            if self._has_groups:
                spec = msgspec.structs.replace(spec, scheduling_group=SchedulingGroup(pod_group_name=line.gang))
        metadata = ObjectMeta(
            name=name,
            namespace=line.namespace,
            uid=f"{line.namespace}/{name}",
            resource_version="1",
            labels=line.labels,
            annotations=annotations,
        )
        return Pod(metadata=metadata, spec=spec)


def make_group(line: TracePod) -> PodGroup:
    """Build the PodGroup of a gang."""
    metadata = ObjectMeta(
        name=line.gang, namespace=line.namespace, uid=f"group/{line.namespace}/{line.gang}", resource_version="1"
    )
    policy = PodGroupPolicy(gang=GangPolicy(min_count=line.gang_size))
    return PodGroup(metadata=metadata, spec=PodGroupSpec(scheduling_policy=policy, priority=line.priority or None))


def make_spec(line: TracePod) -> PodSpec:
    """Return the spec of a pod: one container with its requests, and other fields of its line."""
    requests = {**line.requests}
    if line.cpu_milli:
        requests["cpu"] = f"{line.cpu_milli}m"
    if line.memory_mib:
        requests["memory"] = f"{line.memory_mib}Mi"
    if line.gpu_request:
        requests[GPU_MILLI] = line.gpu_request
    if line.max_per_node:
        requests[LIMIT_PREFIX + line.labels.get(APP_LABEL, "")] = 1
    container = Container(name="main", resources=ResourceRequirements(requests=requests))
    base = convert(PodSpec, line.spec) if line.spec else PodSpec()
    return msgspec.structs.replace(base, containers=(container, *base.containers), priority=line.priority or None)


def _gpu_annotations(line: TracePod) -> dict[str, str]:
    if not line.gpus:
        return {}
    annotations = {GPU_COUNT: str(line.gpus), GPU_MILLI: str(line.gpu_milli)}
    return annotations | ({GPU_MODEL: "|".join(line.gpu_models)} if line.gpu_models else {})
