"""Results of a trial: one row of measures, points over time, and the result of each pod."""

from msgspec import Struct


class TrialId(Struct, frozen=True, rename="camel"):
    """Which trial a row is of."""

    trace: str
    cluster: str
    configuration: str
    seed: int

    def __str__(self) -> str:
        return f"{self.configuration} on {self.cluster} with {self.trace}, seed {self.seed}"


class TrialRow(Struct, frozen=True, rename="camel"):
    """How a trial went. ``measures`` are numbers by name, such as ``allocation.gpu``; see docs/reference/lab.md."""

    trace: str
    cluster: str
    configuration: str
    seed: int
    pods: int = 0
    placed: int = 0
    unplaced: int = 0
    measures: dict[str, float] = {}
    error: str = ""
    """Why there are no measures: which plugin failed, and how."""

    @property
    def id(self) -> TrialId:
        """Which trial it is of."""
        return TrialId(self.trace, self.cluster, self.configuration, self.seed)


class PointRow(Struct, frozen=True, rename="camel"):
    """How the cluster was at one moment; shares are between 0 and 1."""

    trace: str
    cluster: str
    configuration: str
    seed: int
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


class PodRow(Struct, frozen=True, rename="camel"):
    """The result of one pod."""

    trace: str
    cluster: str
    configuration: str
    seed: int
    pod: str
    kind: str
    arrives: float
    waited: float | None
    """Seconds from its arrival to its first node; ``None`` if it never got one."""
    node: str
    """The node that it got last."""
    evictions: int = 0


class TrialResult(Struct, frozen=True):
    """All rows of one trial."""

    trial: TrialRow
    points: tuple[PointRow, ...] = ()
    pods: tuple[PodRow, ...] = ()
