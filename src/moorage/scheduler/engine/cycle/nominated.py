"""Nodes that are nominated to other pods: those of equal or higher priority count as being there already."""

from collections.abc import Collection, Iterable

from moorage.common.errors import PluginError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.answers.standing import StandingAnswer
from moorage.scheduler.engine.extension_points import ADD_POD, change_what_if, filter_node
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.services import Services
from moorage.scheduler.engine.statuses import WithNominated
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.status import Status


class NominatedFilter:
    """Filters single nodes as if their nominated pods were there, too; both with and without them must they fit."""

    def __init__(self, profile: Profile, services: Services) -> None:
        self._profile = profile
        self._services = services

    def nodes(self) -> Collection[str]:
        """Return the nodes that are nominated to some pod."""
        return self._services.nominator.nodes_with_nominations()

    def filter_node(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Filter one node, perhaps a what-if, by all filters; its nominated pods count as there in a first pass."""
        nominated = self._before(pod, node.name)
        if nominated:
            status = self._filter_with(nominated, cycle, pod, node)
            if status is not None:
                return status
        return filter_node(self._profile.filter, cycle, pod, node)

    def refused_nodes(self, answer: StandingAnswer, cycle: CycleState, pod: Pod) -> dict[int, int]:
        """Find the rows that will not do with their nominated pods, with the numbers of the statuses they have then.

        What depends on nothing but the row and its nominated pods stands from pod to pod: in a storm of preemption
        hundreds of nodes are nominated, and one of them has changed. The pod's own node is another for it than for
        all others, who find the pod itself there.
        """
        nominator = self._services.nominator
        if answer.has_fresh_filters(cycle):
            return self.refused_from_nothing(answer, cycle, pod)
        known = answer.with_nominated.find(pod.priority)
        stale = None if known is None else self._stale(known)
        if known is None or stale is None:
            known, stale = WithNominated(), {*self.nodes()}
            answer.with_nominated.put(pod.priority, known)
        own = nominator.node_of(pod)
        stale.discard(own)
        self._look_at(stale, known, answer, cycle, pod)
        # Last: after a plugin's error all of it is looked at again.
        known.rows_position = self._services.cache.nodes.position
        known.nominations_position = nominator.changes.position
        known.unread = (own,) if own else ()
        if not own:
            return known.status_ids
        return self._look_at((own,), WithNominated({**known.status_ids}), answer, cycle, pod)

    def refused_from_nothing(self, answer: StandingAnswer, cycle: CycleState, pod: Pod) -> dict[int, int]:
        """Find the same by looking at every node that is nominated to somebody."""
        return self._look_at(self.nodes(), WithNominated(), answer, cycle, pod)

    def _stale(self, known: WithNominated) -> set[str] | None:
        """Return the nodes to look at again; ``None`` for all of them."""
        nominator, nodes = self._services.nominator, self._services.cache.nodes
        renominated = nominator.changes.since(known.nominations_position)
        changed = nodes.changed_since(known.rows_position)
        # Members of groups come and go with their groups.
        if renominated is None or changed is None or self._services.cache.groups is not None:
            return None
        nominated = nominator.nodes_with_nominations()
        names = (nodes[row].name for row in set(changed) if row < len(nodes))
        return {*renominated, *known.unread, *(name for name in names if name in nominated)}

    def _look_at(
        self, names: Iterable[str], known: WithNominated, answer: StandingAnswer, cycle: CycleState, pod: Pod
    ) -> dict[int, int]:
        """Write down what is to be said of some nodes with their nominated pods."""
        for name in names:
            info = self._services.cache.node(name)
            if info is None:
                continue
            nominated = self._before(pod, name)
            status = self._filter_with(nominated, cycle, pod, info) if nominated else None
            if status is None:
                known.status_ids.pop(info.row, None)
            else:
                known.status_ids[info.row] = answer.table.number(status)
        return known.status_ids

    def _filter_with(self, nominated: list[Pod], cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        what_if, state = node.copy(), cycle.clone()
        for other in nominated:
            what_if.add_pod(other)
            if (status := change_what_if(ADD_POD, self._profile, state, pod, other, what_if)) is not None:
                raise PluginError(status.plugin, status.message)
        return filter_node(self._profile.filter, state, pod, what_if)

    def _before(self, pod: Pod, node_name: str) -> list[Pod]:
        return [
            other
            for other in self._services.nominator.nominated_pods(node_name)
            if other.priority >= pod.priority and other.uid != pod.uid
        ]
