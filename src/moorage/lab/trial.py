"""One trial: its input (cluster, trace, configuration, seed, conditions) and its result.

The same input always gives the same rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.lab.cluster import LabCluster
from moorage.lab.formats import Amount, Positive
from moorage.lab.ledger import CPU, GPU, UsageLedger
from moorage.lab.trace import NodeOutage, Trace, TracePod
from moorage.lab.trace_files import StreamedTrace


class NodeFailures(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Random failures of nodes, independent of each other."""

    mean_seconds_between: Positive
    repair_seconds: Amount = 600.0


class Conditions(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """The settings of all trials of an experiment: changes to the trace, failures, and the time of measurements."""

    shuffle: bool = False
    """Whether the seed determines the order of the pods."""
    inflate: Positive | None = None
    """Append clones of random pods up to this share of the cluster: 1.3 is 130% of its GPUs (or CPU)."""
    arrivals_only: bool = False
    """Whether pods arrive one by one, each after the previous decision, and never finish."""
    skip_unplaced: bool = False
    """Whether unschedulable pods are dropped after one attempt."""
    ties: Literal["upstream", "random", "name", "shuffled"] = "upstream"
    """The rule for nodes of equal score: kube-scheduler's order, random by seed, the first name, or the first in an
    order of the nodes that the seed determines."""
    evicted_return: bool = True
    """Whether pods that are evicted or lose their node return as new pods."""
    node_failures: NodeFailures | None = None
    horizon: Positive | None = None
    """End a trial after this number of seconds, even if pods are pending."""
    point_every: Positive | None = None
    """Seconds between points. The default is every per cent of the requested resources, or a hundredth of the time."""
    measures: tuple[str, ...] = ()
    """Functions that compute further measures, as ``module:function``."""
    pod_rows: bool = True
    """Whether to keep the result of each pod. A report needs it to compare placements."""


class PolicyText(Struct, frozen=True):
    """Scheduling settings in their source form: a configuration, its out-of-tree plugins, and feature gates."""

    name: str
    config: str = ""
    """A KubeSchedulerConfiguration in YAML, or empty for the defaults."""
    plugins: tuple[str, ...] = ()
    """Plugins in addition to the installed ones, as ``module:Class``."""
    gates: dict[str, bool] = {}


class TrialId(Struct, frozen=True, rename="camel"):
    """Identifies a trial; the first columns of each row."""

    trace: str
    cluster: str
    configuration: str
    seed: int

    def __str__(self) -> str:
        return f"{self.configuration} on {self.cluster} with {self.trace}, seed {self.seed}"


class Trial(Struct, frozen=True):
    """The input of a trial. It can be pickled and sent to another process."""

    trace: Trace | StreamedTrace
    cluster: LabCluster
    policy: PolicyText
    seed: int
    conditions: Conditions = Conditions()
    directory: str = ""
    """The directory of the experiment, where plugins and measures are found."""

    @property
    def key(self) -> tuple[str, str, str, int]:
        """The first columns of each row: names of trace, cluster and configuration, and the seed."""
        return self.trace.name, self.cluster.name, self.policy.name, self.seed

    @property
    def id(self) -> TrialId:
        """The identity of this trial."""
        return TrialId(*self.key)


class TrialRow(TrialId, frozen=True, rename="camel"):
    """The result of a trial. ``measures`` are numbers by name, as docs/reference/lab.md lists them."""

    pods: int = 0
    placed: int = 0
    unplaced: int = 0
    measures: dict[str, float] = {}
    error: str = ""
    """The reason for missing measures: the plugin that failed, and its error."""


class PointRow(TrialId, frozen=True, rename="camel"):
    """The state of the cluster at one moment. Shares are between 0 and 1."""

    at: float
    """Seconds from the beginning."""
    asked: float
    """The requests of the arrived pods as a share of the cluster: of GPUs if it has any, otherwise of CPU."""
    nodes: int
    running: int
    waiting: int
    cpu: float
    memory: float
    gpu: float
    fragmentation: float | None = None
    tenants: dict[str, float] | None = None
    """The allocated share of each tenant, of the resource in ``asked``: the largest ones, and ``other``."""


class PodRow(TrialId, frozen=True, rename="camel"):
    """The result of a pod."""

    pod: str
    kind: str
    arrives: float
    waited: float | None
    """Seconds from its arrival to its first node, or ``None`` without one."""
    node: str
    """Its last node."""
    evictions: int = 0
    reason: str = ""
    """The last reason for the rejection of a pod without a node."""


class JobRow(TrialId, frozen=True, rename="camel"):
    """The result of a job. A pod without a job is its own."""

    job: str
    kind: str
    tenant: str
    pods: int
    arrives: float
    """The arrival of its first pod."""
    queued: float | None
    """Seconds until all of its pods have had a node."""
    jct: float | None
    """Job completion time: seconds from its arrival to the end of its last pod; ``None`` if it did not finish."""
    slowdown: float | None
    """The completion time divided by the time on an empty cluster, at least 10 seconds."""
    evictions: int = 0
    lost: float = 0.0
    """Seconds of work that evictions discarded, summed over its pods."""


class TrialResult(Struct, frozen=True):
    """All rows of a trial."""

    trial: TrialRow
    points: tuple[PointRow, ...] = ()
    pods: tuple[PodRow, ...] = ()
    jobs: tuple[JobRow, ...] = ()
    curves: dict[str, tuple[float, ...]] = {}
    """Distributions by measure: the percentiles 0 to 100."""
    reasons: dict[str, int] = {}
    """Number of pods without a node by the last reason for their rejection."""


MAX_CLONES: Final = 10_000_000


def make_random(seed: int, purpose: str) -> Random:
    """Return a generator for one purpose, which draws for other purposes do not affect."""
    return Random(f"{seed}/{purpose}")


def arrange_pods(trial: Trial) -> Iterable[TracePod]:
    """Return the pods in the order of their arrival; with ``arrivals_only``, one per second."""
    random, conditions = make_random(trial.seed, "order"), trial.conditions
    if isinstance(trial.trace, StreamedTrace):
        if conditions.shuffle or conditions.inflate is not None:
            problem = "shuffle and inflate need all pods of a trace in memory"
            raise InputError(f"trace {trial.trace.name}", problem, hint="remove stream: true, shuffle or inflate")
        if not conditions.arrivals_only:
            return trial.trace.pods
        return (_arrive_in_turn(pod, index) for index, pod in enumerate(trial.trace.pods))
    pods = list(trial.trace.pods)
    if conditions.shuffle:
        moments = sorted(pod.arrives for pod in pods)
        random.shuffle(pods)
        pods = [replace(pod, arrives=moment) for pod, moment in zip(pods, moments, strict=True)]
    else:
        pods.sort(key=lambda pod: pod.arrives)
    if conditions.inflate is not None:
        pods += _clones(pods, trial.cluster, conditions.inflate, random)
    if conditions.arrivals_only:
        return [_arrive_in_turn(pod, index) for index, pod in enumerate(pods)]
    return pods


def _arrive_in_turn(pod: TracePod, index: int) -> TracePod:
    return replace(pod, arrives=float(index), runs=None, fails=0, after=())


def measure_capacity(cluster: LabCluster) -> tuple[int, int]:
    """Return the capacity of a cluster and its resource: GPUs if it has any, otherwise CPU."""
    ledger = UsageLedger()
    for node in cluster.nodes:
        ledger.add_node(node)
    resource = GPU if ledger.total[GPU] else CPU
    return ledger.total[resource], resource


def find_request(pod: TracePod, resource: int) -> int:
    """Return the request of a pod for this resource."""
    return pod.gpu_request if resource == GPU else pod.cpu_milli


def _clones(pods: Sequence[TracePod], cluster: LabCluster, share: float, random: Random) -> Iterator[TracePod]:
    total, resource = measure_capacity(cluster)
    requested = sum(find_request(pod, resource) for pod in pods)
    if not requested:
        problem = (
            f"no pod of the trace requests {'GPUs' if resource == GPU else 'CPU'}, so clones never reach the share"
        )
        raise InputError("options.inflate", problem, hint="remove inflate, or use another trace or cluster")
    last = max(pod.arrives for pod in pods)
    for number in range(MAX_CLONES):
        if requested >= share * total:
            return
        template = pods[random.randrange(len(pods))]
        requested += find_request(template, resource)
        yield replace(template, name=f"{template.name}-clone-{number}", arrives=last)


def arrange_outages(trial: Trial, until: float) -> list[NodeOutage]:
    """Return the node failures: those of the trace, and random ones until the last arrival."""
    outages, failures = list(trial.trace.outages), trial.conditions.node_failures
    if failures is not None:
        random, rate = make_random(trial.seed, "failures"), 1 / failures.mean_seconds_between
        for node in trial.cluster.nodes:
            moment = random.expovariate(rate)
            while moment < until:
                repaired = moment + failures.repair_seconds
                outages.append(NodeOutage(node.name, moment, repaired))
                moment = repaired + random.expovariate(rate)
    return sorted(outages, key=lambda outage: (outage.down, outage.node))
