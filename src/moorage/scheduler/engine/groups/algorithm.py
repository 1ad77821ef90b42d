"""The search for a group: a part of the cluster, and in it a node for each of its pods.

Members are assumed in the cache during the search, and reverted at the end.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from time import perf_counter
from typing import Final

import numpy as np

from moorage.common.errors import CacheError, MoorageError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.cached_results.combined_result import CombinedResult
from moorage.scheduler.engine.cycle.filter import SearchRequest
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, NoNode
from moorage.scheduler.engine.extension_points import how_many, idle
from moorage.scheduler.engine.group_points import PlacementScores
from moorage.scheduler.engine.group_results import GroupTrial, PodTrial, error_text, unplaceable
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import NO_NODES, Diagnosis, NodeScope
from moorage.scheduler.engine.services import Services
from moorage.scheduler.framework.cycle import ASSUMED, CycleState
from moorage.scheduler.framework.groups import FINDINGS, GroupFindings, GroupTree, Placement, Proposal, TriedMember
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin
from moorage.scheduler.framework.status import Code, IntArray, Status
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.nominator import PodNominator
from moorage.scheduler.state.cache import Cache

MIN_PLACEMENTS: Final = 1
MIN_PLACEMENT_PERCENTAGE: Final = 5
"""The limits of upstream's formula for ``percentageOfPlacementsToScore: 0``. Its rounding is not known yet."""
PODS_PER_TURN: Final = 200
"""The event loop runs after this number of pods (a few hundredths of a second): trees of groups take long."""


class GroupSearch:
    """One search for a group, on one profile.

    The states of plugins follow the cluster. With ``keeps_states`` they keep their values from the pod's attempt.
    """

    def __init__(
        self,
        services: Services,
        runner: ProfileRunner,
        queued: Mapping[str, QueuedPodInfo],
        stack: "TrialStack",
        observer: AttemptObserver | None = None,
        *,
        keeps_states: bool = False,
    ) -> None:
        self._keeps_states = keeps_states
        self._services = services
        self._runner = runner
        self._profile = runner.profile
        self._queued = queued
        self._stack = stack
        self._observer = observer
        self._by_topology = services.features.enabled("TopologyAwareWorkloadScheduling")
        self._filtering_helpers = [
            plugin for plugin in self._profile.group_post_filter if isinstance(plugin, FilterPlugin)
        ]
        self._is_since_1_38 = services.features.since(1, 38)
        self._is_of_one_group = False
        self._attempt_count = 0
        self._countings: dict[str, Counting] = {}
        self.scored: list[tuple[str, PlacementScores]] = []
        self.state = CycleState()
        self.state[FINDINGS] = self._findings = GroupFindings()

    async def run(self, tree: GroupTree) -> GroupTrial:
        """Try a tree of groups. All placements are reverted at the end."""
        before = len(self._stack)
        self._is_of_one_group = not tree.is_composite
        try:
            cache = self._services.cache
            trial = await self._try(tree, cache.nodes.take(cache.order))
        finally:
            self._stack.truncate(before)
        if trial.status is None and not any(True for _ in trial.placed):
            trial.status = unplaceable()
        if not self._keeps_states:
            trial.complete()
        return trial

    async def _try(self, tree: GroupTree, nodes: NodeTable) -> GroupTrial:
        """Try a group on some nodes. The placements of a child group remain until the end of its parent."""
        if self._by_topology:
            return await self._by_placements(tree, nodes)
        return await self._place_pods(tree, SearchRequest(group=self.state))

    # ── one PodGroup, pod by pod ─────────────────────────────────────────────────────────────────────────────────────

    async def _place_pods(self, tree: GroupTree, request: SearchRequest) -> GroupTrial:
        trial = GroupTrial(tree)
        before = len(self._stack)
        remaining, scheduled = len(tree.members), len(tree.scheduled)
        status = self._feasible(tree, remaining, scheduled)
        if status is not None and status.code is not Code.WAIT:
            # An unresolvable status is kept: no pod must be evicted unnecessarily.
            trial.status = unplaceable(*status.reasons) if status.code is Code.UNSCHEDULABLE else status
            return trial
        for pod in tree.members:
            pod_trial = trial.pods[pod.metadata.uid] = await self._place_pod(self._queued[pod.metadata.uid], request)
            remaining -= 1
            if pod_trial.is_error:
                assert pod_trial.status is not None
                problem = f"failed to schedule other pod from a pod group: {pod_trial.status.message}"
                status = Status.error(problem)
                break
            scheduled += pod_trial.fits
            status = self._feasible(tree, remaining, scheduled)
            if status is not None and status.code is not Code.WAIT:
                break
        if status is not None:
            trial.status = unplaceable(*status.reasons) if status.code is Code.WAIT else status
            self._stack.truncate(before)
        return trial

    def _feasible(self, tree: GroupTree, remaining: int, scheduled: int) -> Status | None:
        try:
            return self._runner.placement_feasible(tree, remaining, scheduled)
        except MoorageError as error:
            return Status.error(str(error))

    async def _place_pod(self, queued: QueuedPodInfo, request: SearchRequest) -> PodTrial:
        trial = PodTrial(queued)
        self._attempt_count += 1
        if self._attempt_count % PODS_PER_TURN == 0:
            # Let the event loop run, with the cache frozen: otherwise the watchdog reports a long search as stuck.
            freeze = self._services.freeze
            with nullcontext() if freeze.thawed is not None else freeze:
                await asyncio.sleep(0)
        if not self._services.cache.columns.infos:
            trial.status = Status.unresolvable(NO_NODES)
            return trial
        try:
            await self._find_node(queued, trial, request)
        except MoorageError as error:
            trial.node_name, trial.status = "", Status.error(str(error))
        return trial

    async def _find_node(self, queued: QueuedPodInfo, trial: PodTrial, request: SearchRequest) -> None:
        runner, pod = self._runner, queued.pod
        extended = bool(runner.extenders)
        result = await runner.find_extended(pod, request) if extended else runner.find(pod, request)
        if self._observer is not None:
            self._observer.on_search(queued, runner, result)
            # Kept only for observers: the columns of thousands of pods in many placements add up.
            trial.found = result
        # An unresolvable rejection ends the sequence: later pre-filters were not called.
        names = [plugin.name for plugin in self._profile.pre_filter]
        rejection = result.diagnosis.pre_filter if isinstance(result, NoNode) else None
        if (
            rejection is not None
            and rejection.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            and rejection.plugin in names
        ):
            names = names[: names.index(rejection.plugin) + 1]
        self._findings.pre_filtered.update(names)
        plain = result.result if isinstance(result, ExtendedNodes) else result
        if isinstance(plain, NoNode):
            trial.diagnosis = plain.diagnosis
            trial.diagnosis.statuses = trial.diagnosis.statuses.kept()
        # The post-filters of the group need the statuses of each pod.
        skipped_plugins, statuses = plain.cycle.skipped_filters, plain.diagnosis.statuses
        if not any(plugin.name not in skipped_plugins for plugin in self._filtering_helpers):
            statuses = NodeStatuses({}, statuses.absent)
        elif not isinstance(plain, NoNode):
            statuses = statuses.kept()
        self._findings.tried[pod.metadata.uid] = TriedMember(pod, plain.cycle, statuses)
        if isinstance(result, NoNode):
            return
        if extended:
            choice = await runner.choose_extended(result)
            if self._observer is not None:
                self._observer.on_choice(queued, choice)
        else:
            assert not isinstance(result, ExtendedNodes)
            choice = runner.choose(result)
        trial.state = plain.cycle
        trial.state.group = self.state
        if self._keeps_states:
            trial.kept_state = trial.state.detached()
        trial.runner, trial.node_name, trial.tied = runner, choice.node.name, choice.tied
        self._stack.place(trial)

    # ── by topology ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _by_placements(self, tree: GroupTree, nodes: NodeTable) -> GroupTrial:
        try:
            placements = self._runner.generate_placements(self.state, tree, nodes)
        except MoorageError as error:
            return GroupTrial(tree, Status.error(str(error)))
        if isinstance(placements, Status):
            return GroupTrial(tree, placements)
        self._count_generated(tree, placements)
        counting = self._countings.get(tree.key) or Counting(self._services, self._runner, tree, self._feasible)
        self._countings[tree.key] = counting
        first: GroupTrial | None = None
        feasible: list[tuple[Placement, GroupTrial]] = []
        is_resolvable, limit = not self._is_since_1_38, self._placements_to_find(placements)
        nominated = self._find_nominated(tree, placements)
        placements = sorted(placements, key=lambda placement: placement is not nominated)
        before = len(self._stack)
        for placement in placements:
            trial = await self._try_placement(tree, placement, counting.find_cached(placement))
            trial.placement = placement.name
            self._stack.truncate(before)
            if not trial.is_counted:
                placement.proposals = trial.proposals()
            if trial.code is Code.ERROR:
                # Of a tree only the error is kept: all child groups share it.
                return GroupTrial(tree, trial.status) if tree.is_composite else trial
            first = first or trial
            is_resolvable |= trial.code is Code.UNSCHEDULABLE
            if trial.status is None:
                feasible.append((placement, trial))
                if len(feasible) == limit or (placement is nominated and any(True for _ in trial.placed)):
                    break
            if not trial.is_counted and placement is not placements[-1]:
                try:
                    counting.learn(trial)
                except MoorageError as error:
                    return GroupTrial(tree, Status.error(str(error)))
        if feasible:
            return await self._settle(tree, feasible)
        assert first is not None
        if first.is_counted:
            first = await self._try_again(tree, placements[0])
            self._stack.truncate(before)
        assert first.status is not None
        reference = "reported" if self._is_since_1_38 and not tree.is_composite else "first"
        text = f"0/{len(placements)} placements are available, {reference} placement status: {error_text(first.status)}"
        status = unplaceable(text)
        first.status = status if is_resolvable else Status.unresolvable(*status.reasons)
        return first

    def _count_generated(self, tree: GroupTree, placements: Sequence[Placement]) -> None:
        # Until 1.37, placements of composite groups are not counted.
        if not tree.is_composite or self._is_since_1_38:
            for _ in placements:
                self._services.meter.count(
                    "scheduler_generated_placements_total", self._profile.name, *self._types(tree)
                )

    def _types(self, tree: GroupTree) -> tuple[str, ...]:
        """Return the label ``type`` of metrics about placements, which 1.38 adds."""
        return (tree.type_label,) if self._is_since_1_38 else ()

    def _placements_to_find(self, placements: Sequence[Placement]) -> int:
        """Return the number of feasible placements after which the search ends; 0 means all."""
        percentage = self._profile.config.percentage_of_placements_to_score
        if percentage is None or not self._profile.placement_score:
            return 0
        return placements_to_find(percentage, len(placements), sum(len(placement.nodes) for placement in placements))

    def _find_nominated(self, tree: GroupTree, placements: Sequence[Placement]) -> Placement | None:
        """Return the placement with most nominations of the group's pods (from 1.38, not for trees)."""
        if not self._is_since_1_38 or not self._is_of_one_group:
            return None
        nominations = Counter(pod.nominated_node_name for pod in tree.members if pod.nominated_node_name)
        if not nominations:
            return None
        counts = [sum(nominations[node.name] for node in placement.nodes) for placement in placements]
        most = max(counts, default=0)
        return placements[counts.index(most)] if most else None

    async def _try_placement(self, tree: GroupTree, placement: Placement, last_trial: GroupTrial | None) -> GroupTrial:
        began = perf_counter()
        trial = last_trial
        if tree.is_composite:
            trial = await self._place_groups(tree, placement.nodes)
        elif trial is None:
            trial = await self._place_pods(tree, SearchRequest(self._scope(placement.nodes), self.state))
        # Until 1.37, placements of composite groups are not counted.
        if trial.code is not Code.ERROR and (not tree.is_composite or self._is_since_1_38):
            result = "feasible" if trial.status is None else "infeasible"
            labels = (result, self._profile.name, *self._types(tree))
            self._services.meter.count("scheduler_placement_evaluations_total", *labels)
            seconds = perf_counter() - began
            self._services.meter.observe("scheduler_placement_evaluation_duration_seconds", seconds, *labels)
        return trial

    def _scope(self, nodes: NodeTable) -> NodeScope | None:
        """Return the scope of a window, or ``None`` if it is the entire cluster."""
        total = len(self._services.cache.nodes)
        if nodes.shows_all or len(nodes) == total:
            return None
        mask = np.zeros(total, dtype=np.bool_)
        mask[nodes.rows] = True
        order = self._services.cache.order
        return NodeScope(mask, len(nodes), order[mask[order]])

    async def _settle(self, tree: GroupTree, feasible: list[tuple[Placement, GroupTrial]]) -> GroupTrial:
        """Choose the best placement; with composite groups, its pods remain placed for the following groups."""
        best = 0
        if len(feasible) > 1 and self._profile.placement_score:
            try:
                scores = self._runner.score_placements(self.state, tree, [placement for placement, _ in feasible])
            except MoorageError as error:
                return GroupTrial(tree, Status.error(str(error)))
            self.scored.append((tree.key, scores))
            best = int(scores.totals.argmax())
        placement, trial = feasible[best]
        stays_placed, before = self._services.features.enabled("CompositePodGroup"), len(self._stack)
        if trial.is_counted:
            trial = await self._try_again(tree, placement)
            if not stays_placed:
                self._stack.truncate(before)
        elif stays_placed:
            problem = self._stack.place_again(trial.placed)
            if problem:
                return GroupTrial(tree, Status.error(f"failed to assume the subtree: {problem}"))
        return trial

    async def _try_again(self, tree: GroupTree, placement: Placement) -> GroupTrial:
        """Try a placement that was only counted, and keep it: now the nodes and reasons matter."""
        trial = await self._try_placement(tree, placement, None)
        trial.placement = placement.name
        return trial

    async def _place_groups(self, tree: GroupTree, nodes: NodeTable) -> GroupTrial:
        """Try the child groups in the order of creation, while enough children may still succeed."""
        trial = GroupTrial(tree)
        before = len(self._stack)
        remaining, scheduled, resolvable = len(tree.children), 0, 0
        status = self._feasible(tree, remaining, scheduled)
        if status is not None and status.code is not Code.WAIT:
            # Unlike for a PodGroup, the plugin's status is not prefixed.
            trial.status = status
            return trial
        for child in tree.children:
            child_trial = await self._try(child, nodes)
            remaining -= 1
            if child_trial.code is Code.ERROR:
                assert child_trial.status is not None
                self._stack.truncate(before)
                # All child groups get the same status.
                problem = f"composite pod group evaluation failed due to child error: {child_trial.status.message}"
                return GroupTrial(tree, Status.error(problem))
            trial.children.append(child_trial)
            scheduled += child_trial.status is None
            resolvable += child_trial.code is Code.UNSCHEDULABLE
            status = self._feasible(tree, remaining, scheduled)
            if status is not None and status.code is not Code.WAIT:
                break
        if status is not None:
            trial.status = unplaceable(*status.reasons) if status.code is Code.WAIT else status
            is_short = scheduled + remaining + resolvable < tree.quorum
            if self._is_since_1_38 and status.code is Code.UNSCHEDULABLE and is_short:
                # Preemption cannot help enough child groups.
                trial.status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, status.reasons, status.plugin)
            self._stack.truncate(before)
        return trial


def placements_to_find(percentage: int, count: int, nodes: int) -> int:
    """Return how many feasible placements are sufficient, of ``count`` placements with ``nodes`` nodes in total.

    0 means a percentage that falls with the number of nodes.

    >>> [placements_to_find(0, 100, nodes) for nodes in (0, 500, 1000, 5000, 6000)]
    [100, 91, 82, 10, 5]
    """
    if percentage == 0:
        percentage = max(MIN_PLACEMENT_PERCENTAGE, 100 - nodes * 9 // 500)
    return count if percentage >= 100 else max(MIN_PLACEMENTS, count * percentage // 100)


class TrialStack:
    """A stack of trial placements in the cache."""

    def __init__(self, cache: Cache, nominations: Callable[[], PodNominator]) -> None:
        self._cache = cache
        self._nominations = nominations
        self._placed: list[tuple[PodTrial, Pod]] = []

    def __len__(self) -> int:
        return len(self._placed)

    def place(self, trial: PodTrial) -> None:
        """Place a pod on its node, unless a reserve plugin rejects it. The trial contains the result."""
        runner, state, pod = trial.runner, trial.state, trial.queued.pod
        assert runner is not None
        assert state is not None
        assumed = pod.on_node(trial.node_name)
        try:
            self._cache.assume(assumed)
        except CacheError as error:
            trial.node_name, trial.status = "", Status.error(str(error))
            return
        self._nominations().remove(pod)
        self._placed.append((trial, assumed))
        refusal = runner.reserve(state, assumed, trial.node_name)
        if refusal is None and (recounted := state.get(ASSUMED)) is not None:
            self._cache.recount(recounted)
        if refusal is not None:
            self._revert_last()
            trial.diagnosis = Diagnosis.on_node(trial.node_name, refusal)
            trial.node_name = ""

    def place_again(self, trials: Iterable[PodTrial]) -> str:
        """Restore pods on their nodes. Return the problem, or an empty string."""
        for trial in trials:
            self.place(trial)
            if not trial.fits:
                problem = trial.status.message if trial.status is not None else ""
                return problem or (trial.diagnosis.message if trial.diagnosis is not None else "")
        return ""

    def truncate(self, size: int) -> None:
        """Revert all placements above this size of the stack."""
        while len(self._placed) > size:
            self._revert_last()

    def _revert_last(self) -> None:
        trial, assumed = self._placed.pop()
        assert trial.runner is not None
        assert trial.state is not None
        trial.runner.unreserve(trial.state, assumed, assumed.node_name)
        self._cache.forget(assumed)
        if trial.queued.pod.status.nominated_node_name:
            self._nominations().add(trial.queued.pod)


Feasible = Callable[[GroupTree, int, int], Status | None]


class Counting:
    """Counts the capacity for one group, after it was tried in one part of the cluster.

    It is possible only if all filters can count pods per node, and placement scores do not depend on nodes.
    """

    def __init__(self, services: Services, runner: ProfileRunner, tree: GroupTree, feasible: Feasible) -> None:
        self._services = services
        self._runner = runner
        self._tree = tree
        self._feasible = feasible
        self._cached: CombinedResult | None = None
        self._places: IntArray | None = None
        self._position = -1
        self._proposals: tuple[Proposal, ...] = ()
        self._outcomes: dict[int, tuple[Status | None, tuple[Proposal, ...]]] = {}
        self._is_possible = (
            not tree.is_composite
            and not runner.extenders
            and runner.filtering.percentage is None
            and runner.filtering.rotation.start == 0
            and not any(plugin.uses_nodes for plugin in runner.profile.placement_score)
        )

    def learn(self, trial: GroupTrial) -> None:
        """Decide from a reverted trial whether counting is possible."""
        if not self._is_possible or self._cached is not None:
            return
        states = [pod_trial.state for pod_trial in trial.pods.values() if pod_trial.state is not None]
        if not states:
            # A trial without placed pods shows nothing. The next placement may.
            return
        results, members, profile = self._runner.filtering.results, self._tree.members, self._runner.profile
        cached = results.find(members[0])
        self._is_possible = all(
            not pod.status.nominated_node_name
            and results.find(pod) is cached
            and pod.requests_on_node == members[0].requests
            for pod in members
        ) and all(
            # All filters are cached, and no plugin reserves anything.
            not cached.has_uncached_filters(state) and profile.reserving <= idle(profile, state)
            for state in states
        )
        if self._is_possible:
            self._cached = cached
            self._proposals = tuple(Proposal(pod, "", states[0]) for pod in members)

    def find_cached(self, placement: Placement) -> GroupTrial | None:
        """Return the result of the group in a placement, without nodes, and set its proposals."""
        if self._cached is None or self._services.nominator.nodes_with_nominations():
            return None
        if self._position != (position := self._runner.cache.columns.changes.position):
            self._places, self._position = self._count(self._cached), position
        if self._places is None:
            return None
        count = min(int(self._places.take(placement.nodes.rows).sum()), len(self._proposals))
        if count not in self._outcomes:
            self._outcomes[count] = self._outcome(count)
        status, placement.proposals = self._outcomes[count]
        return GroupTrial(self._tree, status, is_counted=True)

    def _count(self, cached: CombinedResult) -> IntArray | None:
        """Return the capacity of each row for these pods, or ``None`` if a filter cannot count."""
        pod, nodes = self._tree.members[0], self._runner.cache.nodes
        cached.filter(pod, nodes)
        capacities = np.where(cached.feasible, len(self._tree.members), 0)
        for part in cached.active_filters:
            assert isinstance(part.plugin, FilterPlugin)
            if part.plugin.depends_on is DependsOn.NODE:
                continue
            # A filter that depends on more than requests may depend on the other members.
            pod_counts = None
            if part.plugin.depends_on is DependsOn.REQUESTS:
                pod_counts = how_many(part.plugin, part.state, pod, nodes)
            if pod_counts is None:
                return None
            capacities = np.minimum(capacities, pod_counts)
        return np.maximum(capacities, 0)

    def _outcome(self, count: int) -> tuple[Status | None, tuple[Proposal, ...]]:
        """Compute the result if ``count`` of the attempts find a node."""
        tree, size = self._tree, len(self._tree.members)
        scheduled, status, attempt_count = len(tree.scheduled), None, 0
        for attempt_count in range(1, size + 1):
            status = self._feasible(tree, size - attempt_count, scheduled + min(attempt_count, count))
            if status is not None and status.code is not Code.WAIT:
                break
        if status is None:
            return None, self._proposals[: min(attempt_count, count)]
        return (unplaceable(*status.reasons) if status.code is Code.WAIT else status), ()
