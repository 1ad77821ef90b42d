from typing import Any

import pytest
from tests.support.reconciling import NOW, describe, make, status_in, waits_in

from moorage.cluster.controllers.actions import Create
from moorage.cluster.controllers.cronjob import SCHEDULED, Runs
from moorage.kube.api.meta import format_time
from moorage.kube.api.workloads import CronJob, Job

MINUTE = 60.0
LAST = f"tick-{int(NOW // 60)}"


def cron_job(*, last: float | None = None, age: float = 600.0, **spec: Any) -> CronJob:
    status = {} if last is None else {"lastScheduleTime": format_time(NOW - last)}
    return make(CronJob, "tick", age=age, spec={"schedule": "*/5 * * * *", **spec}, status=status)


def job(name: str, outcome: str = "", finished: float = 0.0) -> Job:
    moment = format_time(NOW - finished)
    condition = {"type": outcome, "status": "True", "lastTransitionTime": moment}
    status = {"conditions": [condition], "startTime": moment} if outcome else {}
    if outcome == "Complete":
        status["completionTime"] = moment
    return make(Job, name, status=status)


CASES = {
    "a due job is created": (cron_job(), [], [f"create Job {LAST}"]),
    "only the last missed job is created": (cron_job(age=7200), [], [f"create Job {LAST}"]),
    "no job is created before its time": (cron_job(age=0), [], []),
    "no job is created twice": (cron_job(last=0), [], []),
    "an existing job is not recreated": (cron_job(), [job(LAST)], []),
    "a suspended cron job creates nothing": (cron_job(suspend=True), [], []),
    "concurrent jobs are allowed by default": (cron_job(), [job("before")], [f"create Job {LAST}"]),
    "Forbid prevents concurrent jobs": (cron_job(concurrencyPolicy="Forbid"), [job("before")], []),
    "Replace deletes the active job": (
        cron_job(concurrencyPolicy="Replace"),
        [job("before")],
        ["delete before", f"create Job {LAST}"],
    ),
    "Forbid ignores finished jobs": (
        cron_job(concurrencyPolicy="Forbid"),
        [job("before", "Complete")],
        [f"create Job {LAST}"],
    ),
    "the oldest finished jobs are deleted": (
        cron_job(age=0, successfulJobsHistoryLimit=1),
        [job("a", "Complete", 300), job("b", "Complete", 100), job("c", "Failed")],
        ["delete a"],
    ),
}


@pytest.mark.parametrize(("workload", "jobs", "want"), CASES.values(), ids=CASES)
def test_jobs_are_created_on_schedule(workload: CronJob, jobs: list[Job], want: list[str]) -> None:
    assert describe(Runs(workload, jobs, NOW).actions()) == want


def test_job_is_skipped_after_the_starting_deadline() -> None:
    workload = cron_job(startingDeadlineSeconds=60)
    assert describe(Runs(workload, [], NOW + 120).actions()) == []
    assert describe(Runs(workload, [], NOW + 30).actions()) == [f"create Job {LAST}"]


def test_cron_job_is_requeued_for_the_next_run() -> None:
    (seconds,) = waits_in(Runs(cron_job(age=0), [], NOW + 10).actions())
    assert 290.0 <= seconds < 291.0


def test_job_and_cron_job_record_the_scheduled_time() -> None:
    actions = list(Runs(cron_job(jobTemplate={"spec": {"completions": 2}}), [job("before")], NOW).actions())
    (created,) = [action for action in actions if isinstance(action, Create)]
    assert created.data["spec"] == {"completions": 2}
    assert created.data["metadata"]["annotations"] == {SCHEDULED: format_time(NOW)}
    status = status_in(actions)
    assert status["lastScheduleTime"] == format_time(NOW)
    assert [item["name"] for item in status["active"]] == ["before"]


def test_last_success_is_recorded() -> None:
    status = status_in(Runs(cron_job(age=0), [job("a", "Complete", MINUTE)], NOW).actions())
    assert status["lastSuccessfulTime"] == format_time(NOW - MINUTE)
