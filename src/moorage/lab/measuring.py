"""Runs a trial and measures it: points over time, integrals, and one final row."""

from collections.abc import Iterator
from statistics import fmean
from typing import Any, Final

import numpy as np

from moorage.common.clock import VirtualClock
from moorage.common.errors import MoorageError
from moorage.common.virtual_time import run_virtual
from moorage.lab.fragmentation import find_typical_shapes, load_trial_policy, measure_fragmentation
from moorage.lab.ledger import CPU, GPU, MEMORY
from moorage.lab.playing import Play, PodLife, TrialWatch
from moorage.lab.trial import PodRow, PointRow, Trial, TrialResult, TrialRow, find_request, measure_capacity

POINTS: Final = 100
HOUR: Final = 3600.0
DIGITS: Final = 9
"""Rounding of all numbers, so that results have the same bytes on all machines."""


def run_trial(trial: Trial) -> TrialResult:
    """Run one trial in virtual time, in this process; if a policy fails, its row has the error."""
    clock = VirtualClock()

    async def run() -> TrialResult:
        play = Play(trial, load_trial_policy(trial), clock, Measures)
        await play.run()
        return play.watch.result()

    try:
        return run_virtual(run(), clock)
    except MoorageError as error:
        return TrialResult(TrialRow(*trial.key, error=str(error)))


class Measures(TrialWatch):
    """Measures one trial; the cluster does not change between two events, so sums over time are exact."""

    def __init__(self, play: Play[Any]) -> None:
        super().__init__(play)
        self._trial = trial = play.trial
        self._key = trial.key
        self._capacity, self._resource = measure_capacity(trial.cluster)
        self._requested = 0
        self._next_share = 1
        # Measurements end with the last arrival; if all pods arrive at 0, after the longest duration.
        pods, horizon = trial.trace.pods, trial.conditions.horizon
        last = max((pod.arrives for pod in pods), default=0.0)
        end = last or max((pod.runs or 0.0 for pod in pods), default=0.0) or 1.0
        self._window = end if horizon is None else min(end, horizon)
        self._step = trial.conditions.point_every or self._window / POINTS
        self._next_point = self._step
        self._until = self._end = 0.0
        self._sums: dict[str, float] = {}
        self.points: list[PointRow] = []
        self._spreads: list[float] = []
        self.typical = find_typical_shapes(trial.trace.pods) if self._resource == GPU else None

    def arrived(self, life: PodLife) -> None:
        """Add requested resources; a pod that crosses the next per cent is measured after its decision."""
        self._requested += find_request(life.line, self._resource)

    def decided(self) -> None:
        """Record a point if another per cent has been requested, for pods that arrive one by one."""
        if self._trial.conditions.arrivals_only and self._capacity:
            share = 100 * self._requested // self._capacity
            if share >= self._next_share:
                self._next_share = share + 1
                self._record_point(self.play.now)

    def time_passes(self, until: float) -> None:
        """Add the current state to the sums, and record points; the time after the window does not count."""
        self._end = until
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
        }
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
            )
        )

    def result(self) -> TrialResult:
        """Return all rows of a finished trial."""
        lives = list(self.play.lives.values())
        placed = sum(1 for life in lives if life.waited is not None)
        measures = dict(sorted((name, rounded(number)) for name, number in self._measures(lives)))
        row = TrialRow(*self._key, len(lives), placed, len(lives) - placed, measures)
        pods = tuple(map(self._make_pod_row, lives)) if self._trial.conditions.pod_rows else ()
        return TrialResult(row, tuple(self.points), pods)

    def _measures(self, lives: list[PodLife]) -> Iterator[tuple[str, float]]:
        ledger, last = self.play.ledger, self.points[-1] if self.points else None
        arrivals_only = self._trial.conditions.arrivals_only
        for name, index in (("cpu", CPU), ("memory", MEMORY), ("gpu", GPU)):
            at_end = ledger.share(index)
            mean = self._sums.get(f"allocation.{name}", 0.0) / (self._until or 1.0)
            yield f"allocation.{name}", at_end if arrivals_only or last is None else mean
        yield "evictions", float(sum(life.evictions for life in lives))
        yield "attempts", float(self.play.attempts.count)
        yield "overcommitted", float(ledger.overcommitted)
        yield "seconds", self._end
        yield "spread.cpu", fmean(self._spreads) if self._spreads else 0.0
        yield "nodes.used", float(ledger.nodes_used)
        parts = [point.fragmentation for point in self.points if point.fragmentation is not None]
        if parts:
            yield "fragmentation", parts[-1] if arrivals_only else fmean(parts)
        if not arrivals_only:
            yield "nodes.mean", self._sums.get("nodes", 0.0) / (self._until or 1.0)
            by_class: dict[str, list[float]] = {}
            for life in lives:
                if life.waited is not None:
                    by_class.setdefault(life.line.kind, []).append(life.waited)
            all_times = [waited for times in by_class.values() for waited in times]
            groups = {"": all_times} | {f".{name}": times for name, times in by_class.items() if name}
            for suffix, times in groups.items():
                if times:
                    yield f"wait.mean{suffix}", fmean(times)
                    yield f"wait.p50{suffix}", float(np.quantile(times, 0.5))
                    yield f"wait.p95{suffix}", float(np.quantile(times, 0.95))
            for name in ("cost", "cost.used", "energy", "energy.used"):
                if self._sums.get(name):
                    yield name, self._sums[name]

    def _make_pod_row(self, life: PodLife) -> PodRow:
        return PodRow(
            *self._key,
            pod=life.line.name,
            kind=life.line.kind,
            arrives=rounded(life.line.arrives),
            waited=None if life.waited is None else rounded(life.waited),
            node=life.node,
            evictions=life.evictions,
        )


def rounded(number: float) -> float:
    """Return a number with the precision of all rows."""
    return round(number, DIGITS)
