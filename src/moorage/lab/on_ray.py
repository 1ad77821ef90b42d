"""Trials on Ray: on a cluster, or on a local Ray; lost trials are retried."""

import importlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, Final

from moorage.common.errors import InputError
from moorage.lab.rows import TrialResult
from moorage.lab.running import AHEAD, Ran, RunTrials, cores
from moorage.lab.trial import Trial, run_trial

TRIES: Final = 3
"""So often a trial is begun again whose worker, or machine, was lost."""
STARTS: Final = 2
START_SECONDS: Final = 90.0
END_SECONDS: Final = 60.0
STORE_BYTES: Final = 100_000_000
"""Memory of a local Ray for results, in bytes."""
_STARTED: Final = "Ray runtime started"


@contextmanager
def connected_to_ray(address: str = "", workers: int = 0) -> Iterator[RunTrials]:
    """Give the way to run trials on a Ray cluster; without an address on one that is started here, and ended again."""
    is_there = sys.modules["ray"] if "ray" in sys.modules else find_spec("ray")
    if is_there is None:
        raise InputError("--on ray", "Ray is not installed", hint="pip install 'moorage[ray]'")
    with ExitStack() as stack:
        where = address or stack.enter_context(_ray_of_our_own(workers or cores()))
        # Only now: it looks at its environment when it is imported.
        ray = importlib.import_module("ray")
        _connect(ray, where)
        stack.callback(ray.shutdown)
        yield partial(_run, ray)


def _connect(ray: Any, address: str) -> None:
    try:
        ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        problem = f"there is no Ray cluster: {error}"
        raise InputError(f"--ray-address {address}", problem, hint="write HOST:PORT of its head, or auto") from error


@contextmanager
def _ray_of_our_own(workers: int) -> Iterator[str]:
    """Start a local Ray with its own token and as few processes as possible; return its address."""
    # A plugin that is found here is found by a worker here.
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token_hex(32), "PYTHONPATH": paths}
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        # Its sockets are in there, and their paths must be short.
        with TemporaryDirectory(prefix="moorage-ray-", ignore_cleanup_errors=True) as folder:
            process, address = _started(Path(folder), workers)
            try:
                yield address
            finally:
                _end(process)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _started(folder: Path, workers: int) -> tuple[subprocess.Popen[bytes], str]:
    """Start Ray, with one retry: on a busy machine it gives up on its processes after 15 s."""
    flags = ["--include-dashboard=false", "--include-log-monitor=false", "--no-monitor", "--disable-usage-stats"]
    flags += [f"--num-cpus={workers}", f"--object-store-memory={STORE_BYTES}", f"--temp-dir={folder}"]
    program, log = str(Path(sys.executable).with_name("ray")), folder / "start.log"
    for _ in range(STARTS):
        port = _free_port()
        command = [str(program), "start", "--head", "--block", "--node-ip-address=127.0.0.1", f"--port={port}", *flags]
        with log.open("wb") as output:
            # A separate session: Ctrl-C goes to this process, which stops Ray.
            process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        deadline = monotonic() + START_SECONDS
        while process.poll() is None and monotonic() < deadline:
            if _STARTED in log.read_text(errors="replace"):
                return process, f"127.0.0.1:{port}"
            sleep(0.1)
        _end(process)
    last = (log.read_text(errors="replace").strip() or "it printed nothing").splitlines()[-1]
    hint = "give --ray-address one that runs, or leave --on out"
    raise InputError("--on ray", f"no Ray can be started here: {last}", hint=hint)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _run(ray: Any, trials: Iterable[Trial]) -> Ran:
    # Ray itself tries again when a worker is lost; what a trial raises is no such loss.
    task = ray.remote(num_cpus=1, max_retries=TRIES)(run_trial)
    ahead = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    waiting: dict[Any, Trial] = {}
    try:
        for trial in trials:
            waiting[task.remote(trial)] = trial
            if len(waiting) >= ahead:
                yield _ended(ray, waiting)
        while waiting:
            yield _ended(ray, waiting)
    finally:
        for ref in waiting:
            ray.cancel(ref, force=True)


def _ended(ray: Any, waiting: dict[Any, Trial]) -> tuple[Trial, TrialResult]:
    (finished,), _ = ray.wait(list(waiting), num_returns=1)
    trial = waiting.pop(finished)
    try:
        result: TrialResult = ray.get(finished)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        problem = f"its worker was lost {TRIES + 1} times: {type(error).__name__}"
        hint = "trials that are done are kept: run the same command again"
        raise InputError(str(trial.id), problem, hint=hint) from error
    return trial, result
