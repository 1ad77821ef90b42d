"""Nodes that are nominated to other pods: nominated pods of equal or higher priority count as running there."""

from collections.abc import Collection, Iterable

from moorage.common.errors import PluginError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.cached_results.combined_result import CombinedResult
from moorage.scheduler.engine.extension_points import ADD_POD, change_what_if, filter_node
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.services import Services
from moorage.scheduler.engine.statuses import WithNominated
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.status import Status


class NominatedFilter:
    """Filters single nodes both with and without their nominated pods; a pod must fit in both cases."""

    def __init__(self, profile: Profile, services: Services) -> None:
        self._profile = profile
        self._services = services

    def nodes(self) -> Collection[str]:
        """Return the names of nodes with nominated pods."""
        return self._services.nominator.nodes_with_nominations()

    def filter_node(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Run all filters on one node, perhaps a what-if copy; a first pass includes its nominated pods."""
        nominated = self._list_before(pod, node.name)
        if nominated:
            status = self._filter_with(nominated, cycle, pod, node)
            if status is not None:
                return status
        return filter_node(self._profile.filter, cycle, pod, node)

    def refused_nodes(self, cached: CombinedResult, cycle: CycleState, pod: Pod) -> dict[int, int]:
        """Find the rows that are infeasible with their nominated pods, and the numbers of their statuses.

        Verdicts that depend only on the row and its nominated pods are cached between pods: during mass preemption
        hundreds of nodes are nominated, and only one of them has changed. The node to which the pod itself is nominated
        is evaluated separately, because for other pods the pod itself counts there.
        """
        nominator = self._services.nominator
        if cached.has_uncached_filters(cycle):
            return self.compute_refused(cached, cycle, pod)
        verdicts = cached.with_nominated.find(pod.priority)
        stale = None if verdicts is None else self._find_stale(verdicts)
        if verdicts is None or stale is None:
            verdicts, stale = WithNominated(), {*self.nodes()}
            cached.with_nominated.put(pod.priority, verdicts)
        own = nominator.node_of(pod)
        stale.discard(own)
        self._evaluate(stale, verdicts, cached, cycle, pod)
        # Last: after an error of a plugin all of them are evaluated again.
        verdicts.rows_position = self._services.cache.nodes.position
        verdicts.nominations_position = nominator.changes.position
        verdicts.unread = (own,) if own else ()
        if not own:
            return verdicts.status_ids
        return self._evaluate((own,), WithNominated({**verdicts.status_ids}), cached, cycle, pod)

    def compute_refused(self, cached: CombinedResult, cycle: CycleState, pod: Pod) -> dict[int, int]:
        """Find the same rows without cached verdicts."""
        return self._evaluate(self.nodes(), WithNominated(), cached, cycle, pod)

    def _find_stale(self, verdicts: WithNominated) -> set[str] | None:
        """Return the nodes to evaluate again; ``None`` for all of them."""
        nominator, nodes = self._services.nominator, self._services.cache.nodes
        renominated = nominator.changes.since(verdicts.nominations_position)
        changed = nodes.changed_since(verdicts.rows_position)
        # Members of groups are added and removed with their groups.
        if renominated is None or changed is None or self._services.cache.groups is not None:
            return None
        nominated = nominator.nodes_with_nominations()
        names = (nodes[row].name for row in set(changed) if row < len(nodes))
        return {*renominated, *verdicts.unread, *(name for name in names if name in nominated)}

    def _evaluate(
        self, names: Iterable[str], verdicts: WithNominated, cached: CombinedResult, cycle: CycleState, pod: Pod
    ) -> dict[int, int]:
        for name in names:
            info = self._services.cache.node(name)
            if info is None:
                continue
            nominated = self._list_before(pod, name)
            status = self._filter_with(nominated, cycle, pod, info) if nominated else None
            if status is None:
                verdicts.status_ids.pop(info.row, None)
            else:
                verdicts.status_ids[info.row] = cached.table.number(status)
        return verdicts.status_ids

    def _filter_with(self, nominated: list[Pod], cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        what_if, state = node.copy(), cycle.clone()
        for nominated_pod in nominated:
            what_if.add_pod(nominated_pod)
            if (status := change_what_if(ADD_POD, self._profile, state, pod, nominated_pod, what_if)) is not None:
                raise PluginError(status.plugin, status.message)
        return filter_node(self._profile.filter, state, pod, what_if)

    def _list_before(self, pod: Pod, node_name: str) -> list[Pod]:
        return [
            nominated_pod
            for nominated_pod in self._services.nominator.nominated_pods(node_name)
            if nominated_pod.priority >= pod.priority and nominated_pod.uid != pod.uid
        ]
