"""Nodes that are nominated to other pods: those of equal or higher priority count as being there already."""

from collections.abc import Collection

from moorage.api.pod import Pod
from moorage.engine.answers.standing import StandingAnswer
from moorage.engine.extension_points import ADD_POD, change_what_if, filter_node
from moorage.engine.profile import Profile
from moorage.engine.services import Services
from moorage.errors import PluginError
from moorage.framework.cycle import CycleState
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.status import Status


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

    def refused_nodes(self, answer: StandingAnswer, cycle: CycleState, pod: Pod) -> dict[int, Status]:
        """Find the nodes that will not do with their nominated pods, with the statuses they have then."""
        refused: dict[int, Status] = {}
        for name in self.nodes():
            info = self._services.cache.node(name)
            if info is not None and (nominated := self._before(pod, name)):
                status = self._status_with(nominated, answer, cycle, pod, info)
                if status is not None:
                    refused[info.row] = status
        return refused

    def _status_with(
        self, nominated: list[Pod], answer: StandingAnswer, cycle: CycleState, pod: Pod, info: NodeInfo
    ) -> Status | None:
        """Filter a node with its nominated pods; what only depends on them and the row is remembered."""
        if answer.has_fresh_filters(cycle):
            return self._filter_with(nominated, cycle, pod, info)
        # A pod in flight is known by its identity alone: without containers, and so without requests.
        state = (info.version, *((p.uid, p.metadata.resource_version, bool(p.spec.containers)) for p in nominated))
        known = answer.with_nominated.find(info.name)
        if known is None or known[0] != state:
            known = (state, self._filter_with(nominated, cycle, pod, info))
            answer.with_nominated.put(info.name, known)
        return known[1]

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
