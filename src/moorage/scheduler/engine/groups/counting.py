"""How many pods of a group a part of the cluster takes, found by counting instead of trying one pod after the other.

Pods that are all alike take places in some order, but how many find one does not depend on it: each node takes so many
of them and no more. Which nodes they get matters only in the part that is chosen in the end, which is tried for real.
"""

from collections.abc import Callable

import numpy as np

from moorage.scheduler.engine.cached_results.combined_result import CombinedResult
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.extension_points import how_many, idle
from moorage.scheduler.engine.group_results import GroupTrial, unplaceable
from moorage.scheduler.engine.services import Services
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.groups import GroupTree, Placement, Proposal
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin
from moorage.scheduler.framework.status import Code, IntArray, Status

Feasible = Callable[[GroupTree, int, int], Status | None]


class Counting:
    """Counts the places for one group, once it has been tried in one part of the cluster and nothing spoke against it.

    Nobody may have a say but filters that can tell how many pods a node takes, and scores must not ask for nodes.
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
        """See from a trial whether counting will do; everything is as it was before it."""
        if not self._is_possible or self._cached is not None:
            return
        states = [tried.state for tried in trial.pods.values() if tried.state is not None]
        if not states:
            # Where nobody found a node there is little to be learnt: perhaps from the next placement.
            return
        results, members = self._runner.filtering.results, self._tree.members
        cached = results.find(members[0])
        self._is_possible = all(
            not pod.status.nominated_node_name
            and results.find(pod) is cached
            and pod.requests_on_node == members[0].requests
            for pod in members
        ) and all(self._is_plain(state, cached) for state in states)
        if self._is_possible:
            self._cached = cached
            self._proposals = tuple(Proposal(pod, "", states[0]) for pod in members)

    def known(self, placement: Placement) -> GroupTrial | None:
        """Return what would come of the group in a placement, without nodes, and note who would fit there."""
        if self._cached is None or self._services.nominator.nodes_with_nominations():
            return None
        if self._position != (position := self._runner.cache.columns.changes.position):
            self._places, self._position = self._count(self._cached), position
        if self._places is None:
            return None
        found = min(int(self._places.take(placement.nodes.rows).sum()), len(self._proposals))
        if found not in self._outcomes:
            self._outcomes[found] = self._outcome(found)
        status, placement.proposals = self._outcomes[found]
        return GroupTrial(self._tree, status, is_counted=True)

    def _is_plain(self, state: CycleState, cached: CombinedResult) -> bool:
        """Tell whether no filter that is asked afresh for every pod has a say, and nobody reserves anything."""
        profile = self._runner.profile
        return not cached.has_uncached_filters(state) and profile.reserving <= idle(profile, state)

    def _count(self, cached: CombinedResult) -> IntArray | None:
        """Return how many of the pods each row takes; ``None`` if a filter cannot tell."""
        pod, nodes = self._tree.members[0], self._runner.cache.nodes
        cached.filter(pod, nodes)
        places = np.where(cached.feasible, len(self._tree.members), 0)
        for part in cached.active_filters():
            assert isinstance(part.plugin, FilterPlugin)
            if part.plugin.depends_on is DependsOn.NODE:
                continue
            # Of one that looks at more than requests, what other pods have come to is not known.
            counted = None
            if part.plugin.depends_on is DependsOn.REQUESTS:
                counted = how_many(part.plugin, part.state, pod, nodes)
            if counted is None:
                return None
            places = np.minimum(places, counted)
        return np.maximum(places, 0)

    def _outcome(self, found: int) -> tuple[Status | None, tuple[Proposal, ...]]:
        """Go through the pods as if they were tried, of which so many find a node."""
        tree, size = self._tree, len(self._tree.members)
        scheduled, status, tried = len(tree.scheduled), None, 0
        for tried in range(1, size + 1):
            status = self._feasible(tree, size - tried, scheduled + min(tried, found))
            if status is not None and status.code is not Code.WAIT:
                break
        if status is None:
            return None, self._proposals[: min(tried, found)]
        return (unplaceable(*status.reasons) if status.code is Code.WAIT else status), ()
