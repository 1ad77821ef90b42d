"""The files of an experiment: one for each finished trial, and all rows together at the end."""

import errno
import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from re import sub
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage import __version__
from moorage.common.errors import InputError
from moorage.common.user_files import not_writable
from moorage.kube.api.codec import UNREADABLE, to_data
from moorage.lab.cluster import LabCluster
from moorage.lab.experiment import LoadedExperiment
from moorage.lab.formats import convert_to_parquet, pyarrow_or_none, write_parquet
from moorage.lab.measuring import run_trial
from moorage.lab.own_measures import importable
from moorage.lab.trace import Trace
from moorage.lab.trace_files import StreamedTrace
from moorage.lab.trial import Trial, TrialResult, TrialRow

TRIALS: Final = "trials"
FIGURES: Final = "figures"
KINDS: Final = ("trials", "points", "pods", "jobs")
_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode: Final = msgspec.json.Decoder(TrialResult).decode


class Results:
    """The directory of an experiment. Finished trials are not repeated."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._digests: dict[int, tuple[object, bytes]] = {}
        self._directories: dict[str, Path] = {}
        """The file of each finished trial."""
        try:
            for name in (TRIALS, FIGURES):
                (directory / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"cannot create the directory: {error.strerror or error}"
            raise InputError(str(directory), problem, hint="choose a path in a writable directory") from error

    def find_path(self, trial: Trial) -> Path:
        """Return the file of a trial. Its name depends on everything that affects the rows."""
        names = (trial.policy.name, trial.cluster.name, trial.trace.name)
        prefix = "--".join(sub(r"[^\w.-]+", "_", name)[:60] for name in names)
        hashed = blake2b(digest_size=8)
        hashed.update(_encode((__version__, trial.policy, trial.seed, trial.conditions)))
        for part in (trial.trace, trial.cluster):
            # Many trials share a trace or a cluster: keep its digest.
            digest = self._digests.get(id(part))
            if digest is None or digest[0] is not part:
                if len(self._digests) > 64:
                    self._digests.clear()
                digest = self._digests[id(part)] = (part, blake2b(_encode(_content(part))).digest())
            hashed.update(digest[1])
        for plugin in (*trial.policy.plugins, *trial.conditions.measures):
            with importable(trial.directory):
                hashed.update(_source(plugin))
        return self.directory / TRIALS / f"{prefix}--{trial.seed}-{hashed.hexdigest()}.json"

    def find(self, trial: Trial) -> TrialResult | None:
        """Return the rows of a finished trial, or ``None`` if its file is missing or incomplete."""
        path = self.find_path(trial)
        try:
            result = _decode(path.read_bytes())
        except (FileNotFoundError, *UNREADABLE):
            return None
        self._directories[str(trial.id)] = path
        return result

    def store(self, trial: Trial, result: TrialResult) -> None:
        """Write the rows of a trial atomically."""
        path = self._directories[str(trial.id)] = self.find_path(trial)
        self._write(path, [_encode(result) + b"\n"])

    def combine(self, trials: Sequence[TrialResult]) -> list[Path]:
        """Write all rows, a file for each kind; also as Parquet, if pyarrow is installed.

        Missing rows of pods and jobs are read from the file of their trial: only one trial is in memory at a time.
        """
        paths = []
        for kind in KINDS:
            path = self.directory / f"{kind}.jsonl"
            self._write(path, (_encode(row) + b"\n" for row in self._rows(trials, kind)))
            paths.append(path)
            if pyarrow_or_none() is None:
                continue
            paths.append(parquet := path.with_suffix(".parquet"))
            if kind == TRIALS:
                rows = [_flatten(result.trial) for result in trials]
                columns = {name: None for row in rows for name in row}
                write_parquet(parquet, [{**columns, **row} for row in rows])
            elif path.stat().st_size:
                convert_to_parquet(path, parquet, has_objects=kind == "points")
        return paths

    def _rows(self, trials: Sequence[TrialResult], kind: str) -> Iterator[Struct]:
        for result in trials:
            if kind == TRIALS:
                yield result.trial
            elif kind == "points":
                yield from result.points
            elif rows := getattr(result, kind):
                yield from rows
            elif (path := self._directories.get(str(result.trial))) is not None:
                yield from getattr(_decode(path.read_bytes()), kind)

    def write(self, name: str, content: bytes) -> Path:
        """Write a file to the directory atomically."""
        path = self.directory / name
        self._write(path, [content])
        return path

    def _write(self, path: Path, content: Iterable[bytes]) -> None:
        partial = path.with_name(f".{path.name}.part")
        try:
            with partial.open("wb") as file:
                file.writelines(content)
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise _cannot_write(path, error) from error


def _content(part: Trace | StreamedTrace | LabCluster) -> object:
    """Return everything of a trace or a cluster that affects the rows."""
    if isinstance(part, LabCluster):
        return [part.name, *map(to_data, (*part.nodes, *part.objects))], part.scaled
    if isinstance(part, StreamedTrace):
        return part.name, part.digest, part.outages
    return part


def _flatten(row: TrialRow) -> dict[str, Any]:
    columns: dict[str, Any] = msgspec.to_builtins(row)
    measures: dict[str, Any] = columns.pop("measures")
    return columns | measures


def _source(plugin: str) -> bytes:
    """Return the source of a plugin's module: a change of the code changes the trial."""
    try:
        spec = find_spec(plugin.partition(":")[0])
        return Path(spec.origin).read_bytes() if spec is not None and spec.origin else b""
    except (ImportError, OSError, ValueError):
        return b""


def _cannot_write(path: Path, error: OSError) -> InputError:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = f"{'free disk space' if is_full else 'make the directory writable'}, and rerun the command"
    return not_writable(path, error, hint=f"finished trials are stored: {hint}")


Ran: TypeAlias = Generator[tuple[Trial, TrialResult], None, None]
RunTrials: TypeAlias = Callable[[Iterable[Trial]], Ran]
"""Runs trials and yields each with its rows as it ends, in any order. Closing the generator stops running trials."""
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
            hint = "finished trials are stored: rerun the command, with fewer --workers"
            raise InputError(str(trial.id), problem, hint=hint) from error


def run_experiment(
    loaded_experiment: LoadedExperiment,
    results: Results,
    run: RunTrials | None = None,
    *,
    show: ShowTrials | None = None,
    shard: tuple[int, int] = (0, 1),
) -> list[TrialResult]:
    """Run the missing trials and return all rows in the order of the experiment.

    ``shard`` is an index and a number of parts: only every n-th trial runs.
    Rows of pods and jobs are only returned for the first seed, for the report: those of all seeds would take gigabytes.
    """
    index, parts = shard
    total, done = len(range(index, len(loaded_experiment), parts)), 0
    first = next(iter(loaded_experiment.experiment.seed_list))
    stored_results: dict[str, TrialResult | None] = {}

    def finish(trial: Trial, result: TrialResult) -> None:
        nonlocal done
        stored_results[str(trial.id)] = result if trial.seed == first else replace(result, pods=(), jobs=())
        done += 1
        if show is not None:
            show(done, total, str(trial.id))

    def find_missing() -> Iterator[Trial]:
        for number, trial in enumerate(loaded_experiment.trials()):
            if number % parts != index:
                continue
            result = results.find(trial)
            if result is None:
                stored_results[str(trial.id)] = None  # keeps the order of the experiment
                yield trial
            else:
                finish(trial, result)

    for trial, result in (run or default_run(total))(find_missing()):
        if not result.trial.error:
            results.store(trial, result)  # failed trials are retried by the next run
        finish(trial, result)
    return [result for result in stored_results.values() if result is not None]


def default_run(total: int, workers: int = 0) -> RunTrials:
    """Return the runner for this number of trials: processes, unless one is sufficient."""
    processes = min(workers or count_cores(), total)
    return run_here if processes <= 1 else partial(run_on_cores, workers=processes)
