"""Trials in the pods of an indexed Job. Their results are files on a volume that this machine also mounts."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from re import sub
from secrets import token_hex
from time import sleep
from typing import Any, Final

import msgspec
from msgspec import Struct

from moorage import __version__
from moorage.common.errors import ApiError, InputError
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient
from moorage.lab.results import Ran, Results
from moorage.lab.trial import Trial

PODS: Final = 16
"""Default number of pods of a Job."""
RETRIES: Final = 3
POLL_SECONDS: Final = 2.0
KEEP_SECONDS: Final = 3600
JobStatus = dict[str, Any]


class JobSettings(Struct, frozen=True):
    """The environment of trials: an image with Moorage, and a claim with a volume that is mounted at the same path."""

    image: str
    claim: str
    directory: Path
    """The mount path, on this machine and in the pods; contains experiment and results."""
    namespace: str = "default"
    pods: int = 0
    kubeconfig: str = ""
    context: str = ""


def make_job(settings: JobSettings, experiment: Path, out: Path, trials: int) -> dict[str, Any]:
    """Return the manifest of a Job that runs the shards of an experiment."""
    directory, shards = settings.directory.resolve(), min(settings.pods or PODS, trials)
    for path, name in ((experiment, "the experiment"), (out, "--out")):
        if not path.resolve().is_relative_to(directory):
            hint = "set --claim-dir to the local mount point of the claim"
            raise InputError(str(path), f"{name} is outside of the volume {directory}", hint=hint)
    command = ["moorage", "lab", "run", str(experiment.resolve()), "--out", str(out.resolve())]
    command += ["--shard", f"$(JOB_COMPLETION_INDEX)/{shards}", "--workers", "1", "--quiet"]
    container = {
        "name": "trials",
        "image": settings.image,
        "command": command,
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}},
        "volumeMounts": [{"name": "experiment", "mountPath": str(directory)}],
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": "experiment", "persistentVolumeClaim": {"claimName": settings.claim}}],
    }
    prefix = sub(r"[^a-z0-9]+", "-", experiment.stem.lower()).strip("-")[:40] or "experiment"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{prefix}-{token_hex(4)}", "namespace": settings.namespace},
        "spec": {
            "completionMode": "Indexed",
            "completions": shards,
            "parallelism": shards,
            "backoffLimitPerIndex": RETRIES,
            "ttlSecondsAfterFinished": KEEP_SECONDS,
            "template": {"metadata": {"labels": {"app": "moorage-lab"}}, "spec": pod},
        },
    }


class JobClient:
    """Creates, reads and deletes one Job."""

    def __init__(self, settings: JobSettings) -> None:
        self._connection = load_connection(
            settings.kubeconfig, context=settings.context, alternatives="omit --on kubernetes"
        )
        self._jobs = f"/apis/batch/v1/namespaces/{settings.namespace}/jobs"

    def create(self, job: dict[str, Any]) -> None:
        """Create the Job."""
        self._request("POST", self._jobs, msgspec.json.encode(job))

    def status(self, name: str) -> JobStatus:
        """Return the status of the Job."""
        job = msgspec.json.decode(self._request("GET", f"{self._jobs}/{name}"), type=dict[str, Any])
        return job.get("status") or {}

    def delete(self, name: str) -> None:
        """Delete the Job and its pods."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        self._request("DELETE", f"{self._jobs}/{name}", msgspec.json.encode(options))

    def _request(self, method: str, path: str, body: bytes = b"") -> bytes:
        async def send() -> bytes:
            async with ApiClient(self._connection) as client:
                return await client.request(method, path, body)

        try:
            return asyncio.run(send())
        except ApiError as error:
            raise InputError(self._connection.server, str(error)) from error


def run_on_kubernetes(trials: Iterable[Trial], settings: JobSettings, experiment: Path, results: Results) -> Ran:
    """Run trials in a Job. Yield each one when its file appears. An interrupted run deletes the Job."""
    open_trials = list(trials)
    if not open_trials:
        return
    client, job = JobClient(settings), make_job(settings, experiment, results.directory, len(open_trials))
    name = job["metadata"]["name"]
    client.create(job)
    try:
        yield from collect_results(open_trials, results, lambda: client.status(name))
    except BaseException:
        client.delete(name)
        raise


def collect_results(
    trials: Iterable[Trial],
    results: Results,
    read_status: Callable[[], JobStatus],
    wait: Callable[[float], None] = sleep,
) -> Ran:
    """Yield the results of trials as their files appear, until the Job has ended."""
    from moorage.lab.measuring import run_trial

    pending = list(trials)
    while pending:
        status = read_status()  # before the search: the files of an ended Job are complete
        finished = {str(trial.id): result for trial in pending if (result := results.find(trial)) is not None}
        yield from ((trial, finished[str(trial.id)]) for trial in pending if str(trial.id) in finished)
        pending = [trial for trial in pending if str(trial.id) not in finished]
        if not pending:
            return
        _raise_failure(status)
        if "Complete" in _true_conditions(status):
            # Only failed trials store no file. They are repeated here for their message.
            repeated = [(trial, run_trial(trial)) for trial in pending]
            if not all(result.trial.error for _, result in repeated):
                problem = f"the Job has ended without a result of {pending[0].id}"
                raise InputError("--on kubernetes", problem, hint=f"use an image with Moorage {__version__}")
            yield from repeated
            return
        wait(POLL_SECONDS)


def _true_conditions(status: JobStatus) -> Iterator[str]:
    return (condition["type"] for condition in status.get("conditions") or () if condition.get("status") == "True")


def _raise_failure(status: JobStatus) -> None:
    for condition in status.get("conditions") or ():
        if condition["type"] == "Failed" and condition.get("status") == "True":
            problem = f"the Job failed: {condition.get('message') or condition.get('reason') or 'no reason'}"
            hint = "see the logs of its pods; finished trials are stored: rerun the command"
            raise InputError("--on kubernetes", problem, hint=hint)
