"""Trials on a Ray cluster or on a local Ray. Lost trials are retried."""

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
from moorage.lab.measuring import run_trial
from moorage.lab.results import AHEAD, Ran, RunTrials, count_cores
from moorage.lab.trial import Trial, TrialResult

RETRIES: Final = 3
"""Number of retries of a trial after its worker or machine was lost."""
STARTS: Final = 2
START_SECONDS: Final = 90.0
END_SECONDS: Final = 60.0
STORE_BYTES: Final = 100_000_000
"""Memory of a local Ray for results, in bytes."""
_STARTED: Final = "Ray runtime started"


@contextmanager
def connect_to_ray(address: str = "", workers: int = 0) -> Iterator[RunTrials]:
    """Yield a function that runs trials on a Ray cluster. Without an address, start and stop a local Ray."""
    if (sys.modules["ray"] if "ray" in sys.modules else find_spec("ray")) is None:
        raise InputError("--on ray", "Ray is not installed", hint="pip install 'moorage[ray]'")
    with ExitStack() as stack:
        location = address or stack.enter_context(_start_local_ray(workers or count_cores()))
        # Not earlier: Ray reads its environment at import.
        ray = importlib.import_module("ray")
        try:
            ray.init(address=location, logging_level="ERROR", log_to_driver=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            problem, hint = f"the Ray cluster cannot be reached: {error}", "write HOST:PORT of its head node, or auto"
            raise InputError(f"--ray-address {location}", problem, hint=hint) from error
        stack.callback(ray.shutdown)
        yield partial(_run, ray)


@contextmanager
def _start_local_ray(workers: int) -> Iterator[str]:
    """Start a local Ray with a random token and few processes. Yield its address."""
    # Workers must find the same plugins.
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token_hex(32), "PYTHONPATH": paths}
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        # Contains sockets. Their paths must be short.
        with TemporaryDirectory(prefix="moorage-ray-", ignore_cleanup_errors=True) as directory:
            process, address = _start_process(Path(directory), workers)
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


def _start_process(directory: Path, workers: int) -> tuple[subprocess.Popen[bytes], str]:
    """Start Ray, with one retry: on a busy machine, its processes time out after 15 s."""
    flags = ["--include-dashboard=false", "--include-log-monitor=false", "--no-monitor", "--disable-usage-stats"]
    flags += [f"--num-cpus={workers}", f"--object-store-memory={STORE_BYTES}", f"--temp-dir={directory}"]
    program, log = str(Path(sys.executable).with_name("ray")), directory / "start.log"
    for _ in range(STARTS):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [str(program), "start", "--head", "--block", "--node-ip-address=127.0.0.1", f"--port={port}", *flags]
        with log.open("wb") as output:
            # A separate session: Ctrl-C is sent to this process, which stops Ray.
            process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        deadline = monotonic() + START_SECONDS
        while process.poll() is None and monotonic() < deadline:
            if _STARTED in log.read_text(errors="replace"):
                return process, f"127.0.0.1:{port}"
            sleep(0.1)
        _end(process)
    last = (log.read_text(errors="replace").strip() or "no output").splitlines()[-1]
    hint = "set --ray-address to a running cluster, or remove --on"
    raise InputError("--on ray", f"Ray cannot be started: {last}", hint=hint)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _run(ray: Any, trials: Iterable[Trial]) -> Ran:
    # Ray retries a task if its worker is lost, but not if a trial raises an exception.
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(run_trial)
    ahead = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    pending: dict[Any, Trial] = {}
    try:
        for trial in trials:
            pending[task.remote(trial)] = trial
            if len(pending) >= ahead:
                yield _collect(ray, pending)
        while pending:
            yield _collect(ray, pending)
    finally:
        for ref in pending:
            ray.cancel(ref, force=True)


def _collect(ray: Any, pending: dict[Any, Trial]) -> tuple[Trial, TrialResult]:
    (finished,), _ = ray.wait(list(pending), num_returns=1)
    trial = pending.pop(finished)
    try:
        result: TrialResult = ray.get(finished)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        problem = f"the worker was lost {RETRIES + 1} times: {type(error).__name__}"
        hint = "finished trials are stored: rerun the command"
        raise InputError(str(trial.id), problem, hint=hint) from error
    return trial, result
