"""The number of members that fit into a part of the cluster, computed by counting instead of single attempts.

The number of equal pods that fit does not depend on their order: each node has a capacity for them. Their nodes matter
only in the chosen part, which is then tried pod by pod.
"""

from collections.abc import Callable

import numpy as np

from moorage.scheduler.engine.cached_results.combined_result import CombinedResult
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.extension_points import how_many, idle
from moorage.scheduler.engine.group_results import GroupTrial, unplaceable
from moorage.scheduler.engine.services import Services
from moorage.scheduler.framework.groups import GroupTree, Placement, Proposal
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin
from moorage.scheduler.framework.status import Code, IntArray, Status

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
            and not any(plugin.looks_at_nodes for plugin in runner.profile.placement_score)
        )

    def learn(self, trial: GroupTrial) -> None:
        """Decide from a reverted trial whether counting is possible."""
        if not self._is_possible or self._cached is not None:
            return
        states = [pod_trial.state for pod_trial in trial.pods.values() if pod_trial.state is not None]
        if not states:
            # A trial without placed pods shows nothing; the next placement may.
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

    def known(self, placement: Placement) -> GroupTrial | None:
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
        """Return the capacity of each row for these pods; ``None`` if a filter cannot count."""
        pod, nodes = self._tree.members[0], self._runner.cache.nodes
        cached.filter(pod, nodes)
        capacities = np.where(cached.feasible, len(self._tree.members), 0)
        for part in cached.active_filters:
            assert isinstance(part.plugin, FilterPlugin)
            if part.plugin.depends_on is DependsOn.NODE:
                continue
            # A filter that depends on more than requests may depend on the other members.
            counted = None
            if part.plugin.depends_on is DependsOn.REQUESTS:
                counted = how_many(part.plugin, part.state, pod, nodes)
            if counted is None:
                return None
            capacities = np.minimum(capacities, counted)
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
