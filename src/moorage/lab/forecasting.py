"""Calibration of forecasts: a trace is replayed, and forecasts at arrivals are compared with the actual starts.

A forecast uses only earlier data: the pods that had arrived, the durations of completed pods, and the starts of pods
with earlier forecasts.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from pathlib import Path
from statistics import fmean, median
from time import monotonic
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from moorage.cluster import LoggedRun
from moorage.common.clock import VirtualClock
from moorage.common.errors import InputError
from moorage.common.user_files import open_file
from moorage.common.virtual_time import run_virtual
from moorage.insight import (
    SERVICES,
    CheckedForecast,
    FutureCluster,
    KnownPod,
    Outlook,
    PastPod,
    PodTraits,
    Recalibration,
    StartInterval,
    find_size,
    play_futures,
    quantiles,
)
from moorage.kube.api.codec import UNREADABLE
from moorage.kube.api.gpu_sharing import GPU_MILLI, WHOLE_GPU
from moorage.kube.api.meta import KubeObject, format_time
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.lab.cluster import LabCluster
from moorage.lab.fragmentation import load_trial_policy
from moorage.lab.playing import Play, PodLife, TrialWatch
from moorage.lab.trace import PodMaker, TracePod
from moorage.lab.trace_files import read_trace
from moorage.lab.trial import PolicyText, Trial
from moorage.scheduler.decisions.decision_log import MAX_LINE, read_log
from moorage.scheduler.wiring.policy import Policy

CENSORED: Final = 0.1
"""The share of starts after the horizon from which p90 has no bound."""
RECENT_PODS: Final = 1000
"""The last pods of a trace, which are replayed if time is limited."""
NAIVE_PODS: Final = 100
"""The naive forecast is the mean wait of this number of pods of the same class that started last."""
TOLERANCE: Final = 1.0
"""Tolerance of the interval in seconds: the duration of an attempt."""


class PodMoment(Struct, frozen=True):
    """The pods of the cluster when a pod has arrived and its first attempt has failed."""

    line: TracePod
    now: float
    pods: tuple[tuple[Pod, TracePod, float | None], ...]
    """Each pod in the order of arrival, its line, and when it started."""


class ForecastRow(Struct, frozen=True):
    """One forecast and the start that followed; seconds since the arrival."""

    pod: str
    kind: str
    arrives: float
    waited: float | None
    """``None`` if it did not start until the last arrival of the trace: later starts are earlier than in reality."""
    p10: float
    p50: float
    p90: float
    """The forecast, corrected by earlier ones."""
    naive: float | None
    censored: float
    simulated: StartInterval | None = None
    """The forecast before its correction."""
    starts: tuple[float, ...] = ()
    """The start in each simulated future."""
    remaining: float = 0.0
    """Seconds from the arrival to the last arrival of the trace."""

    @property
    def is_covered(self) -> bool | None:
        """Whether the interval contains the start, or ``None`` if that is unknown."""
        return self._is_inside(self.p10, self.p90)

    @property
    def is_covered_uncorrected(self) -> bool | None:
        """Whether the interval before the correction contains the start."""
        return self.is_covered if self.simulated is None else self._is_inside(self.simulated.p10, self.simulated.p90)

    def _is_inside(self, first: float, last: float) -> bool | None:
        if self.censored > CENSORED:
            last = inf  # the start is after the horizon in too many simulations
        if self.waited is None:
            return False if last + TOLERANCE < self.remaining else None
        return first - TOLERANCE <= self.waited <= last + TOLERANCE


class Calibration(Struct, frozen=True):
    """The result for one trace."""

    trace: str
    pods: int
    waited: int
    """Number of pods that were pending after their first attempt, excluding the warm-up."""
    rows: tuple[ForecastRow, ...]
    recalibration: Recalibration = msgspec.field(default_factory=Recalibration)
    """The forecasts, to correct later ones."""

    @property
    def coverage(self) -> float:
        """The share of starts inside the interval."""
        return _share(row.is_covered for row in self.rows)

    def median_error(self, forecast: Callable[[ForecastRow], float | None]) -> float:
        """Return the median absolute error of a forecast over the pods that started."""
        errors = [
            abs(guess - row.waited)
            for row in self.rows
            if row.waited is not None and row.naive is not None and (guess := forecast(row)) is not None
        ]
        return median(errors) if errors else float("nan")

    def as_data(self) -> dict[str, Any]:
        """Return the row of the table."""
        error, naive = self.median_error(lambda row: row.p50), self.median_error(lambda row: row.naive)
        return {
            "trace": self.trace,
            "pods": self.pods,
            "waited": self.waited,
            "forecasts": len(self.rows),
            "coverage": round(self.coverage, 3),
            "uncorrected": round(_share(row.is_covered_uncorrected for row in self.rows), 3),
            "unknown": sum(row.is_covered is None for row in self.rows),
            "below": round(_share(_is_early(row) for row in self.rows), 3),
            "above": round(
                _share(
                    None if (inside := row.is_covered) is None else not inside and not _is_early(row)
                    for row in self.rows
                ),
                3,
            ),
            "medianError": round(error, 1),
            "naiveError": round(naive, 1),
            "gain": round(1 - error / naive, 3) if naive else None,
        }


def _is_early(row: ForecastRow) -> bool | None:
    """Return whether the start is before the interval, or ``None`` if that is unknown."""
    return None if row.is_covered is None else row.waited is not None and row.waited < row.p10 - TOLERANCE


def _share(claims: Iterable[bool | None]) -> float:
    """Return the share of true claims among the known ones; NaN if there are none, for example if no pod waits."""
    values = [claim for claim in claims if claim is not None]
    return fmean(values) if values else float("nan")


class Moments(TrialWatch):
    """Records the moments at which pods have arrived and wait."""

    def __init__(self, play: Play[Any], end: float = inf) -> None:
        super().__init__(play)
        self._end = end
        self.moments: list[PodMoment] = []
        self.ends: dict[str, float] = {}
        self._active: dict[str, PodLife] = {}
        self._arrived: list[PodLife] = []

    def arrived(self, life: PodLife) -> None:
        """Store a new pod."""
        self._active[life.line.name] = life
        self._arrived.append(life)

    def released(self, life: PodLife) -> None:
        """Record the end of a run."""
        self.ends[life.line.name] = self.play.now

    def done(self, life: PodLife) -> None:
        """Forget a pod."""
        self._active.pop(life.line.name, None)

    def decided(self) -> None:
        """Record the moment if a new pod waits. Raise TimeoutError after the time limit."""
        if monotonic() > self._end:
            raise TimeoutError
        waiting_pods = [life for life in self._arrived if life.waited is None]
        self._arrived.clear()
        for life in waiting_pods:
            pods = tuple(
                (life.pod, life.line, life.line.arrives + life.waited if life.waited is not None else None)
                for life in self._active.values()
                if life.pod is not None
            )
            self.moments.append(PodMoment(life.line, self.play.now, pods))


def calibrate(  # noqa: PLR0913 - options of a calibration
    trial: Trial,
    *,
    forecasts: int = 100,
    draws: int = 40,
    warm_up: float = 0.3,
    cool_down: float = 0.2,
    horizon: float = 7 * 86_400.0,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    on_row: Callable[[ForecastRow], None] = lambda _row: None,
    policy: Policy | None = None,
    end: float = inf,
) -> Calibration:
    """Replay a trace and compare forecasts with starts.

    The first and the last pods are not forecast. ``warm_up`` and ``cool_down`` are their shares. The queue empties
    after the last arrival: later starts are unknown. ``on_row`` is called after each forecast. ``policy`` replaces
    that of the trial. Raise TimeoutError if the replay has not ended at ``end``, on the monotonic clock; the forecasts
    stop at this time.
    """
    clock = VirtualClock()
    policy = policy or load_trial_policy(trial)

    async def run() -> Play[Moments]:
        play: Play[Moments] = Play(trial, policy, clock, partial(Moments, end=end))
        await play.run()
        return play

    play = run_virtual(run(), clock)
    lives = list(play.lives.values())
    first, last, final = (lives[int((len(lives) - 1) * share)].line.arrives for share in (warm_up, 1 - cool_down, 1))
    moments = [moment for moment in play.watch.moments if first <= moment.now <= last]
    step = max(1.0, len(moments) / forecasts)
    sample = [moments[int(number * step)] for number in range(min(forecasts, len(moments)))]
    rows, recalibration = [], Recalibration()
    for number, moment in enumerate(sample):
        if monotonic() > end:
            break
        progress(number, len(sample))
        rows.append(_forecast(trial, policy, play, moment, draws, horizon, recalibration, final))
        on_row(rows[-1])
    recalibration.until = final
    return Calibration(trial.trace.name, len(lives), len(moments), tuple(rows), recalibration)


def _forecast(  # noqa: PLR0913, PLR0917 - the state of a calibration
    trial: Trial,
    policy: Policy,
    play: Play[Moments],
    moment: PodMoment,
    draws: int,
    horizon: float,
    recalibration: Recalibration,
    final: float,
) -> ForecastRow:
    """Forecast a start, and add the forecast to the earlier ones."""
    starts = _simulate(trial, policy, play, moment, draws, horizon)
    seconds = [horizon if start is None else start for start in starts]
    simulated = StartInterval(*quantiles(seconds, (0.1, 0.5, 0.9)))
    naive, waited = _naive(play, moment), play.lives[moment.line.name].waited
    if waited is not None and moment.line.arrives + waited > final:
        waited = None
    correction = recalibration.correct(simulated, moment.now, naive)
    interval = StartInterval(*(min(bound, horizon) for bound in astuple(correction.interval)))
    recalibration.add(CheckedForecast(moment.now, simulated, interval, correction.points, waited))
    return ForecastRow(
        moment.line.name,
        moment.line.kind,
        moment.line.arrives,
        waited,
        *(interval.p10, interval.p50, interval.p90),
        naive,
        sum(start is None for start in starts) / len(starts),
        simulated,
        tuple(round(start, 1) for start in seconds),
        final - moment.line.arrives,
    )


def _simulate(
    trial: Trial, policy: Policy, play: Play[Moments], moment: PodMoment, draws: int, horizon: float
) -> Sequence[float | None]:
    """Return the start in each simulated future."""
    start = VirtualClock().now()
    running_pods = [
        KnownPod(
            _date(pod, start - moment.now + line.arrives),
            find_traits(line, pod),
            moment.now - started if started is not None else 0.0,
            arrived=line.arrives,
        )
        for pod, line, started in moment.pods
    ]
    outlook = Outlook(running_pods, _past(play, moment.now), past_end=moment.now)
    objects = [*trial.cluster.objects, *trial.cluster.nodes, *(item.pod for item in running_pods)]
    subject = next(pod for pod, line, _ in moment.pods if line is moment.line)
    cluster = FutureCluster(policy, objects, start, [item.pod for item in outlook.arrivals])
    try:
        played = play_futures(cluster, outlook, frozenset({subject.uid}), 1, draws=draws, horizon=horizon)
    finally:
        cluster.close()
    return [future.started for future in played]


def _date(pod: Pod, created: float) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, creation_timestamp=format_time(created)))


def find_traits(line: TracePod, pod: Pod) -> PodTraits:
    """Return the traits of a pod of a trace."""
    return PodTraits(line.kind, find_size(pod))


def _past(play: Play[Moments], now: float) -> Iterator[PastPod]:
    maker = PodMaker()
    for life in play.lives.values():
        line = life.line
        if line.arrives > now:
            break
        pod = maker.make(line)
        end = play.watch.ends.get(line.name, now)
        ran = end - line.arrives - life.waited if end < now and life.waited is not None else None
        yield PastPod(line.arrives, pod, find_traits(line, pod), ran)


def _naive(play: Play[Moments], moment: PodMoment) -> float | None:
    """Return the mean wait of the last pods of the class that had started."""
    starts = [
        (life.line.arrives + life.waited, life.waited)
        for life in play.lives.values()
        if life.line.kind == moment.line.kind
        and life.waited is not None
        and life.line.arrives + life.waited < moment.now
    ]
    waits: Sequence[float] = [waited for _, waited in sorted(starts)[-NAIVE_PODS:]]
    return fmean(waits) if waits else None


def check_history(  # noqa: PLR0913 - options of a replay
    path: Path,
    class_label: str,
    objects: Sequence[KubeObject],
    policy: Policy,
    *,
    forecasts: int,
    draws: int = 20,
    seconds: float = inf,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Recalibration:
    """Replay a recorded trace on the nodes of a cluster and forecast some of its starts, to correct later forecasts.

    Running pods of services occupy their nodes from the beginning, unless they are part of the trace.
    With a time limit, only recent pods are replayed. Raise TimeoutError if that takes longer.
    """
    end = monotonic() + seconds
    if is_decision_log(path):
        raise InputError("--checks", "needs a trace: a decision log has no durations", hint="pass a trace to --history")
    trace = read_trace(path)
    if seconds < inf and len(trace.pods) > RECENT_PODS:
        first = trace.pods[-RECENT_PODS].arrives
        recent = tuple(replace(line, arrives=line.arrives - first) for line in trace.pods[-RECENT_PODS:])
        trace = replace(trace, pods=recent, outages=())
    if class_label:
        lines = (replace(line, kind=line.labels.get(class_label, line.kind)) for line in trace.pods)
    else:
        lines = (replace(line, kind=line.namespace) for line in trace.pods)
    nodes = tuple(_with_gpu_parts(obj) for obj in objects if isinstance(obj, Node))
    recorded = {(line.namespace, line.name) for line in trace.pods}
    permanent_objects = tuple(obj for obj in objects if not isinstance(obj, Node | Pod) or _is_permanent(obj, recorded))
    trial = Trial(
        replace(trace, pods=tuple(lines)), LabCluster("cluster", nodes, permanent_objects), PolicyText("when"), 1
    )
    return calibrate(trial, forecasts=forecasts, draws=draws, progress=progress, policy=policy, end=end).recalibration


def _is_permanent(obj: KubeObject, recorded: Container[tuple[str, str]]) -> bool:
    """Return whether an object is a running pod of a service that a trace does not contain."""
    if not isinstance(obj, Pod) or not obj.node_name or obj.is_finished or obj.metadata.controller is None:
        return False
    return obj.metadata.controller.kind in SERVICES and (obj.namespace, obj.name) not in recorded


def _with_gpu_parts(node: Node) -> Node:
    """Return a node that also offers thousandths of its GPUs, which the pods of a trace request."""
    gpus = sum(amount for name, amount in node.allocatable.items() if name.endswith("/gpu"))
    if not gpus or GPU_MILLI in node.allocatable:
        return node
    allocatable = {**node.status.allocatable, GPU_MILLI: str(gpus * WHOLE_GPU)}
    return replace(node, status=replace(node.status, allocatable=allocatable))


def read_history(path: Path, class_label: str) -> list[PastPod]:
    """Read a trace or a decision log as the history of a cluster. The class of a pod is a label or its namespace.

    A log does not record when pods end, so it only contributes arrivals.
    """
    if is_decision_log(path):
        return _read_logged(path)
    maker, past = PodMaker(), []
    for line in read_trace(path).pods:
        pod = maker.make(line)
        group = line.labels.get(class_label, line.kind) if class_label else line.namespace
        past.append(PastPod(line.arrives, pod, PodTraits(group, find_size(pod)), line.runs))
    return past


def is_decision_log(path: Path) -> bool:
    """Return whether a file is a decision log, not a trace."""
    if path.suffix in {".csv", ".parquet"}:
        return False
    with open_file(path) as file:
        line = file.readline(MAX_LINE)
    try:
        head = msgspec.json.decode(line)
    except UNREADABLE as error:
        if path.suffix == ".jsonl":
            return False  # the reader of traces reports the line
        hint = "pass a trace (.csv, .jsonl, .parquet), or a log written by moorage scheduler --decision-log"
        raise InputError(str(path), "not a trace or decision log", hint=hint) from error
    return isinstance(head, dict) and {"pod", "result", "time"} <= head.keys()


def _read_logged(path: Path) -> list[PastPod]:
    run = LoggedRun(read_log(path))
    past = []
    for key, pod in run.pods.items():
        past.append(PastPod(run.histories[key].created, pod, PodTraits(pod.namespace, find_size(pod))))
    return past
