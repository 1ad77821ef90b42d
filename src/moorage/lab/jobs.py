"""Jobs of a trial: completion times, queueing delays and slowdowns, and the service of tenants."""

from array import array
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from moorage.common.arrays import NDArray
from moorage.lab.playing import PodLife

SHORTEST: Final = 10.0
"""Lower limit of the ideal time of a job in seconds. Otherwise tiny jobs would dominate slowdowns."""
PERCENTILES: Final = tuple(range(101))


class JobLedger:
    """Tracks all jobs. Unless ``keeps_all`` is set, only the measures of finished single-pod jobs are kept."""

    def __init__(self, *, keeps_all: bool) -> None:
        self._keeps_all = keeps_all
        self.jobs: dict[str, JobTimes] = {}
        self.samples = Samples()

    def arrived(self, life: PodLife) -> None:
        """Add a pod to its job."""
        job = self.jobs.get(life.line.job_name)
        if job is None:
            job = self.jobs[life.line.job_name] = JobTimes(life)
        job.add(life)

    def bound(self, life: PodLife, now: float) -> None:
        """Record the first node of a pod."""
        job = self.jobs[life.line.job_name]
        job.placed += 1
        job.last_start = now

    def done(self, life: PodLife) -> None:
        """Record the end of a pod."""
        job = self.jobs[life.line.job_name]
        job.end(life)
        if not self._keeps_all and not life.line.job:
            self.samples.add(self.jobs.pop(life.line.job_name))

    def collect(self) -> "Samples":
        """Return the samples of all jobs at the end of a trial."""
        for job in self.jobs.values():
            self.samples.add(job)
        return self.samples


class JobTimes:
    """The times of a job."""

    __slots__ = (
        *("arrives", "evictions", "finished", "ideal_end", "is_failed", "last_end", "last_start", "line", "lost"),
        *("placed", "pods"),
    )

    def __init__(self, life: PodLife) -> None:
        self.line = life.line
        self.arrives = life.line.arrives
        self.pods = self.placed = self.finished = self.evictions = 0
        self.last_start = self.last_end = self.ideal_end = self.lost = 0.0
        self.is_failed = False

    def add(self, life: PodLife) -> None:
        """Add a pod that arrives."""
        self.pods += 1
        self.arrives = min(self.arrives, life.line.arrives)
        self.ideal_end = max(self.ideal_end, life.line.arrives + (life.line.runs or 0.0))

    def end(self, life: PodLife) -> None:
        """Add the end of a pod."""
        self.evictions += life.evictions
        self.lost += life.lost
        if life.finished is None:
            self.is_failed = True
        else:
            self.finished += 1
            self.last_end = max(self.last_end, life.finished)

    @property
    def queued(self) -> float | None:
        """Seconds until all pods have been scheduled, or ``None`` if a pod was not scheduled."""
        return self.last_start - self.arrives if self.pods == self.placed else None

    @property
    def jct(self) -> float | None:
        """Seconds until all pods have finished, or ``None`` if a pod has not finished."""
        return self.last_end - self.arrives if self.pods == self.finished and not self.is_failed else None

    @property
    def slowdown(self) -> float | None:
        """The completion time divided by the ideal one, both at least 10 seconds."""
        jct = self.jct
        return None if jct is None else max(jct, SHORTEST) / max(self.ideal_end - self.arrives, SHORTEST)


class Samples:
    """The values of all jobs by measure and class; 8 bytes each."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, array[float]]] = {}

    def add(self, job: JobTimes) -> None:
        """Add the values of a job."""
        for name, value in (("queueing", job.queued), ("jct", job.jct), ("slowdown", job.slowdown)):
            if value is not None:
                self.add_value(name, job.line.kind, value)

    def add_value(self, name: str, kind: str, value: float) -> None:
        """Add one value of a measure."""
        self.values.setdefault(name, {}).setdefault(kind, array("d")).append(value)

    def all(self, name: str) -> NDArray[np.float64]:
        """Return the values of all classes."""
        by_class = self.values.get(name, {})
        return np.concatenate([np.frombuffer(values) for values in by_class.values()]) if by_class else np.zeros(0)

    def measures(self, name: str) -> Iterator[tuple[str, float]]:
        """Yield mean, median and 95th percentile of a measure, of all jobs and by class."""
        by_class = self.values.get(name)
        if not by_class:
            return
        groups = {"": self.all(name)} | {f".{kind}": np.frombuffer(values) for kind, values in by_class.items() if kind}
        for suffix, values in groups.items():
            yield f"{name}.mean{suffix}", float(np.mean(values))
            yield f"{name}.p50{suffix}", float(np.quantile(values, 0.5))
            yield f"{name}.p95{suffix}", float(np.quantile(values, 0.95))

    def curve(self, name: str) -> tuple[float, ...]:
        """Return the percentiles 0 to 100 of a measure, or empty without values."""
        values = self.all(name)
        return tuple(np.percentile(values, PERCENTILES).tolist()) if len(values) else ()


class TenantService:
    """The resource seconds of each tenant while its pods were scheduled, and while they were waiting."""

    def __init__(self) -> None:
        self.served: dict[str, float] = {}
        self.waited: dict[str, float] = {}
        self.allocated: dict[str, int] = {}
        """The current allocation of each tenant."""

    def bound(self, life: PodLife, request: int, waited: float) -> None:
        """Add a pod that was scheduled."""
        tenant = life.line.tenant_name
        self.waited[tenant] = self.waited.get(tenant, 0.0) + request * waited
        self.allocated[tenant] = self.allocated.get(tenant, 0) + request

    def released(self, life: PodLife, request: int, seconds: float) -> None:
        """Add a pod that left its node after some seconds."""
        tenant = life.line.tenant_name
        self.served[tenant] = self.served.get(tenant, 0.0) + request * seconds
        self.allocated[tenant] -= request

    def shares(self) -> dict[str, float]:
        """Return for each tenant the served share of its demand: 1 if its pods never waited."""
        tenants = sorted(self.served.keys() | self.waited.keys())
        demands = {name: self.served.get(name, 0.0) + self.waited.get(name, 0.0) for name in tenants}
        return {name: self.served.get(name, 0.0) / demand for name, demand in demands.items() if demand}


def jain_index(shares: Mapping[str, float]) -> float:
    """Return Jain's fairness index: 1 if all shares are equal, 1/n if one of n has everything."""
    values = list(shares.values())
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0
