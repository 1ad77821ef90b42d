"""Jobs: run pods in parallel until enough succeed or too many fail."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count, islice
from typing import Final

from moorage.cluster.controllers.actions import (
    ControllerAction,
    Create,
    Delete,
    RequeueAfter,
    status_actions,
)
from moorage.cluster.controllers.base import PodSetController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.job_pod_groups import find_job_group
from moorage.cluster.controllers.kubelet import command_annotations
from moorage.cluster.controllers.ownership import (
    is_active,
    is_ready,
    managed_pods,
    owner_keys,
    pod_claims,
    pod_from_template,
    with_condition,
)
from moorage.common.clock import Clock
from moorage.kube.api.integers import to_int64
from moorage.kube.api.meta import KubeObject, format_time, parse_time
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import PodGroup, Workload
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import ExitCodes, FailurePolicy, FailureRule, Job, SuccessPolicy

INDEX: Final = "batch.kubernetes.io/job-completion-index"
BURST: Final = 500
FIRST_PAUSE: Final = 10.0
LAST_PAUSE: Final = 600.0
"""The backoff between failed pods, which doubles with each failure."""


class JobController(PodSetController):
    """Runs jobs. With ``makes_groups`` the pods of a job form a pod group, and its writes are recorded as events."""

    name = "jobs"
    workload = Job

    def __init__(self, clock: Clock, *, makes_groups: bool = False) -> None:
        super().__init__(clock)
        self._makes_groups = makes_groups
        self.kinds = (Job, Pod, *((Workload, PodGroup) if makes_groups else ()))

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if not isinstance(obj, Workload):
            return super().affected(obj, cache)
        # Owned by a job, or by the controller that manages the job.
        owner = obj.metadata.controller
        jobs = cache[Job].owned_by(owner.uid) if owner is not None else ()
        return [*owner_keys(obj, Job), *(job.key for job in jobs)]

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Create pods, finish the job, or delete it when its TTL expires."""
        job = cache[Job].get(key)
        if job is None or job.is_terminating:
            return ()
        if claimed := pod_claims(job, cache):
            return claimed
        pods = managed_pods(job, cache)
        group = None
        if self._makes_groups and find_end(job) is None:
            job_group = find_job_group(job, cache, has_started=bool(pods or job.status.get("startTime")))
            if job_group.actions:
                return job_group.actions
            group = job_group.name
        return JobProgress(job, pods, self._clock.now(), group).actions()


@dataclass(frozen=True, slots=True)
class FailureOutcome:
    """Which failures count toward the job's limit, and why the job has failed, if it has."""

    counted: list[Pod]
    fatal: str = ""


@dataclass(frozen=True)
class JobProgress:
    """One job at one moment, with its pods."""

    job: Job
    pods: list[Pod]
    now: float
    group: str | None = None
    """The pod group of new pods."""

    @cached_property
    def active(self) -> list[Pod]:
        """The pods that have not ended."""
        return [pod for pod in self.pods if is_active(pod)]

    @cached_property
    def failures(self) -> FailureOutcome:
        """The pods that failed, as far as they count."""
        failed_pods = (pod for pod in self.pods if pod.status.phase == "Failed")
        return apply_policy(self.job.spec.pod_failure_policy, failed_pods)

    @property
    def is_indexed(self) -> bool:
        """Whether the job has completionMode Indexed."""
        return self.job.spec.completion_mode == "Indexed"

    @cached_property
    def done(self) -> set[int]:
        """The achieved completions: their indexes, or consecutive numbers for jobs without indexes."""
        succeeded = [pod for pod in self.pods if pod.status.phase == "Succeeded"]
        if self.is_indexed:
            return {index for index in map(completion_index, succeeded) if index < (self.job.spec.completions or 0)}
        return set(range(len(succeeded)))

    def actions(self) -> Iterator[ControllerAction]:
        """Return the actions for the current state."""
        if end := find_end(self.job):
            yield from (Delete(pod) for pod in self.active)
            lifetime = self.job.spec.ttl_seconds_after_finished
            if lifetime is not None:
                remaining_seconds = parse_time(end["lastTransitionTime"]) + lifetime - self.now
                yield (
                    RequeueAfter(remaining_seconds)
                    if remaining_seconds > 0
                    else Delete(self.job, propagation="Background")
                )
            return
        if ending := self._ending():
            yield from (Delete(pod) for pod in self.active)
            yield from self._end(ending)
            return
        if self.job.spec.suspend:
            yield from (Delete(pod) for pod in self.active)
        else:
            yield from self._make_pods()
        yield from status_actions(self.job, self._reported_status, {**self._status(), "conditions": self._conditions()})
        if self.job.spec.active_deadline_seconds is not None:
            yield RequeueAfter(max(0.1, self._started + self.job.spec.active_deadline_seconds - self.now))

    @property
    def _reported_status(self) -> Data:
        """The status. These two counts are written even if they are zero."""
        return {"ready": None, "terminating": None, **self.job.status}

    @property
    def _started(self) -> float:
        text = self.job.status.get("startTime")
        return parse_time(text) if text else self.now

    def _ending(self) -> tuple[str, str, str] | None:
        """Return how the job ends, if it does: the condition, its reason and its message."""
        spec = self.job.spec
        if self.failures.fatal:
            return "Failed", "PodFailurePolicy", self.failures.fatal
        if len(self.failures.counted) > spec.backoff_limit:
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        if spec.active_deadline_seconds is not None and self.now >= self._started + spec.active_deadline_seconds:
            return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
        if self.is_indexed and (matched := met_rule(spec.success_policy, self.done)) is not None:
            return "Complete", "SuccessPolicy", f"Matched rules at index {matched}"
        reached = "Reached expected number of succeeded pods"
        if spec.completions is None:
            # A work queue: the first success means that there is no work left. The other pods may finish their work.
            return ("Complete", "CompletionsReached", reached) if self.done and not self.active else None
        return ("Complete", "CompletionsReached", reached) if len(self.done) >= spec.completions else None

    def _make_pods(self) -> Iterator[ControllerAction]:
        spec = self.job.spec
        if spec.completions is None:
            pod_limit = 0 if self.done else spec.parallelism
        else:
            pod_limit = min(spec.parallelism, spec.completions - len(self.done))
        missing_count = pod_limit - len(self.active)
        if missing_count > 0 and (seconds := self._pause()) > 0:
            yield RequeueAfter(seconds)
        elif missing_count > 0:
            used_indexes = self.done | {completion_index(pod) for pod in self.active}
            free_indexes = (number for number in range(spec.completions or 0) if number not in used_indexes)
            numbers = free_indexes if self.is_indexed else count()
            yield from (Create(Pod, self._pod(number)) for number in islice(numbers, min(missing_count, BURST)))
        elif missing_count < 0 and (spec.completions is not None or not self.done):
            yield from (Delete(pod) for pod in self.active[missing_count:])

    def _pause(self) -> float:
        """Return how long to wait after a failure before the next pod is created."""
        failure_count = self.failures.counted
        if not failure_count:
            return 0.0
        conditions = (pod.condition("Ready") for pod in failure_count)
        ends = [parse_time(item.last_transition_time) for item in conditions if item and item.last_transition_time]
        pause = min(FIRST_PAUSE * 2.0 ** min(len(failure_count) - 1, 20), LAST_PAUSE)
        return max(ends, default=0.0) + pause - self.now

    def _pod(self, number: int) -> Data:
        job = self.job
        labels = {
            "batch.kubernetes.io/controller-uid": job.uid,
            "batch.kubernetes.io/job-name": job.name,
            "controller-uid": job.uid,
            "job-name": job.name,
        }
        template = job.spec.template
        annotations = command_annotations(template)
        if self.group is not None:
            spec = {**(template.get("spec") or {}), "schedulingGroup": {"podGroupName": self.group}}
            template = {**template, "spec": spec}
        if not self.is_indexed:
            return pod_from_template(job, template, generateName=f"{job.name}-", labels=labels, annotations=annotations)
        labels[INDEX] = str(number)
        name = f"{job.name}-{number}-"
        annotations |= {INDEX: str(number)}
        data = pod_from_template(job, template, generateName=name, labels=labels, annotations=annotations)
        data["spec"] = {"hostname": f"{job.name}-{number}", **data["spec"]}
        return data

    def _status(self) -> Data:
        status: Data = {
            "active": len(self.active),
            "ready": sum(map(is_ready, self.active)),
            "succeeded": len(self.done),
            "failed": sum(pod.status.phase == "Failed" for pod in self.pods),
            "terminating": sum(pod.is_terminating and not pod.is_finished for pod in self.pods),
        }
        if self.is_indexed:
            status["completedIndexes"] = ranges(self.done)
        if self.job.spec.suspend:
            status["startTime"] = None
        elif not self.job.status.get("startTime"):
            status["startTime"] = format_time(self.now)
        return status

    def _conditions(self) -> list[Data]:
        """Return the conditions with the Suspended condition, if the job is or was suspended."""
        conditions = list(self.job.status.get("conditions") or ())
        if self.job.spec.suspend:
            condition = {"status": "True", "reason": "JobSuspended", "message": "Job suspended"}
        elif any(item.get("type") == "Suspended" for item in conditions):
            condition = {"status": "False", "reason": "JobResumed", "message": "Job resumed"}
        else:
            return conditions
        return with_condition(conditions, format_time(self.now), type="Suspended", **condition)

    def _end(self, ending: tuple[str, str, str]) -> Iterator[ControllerAction]:
        kind, reason, message = ending
        now = format_time(self.now)
        conditions = list(self.job.status.get("conditions") or ())
        # The API accepts the terminal condition only after the interim one (SuccessCriteriaMet, FailureTarget).
        first = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
        for item in (first, kind):
            condition = {"type": item, "status": "True", "reason": reason, "message": message}
            conditions = with_condition(conditions, now, **condition)
        status = {**self._status(), "active": 0, "ready": 0, "terminating": 0, "conditions": conditions}
        if kind == "Complete":
            status["completionTime"] = now
        yield from status_actions(self.job, self._reported_status, status)


def met_rule(policy: SuccessPolicy, succeeded: set[int]) -> int | None:
    """Return the index of the first rule that the succeeded indexes meet, or ``None``."""
    for number, rule in enumerate(policy.rules):
        ranges = parse_indexes(rule.succeeded_indexes) if rule.succeeded_indexes is not None else None
        indexes = (
            succeeded if ranges is None else {index for index in succeeded if any(index in part for part in ranges)}
        )
        total = sum(map(len, ranges)) if ranges is not None else None
        enough = rule.succeeded_count if rule.succeeded_count is not None else total
        if enough is not None and len(indexes) >= enough:
            return number
    return None


def parse_indexes(text: str) -> list[range]:
    """Parse indexes in the API's notation. Invalid parts are ignored.

    >>> parse_indexes("0-2,5")
    [range(0, 3), range(5, 6)]
    """
    matches = (re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip()) for part in text.split(","))
    return [range(int(part[1]), int(part[2] or part[1]) + 1) for part in matches if part is not None]


def find_end(job: Job) -> Data | None:
    """Return the condition Complete or Failed of a finished job, otherwise ``None``."""
    conditions = (item for item in job.status.get("conditions") or () if item.get("status") == "True")
    return next((item for item in conditions if item.get("type") in ("Complete", "Failed")), None)


def completion_index(pod: Pod) -> int:
    """Return the number of an indexed job's pod."""
    return to_int64(pod.annotations.get(INDEX, "")) or 0


def ranges(numbers: Iterable[int]) -> str:
    """Write numbers as the API does.

    >>> ranges({0, 1, 2, 5, 7, 8})
    '0-2,5,7,8'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = (f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
    return ",".join(texts)


def apply_policy(policy: FailurePolicy, failed: Iterable[Pod]) -> FailureOutcome:
    """Apply a policy to the failed pods. The first matching rule decides."""
    counted_pods: list[Pod] = []
    for pod in failed:
        matches = ((number, rule, next(_fits(rule, pod), "")) for number, rule in enumerate(policy.rules))
        number, rule, message = next((match for match in matches if match[2]), (0, None, ""))
        if rule is not None and rule.action == "FailJob":
            return FailureOutcome(counted_pods, f"{message} matching FailJob rule at index {number}")
        if rule is None or rule.action != "Ignore":
            counted_pods.append(pod)
    return FailureOutcome(counted_pods)


def _fits(rule: FailureRule, pod: Pod) -> Iterator[str]:
    """Yield a message for each way in which a rule matches a pod."""
    if rule.on_exit_codes is not None:
        for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            terminated = container.state.terminated if container.state is not None else None
            if (
                terminated is not None
                and terminated.exit_code
                and _matches(rule.on_exit_codes, container.name, terminated.exit_code)
            ):
                yield f"Container {container.name} for pod {pod.key} failed with exit code {terminated.exit_code}"
    for pattern in rule.on_pod_conditions:
        condition = pod.condition(pattern.type)
        if condition is not None and condition.status == pattern.status:
            yield f"Pod {pod.key} has condition {pattern.type}"


def _matches(codes: ExitCodes, container: str, code: int) -> bool:
    if codes.container_name is not None and codes.container_name != container:
        return False
    return (code in codes.values) == (codes.operator == "In")
