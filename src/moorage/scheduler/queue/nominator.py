"""The nominator: pods nominated to nodes by preemption or by another component."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod, PodSpec
from moorage.scheduler.framework.handle import Lister
from moorage.scheduler.state.objects import ChangeLog


class NominatedPod(NamedTuple):
    """The key of a nominated pod, and the stub that represents it while it is not in the queue."""

    key: str
    stub: Pod


class PodNominator:
    """Implements :class:`moorage.scheduler.framework.handle.Nominator`.

    ``queued`` returns a pending pod by its key. ``informed`` lists the pods of the API. Without it, every nomination is
    accepted.
    """

    def __init__(self, queued: Callable[[str], Pod | None], informed: Lister[Pod] | None = None) -> None:
        self._queued = queued
        self._informed = informed
        self._by_node: dict[str, dict[str, NominatedPod]] = {}
        self._node_of: dict[str, str] = {}
        self.changes = ChangeLog[str]()
        """The nodes with changed nominated pods."""

    def __contains__(self, uid: str) -> bool:
        return uid in self._node_of

    def nominated_pods(self, node_name: str) -> Collection[Pod]:
        """Return the latest versions of the pods nominated to a node, in the order of their nominations.

        An in-flight pod is a stub without priority and requests, because upstream only looks in its queues.
        """
        nominated = self._by_node.get(node_name)
        if not nominated:
            return ()
        return [self._queued(nomination.key) or nomination.stub for nomination in nominated.values()]

    def nodes_with_nominations(self) -> Collection[str]:
        """Return the nodes with nominated pods."""
        return self._by_node

    def node_of(self, pod: Pod) -> str:
        """Return the node a pod is nominated to, or an empty string."""
        return self._node_of.get(pod.uid, "")

    def add(self, pod: Pod, node_name: str | None = None) -> None:
        """Nominate a pod to a node, by default to that in its status. An empty name removes the nomination.

        A pod that is deleted or bound according to the API is not nominated.
        """
        self.remove(pod)
        node = pod.status.nominated_node_name if node_name is None else node_name
        if not node:
            return
        if self._informed is not None:
            latest = self._informed.get(pod.name, pod.namespace)
            if latest is None or latest.node_name:
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
        """Update a pod. Keep a nomination that was never in its status."""
        node = None
        if not old.status.nominated_node_name and not new.status.nominated_node_name:
            node = self._node_of.get(old.uid)
        self.remove(old)
        self.add(new, node)

    def remove(self, pod: Pod) -> None:
        """Remove the nomination of a pod."""
        uid = pod.metadata.uid
        if uid in self._node_of:
            node = self._node_of.pop(uid)
            self.changes.note(node)
            nominated = self._by_node[node]
            del nominated[uid]
            if not nominated:
                del self._by_node[node]

    def note_presence(self, uid: str) -> None:
        """Record that a pod left or entered the queue, which changes how it is represented."""
        if uid in self._node_of:
            self.changes.note(self._node_of[uid])

    def check_invariants(self) -> None:
        """Verify that both indexes agree."""
        nodes = {uid: node for node, nominated in self._by_node.items() for uid in nominated}
        assert nodes == self._node_of, f"{nodes} and {self._node_of} differ"
        assert sum(map(len, self._by_node.values())) == len(self._node_of), "a pod is nominated to two nodes"
        assert all(self._by_node.values()), "a node without nominations is kept"
        assert "" not in self._by_node, "a nomination to no node is kept"
