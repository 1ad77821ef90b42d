"""Many trials: on all cores, those that are done left out, each kept as soon as it ends."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Final, TypeAlias

from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.lab.experiment import LoadedExperiment
from moorage.lab.results import Results
from moorage.lab.rows import TrialResult
from moorage.lab.trial import Trial, run_trial

Ran: TypeAlias = Generator[tuple[Trial, TrialResult], None, None]
RunTrials: TypeAlias = Callable[[Iterable[Trial]], Ran]
"""Runs trials somewhere and gives each back with its rows as it ends, in any order; closing it ends what still runs."""
ShowTrials: TypeAlias = Callable[[int, int, str], None]
"""Called with how many trials are done, how many there are, and which ended last."""
AHEAD: Final = 2
"""Number of prepared trials per process; limited because a trace takes memory."""


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_here(trials: Iterable[Trial]) -> Ran:
    """Run trials one after another, in this process."""
    for trial in trials:
        yield trial, run_trial(trial)


def run_on_cores(trials: Iterable[Trial], workers: int) -> Ran:
    """Run trials in processes, as many at a time as there are workers."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["moorage.lab.measuring"])
    waiting: dict[Future[TrialResult], Trial] = {}
    with ProcessPoolExecutor(workers, context, initializer=_begin_worker) as pool:
        try:
            for trial in trials:
                waiting[pool.submit(run_trial, trial)] = trial
                if len(waiting) >= AHEAD * workers:
                    yield from _ended(waiting)
            while waiting:
                yield from _ended(waiting)
        except BaseException:
            # Do not wait for running trials, which may take minutes.
            for process in multiprocessing.active_children():
                process.terminate()
            pool.shutdown(cancel_futures=True)
            raise


def _begin_worker() -> None:
    """Leave Ctrl-C to the process that waits for us, which ends us; log nothing: what fails is in the rows."""
    import logging

    import structlog

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def _ended(waiting: dict[Future[TrialResult], Trial]) -> Iterator[tuple[Trial, TrialResult]]:
    finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in finished:
        trial = waiting.pop(future)
        try:
            yield trial, future.result()
        except BrokenProcessPool as error:
            problem = "a worker process was killed, possibly because it ran out of memory"
            hint = "trials that are done are kept: run the same command again, with fewer --workers"
            raise InputError(str(trial.id), problem, hint=hint) from error


def run_experiment(
    loaded: LoadedExperiment, results: Results, run: RunTrials | None = None, *, show: ShowTrials | None = None
) -> list[TrialResult]:
    """Run what has not been run yet and return the rows in the order of the experiment.

    Only the first seed's rows of pods are among them, which a report compares: those of all would take gigabytes.
    """
    total, done = len(loaded), 0
    first = next(iter(loaded.experiment.seed_list))

    def without_pods(result: TrialResult) -> TrialResult:
        return result if result.trial.seed == first else replace(result, pods=())

    stored: dict[str, TrialResult | None] = {}

    def missing() -> Iterator[Trial]:
        nonlocal done
        for trial in loaded.trials():
            stored_result = results.find(trial)
            stored[str(trial.id)] = None if stored_result is None else without_pods(stored_result)
            if stored_result is None:
                yield trial
                continue
            done += 1
            if show is not None:
                show(done, total, str(trial.id))

    run = run or default_run(total)
    for trial, result in run(missing()):
        if not result.trial.error:
            results.keep(trial, result)  # what failed is tried again
        stored[str(trial.id)] = without_pods(result)
        done += 1
        if show is not None:
            show(done, total, str(trial.id))
    return [result for result in stored.values() if result is not None]


def default_run(total: int, workers: int = 0) -> RunTrials:
    """Return the runner for this number of trials: processes, unless one is enough."""
    processes = min(workers or cores(), total)
    return run_here if processes <= 1 else partial(run_on_cores, workers=processes)
