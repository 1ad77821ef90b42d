"""Runs a trial and measures it: points over time, integrals, and one final row."""

from collections import Counter
from collections.abc import Iterator
from statistics import fmean
from typing import Any, Final

from msgspec.structs import replace

from moorage.common.clock import VirtualClock
from moorage.common.errors import MoorageError
from moorage.common.virtual_time import run_virtual
from moorage.lab.fragmentation import find_typical_shapes, load_trial_policy, measure_fragmentation
from moorage.lab.jobs import JobLedger, JobTimes, Samples, TenantService, jain_index
from moorage.lab.ledger import CPU, GPU, MEMORY
from moorage.lab.own_measures import compute_measures, load_measures
from moorage.lab.playing import Play, PodLife, TrialWatch
from moorage.lab.trial import JobRow, PodRow, PointRow, Trial, TrialResult, TrialRow, find_request, measure_capacity

POINTS: Final = 100
HOUR: Final = 3600.0
MAX_TENANTS: Final = 20
"""Number of tenants in a point. Further tenants are summed."""
CURVES: Final = ("wait", "queueing", "jct", "slowdown")
"""The measures of jobs and pods with mean, median, 95th percentile and distribution."""
DIGITS: Final = 9
"""Rounding of all numbers, so that results have the same bytes on all machines."""


def run_trial(trial: Trial) -> TrialResult:
    """Run one trial in virtual time, in this process. If a policy fails, its row has the error."""
    clock = VirtualClock()

    async def run() -> TrialResult:
        own = load_measures(trial.conditions.measures, trial.directory, "options.measures")
        play = Play(trial, load_trial_policy(trial), clock, Measures)
        await play.run()
        result = play.watch.result()
        if not own:
            return result
        more = {name: rounded(number) for name, number in compute_measures(own, result).items()}
        return replace(result, trial=replace(result.trial, measures={**result.trial.measures, **more}))

    try:
        return run_virtual(run(), clock)
    except MoorageError as error:
        return TrialResult(TrialRow(*trial.key, error=str(error)))


class Measures(TrialWatch):
    """Measures one trial. The cluster does not change between two events, so sums over time are exact."""

    follows_ends = True

    def __init__(self, play: Play[Any]) -> None:
        super().__init__(play)
        self._trial = trial = play.trial
        self._key = trial.key
        self._capacity, self._resource = measure_capacity(trial.cluster)
        self._requested = 0
        self._next_share = 1
        # Measurements end at the horizon or with the last arrival; if all pods arrive at 0, after the longest duration.
        facts, horizon = play.facts, trial.conditions.horizon
        end = facts.last_arrival or facts.longest_run or 1.0
        self._window = end if horizon is None else horizon
        self._step = trial.conditions.point_every or self._window / POINTS
        self._next_point = self._step
        self._until = self._last_binding = self._last_end = 0.0
        self._placed = self._evictions = self._queue_max = 0
        self._lost = [0.0, 0.0]
        """Core seconds and GPU seconds of work that evictions discarded."""
        self._jobs = JobLedger(keeps_all=trial.conditions.pod_rows)
        self._tenants = TenantService()
        self._reasons: Counter[str] = Counter()
        self._sums: dict[str, float] = {}
        self.points: list[PointRow] = []
        self._spreads: list[float] = []
        self.typical = find_typical_shapes(facts) if self._resource == GPU else None

    def arrived(self, life: PodLife) -> None:
        """Add requested resources. A pod that crosses the next per cent is measured after its decision."""
        self._requested += find_request(life.line, self._resource)
        self._jobs.arrived(life)

    def bound(self, life: PodLife, *, is_first: bool) -> None:
        """Add the waiting time of a pod."""
        now, line = self.play.now, life.line
        self._last_binding = now
        if is_first:
            self._placed += 1
            self._jobs.samples.add_value("wait", line.kind, life.waited or 0.0)
            self._jobs.bound(life, now)
        self._tenants.bound(life, find_request(line, self._resource), now - life.pending_since)

    def released(self, life: PodLife) -> None:
        """Add the service of a pod."""
        self._tenants.released(life, find_request(life.line, self._resource), self.play.now - life.bound)

    def done(self, life: PodLife) -> None:
        """Add the end of a pod to its job."""
        self._jobs.done(life)
        self._evictions += life.evictions
        self._lost[0] += life.lost * life.line.cpu_milli / 1000
        self._lost[1] += life.lost * life.line.gpu_request / 1000
        if life.finished is not None:
            self._last_end = life.finished
        elif life.waited is None:
            self._reasons[life.reason] += 1

    def decided(self) -> None:
        """Record a point if another per cent has been requested, for pods that arrive one by one."""
        if self._trial.conditions.arrivals_only and self._capacity:
            share = 100 * self._requested // self._capacity
            if share >= self._next_share:
                self._next_share = share + 1
                self._record_point(self.play.now)

    def time_passes(self, until: float) -> None:
        """Add the current state to the sums, and record points. The time after the window does not count."""
        until = min(until, self._window)
        seconds = until - self._until
        if not self._trial.conditions.arrivals_only:
            while self._next_point <= until:
                self._record_point(self._next_point)
                self._next_point += self._step
        if seconds <= 0:
            return
        self._until = until
        ledger = self.play.ledger
        now = {
            "allocation.cpu": ledger.share(CPU),
            "allocation.memory": ledger.share(MEMORY),
            "allocation.gpu": ledger.share(GPU),
            "waiting": float(self.play.waiting),
            "cost": ledger.price / HOUR,
            "cost.used": ledger.price_used / HOUR,
            "energy": ledger.watts / HOUR / 1000,
            "energy.used": ledger.watts_used / HOUR / 1000,
            "nodes": float(len(ledger.nodes)),
            "nodes.used": float(ledger.nodes_used),
        }
        self._queue_max = max(self._queue_max, self.play.waiting)
        for name, amount in now.items():
            self._sums[name] = self._sums.get(name, 0.0) + amount * seconds

    def _record_point(self, at: float) -> None:
        ledger = self.play.ledger
        shares = ledger.node_shares(CPU)
        self._spreads.append(float(shares.std()) if len(shares) else 0.0)
        self.points.append(
            PointRow(
                *self._key,
                at=rounded(at),
                asked=rounded(self._requested / self._capacity if self._capacity else 0.0),
                nodes=len(ledger.nodes),
                running=ledger.running,
                waiting=self.play.waiting,
                cpu=rounded(ledger.share(CPU)),
                memory=rounded(ledger.share(MEMORY)),
                gpu=rounded(ledger.share(GPU)),
                fragmentation=None if self.typical is None else rounded(measure_fragmentation(ledger, self.typical)),
                tenants=self._tenant_shares(),
            )
        )

    def _tenant_shares(self) -> dict[str, float] | None:
        """Return the allocated shares of the largest tenants, and of all other tenants together."""
        total = self.play.ledger.total[self._resource]
        ranked = sorted(self._tenants.allocated.items(), key=lambda entry: (-entry[1], entry[0]))
        if len(ranked) < 2 or not total:
            return None
        shares = {name or "none": rounded(amount / total) for name, amount in ranked[:MAX_TENANTS]}
        if remainder := sum(amount for _, amount in ranked[MAX_TENANTS:]):
            shares["other"] = rounded(remainder / total)
        return shares

    def result(self) -> TrialResult:
        """Return all rows of a finished trial."""
        play, conditions = self.play, self._trial.conditions
        unfinished = [life for life in play.lives.values() if life.finished is None and not life.gave_up]
        for life in unfinished:
            # The trial ends before these pods: their resources count until now.
            self._evictions += life.evictions
            self._lost[0] += life.lost * life.line.cpu_milli / 1000
            self._lost[1] += life.lost * life.line.gpu_request / 1000
            request = find_request(life.line, self._resource)
            if life.node:
                self._tenants.released(life, request, play.now - life.bound)
            elif life.pod is not None:
                self._tenants.bound(life, request, play.now - life.pending_since)
            if life.waited is None:
                life.reason = play.find_reason(life)
                self._reasons[life.reason] += 1
        pods = tuple(map(self._make_pod_row, play.lives.values())) if conditions.pod_rows else ()
        jobs = tuple(map(self._make_job_row, self._jobs.jobs.items())) if conditions.pod_rows else ()
        samples = self._jobs.collect()
        measures = dict(sorted((name, rounded(number)) for name, number in self._measures(samples)))
        row = TrialRow(*self._key, play.arrived, self._placed, play.arrived - self._placed, measures)
        curves = {} if conditions.arrivals_only else {name: samples.curve(name) for name in CURVES}
        return TrialResult(
            row,
            tuple(self.points),
            pods,
            jobs,
            {name: tuple(map(rounded, curve)) for name, curve in curves.items() if curve},
            dict(sorted(self._reasons.items())),
        )

    def _measures(self, samples: Samples) -> Iterator[tuple[str, float]]:
        ledger, last = self.play.ledger, self.points[-1] if self.points else None
        arrivals_only = self._trial.conditions.arrivals_only
        seconds = self._until or 1.0
        for name, index in (("cpu", CPU), ("memory", MEMORY), ("gpu", GPU)):
            at_end = ledger.share(index)
            mean = self._sums.get(f"allocation.{name}", 0.0) / seconds
            yield f"allocation.{name}", at_end if arrivals_only or last is None else mean
        yield "evictions", float(self._evictions)
        yield "attempts", float(self.play.attempts.count)
        yield "overcommitted", float(ledger.overcommitted)
        yield "seconds", self._last_binding
        yield "spread.cpu", fmean(self._spreads) if self._spreads else 0.0
        yield "nodes.used", float(ledger.nodes_used) if arrivals_only else self._sums.get("nodes.used", 0.0) / seconds
        parts = [point.fragmentation for point in self.points if point.fragmentation is not None]
        if parts:
            yield "fragmentation", parts[-1] if arrivals_only else fmean(parts)
        if arrivals_only:
            return
        yield "nodes.mean", self._sums.get("nodes", 0.0) / seconds
        if self._trial.cluster.scaled:
            yield "nodes.started", float(self.play.scaler.added)
        yield "queue.mean", self._sums.get("waiting", 0.0) / seconds
        yield "queue.max", float(self._queue_max)
        if self._last_end:
            yield "makespan", self._last_end
        yield "lost.cpuHours", self._lost[0] / HOUR
        yield "lost.gpuHours", self._lost[1] / HOUR
        for name in CURVES:
            yield from samples.measures(name)
        if len(shares := self._tenants.shares()) > 1:
            yield "fairness.jain", jain_index(shares)
            yield "fairness.least", min(shares.values())
        for name in ("cost", "cost.used", "energy", "energy.used"):
            if self._sums.get(name):
                yield name, self._sums[name]

    def _make_job_row(self, entry: tuple[str, JobTimes]) -> JobRow:
        name, job = entry
        queued, jct, slowdown = (
            None if number is None else rounded(number) for number in (job.queued, job.jct, job.slowdown)
        )
        line = job.line
        return JobRow(
            *self._key,
            job=name,
            kind=line.kind,
            tenant=line.tenant_name,
            pods=job.pods,
            arrives=rounded(job.arrives),
            queued=queued,
            jct=jct,
            slowdown=slowdown,
            evictions=job.evictions,
            lost=rounded(job.lost),
        )

    def _make_pod_row(self, life: PodLife) -> PodRow:
        return PodRow(
            *self._key,
            pod=life.line.name,
            kind=life.line.kind,
            arrives=rounded(life.line.arrives),
            waited=None if life.waited is None else rounded(life.waited),
            node=life.node,
            evictions=life.evictions,
            reason=life.reason,
        )


def rounded(number: float) -> float:
    """Return a number with the precision of all rows."""
    return round(number, DIGITS)
