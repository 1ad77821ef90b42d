"""What a job makes of pods that failed: its pod failure policy."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from moorage.kube.api.container import ContainerStatus
from moorage.kube.api.pod import Pod
from moorage.kube.api.workloads import ExitCodes, FailurePolicy, FailureRule


@dataclass(frozen=True, slots=True)
class FailureOutcome:
    """Which failures count towards the job's limit, and why the job has failed for good, if it has."""

    counted: list[Pod]
    fatal: str = ""


def apply_policy(policy: FailurePolicy, failed: Iterable[Pod]) -> FailureOutcome:
    """Apply a policy to the pods that failed; the first rule that fits a pod decides about it."""
    counted: list[Pod] = []
    for pod in failed:
        action, message = _action(policy, pod)
        if action == "FailJob":
            return FailureOutcome(counted, message)
        if action != "Ignore":
            counted.append(pod)
    return FailureOutcome(counted)


def _action(policy: FailurePolicy, pod: Pod) -> tuple[str, str]:
    for number, rule in enumerate(policy.rules):
        if message := next(_fits(rule, pod), ""):
            return rule.action, f"{message} matching {rule.action} rule at index {number}"
    return "Count", ""


def _fits(rule: FailureRule, pod: Pod) -> Iterator[str]:
    """Say in which ways a rule fits a pod."""
    if rule.on_exit_codes is not None:
        for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            code = _exit_code(container)
            if code and _is_meant(rule.on_exit_codes, container.name, code):
                yield f"Container {container.name} for pod {pod.key} failed with exit code {code}"
    for pattern in rule.on_pod_conditions:
        condition = pod.condition(pattern.type)
        if condition is not None and condition.status == pattern.status:
            yield f"Pod {pod.key} has condition {pattern.type}"


def _exit_code(container: ContainerStatus) -> int:
    state = container.state
    return state.terminated.exit_code if state is not None and state.terminated is not None else 0


def _is_meant(codes: ExitCodes, container: str, code: int) -> bool:
    if codes.container_name is not None and codes.container_name != container:
        return False
    return (code in codes.values) == (codes.operator == "In")
