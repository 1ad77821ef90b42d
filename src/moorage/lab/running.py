"""Runs many trials on all cores: finished ones are skipped, and each is stored as soon as it ends."""

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
from moorage.lab.measuring import run_trial
from moorage.lab.results import Results
from moorage.lab.trial import Trial, TrialResult

Ran: TypeAlias = Generator[tuple[Trial, TrialResult], None, None]
RunTrials: TypeAlias = Callable[[Iterable[Trial]], Ran]
"""Runs trials and yields each with its rows as it ends, in any order; closing the generator stops running trials."""
ShowTrials: TypeAlias = Callable[[int, int, str], None]
"""Called with the number of finished trials, the total, and the last finished one."""
AHEAD: Final = 2
"""Number of prepared trials per process; limited because a trace takes memory."""


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_here(trials: Iterable[Trial]) -> Ran:
    """Run trials in sequence, in this process."""
    for trial in trials:
        yield trial, run_trial(trial)


def run_on_cores(trials: Iterable[Trial], workers: int) -> Ran:
    """Run trials in parallel processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["moorage.lab.measuring"])
    pending: dict[Future[TrialResult], Trial] = {}
    with ProcessPoolExecutor(workers, context, initializer=_begin_worker) as pool:
        try:
            for trial in trials:
                pending[pool.submit(run_trial, trial)] = trial
                if len(pending) >= AHEAD * workers:
                    yield from _collect(pending)
            while pending:
                yield from _collect(pending)
        except BaseException:
            # Do not wait for running trials, which may take minutes.
            for process in multiprocessing.active_children():
                process.terminate()
            pool.shutdown(cancel_futures=True)
            raise


def _begin_worker() -> None:
    """Ignore Ctrl-C, which the parent handles, and disable logs: rows contain failures."""
    import logging

    import structlog

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def _collect(pending: dict[Future[TrialResult], Trial]) -> Iterator[tuple[Trial, TrialResult]]:
    finished, _ = wait(pending, return_when=FIRST_COMPLETED)
    for future in finished:
        trial = pending.pop(future)
        try:
            yield trial, future.result()
        except BrokenProcessPool as error:
            problem = "a worker process was killed, possibly because it ran out of memory"
            hint = "finished trials are stored: run the same command again, with fewer --workers"
            raise InputError(str(trial.id), problem, hint=hint) from error


def run_experiment(
    loaded: LoadedExperiment, results: Results, run: RunTrials | None = None, *, show: ShowTrials | None = None
) -> list[TrialResult]:
    """Run the missing trials and return all rows in the order of the experiment.

    Rows of pods are only returned for the first seed, for the report: those of all seeds would take gigabytes.
    """
    total, done = len(loaded), 0
    first = next(iter(loaded.experiment.seed_list))
    stored: dict[str, TrialResult | None] = {}

    def finish(trial: Trial, result: TrialResult) -> None:
        nonlocal done
        stored[str(trial.id)] = result if trial.seed == first else replace(result, pods=())
        done += 1
        if show is not None:
            show(done, total, str(trial.id))

    def find_missing() -> Iterator[Trial]:
        for trial in loaded.trials():
            result = results.find(trial)
            if result is None:
                stored[str(trial.id)] = None  # keeps the order of the experiment
                yield trial
            else:
                finish(trial, result)

    for trial, result in (run or default_run(total))(find_missing()):
        if not result.trial.error:
            results.store(trial, result)  # failed trials are retried by the next run
        finish(trial, result)
    return [result for result in stored.values() if result is not None]


def default_run(total: int, workers: int = 0) -> RunTrials:
    """Return the runner for this number of trials: processes, unless one is enough."""
    processes = min(workers or count_cores(), total)
    return run_here if processes <= 1 else partial(run_on_cores, workers=processes)
