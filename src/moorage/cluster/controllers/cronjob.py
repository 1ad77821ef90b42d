"""Cron jobs: a job is created whenever the schedule is due."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import tzinfo
from functools import cached_property
from typing import Final

from moorage.cluster.controllers.actions import ControllerAction, Create, Delete, RequeueAfter, status_actions
from moorage.cluster.controllers.base import BaseController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.job import find_end
from moorage.cluster.controllers.ownership import owner_keys, owner_reference
from moorage.kube.api.cron import Schedule, find_zone, parse
from moorage.kube.api.meta import KubeObject, format_time, parse_time
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import CronJob, Job

SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobController(BaseController):
    """Creates jobs on a schedule."""

    name = "cron jobs"
    kinds = (CronJob, Job)
    pause = 0.1

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        return (obj.key,) if isinstance(obj, CronJob) else owner_keys(obj, CronJob)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Create the job that is due, delete old jobs, and requeue for the next one."""
        cron_job = cache[CronJob].get(key)
        if cron_job is None or cron_job.is_terminating:
            return ()
        jobs = [job for job in cache[Job].owned_by(cron_job.uid) if not job.is_terminating]
        return Runs(cron_job, jobs, self._clock.now()).actions()


@dataclass(frozen=True)
class Runs:
    """One cron job at one moment, with its jobs."""

    cron_job: CronJob
    jobs: list[Job]
    now: float

    @cached_property
    def active(self) -> list[Job]:
        """The jobs that have not ended."""
        return [job for job in self.jobs if find_end(job) is None]

    def actions(self) -> Iterator[ControllerAction]:
        """Return the actions for the current state."""
        spec = self.cron_job.spec
        yield from self._forget("Complete", spec.successful_jobs_history_limit)
        yield from self._forget("Failed", spec.failed_jobs_history_limit)
        due = next_run = None
        if not spec.suspend:
            schedule, zone = parse(spec.schedule), find_zone(spec.time_zone)
            due, next_run = self._find_due(schedule, zone), schedule.after(self.now, zone)
        run = list(self._run(due)) if due is not None else []
        yield from run
        started = due if any(isinstance(action, Create) for action in run) else None
        yield from status_actions(self.cron_job, self.cron_job.status, self._status(started))
        if next_run is not None:
            yield RequeueAfter(next_run - self.now + 0.05)

    def _find_due(self, schedule: Schedule, zone: tzinfo) -> float | None:
        """Return the last time the schedule was due and no job was created, unless it is too late for that."""
        spec, created = self.cron_job.spec, self.cron_job.metadata.creation_timestamp
        earliest = parse_time(self.cron_job.status.get("lastScheduleTime") or created or format_time(self.now))
        if spec.starting_deadline_seconds is not None:
            earliest = max(earliest, self.now - spec.starting_deadline_seconds)
        return schedule.latest(earliest, self.now, zone)

    def _run(self, due: float) -> Iterator[ControllerAction]:
        policy = self.cron_job.spec.concurrency_policy
        if policy == "Forbid" and self.active:
            return
        if policy == "Replace":
            yield from (Delete(job, propagation="Background") for job in self.active)
        name = f"{self.cron_job.name}-{int(due // 60)}"
        if any(job.name == name for job in self.jobs):
            return
        template = self.cron_job.spec.job_template
        metadata_template = template.get("metadata") or {}
        annotations = {**(metadata_template.get("annotations") or {}), SCHEDULED: format_time(due)}
        metadata = {
            "name": name,
            "namespace": self.cron_job.namespace,
            "labels": metadata_template.get("labels") or {},
            "annotations": annotations,
            "ownerReferences": [owner_reference(self.cron_job)],
        }
        yield Create(Job, {"metadata": metadata, "spec": template.get("spec") or {}})

    def _forget(self, outcome: str, limit: int) -> Iterator[ControllerAction]:
        finished = [job for job in self.jobs if (end := find_end(job)) is not None and end["type"] == outcome]
        finished.sort(key=lambda job: (job.status.get("startTime") or "", job.name))
        surplus = finished[: max(0, len(finished) - limit)]
        yield from (Delete(job, propagation="Background") for job in surplus)

    def _status(self, started: float | None) -> Data:
        reference = {"apiVersion": "batch/v1", "kind": "Job"}
        active = [
            {**reference, "namespace": job.namespace, "name": job.name, "uid": job.uid}
            for job in sorted(self.active, key=lambda job: job.name)
        ]
        status: Data = {"active": active}
        if started is not None:
            status["lastScheduleTime"] = format_time(started)
        completion_times = [text for job in self.jobs if (text := job.status.get("completionTime"))]
        if latest := max([*completion_times, self.cron_job.status.get("lastSuccessfulTime") or ""]):
            status["lastSuccessfulTime"] = latest
        return status
