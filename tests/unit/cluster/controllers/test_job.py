from typing import Any

import pytest
from tests.support.reconciling import NOW, describe, make, pod, status_in, waits_in

from moorage.cluster.controllers.actions import Create
from moorage.cluster.controllers.job import INDEX, JobProgress
from moorage.kube.api.meta import format_time
from moorage.kube.api.pod import Pod
from moorage.kube.api.workloads import Job

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}


def job(*, status: dict[str, Any] | None = None, **spec: Any) -> Job:
    return make(Job, "sum", spec={"template": TEMPLATE, "completions": 1, **spec}, status=status or {})


def work(name: str = "p", phase: str = "Running", index: int | None = None, **state: Any) -> Pod:
    annotations = {} if index is None else {INDEX: str(index)}
    return pod(name, phase=phase, annotations=annotations, **state)


INDEXED = {"completionMode": "Indexed", "completions": 3}
CASES = {
    "one pod is created": (job(), [], ["create Pod sum-"]),
    "a running pod is waited for": (job(), [work()], []),
    "parallelism limits the active pods": (
        job(completions=5, parallelism=2),
        [],
        ["create Pod sum-", "create Pod sum-"],
    ),
    "remaining completions limit the active pods": (
        job(completions=2, parallelism=2),
        [work("a", "Succeeded")],
        ["create Pod sum-"],
    ),
    "each index gets a pod": (job(**INDEXED, parallelism=2), [], ["create Pod sum-0-", "create Pod sum-1-"]),
    "a completed index is not repeated": (
        job(**INDEXED, parallelism=2),
        [work("a", "Succeeded", 0), work("b", "Running", 2)],
        ["create Pod sum-1-"],
    ),
    "a suspended job stops its pods": (job(suspend=True), [work("a")], ["delete a"]),
    "surplus pods are deleted": (job(completions=5, parallelism=1), [work("a"), work("b")], ["delete b"]),
    "a failure starts the backoff": (job(), [work("a", "Failed", ready_for=1.0)], []),
    "a new pod is created after the backoff": (job(), [work("a", "Failed", ready_for=11.0)], ["create Pod sum-"]),
    "too many failures stop all pods": (job(backoffLimit=0), [work("a", "Failed"), work("b")], ["delete b"]),
    "a work queue creates no pods after the first success": (
        make(Job, "sum", spec={"template": TEMPLATE, "parallelism": 3}),
        [work("a", "Succeeded"), work("b")],
        [],
    ),
}


@pytest.mark.parametrize(("workload", "pods", "want"), CASES.values(), ids=CASES)
def test_job_creates_pods_until_it_completes(workload: Job, pods: list[Pod], want: list[str]) -> None:
    assert describe(JobProgress(workload, pods, NOW).actions()) == want


def outcome(status: dict[str, Any]) -> dict[str, str]:
    return {item["type"]: item["reason"] for item in status.get("conditions", ())}


ENDINGS = {
    "enough pods succeeded": (job(), [work("a", "Succeeded")], {"Complete": "CompletionsReached"}),
    "too many pods failed": (job(backoffLimit=0), [work("a", "Failed")], {"Failed": "BackoffLimitExceeded"}),
    "the deadline has passed": (
        job(activeDeadlineSeconds=10, status={"startTime": format_time(NOW - 11)}),
        [work()],
        {"Failed": "DeadlineExceeded"},
    ),
    "the job is active": (job(completions=2), [work("a", "Succeeded")], {}),
}


@pytest.mark.parametrize(("workload", "pods", "want"), ENDINGS.values(), ids=ENDINGS)
def test_job_finishes(workload: Job, pods: list[Pod], want: dict[str, str]) -> None:
    status = status_in(JobProgress(workload, pods, NOW).actions())
    certain = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
    before = {certain[kind]: reason for kind, reason in want.items()}
    assert outcome(status) == {**before, **want}
    assert ("completionTime" in status) == ("Complete" in want)


def test_completed_indexes_are_counted() -> None:
    pods = [work(f"p{index}", "Succeeded", index) for index in (0, 1, 2, 5)]
    status = status_in(JobProgress(job(completionMode="Indexed", completions=9), pods, NOW).actions())
    assert (status["succeeded"], status["completedIndexes"]) == (4, "0-2,5")


def ended(seconds_ago: float, **spec: Any) -> Job:
    since = format_time(NOW - seconds_ago)
    conditions = [{"type": "Complete", "status": "True", "lastTransitionTime": since}]
    return job(status={"conditions": conditions}, **spec)


def test_finished_job_is_deleted_after_its_ttl() -> None:
    assert describe(JobProgress(ended(10), [], NOW).actions()) == []
    assert waits_in(JobProgress(ended(10, ttlSecondsAfterFinished=30), [], NOW).actions()) == [20.0]
    assert describe(JobProgress(ended(31, ttlSecondsAfterFinished=30), [], NOW).actions()) == ["delete sum"]


def crashed(name: str, code: int, **conditions: str) -> Pod:
    finished = {"name": "main", "state": {"terminated": {"exitCode": code}}}
    current = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return make(Pod, name, status={"phase": "Failed", "containerStatuses": [finished], "conditions": current})


def rule(action: str, *codes: int, operator: str = "In", condition: str = "") -> dict[str, Any]:
    if condition:
        return {"action": action, "onPodConditions": [{"type": condition, "status": "True"}]}
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(codes)}}


POLICIES = {
    "a failure counts without a matching rule": ([rule("FailJob", 42)], crashed("a", 1), "BackoffLimitExceeded"),
    "FailJob ends the job": ([rule("FailJob", 42)], crashed("a", 42), "PodFailurePolicy"),
    "Ignore does not count the failure": (
        [rule("Ignore", condition="DisruptionTarget")],
        crashed("a", 1, DisruptionTarget="True"),
        "",
    ),
    "the first matching rule decides": ([rule("Ignore", 7), rule("FailJob", 7)], crashed("a", 7), ""),
    "NotIn matches other exit codes": ([rule("FailJob", 7, operator="NotIn")], crashed("a", 8), "PodFailurePolicy"),
}


@pytest.mark.parametrize(("rules", "failed", "want"), POLICIES.values(), ids=POLICIES)
def test_pod_failure_policy(rules: list[dict[str, Any]], failed: Pod, want: str) -> None:
    workload = job(backoffLimit=0, podFailurePolicy={"rules": rules})
    assert outcome(status_in(JobProgress(workload, [failed], NOW).actions())).get("Failed", "") == want


def test_failed_job_names_the_matching_rule() -> None:
    workload = job(podFailurePolicy={"rules": [rule("Ignore", 1), rule("FailJob", 42)]})
    (current, *_) = status_in(JobProgress(workload, [crashed("a", 42)], NOW).actions())["conditions"]
    want = "Container main for pod shop/a failed with exit code 42 matching FailJob rule at index 1"
    assert current["message"] == want


def test_suspended_job_reports_it_and_restarts() -> None:
    started = {"startTime": format_time(NOW - 60)}
    status = status_in(JobProgress(job(suspend=True, status=started), [], NOW).actions())
    assert (outcome(status), status["startTime"]) == ({"Suspended": "JobSuspended"}, None)
    resumed = status_in(JobProgress(job(status={"conditions": status["conditions"]}), [], NOW).actions())
    assert (outcome(resumed), resumed["startTime"]) == ({"Suspended": "JobResumed"}, format_time(NOW))


POLICIES = {
    "one required index succeeded": ({"succeededIndexes": "0"}, {0}, True),
    "the required index is missing": ({"succeededIndexes": "1-2"}, {0, 1}, False),
    "all required indexes succeeded": ({"succeededIndexes": "0,2-3"}, {0, 2, 3}, True),
    "the required count succeeded": ({"succeededCount": 2}, {1, 4}, True),
    "the required count is missing": ({"succeededCount": 2}, {1}, False),
    "the required count of some indexes succeeded": ({"succeededIndexes": "0-2", "succeededCount": 1}, {2}, True),
    "other indexes do not count": ({"succeededIndexes": "0-2", "succeededCount": 1}, {4}, False),
}


@pytest.mark.parametrize(("rule", "finished", "is_met"), POLICIES.values(), ids=POLICIES)
def test_success_policy(rule: dict[str, Any], finished: set[int], is_met: bool) -> None:
    pods = [work(f"p{index}", "Succeeded", index) for index in finished]
    indexed = job(completionMode="Indexed", completions=5, parallelism=0, successPolicy={"rules": [{}, rule]})
    status = status_in(JobProgress(indexed, pods, NOW).actions())
    current = {(item["type"], item["reason"], item["message"]) for item in status.get("conditions") or ()}
    because = ("SuccessPolicy", "Matched rules at index 1")
    assert current == ({("SuccessCriteriaMet", *because), ("Complete", *because)} if is_met else set())


def test_pods_imitate_their_command() -> None:
    sleeper = {"spec": {"containers": [{"name": "c", "image": "i", "command": ["sleep", "300"]}]}}
    (create, *_) = JobProgress(job(template=sleeper), [], NOW).actions()
    assert isinstance(create, Create)
    assert create.data["metadata"]["annotations"] == {"moorage.io/run-for": "300s"}


def test_zero_counts_are_written() -> None:
    status = status_in(JobProgress(job(), [work(phase="Succeeded")], NOW).actions())
    assert (status["ready"], status["terminating"]) == (0, 0)
    later = job(status=status)
    assert describe(JobProgress(later, [work(phase="Succeeded")], NOW).actions()) == []
