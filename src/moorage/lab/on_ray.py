"""Trials on Ray: on the machines of a cluster, or on a Ray of our own on this one; what is lost is tried again."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from moorage.errors import InputError
from moorage.lab.rows import TrialResult
from moorage.lab.running import AHEAD, Ran, RunTrials, cores
from moorage.lab.trial import Trial, run_trial

TRIES: Final = 3
"""So often a trial is begun again whose worker, or machine, was lost."""
STARTS: Final = 3
STORE_BYTES: Final = 100_000_000
"""What a Ray of our own keeps results in until we have them."""


@contextmanager
def connected_to_ray(address: str = "", workers: int = 0) -> Iterator[RunTrials]:
    """Give the way to run trials on a Ray cluster; without an address on one that is started here, and ended again."""
    ray = _ray()
    _connect(ray, address, workers)
    try:
        yield partial(_run, ray)
    finally:
        ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise InputError("--on ray", "Ray is not installed", hint="pip install 'moorage[ray]'") from None
    return ray


def _connect(ray: Any, address: str, workers: int) -> None:
    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if not address:
        # A plugin that is found here is found by a worker here.
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        _start(
            ray,
            num_cpus=workers or cores(),
            include_dashboard=False,
            object_store_memory=STORE_BYTES,
            runtime_env={"env_vars": {"PYTHONPATH": paths}},
            **quiet,
        )
        return
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        problem = f"there is no Ray cluster: {error}"
        raise InputError(f"--ray-address {address}", problem, hint="write HOST:PORT of its head, or auto") from error


def _start(ray: Any, **options: Any) -> None:
    """Start a Ray of our own. It gives up on a busy machine after 15 s, and what it has read by then speeds it up."""
    for left in reversed(range(STARTS)):
        try:
            ray.init(**options)
        except Exception as error:  # it raises nothing more special
            ray.shutdown()
            if not left:
                problem = f"no Ray can be started here: {error}"
                raise InputError(
                    "--on ray", problem, hint="give --ray-address one that runs, or leave --on out"
                ) from error
        else:
            return


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
    (done,), _ = ray.wait(list(waiting), num_returns=1)
    trial = waiting.pop(done)
    try:
        result: TrialResult = ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        problem = f"its worker was lost {TRIES + 1} times: {type(error).__name__}"
        hint = "trials that are done are kept: run the same command again"
        raise InputError(str(trial.id), problem, hint=hint) from error
    return trial, result
