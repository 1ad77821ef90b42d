"""The scheduling cycle of a group: enough of its members are placed, or none."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from time import perf_counter
from typing import Any, Final, Protocol

import structlog

from moorage.common.errors import MoorageError
from moorage.kube.api.meta import format_time
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.effects import AttemptFailures
from moorage.scheduler.engine.group_points import NOT_RUN, GroupPostFiltered
from moorage.scheduler.engine.group_results import UNPLACEABLE, GroupAttempt, GroupTrial, PodTrial
from moorage.scheduler.engine.group_sources import GroupSources
from moorage.scheduler.engine.groups.algorithm import GroupSearch, TrialStack
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Failed, Placed, Unschedulable
from moorage.scheduler.engine.services import Services
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.faults import described
from moorage.scheduler.framework.groups import FINDINGS, DescribedGroup, Group, GroupTree, Proposal
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.queue.entities import QueuedPodGroupInfo, QueuedPodInfo
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue
from moorage.scheduler.state.pod_groups import PodGroups

WAITING_ON_PREEMPTION: Final = "waiting_on_preemption"
INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
COMPOSITE_SCHEDULED: Final = "CompositePodGroupInitiallyScheduled"
HIERARCHY: Final = "all pod groups in a hierarchy should have the same"
MAX_TREE_DEPTH: Final = 4
PREEMPT_LOWER: Final = "PreemptLowerPriority"
TOGETHER: Final = "all pods in a single pod group should have the same"

log = structlog.get_logger(__name__)


class Committing(Protocol):
    """The part of the scheduler that commits placements of a group."""

    services: Services
    queue: SchedulingQueue
    failures: AttemptFailures
    runners: dict[str, ProfileRunner]
    observer: AttemptObserver | None
    unexpected: Exception | None

    def commit(
        self, queued: QueuedPodInfo, runner: ProfileRunner, state: CycleState, node_name: str
    ) -> Unschedulable | None:
        """Assume, reserve and permit a pod, and start its binding, or return the rejection."""
        ...

    def let_go(self, queued: QueuedPodInfo) -> None:
        """End the attempt of a pod without a try."""
        ...


class GroupCycle:
    """Tries groups, one at a time. No event is applied during a cycle."""

    def __init__(self, scheduler: Committing, groups: PodGroups) -> None:
        self._scheduler = scheduler
        self._sources: GroupSources | None = None
        self._services = services = scheduler.services
        self._groups = groups
        self._stack = TrialStack(services.cache, lambda: scheduler.queue.nominator)
        self._members: Mapping[str, QueuedPodInfo] = {}
        self._is_since_1_38 = services.features.since(1, 38)
        self._with_policy = services.features.enabled("PodGroupPreemptionPolicy")

    def serve(self, runners: Iterable[ProfileRunner], sources: GroupSources | None) -> None:
        """Replace the profiles, and the plugins that describe groups."""
        self._sources = sources
        for runner in runners:
            runner.handles.set_group_search(partial(self._search_again, runner))

    async def try_group(self, queued: QueuedPodGroupInfo, *, preempts: bool = True) -> None:
        """Try a popped group; requeue members that are not placed. Post-filters run only if ``preempts`` is set."""
        began = perf_counter()
        tree = self._build_tree(queued, queued.members)
        if (problem := self._find_problem(queued, tree)) is not None:
            self._fail(queued, tree, problem, is_invalid=True)
            return
        cache = self._services.cache
        dropped = [info for info in queued.members if info.pod.is_terminating or cache.is_assumed(info.pod)]
        for member in dropped:
            self._scheduler.let_go(member)
        members = [member for member in queued.members if member not in dropped]
        if not members:
            self._finish(queued, Code.SUCCESS)
            return
        profile = self._scheduler.runners[members[0].scheduler_name]
        self._members = {member.uid: member for member in members}
        if self._scheduler.observer is not None:
            self._scheduler.observer.on_group_attempt(queued)
        search = GroupSearch(self._services, profile, self._members, self._stack, self._scheduler.observer)
        tree = self._build_tree(queued, members)
        meter, name = self._services.meter, profile.profile.name
        try:
            # Between two calls of an extender the cache contains pods that are placed on trial only.
            with self._services.freeze if profile.extenders else nullcontext():
                trial = await search.run(tree)
            code = trial.code
            # 1.38 adds the label type.
            labels = (name, tree.type_label) if self._is_since_1_38 else ()
            meter.observe("scheduler_podgroup_scheduling_algorithm_duration_seconds", perf_counter() - began, *labels)
            may_help = may_be_helped(search, trial)
            helped = await self._post_filter(search, profile, tree, trial, preempts=preempts) if may_help else None
        except Exception as error:
            # Everything was reverted, and only this attempt fails, as with single pods.
            log.exception("attempt of a group failed unexpectedly", group=queued.key)
            self._scheduler.unexpected = self._scheduler.unexpected or error
            self._fail(queued, tree, Status.error(f"internal error: {described(error)}"))
            return
        conditions = self._submit(trial, members)
        result = describe_result(trial)
        more, seconds = labels[1:], perf_counter() - began
        meter.count("scheduler_podgroup_schedule_attempts_total", result, name, *more)
        meter.observe("scheduler_podgroup_scheduling_attempt_duration_seconds", seconds, result, name, *more)
        log_result(queued, trial, result)
        if self._scheduler.observer is not None:
            in_order = _in_order(tree, members)
            self._scheduler.observer.on_group_end(
                GroupAttempt(
                    queued.root, name, in_order, result, trial.status, trial, search.scored, helped, conditions
                )
            )
        self._finish(queued, code)

    async def _search_again(self, runner: ProfileRunner, tree: GroupTree) -> tuple[Status | None, tuple[Proposal, ...]]:
        """Repeat the search for the current group, in a changed cluster."""
        search = GroupSearch(self._services, runner, self._members, self._stack, keeps_states=True)
        trial = await search.run(tree)
        # Pods of failed child groups are included, as upstream does.
        return trial.status, trial.proposals(of_failed=True)

    def _build_tree(self, queued: QueuedPodGroupInfo, members: Iterable[QueuedPodInfo]) -> GroupTree:
        member_uids = {member.uid for member in members}
        by_leaf = {
            leaf: [entry[-1].pod for entry in entries if entry[-1].uid in member_uids]
            for leaf, entries in queued.by_leaf.items()
        }
        return self._groups.tree(queued.root, by_leaf)

    def _find_problem(self, queued: QueuedPodGroupInfo, tree: GroupTree) -> Status | None:
        """Return the status of an invalid group, or ``None`` if it is valid."""
        pods = [member.pod for member in queued.members]
        if isinstance(tree.group, DescribedGroup) and tree.group.problem:
            return Status.unresolvable(tree.group.problem)
        problem = violation(tree.group, pods, tree.all_scheduled, with_policy=self._with_policy)
        if not problem and self._is_since_1_38:
            problem = next(layout_problems(tree, with_policy=self._with_policy), "")
        if not problem and len(pods) > sum(1 for _ in tree.all_members):
            # Only what-ifs try such groups: GangScheduling gates their pods.
            problem = f"groups below {tree.key} are nested too deeply"
        if not problem and pods[0].scheduler_name not in self._scheduler.runners:
            problem = f'profile not found for scheduler name "{pods[0].scheduler_name}"'
        return Status.error(problem) if problem else None

    def _fail(self, queued: QueuedPodGroupInfo, tree: GroupTree, status: Status, *, is_invalid: bool = False) -> None:
        """End the attempt with nothing placed. All pods get the same status."""
        members = _in_order(tree, queued.members)
        for member in members:
            self._end(member, Failed(status.message, status.is_rejection))
        is_invalid = is_invalid and self._is_since_1_38
        conditions = {leaf.key: self._report(leaf, status, is_invalid=is_invalid) for leaf in tree.leaves}
        for group in composites(tree):
            self._report_composite(group, status, is_invalid=is_invalid)
        if self._scheduler.observer is not None:
            result = "unschedulable" if status.is_rejection else "error"
            name = members[0].scheduler_name
            self._scheduler.observer.on_group_end(
                GroupAttempt(queued.root, name, members, result, status, conditions=conditions)
            )
        self._finish(queued, status.code)

    async def _post_filter(
        self, search: GroupSearch, runner: ProfileRunner, tree: GroupTree, trial: GroupTrial, *, preempts: bool
    ) -> GroupPostFiltered:
        """Run the post-filters for an infeasible group, and apply the result to all groups of the tree."""
        outcome = NOT_RUN
        if preempts:
            with self._services.freeze:
                outcome = await runner.post_filter_group(search.state, tree)
        trials = [*trial.subtree]
        # Upstream's quirk: where groups share the status of a group above them, the message is appended for each.
        shared = Counter(id(below.status) for below in trials)
        for below in trials:
            below.before_help = below.status
            if outcome.code is Code.ERROR:
                below.status = Status.error(outcome.message)
            elif below.status is not None:
                reasons = (*below.status.reasons, *[outcome.message] * shared[id(below.status)])
                below.status = Status(below.status.code, reasons, below.status.plugin)
                if outcome.code is Code.SUCCESS:
                    below.waits_for_victims, below.nominated = True, outcome.nominated
        return outcome

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _submit(self, trial: GroupTrial, members: list[QueuedPodInfo]) -> dict[str, Mapping[str, str]]:
        """Commit the pods of successful groups, end the attempts of the other pods, and write the conditions."""
        conditions = {}
        of_uid = {member.uid: member for member in members}
        for leaf in trial.leaves:
            for pod in leaf.tree.members:
                member = of_uid[pod.metadata.uid]
                pod_trial = leaf.pods.get(member.uid)
                if self._scheduler.observer is not None:
                    self._scheduler.observer.on_final_search(member, None if pod_trial is None else pod_trial.found)
                if leaf.status is None and pod_trial is not None and pod_trial.fits:
                    self._commit(member, pod_trial)
                else:
                    self._end(member, make_refusal(leaf, member, pod_trial))
            conditions[leaf.tree.key] = self._report(leaf.tree, leaf.status)
        statuses = {part.tree.key: part.status for part in trial.subtree if part.tree.is_composite}
        for group in composites(trial.tree):
            # A group that was not tried shares the status of the root.
            self._report_composite(group, statuses.get(group.key, trial.status))
        return conditions

    def _commit(self, member: QueuedPodInfo, pod_trial: PodTrial) -> None:
        assert pod_trial.runner is not None
        assert pod_trial.state is not None
        pod_trial.state.group = None
        try:
            outcome: Unschedulable | Failed | None
            outcome = self._scheduler.commit(member, pod_trial.runner, pod_trial.state, pod_trial.node_name)
        except MoorageError as error:
            outcome = Failed(str(error))
        if outcome is not None:
            self._end(member, outcome)
        elif self._scheduler.observer is not None:
            self._scheduler.observer.on_attempt_end(member, Placed(pod_trial.node_name, pod_trial.tied))

    def _end(self, member: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        if self._scheduler.observer is not None:
            self._scheduler.observer.on_attempt_end(member, outcome)
        self._scheduler.failures.handle(member, outcome)

    def _finish(self, queued: QueuedPodGroupInfo, code: Code) -> None:
        groups = self._scheduler.queue.groups
        assert groups is not None
        groups.finish(queued, code)

    def _report_composite(self, group: CompositePodGroup, status: Status | None, *, is_invalid: bool = False) -> None:
        """Write the result to a composite group (from 1.38)."""
        if self._is_since_1_38:
            reason = "CompositePodGroupError" if is_invalid else None
            if patch := condition_patch(group, status, self._services.clock.wall(), reason):
                self._services.write_status(group, patch)

    def _report(self, leaf: GroupTree, status: Status | None, *, is_invalid: bool = False) -> Mapping[str, str]:
        """Write the result to the PodGroup, and return the condition. A scheduled group never becomes unscheduled."""
        assert isinstance(leaf.group, PodGroup)
        if isinstance(leaf.group, DescribedGroup):
            if self._sources is not None:
                self._sources.attempted(leaf.group, status)
            return {}
        reason = "PodGroupError" if is_invalid else None
        patch = condition_patch(leaf.group, status, self._services.clock.wall(), reason)
        if not patch:
            return {}
        self._services.write_status(leaf.group, patch)
        condition: Mapping[str, str] = patch["conditions"][0]
        return condition


def may_be_helped(search: GroupSearch, trial: GroupTrial) -> bool:
    """Return whether to run post-filters: upstream runs them even if no pod was evaluated, and then some fail."""
    was_looked_at = bool(search.state[FINDINGS].pre_filtered) or not isinstance(trial.tree.group, DescribedGroup)
    return trial.code is Code.UNSCHEDULABLE and was_looked_at


def _in_order(tree: GroupTree, members: Iterable[QueuedPodInfo]) -> list[QueuedPodInfo]:
    """Return the members in the order of attempts: group by group, and members below the maximum depth at the end."""
    of_uid = {member.uid: member for member in members}
    in_tree = [of_uid.pop(pod.metadata.uid) for pod in tree.all_members if pod.metadata.uid in of_uid]
    return [*in_tree, *of_uid.values()]


def make_refusal(leaf: GroupTrial, member: QueuedPodInfo, pod_trial: PodTrial | None) -> Unschedulable | Failed:
    """Return the outcome of a pod that is not placed, even if it is feasible."""
    status, nominated = leaf.status, leaf.nominated.get(member.uid)
    if status is None:
        assert pod_trial is not None
        return pod_trial.outcome(None)
    if not status.is_rejection:
        own = pod_trial.status if pod_trial is not None and pod_trial.is_error else None
        return Failed((own or status).message)
    if pod_trial is None:
        return Failed((leaf.before_help or status).message, is_rejection=True, nominated_node=nominated)
    if not pod_trial.fits:
        return pod_trial.outcome(nominated)
    if leaf.waits_for_victims:
        return Failed(status.message, is_rejection=True, nominated_node=nominated)
    return Failed(f"{UNPLACEABLE}, {status.message}", is_rejection=True)


def describe_result(trial: GroupTrial) -> str:
    """Return the result of an attempt as the label of metrics."""
    if trial.waits_for_victims:
        return WAITING_ON_PREEMPTION
    if trial.status is None:
        return "scheduled"
    return "unschedulable" if trial.status.is_rejection else "error"


def log_result(queued: QueuedPodGroupInfo, trial: GroupTrial, result: str) -> None:
    """Log the result of a group."""
    placed = sum(1 for _ in trial.placed)
    about = {"group": queued.root.key, "attempt": queued.attempts, "scheduled": placed, "members": queued.size}
    if trial.status is None:
        log.info("pod group scheduled", **about)
    elif result == "error":
        log.error("pod group failed", **about, error=trial.status.message)
    else:
        log.info("pod group not scheduled", **about, result=result, reason=trial.status.message)


def composites(tree: GroupTree) -> Iterator[CompositePodGroup]:
    """Yield the composite groups of a tree, the root first."""
    if isinstance(tree.group, CompositePodGroup):
        yield tree.group
    for child in tree.children:
        yield from composites(child)


def condition_patch(
    group: Group, status: Status | None, now: float, invalid_reason: str | None = None
) -> Mapping[str, Any]:
    """Return the patch of the group's status, or empty if nothing changes.

    ``invalid_reason`` is the reason of an invalid group, from 1.38.
    """
    condition_type = COMPOSITE_SCHEDULED if isinstance(group, CompositePodGroup) else INITIALLY_SCHEDULED
    if status is None:
        desired = ("True", "Scheduled", "")
    else:
        reason = invalid_reason or ("Unschedulable" if status.is_rejection else "SchedulerError")
        desired = ("False", reason, status.message)
    conditions = group.status.conditions
    current = next((condition for condition in conditions if condition.type == condition_type), None)
    generation = group.metadata.generation
    if current is not None:
        if current.status == "True" and status is not None:
            return {}
        if (current.status, current.reason, current.message, current.observed_generation) == (*desired, generation):
            return {}
    transition_time = current.last_transition_time if current is not None and current.status == desired[0] else None
    condition: dict[str, Any] = {
        "type": condition_type,
        "status": desired[0],
        "reason": desired[1],
        "message": desired[2],
        "lastTransitionTime": transition_time or format_time(now),
    }
    if generation:
        condition["observedGeneration"] = generation
    return {"conditions": [condition]}


def violation(root: Group, queued: Sequence[Pod], scheduled: Iterable[Pod], *, with_policy: bool) -> str:
    """Describe the first difference between pods of a group: scheduler, priority and preemption policy must agree.

    With ``with_policy`` (gate PodGroupPreemptionPolicy) the group's preemption policy counts.
    """
    first = queued[0]
    for pod in chain(queued, scheduled):
        if pod.scheduler_name != first.scheduler_name:
            return f'{TOGETHER} .spec.schedulerName set, got: "{pod.scheduler_name}" and "{first.scheduler_name}"'
        if pod.priority != root.priority:
            text = "priority as the pod group's priority, got"
            return f"{TOGETHER} {text} {pod.priority} and {root.priority}"
        policy = pod.spec.preemption_policy or PREEMPT_LOWER
        if with_policy and policy != (expected_policy := root.spec.preemption_policy or PREEMPT_LOWER):
            text = "preemption policy as the pod group's preemption policy, got"
            return f"{TOGETHER} {text} {policy} and {expected_policy}"
        if not with_policy and policy != (expected_policy := first.spec.preemption_policy or PREEMPT_LOWER):
            return f"{TOGETHER} preemption policy, got {policy} and {expected_policy}"
    return ""


def layout_problems(tree: GroupTree, *, with_policy: bool) -> Iterator[str]:
    """Describe the problems of a tree of groups (from 1.38; the exact texts are not known yet)."""
    root = tree.group
    workloads: set[str] = set()
    for parent, part, depth in _walk(tree):
        group = part.group
        if group.priority != root.priority:
            yield f"{HIERARCHY} priority as the root pod group's priority, got {group.priority} and {root.priority}"
        policy, expected = (item.spec.preemption_policy or PREEMPT_LOWER for item in (group, root))
        if with_policy and policy != expected:
            text = "preemption policy as the root pod group's preemption policy, got"
            yield f"{HIERARCHY} {text} {policy} and {expected}"
        if depth > MAX_TREE_DEPTH:
            yield f"pod group {group.key} is nested deeper than {MAX_TREE_DEPTH} levels"
        workloads |= {group.spec.workload_ref.workload_name} if group.spec.workload_ref is not None else set()
        if len(workloads) > 1:
            yield f"the groups of a hierarchy belong to several workloads: {', '.join(sorted(workloads))}"
        if parent is not None and parent.spec.scheduling_policy.gang and group.spec.scheduling_policy.basic is not None:
            yield f"gang {parent.key} must not contain {group.key}, which has the basic policy"
        if parent is not None and parent.spec.is_disrupted_whole and not group.spec.is_disrupted_whole:
            yield f"{parent.key} is disrupted as a whole, but {group.key} is not"


def _walk(
    tree: GroupTree, parent: Group | None = None, depth: int = 1
) -> Iterator[tuple[Group | None, GroupTree, int]]:
    """Yield each group of a tree with its parent and its depth, parents first."""
    yield parent, tree, depth
    for child in tree.children:
        yield from _walk(child, tree.group, depth + 1)
