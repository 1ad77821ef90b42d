"""The known durations of pods, the history of a cluster, and possible futures drawn from both."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf, log2
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from moorage.insight.forecast.futures import Future, FutureCluster, LaterPod, PlayedFuture
from moorage.insight.forecast.lifetimes import Lifetimes, PodTraits, RecordedRun
from moorage.kube.api.pod import Pod

MAX_ARRIVALS: Final = 5000
"""The most recent arrivals that are repeated in the future."""
UNKNOWN_SECONDS: Final = 3600.0
"""The duration of pending pods if nothing is known about any pod."""
ORDINARY: Final = ("cpu", "memory", "ephemeral-storage", "pods")


class KnownPod(Struct, frozen=True):
    """A pod of the cluster, and the source of its duration."""

    pod: Pod
    traits: PodTraits
    elapsed: float = 0.0
    """Seconds since it started."""
    seconds: float | None = None
    """Its duration, if it is known."""
    limit: float = inf
    """The longest duration: activeDeadlineSeconds."""
    ends: bool = True
    """Whether it ends without being deleted."""
    arrived: float = inf
    """Its creation in the time of the history; by default after all pods of the history."""


class PastPod(Struct, frozen=True):
    """A recorded pod: its arrival and its duration. ``seconds`` is None if the duration is unknown."""

    arrived: float
    """Seconds since any fixed moment."""
    pod: Pod
    traits: PodTraits
    seconds: float | None = None
    ended: bool = True


class Outlook:
    """Draws possible futures.

    Pods of the future arrive as in the past: a draw repeats the recorded arrivals after a random moment, with their
    bursts. The running pods of the cluster are treated as incomplete runs.
    """

    def __init__(
        self, pods: Sequence[KnownPod], past: Iterable[PastPod] = (), *, past_end: float | None = None
    ) -> None:
        self.pods = pods
        history = sorted(past, key=lambda item: item.arrived)
        self._timeline: list[KnownPod | RecordedRun] = _arrange(pods, history)
        runs = [run for item in self._timeline if (run := _find_run(item)) is not None]
        self.lifetimes = Lifetimes(runs)
        self.arrivals = history[-MAX_ARRIVALS:]
        self._past_end = past_end if past_end is not None else (history[-1].arrived if history else 0.0)

    def draw(self, seed: int, number: int) -> Future:
        """Draw a future. The same seed and number give the same one."""
        random = np.random.default_rng((seed, number))
        self.lifetimes.reweigh(random)
        ends: dict[str, float] = {}
        seconds: dict[str, float | None] = {}
        totals: list[float] = []
        for item in self._timeline:
            if isinstance(item, RecordedRun):
                if item.ended:
                    self.lifetimes.observe(item.traits, item.seconds)
                continue
            total = self._draw_seconds(item, random, totals)
            if item.pod.node_name and total is not None:
                ends[item.pod.uid] = max(0.0, total - item.elapsed)
                totals.append(total)
            seconds[item.pod.uid] = total
        by_traits = {item.pod.uid: item for item in self.pods}

        def draw_seconds(pod: Pod) -> float | None:
            if pod.uid in seconds:
                return seconds[pod.uid]
            origin = by_traits.get(pod.uid.rpartition("/")[0])  # a pod that returned after its preemption
            return None if origin is None else seconds[origin.pod.uid]

        return Future(ends, draw_seconds, self._draw_arrivals(np.random.default_rng((seed, number, 1))))

    def _draw_seconds(self, item: KnownPod, random: np.random.Generator, totals: Sequence[float]) -> float | None:
        if item.seconds is not None:
            return min(item.seconds, item.limit)
        if not item.ends:
            return None if item.limit == inf else item.limit
        if not self.lifetimes.ended and item.limit < inf:
            return item.limit
        if not item.elapsed and not self.lifetimes.ended:
            return totals[int(random.integers(len(totals)))] if totals else UNKNOWN_SECONDS
        return min(self.lifetimes.draw(item.traits, random, item.elapsed), item.limit)

    def _draw_arrivals(self, random: np.random.Generator) -> Iterator[LaterPod]:
        if not self.arrivals:
            return
        moments = np.array([item.arrived for item in self.arrivals])
        first, end = float(moments[0]), max(self._past_end, float(moments[-1]))
        if end <= first:
            return
        offset = first + (end - first) * random.random()
        index = int(np.searchsorted(moments, offset))
        shift, number = -offset, 0
        while True:
            if index == len(self.arrivals):
                index, shift = 0, shift + end - first
            past = self.arrivals[index]
            number += 1
            yield LaterPod(past.arrived + shift, _rename(past.pod, number), self.lifetimes.draw(past.traits, random))
            index += 1


def _arrange(pods: Sequence[KnownPod], history: Sequence[PastPod]) -> list[KnownPod | RecordedRun]:
    """Return the recorded runs and the pods of the cluster in the order of arrival.

    Running pods are before pending ones of the same moment: without a history, the others run as long as one of them.
    """
    entries: list[tuple[float, bool, KnownPod | RecordedRun]] = [
        (item.arrived, False, RecordedRun(item.traits, item.seconds, item.ended))
        for item in history
        if item.seconds is not None
    ]
    has_runs = bool(entries)
    for item in sorted(pods, key=lambda item: item.pod.metadata.creation_timestamp or "~"):
        entries.append((item.arrived if has_runs else inf, not item.pod.node_name, item))
    entries.sort(key=lambda entry: entry[:2])
    return [item for _, _, item in entries]


def _find_run(item: KnownPod | RecordedRun) -> RecordedRun | None:
    """Return the run of a running pod, which is incomplete, or ``None`` if its end is known or it does not end."""
    if isinstance(item, RecordedRun):
        return item
    if not item.pod.node_name or item.seconds is not None or not item.ends:
        return None
    return RecordedRun(item.traits, item.elapsed, ended=False)


def _rename(pod: Pod, number: int) -> Pod:
    name = f"{pod.name}-later-{number}"
    metadata = replace(pod.metadata, name=name, uid=f"later/{number}")
    return Pod(metadata=metadata, spec=replace(pod.spec, node_name="") if pod.spec.node_name else pod.spec)


def find_size(pod: Pod) -> str:
    """Return the size class of a pod: its extended resources, or else its CPU request rounded to a power of two.

    >>> from msgspec import convert
    >>> container = {"name": "c", "resources": {"requests": {"cpu": "3"}}}
    >>> find_size(convert({"metadata": {"name": "a"}, "spec": {"containers": [container]}}, Pod))
    'cpu 2^12'
    """
    extended = [f"{name}={amount}" for name, amount in sorted(pod.requests.items()) if name not in ORDINARY]
    cpu = pod.requests.get("cpu", 0)
    return ",".join(extended) or (f"cpu 2^{round(log2(cpu))}" if cpu else "")


def play_futures(  # noqa: PLR0913 - options of a forecast
    cluster: FutureCluster,
    outlook: Outlook,
    subject: frozenset[str],
    needed: int,
    *,
    draws: int,
    horizon: float,
    seed: int = 1,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[PlayedFuture]:
    """Play a number of futures until ``needed`` pods of the subject have started."""
    played = []
    for number in range(draws):
        progress(number, draws)
        played.append(cluster.play(outlook.draw(seed, number), subject, needed, horizon))
    return played
