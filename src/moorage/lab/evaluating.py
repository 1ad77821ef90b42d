"""Evaluates a score function in a separate process with limits; a candidate that hangs or misbehaves is killed.

The process has limits of time, memory and file sizes. It has no network, starts no processes, and neither reads nor
writes files: an audit hook rejects these calls. The process returns scores. A second process, in which the candidate
never ran, repeats the trials with these scores and computes the measures, so that a candidate cannot change them.
"""

import builtins
import inspect
import multiprocessing
import os
import resource
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import blake2b
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean
from time import monotonic
from types import CodeType, ModuleType
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.kube.api.codec import UNREADABLE
from moorage.kube.api.documents import read_documents
from moorage.lab.experiment import API_VERSION, LoadedExperiment, load_experiment
from moorage.lab.measuring import run_trial
from moorage.lab.results import Results
from moorage.lab.trace import Trace
from moorage.lab.trial import PolicyText, Trial
from moorage.scheduler.framework.functions import score_function

Status: TypeAlias = Literal[
    "ok", "syntax", "raised", "out of range", "timeout", "memory", "crashed", "not repeatable", "invalid"
]
Candidate: TypeAlias = str | Callable[..., Any] | PolicyText
_PROCESSES: Final = threading.Lock()
"""multiprocessing checks the other processes when one starts, and must not read their exit codes twice."""
MODULE: Final = "moorage_candidate"
NAME: Final = "candidate"
MAX_SCORE: Final = 100
MIB: Final = 1 << 20
MAX_MESSAGE: Final = 2000
FEWEST_PODS: Final = 20
"""Number of pods of the smallest trace of a ladder."""
FORBIDDEN: Final = (
    *("socket.connect", "socket.bind", "socket.send", "socket.get", "subprocess.", "pty.", "ctypes.", "mmap."),
    *("os.fork", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.kill", "os.putenv", "signal.pthread_kill"),
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate"),
    *("shutil.", "tempfile."),
)
"""Prefixes of the audit events that end with an error in the process of a candidate."""
INTERNALS: Final = ("moorage", "sys", "gc", "inspect", "builtins", "importlib", "multiprocessing", "traceback")
"""Modules that a candidate must not import: they give access to the trial that evaluates it."""
PYTHON_FILES: Final = (".py", ".pyc", ".so", ".pyd")
"""Extensions of files that imports read."""
MAX_FILES: Final = 64
MAX_RESULT: Final = 1 << 28
"""Maximum size of the result of a process: a byte for each score."""


class Evaluation(Struct, frozen=True, rename="camel"):
    """The result of a candidate: its measures, or the reason for missing ones."""

    status: Status
    measures: dict[str, float] = {}
    """The mean over all trials, and ``unplaced``."""
    error: str = ""
    rung: float = 1.0
    """The share of the trace that it has completed, or failed on."""

    @property
    def is_ok(self) -> bool:
        """Whether it has measures."""
        return self.status == "ok"


class EvaluationReport(Struct, frozen=True):
    """The result of a process. Of a candidate with code, it has the scores of each trial in the order of the calls."""

    evaluation: Evaluation
    scores: tuple[bytes, ...] = ()


class EvaluationRequest(Struct, frozen=True):
    """The input of a process. With scores, the trials are repeated with them instead of the candidate."""

    experiment: str
    code: str
    plugin: str
    policy: PolicyText | None
    seeds: tuple[int, ...]
    ladder: tuple[float, ...]
    memory_limit: int
    time_limit: float
    scores: tuple[bytes, ...] | None = None


def evaluate(
    policy: Candidate,
    experiment: Path | str,
    *,
    time_limit: float = 60.0,
    memory_limit: int = 2048 * MIB,
    ladder: Sequence[float] = (0.1, 1.0),
    seeds: Sequence[int] | None = None,
    cache: Path | None = None,
) -> Evaluation:
    """Run a candidate on all traces of an experiment. Return its measures or a failure, within the time limit.

    ``policy`` is Python code that defines ``score(pod, node)``, such a function, a plugin as ``module:Class``, or a
    complete ``PolicyText``. A score is a number from 0 to 100. It replaces all scores of the baseline. The candidate
    must pass each share of the traces in ``ladder`` before the next. ``cache`` is a directory of finished results.
    Raise InputError if the experiment is invalid.
    """
    loaded_experiment = load_experiment(Path(experiment))
    request = _make_request(policy, loaded_experiment, ladder, seeds, memory_limit, time_limit)
    path = None if cache is None else cache / f"{_digest(request, loaded_experiment, cache)}.json"
    if path is not None and path.exists():
        return msgspec.json.decode(path.read_bytes(), type=Evaluation)
    result = _run(request)
    # Time limits depend on the machine, so such candidates are retried.
    if path is not None and result.status not in ("timeout", "crashed"):
        partial = path.with_suffix(f".{os.getpid()}.part")
        partial.write_bytes(msgspec.json.encode(result))
        partial.replace(path)
    return result


def _make_request(
    policy: Candidate,
    experiment: LoadedExperiment,
    ladder: Sequence[float],
    seeds: Sequence[int] | None,
    memory_limit: int,
    time_limit: float,
) -> EvaluationRequest:
    if not ladder or not all(0 < share <= 1 for share in ladder):
        raise InputError("ladder", f"invalid shares: {list(ladder)}", hint="write shares such as (0.1, 1.0)")
    code, plugin = "", ""
    if isinstance(policy, str):
        is_plugin = policy.count(":") == 1 and all(map(str.isidentifier, policy.replace(":", ".").split(".")))
        code, plugin = ("", policy) if is_plugin else (policy, "")
    elif not isinstance(policy, PolicyText):
        code = f"{textwrap.dedent(inspect.getsource(policy))}\nscore = {policy.__name__}\n"
    full = policy if isinstance(policy, PolicyText) else None
    all_seeds = tuple(experiment.experiment.seed_list if seeds is None else seeds)
    return EvaluationRequest(experiment.where, code, plugin, full, all_seeds, tuple(ladder), memory_limit, time_limit)


def _digest(request: EvaluationRequest, experiment: LoadedExperiment, cache: Path) -> str:
    """Return a digest of the candidate and of everything that its trials depend on."""
    results = Results(cache)
    hashed = blake2b(
        msgspec.json.encode((request.code, request.plugin, request.policy, request.ladder)), digest_size=16
    )
    for trial in experiment.trials(experiment.policies[:1], request.seeds):
        hashed.update(results.find_path(trial).name.encode())
    return hashed.hexdigest()


def _run(request: EvaluationRequest) -> Evaluation:
    """Run a candidate. If it has code, repeat its trials with its scores in a process that never ran the code."""
    deadline = monotonic() + request.time_limit
    report = _run_in_process(request, deadline)
    if not request.code or not report.evaluation.is_ok:
        return replace(report.evaluation, measures={} if request.code else report.evaluation.measures)
    return _run_in_process(replace(request, scores=report.scores), deadline).evaluation


def _run_in_process(request: EvaluationRequest, deadline: float) -> EvaluationReport:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["moorage.lab.evaluating"])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(request, sender), daemon=True)
    with _PROCESSES:
        process.start()
    sender.close()
    # A candidate may write a part of a result and then hang: only the end of its process ends the read.
    killer = threading.Timer(max(0.0, deadline - monotonic()), process.kill)
    killer.start()
    try:
        return msgspec.msgpack.decode(receiver.recv_bytes(MAX_RESULT), type=EvaluationReport)
    except (EOFError, OSError, *UNREADABLE):
        if monotonic() >= deadline:
            return EvaluationReport(Evaluation("timeout", error=f"no result after {request.time_limit:g} seconds"))
        with _PROCESSES:
            process.join(1.0)
            return EvaluationReport(_explain_exit(process.exitcode, request))
    finally:
        killer.cancel()
        killer.join()
        # The candidate may ignore signals, and its process may be stopped.
        with _PROCESSES:
            if process.is_alive():
                process.kill()
            process.join()
            process.close()
        receiver.close()


def _explain_exit(code: int | None, request: EvaluationRequest) -> Evaluation:
    if code == -signal.SIGXCPU:
        return Evaluation("timeout", error=f"used {request.time_limit:g} seconds of CPU")
    problem = "without a result" if code is None else f"with exit code {code}"
    return Evaluation("crashed", error=f"the process ended {problem}")


def _work(request: EvaluationRequest, sender: Connection) -> None:
    """Evaluate in the process: set limits, load the candidate, run the trials, send the result."""
    _limit(request, sender.fileno())
    scores: tuple[bytes, ...] = ()
    try:
        result, scores = _evaluate_here(request)
    except MemoryError:
        result = Evaluation("memory", error=f"more than {request.memory_limit // MIB} MiB")
    except InputError as error:
        result = Evaluation("invalid", error=str(error))
    except BaseException as error:
        result = Evaluation("raised", error=_describe(error))
    result = replace(result, error=result.error[:MAX_MESSAGE])
    sender.send_bytes(msgspec.msgpack.encode(EvaluationReport(result, scores)))
    sender.close()
    os._exit(0)  # without the exit handlers of the candidate


def _limit(request: EvaluationRequest, results: int) -> None:
    """Set the limits. Close all files except the file for results, such as sockets of the server."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(3, results)
    os.closerange(results + 1, max(4096, null + 1))
    resource.setrlimit(resource.RLIMIT_AS, (request.memory_limit, request.memory_limit))
    seconds = int(request.time_limit) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_FILES, MAX_FILES))


def _forbid_calls(readable: Collection[str]) -> None:
    """Reject calls that a score function does not need. A hook cannot be removed."""

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(FORBIDDEN) or (event == "open" and not is_allowed(*arguments)):
            raise PermissionError(f"a candidate must not call {event}")

    def is_allowed(path: object, _mode: object, flags: object) -> bool:
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
            return False
        text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        return text.endswith(PYTHON_FILES) or os.path.abspath(text) in readable

    sys.addaudithook(check)


def _make_module(compiled: CodeType) -> ModuleType:
    """Run the code of a candidate. Its imports of internal modules are rejected."""

    def import_module(name: str, *more: Any, **named: Any) -> ModuleType:
        if name.partition(".")[0] in INTERNALS:
            raise ImportError(f"a candidate must not import {name}")
        return builtins.__import__(name, *more, **named)

    module = ModuleType(MODULE)
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": import_module}
    exec(compiled, module.__dict__)
    return module


class _Recorder:
    """Checks and records the scores of a candidate in a trial, and the first failure."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.failure: Evaluation | None = None
        self._scores = bytearray()

    def finish_trial(self) -> bytes:
        """Return the scores of the trial."""
        scores, self._scores = bytes(self._scores), bytearray()
        return scores

    def score(self, pod: Any, node: Any) -> int:
        try:
            value = self._function(pod, node)
        except MemoryError:
            self.failure = self.failure or Evaluation("memory", error="score ran out of memory")
            raise
        except BaseException as error:
            self.failure = self.failure or Evaluation("raised", error=_describe(error))
            raise RuntimeError(_describe(error)) from None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= MAX_SCORE:  # NaN is not in the range
            error_text = f"score returned {_shorten(value)}, but it must return a number from 0 to {MAX_SCORE}"
            self.failure = self.failure or Evaluation("out of range", error=error_text)
            raise ValueError(error_text)
        score = int(round(value))  # noqa: RUF046 - a float subclass may round to anything
        self._scores.append(score)
        return score


class _ScorePlayer:
    """Returns recorded scores in the order of the calls."""

    def __init__(self, scores: Sequence[bytes]) -> None:
        self._trials = [*scores]
        self._next = iter(b"")
        self.failure: Evaluation | None = None
        self.start_trial()

    def score(self, pod: Any, node: Any) -> int:
        score = next(self._next, -1)
        if score < 0:
            self.failure = _NOT_REPEATABLE
            raise ValueError(_NOT_REPEATABLE.error)
        return score

    def start_trial(self) -> None:
        """Continue with the scores of the next trial."""
        self._next = iter(self._trials.pop(0) if self._trials else b"")

    def finish_trial(self) -> bytes:
        """Check that all scores of the trial were used."""
        if next(self._next, -1) >= 0:
            self.failure = _NOT_REPEATABLE
        self.start_trial()
        return b""


_NOT_REPEATABLE: Final = Evaluation(
    "not repeatable", error="a second run with the same scores differs: score must not change pods, nodes or modules"
)


def _evaluate_here(request: EvaluationRequest) -> tuple[Evaluation, tuple[bytes, ...]]:
    experiment = load_experiment(Path(request.experiment))
    scorer: _Recorder | _ScorePlayer | None = None
    ladder = request.ladder
    if request.policy is not None:
        policy = request.policy
    elif request.code:
        loaded = _load_code(request, experiment) if request.scores is None else _ScorePlayer(request.scores)
        if isinstance(loaded, Evaluation):
            return loaded, ()
        scorer = loaded
        policy = with_score(experiment, _register(scorer))
        ladder = ladder if request.scores is None else ladder[-1:]
    else:
        policy = with_score(experiment, request.plugin)
    rows: list[dict[str, float]] = []
    scores: list[bytes] = []
    for share in ladder:
        rows, scores = [], []
        for trial in _shorten_traces(experiment.trials((policy,), request.seeds), share):
            result = run_trial(trial).trial
            if scorer is not None:
                scores.append(scorer.finish_trial())
                if scorer.failure is not None:
                    return replace(scorer.failure, rung=share), ()
            if result.error:
                return Evaluation("raised", error=result.error, rung=share), ()
            rows.append({**result.measures, "unplaced": float(result.unplaced)})
    names = [name for name in rows[0] if all(name in row for row in rows)]
    return Evaluation("ok", {name: fmean(row[name] for row in rows) for name in names}), tuple(scores)


def _load_code(request: EvaluationRequest, experiment: LoadedExperiment) -> "_Recorder | Evaluation":
    """Run the code of a candidate after its calls are restricted. Return its function, or a failure."""
    try:
        compiled = compile(request.code, "<candidate>", "exec")
    except (SyntaxError, ValueError, RecursionError) as error:
        return Evaluation("syntax", error=_describe(error))
    # Streamed traces are read during the trial.
    _forbid_calls({str((experiment.directory / entry.file).resolve()) for entry in experiment.experiment.traces})
    function = _make_module(compiled).__dict__.get("score")
    if not callable(function):
        return Evaluation("raised", error="the code does not define score(pod, node)")
    return _Recorder(function)


def _register(scorer: "_Recorder | _ScorePlayer") -> str:
    """Make a plugin of a scorer. Return its name for configurations."""

    def candidate(pod: Any, node: Any) -> int:
        return scorer.score(pod, node)

    holder = sys.modules[MODULE] = ModuleType(MODULE)
    holder.__dict__["Candidate"] = score_function(candidate)
    return f"{MODULE}:Candidate"


def with_score(experiment: LoadedExperiment, plugin: str) -> PolicyText:
    """Return the baseline with the candidate as its only score."""
    base = next(policy for policy in experiment.policies if policy.name == experiment.experiment.baseline_name)
    config: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration"}
    if base.config:
        config = next(iter(read_documents(base.config, source="baseline")))
    profiles = config.setdefault("profiles", []) or [{"schedulerName": "default-scheduler"}]
    config["profiles"] = profiles
    plugins = profiles[0].setdefault("plugins", {})
    name = NAME if plugin.startswith(MODULE) else plugin.partition(":")[2]
    plugins["score"] = {"enabled": [{"name": name, "weight": 1}], "disabled": [{"name": "*"}]}
    text = msgspec.json.encode(config).decode()
    return replace(base, name=NAME, config=text, plugins=(*base.plugins, plugin))


def _shorten_traces(trials: Iterable[Trial], share: float) -> Iterable[Trial]:
    for trial in trials:
        trace = trial.trace
        if share < 1 and isinstance(trace, Trace):
            count = max(FEWEST_PODS, round(share * len(trace.pods)))
            trace = replace(trace, pods=trace.pods[:count])
        yield replace(trial, trace=trace)


def _describe(error: BaseException) -> str:
    line = next(
        (frame.tb_lineno for frame in reversed(_frames(error)) if frame.tb_frame.f_code.co_filename == "<candidate>"), 0
    )
    text = f"{type(error).__name__}: {_shorten(error, str)}"
    return f"{text} (line {line})" if line else text


def _frames(error: BaseException) -> list[Any]:
    frames, frame = [], error.__traceback__
    while frame is not None:
        frames.append(frame)
        frame = frame.tb_next
    return frames


def _shorten(value: object, form: Callable[[object], str] = repr) -> str:
    """Return a value as text. A candidate's own form may fail."""
    try:
        return form(value)[:200]
    except BaseException:
        return f"a {type(value).__name__}"
