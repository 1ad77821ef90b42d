"""One trial: its input (cluster, trace, configuration, seed, conditions) and its result.

The same input always gives the same rows.
"""

from typing import Literal

from msgspec import Struct

from moorage.lab.cluster import LabCluster
from moorage.lab.formats import Amount, Positive
from moorage.lab.trace import Trace


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
    ties: Literal["upstream", "random", "name"] = "upstream"
    """The rule for nodes of equal score: kube-scheduler's order, random by seed, or the first name."""
    evicted_return: bool = True
    """Whether pods that are evicted or lose their node return as new pods."""
    node_failures: NodeFailures | None = None
    horizon: Positive | None = None
    """End a trial after this number of seconds, even if pods are pending."""
    point_every: Positive | None = None
    """Seconds between points; the default is every per cent of the requested resources, or a hundredth of the time."""
    pod_rows: bool = True
    """Whether to keep the result of each pod; a report needs it to compare placements."""


class PolicyText(Struct, frozen=True):
    """Scheduling settings in their source form: a configuration, its out-of-tree plugins, and feature gates."""

    name: str
    config: str = ""
    """A KubeSchedulerConfiguration in YAML; empty for the defaults."""
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
    """The input of one trial; it can be pickled and sent to another process."""

    trace: Trace
    cluster: LabCluster
    policy: PolicyText
    seed: int
    conditions: Conditions = Conditions()

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
    """The state of the cluster at one moment; shares are between 0 and 1."""

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


class PodRow(TrialId, frozen=True, rename="camel"):
    """The result of one pod."""

    pod: str
    kind: str
    arrives: float
    waited: float | None
    """Seconds from its arrival to its first node; ``None`` without one."""
    node: str
    """Its last node."""
    evictions: int = 0


class TrialResult(Struct, frozen=True):
    """All rows of one trial."""

    trial: TrialRow
    points: tuple[PointRow, ...] = ()
    pods: tuple[PodRow, ...] = ()
