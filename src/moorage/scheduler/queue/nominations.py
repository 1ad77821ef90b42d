"""Which pods are nominated to which nodes: pods for which others are being evicted, or that somebody sent somewhere."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod, PodSpec
from moorage.scheduler.framework.handle import Lister
from moorage.scheduler.state.objects import ChangeLog


class NominatedPod(NamedTuple):
    """A nominated pod: the name it is found by, and the stub that replaces it while it is not in the queue."""

    key: str
    stub: Pod


class Nominations:
    """The nominator: satisfies :class:`moorage.scheduler.framework.handle.Nominator`.

    ``queued`` finds a pod in the queue by its name; ``informed`` is what the API last said of all pods, without which
    every nomination is believed.
    """

    def __init__(self, queued: Callable[[str], Pod | None], informed: Lister[Pod] | None = None) -> None:
        self._queued = queued
        self._informed = informed
        self._by_node: dict[str, dict[str, NominatedPod]] = {}
        self._node_of: dict[str, str] = {}
        self.changes = ChangeLog[str]()
        """The nodes whose nominated pods have become others, or are shown otherwise than before."""

    def __contains__(self, uid: str) -> bool:
        return uid in self._node_of

    def nominated_pods(self, node_name: str) -> Collection[Pod]:
        """Return the pods nominated to a node, in the order of their nominations, as they are now.

        A pod in flight is shown by name only, without priority or requests: upstream looks in its queues and nowhere
        else.
        """
        nominated = self._by_node.get(node_name)
        if not nominated:
            return ()
        return [self._queued(nomination.key) or nomination.stub for nomination in nominated.values()]

    def nodes_with_nominations(self) -> Collection[str]:
        """Return the nodes to which some pod is nominated."""
        return self._by_node

    def node_of(self, pod: Pod) -> str:
        """Return the node a pod is nominated to, or an empty text."""
        return self._node_of.get(pod.uid, "")

    def add(self, pod: Pod, node_name: str | None = None) -> None:
        """Nominate a pod to the node named, or else to the one in its status; an empty name ends its nomination.

        A pod that is gone or on a node already, as far as the API has said, is not nominated.
        """
        self.remove(pod)
        node = pod.status.nominated_node_name if node_name is None else node_name
        if not node or not self._is_pending(pod):
            return
        meta = pod.metadata
        stub = Pod(
            metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid),
            spec=PodSpec(scheduling_group=pod.spec.scheduling_group),
        )
        self._node_of[meta.uid] = node
        self.changes.note(node)
        self._by_node.setdefault(node, {})[meta.uid] = NominatedPod(pod.key, stub)

    def update(self, old: Pod, new: Pod) -> None:
        """Follow a change of a pod; a nomination made here that its status never knew of is kept."""
        kept = None
        if not old.status.nominated_node_name and not new.status.nominated_node_name:
            kept = self._node_of.get(old.uid)
        self.remove(old)
        self.add(new, kept)

    def remove(self, pod: Pod) -> None:
        """End the nomination of a pod, if there is one."""
        uid = pod.metadata.uid
        if uid in self._node_of:
            node = self._node_of.pop(uid)
            self.changes.note(node)
            nominated = self._by_node[node]
            del nominated[uid]
            if not nominated:
                del self._by_node[node]

    def note_presence(self, uid: str) -> None:
        """Note that a pod has left the queue, or come back to it: from now on it is shown otherwise."""
        if uid in self._node_of:
            self.changes.note(self._node_of[uid])

    def _is_pending(self, pod: Pod) -> bool:
        if self._informed is None:
            return True
        known = self._informed.get(pod.name, pod.namespace)
        return known is not None and not known.node_name

    def check_invariants(self) -> None:
        """Verify that both ways of looking a nomination up agree."""
        found = {uid: node for node, nominated in self._by_node.items() for uid in nominated}
        assert found == self._node_of, f"{found} and {self._node_of} differ"
        assert sum(map(len, self._by_node.values())) == len(self._node_of), "a pod is nominated to two nodes"
        assert all(self._by_node.values()), "a node without nominations is kept"
        assert "" not in self._by_node, "a nomination to no node is kept"
