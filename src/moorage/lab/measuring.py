"""Measurements of a trial: points over time, integrals, and one final row."""

from collections.abc import Iterator
from statistics import fmean
from typing import Final

import numpy as np

from moorage.lab.fragmentation import fragmentation_now, typical_of
from moorage.lab.ledger import CPU, GPU, MEMORY
from moorage.lab.playing import Play, PodLife, TrialWatch
from moorage.lab.rows import PodRow, PointRow, TrialId, TrialResult, TrialRow
from moorage.lab.script import asked_by, measure_capacity
from moorage.lab.trial import Trial

POINTS: Final = 100
HOUR: Final = 3600.0
DIGITS: Final = 9
"""Number of digits that numbers are rounded to, so that results have the same bytes everywhere."""


class Measures(TrialWatch):
    """Measures one trial; the world does not change between two events, so sums over time are exact."""

    play: Play

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._of = trial.id
        self._capacity, self._place = measure_capacity(trial.cluster)
        self._asked = 0
        self._next_share = 1
        self._window = _window_of(trial)
        self._step = trial.conditions.point_every or self._window / POINTS
        self._next_point = self._step
        self._until = self._end = 0.0
        self._sums: dict[str, float] = {}
        self.points: list[PointRow] = []
        self._spreads: list[float] = []
        self.typical = typical_of(trial.trace.pods) if self._place == GPU else None

    def arrived(self, life: PodLife) -> None:
        """Add requested resources; a pod that crosses the next per cent is measured after its decision."""
        self._asked += asked_by(life.line, self._place)

    def decided(self) -> None:
        """Record a point if another per cent has been requested, for pods that arrive one by one."""
        if self._trial.conditions.arrivals_only and self._capacity:
            share = 100 * self._asked // self._capacity
            if share >= self._next_share:
                self._next_share = share + 1
                self._take_point(self.play.now)

    def time_passes(self, until: float) -> None:
        """Add up what holds until then, and take the points on the way; what comes after all pods counts no more."""
        self._end = until
        until = min(until, self._window)
        seconds = until - self._until
        if not self._trial.conditions.arrivals_only:
            while self._next_point <= until:
                self._take_point(self._next_point)
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

    def _take_point(self, at: float) -> None:
        ledger, of = self.play.ledger, self._of
        shares = ledger.node_shares(CPU)
        self._spreads.append(float(shares.std()) if len(shares) else 0.0)
        self.points.append(
            PointRow(
                of.trace,
                of.cluster,
                of.configuration,
                of.seed,
                at=rounded(at),
                asked=rounded(self._asked / self._capacity if self._capacity else 0.0),
                nodes=len(ledger.nodes),
                running=ledger.running,
                waiting=self.play.waiting,
                cpu=rounded(ledger.share(CPU)),
                memory=rounded(ledger.share(MEMORY)),
                gpu=rounded(ledger.share(GPU)),
                fragmentation=None if self.typical is None else rounded(fragmentation_now(ledger, self.typical)),
            )
        )

    def result(self) -> TrialResult:
        """Return all rows, when the trial is over."""
        lives = list(self.play.lives.values())
        placed = sum(1 for life in lives if life.waited is not None)
        measures = dict(sorted((name, rounded(number)) for name, number in self._measures(lives)))
        of = self._of
        row = TrialRow(
            of.trace, of.cluster, of.configuration, of.seed, len(lives), placed, len(lives) - placed, measures
        )
        pods = tuple(pod_row(of, life) for life in lives) if self._trial.conditions.pod_rows else ()
        return TrialResult(row, tuple(self.points), pods)

    def _measures(self, lives: list[PodLife]) -> Iterator[tuple[str, float]]:
        ledger, last = self.play.ledger, self.points[-1] if self.points else None
        arrivals_only = self._trial.conditions.arrivals_only
        for name in ("cpu", "memory", "gpu"):
            at_end = ledger.share({"cpu": CPU, "memory": MEMORY, "gpu": GPU}[name])
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
            yield from self._waiting_times(lives)
            for name in ("cost", "cost.used", "energy", "energy.used"):
                if self._sums.get(name):
                    yield name, self._sums[name]

    def _waiting_times(self, lives: list[PodLife]) -> Iterator[tuple[str, float]]:
        by_class: dict[str, list[float]] = {}
        for life in lives:
            if life.waited is not None:
                by_class.setdefault(life.line.kind, []).append(life.waited)
        everybody = [waited for times in by_class.values() for waited in times]
        groups = {"": everybody} | {f".{name}": times for name, times in by_class.items() if name}
        for suffix, times in groups.items():
            if times:
                yield f"wait.mean{suffix}", fmean(times)
                yield f"wait.p50{suffix}", float(np.quantile(times, 0.5))
                yield f"wait.p95{suffix}", float(np.quantile(times, 0.95))


def pod_row(of: TrialId, life: PodLife) -> PodRow:
    """Return the result of a pod."""
    waited = None if life.waited is None else rounded(life.waited)
    return PodRow(
        of.trace,
        of.cluster,
        of.configuration,
        of.seed,
        pod=life.line.name,
        kind=life.line.kind,
        arrives=rounded(life.line.arrives),
        waited=waited,
        node=life.node,
        evictions=life.evictions,
    )


def rounded(number: float) -> float:
    """Round as all rows are."""
    return round(number, DIGITS)


def _window_of(trial: Trial) -> float:
    """Return until when a trial is measured: until the last pod arrives, or all that do at once have run."""
    pods, horizon = trial.trace.pods, trial.conditions.horizon
    last = max((pod.arrives for pod in pods), default=0.0)
    end = last or max((pod.runs or 0.0 for pod in pods), default=0.0) or 1.0
    return end if horizon is None else min(end, horizon)
