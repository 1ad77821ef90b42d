"""What the cluster looks like, pods on their way to a node included.

    assume ──> assumed ──add (the API confirms)──> added ──update──> added ──remove──> gone
                  └──forget (binding failed), or remove (deleted meanwhile)──> gone

Inside a cycle nothing changes, so the cache is the snapshot. Pods may arrive before their node and outlive it: such a
node is a ghost, kept aside with its pods until it comes (back) or the last pod leaves.
"""

from itertools import zip_longest

import numpy as np

from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.errors import CacheError
from moorage.framework.nodeinfo import NodeInfo, SharedNodeInfo
from moorage.framework.nodetable import NodeTable, RowArray
from moorage.state.claim_index import ClaimIndex
from moorage.state.node_columns import NodeColumns
from moorage.state.pod_index import PodIndex


class Cache:
    """Nodes and the pods on them, as columns and rows, kept by increments. One writer: the loop, between cycles."""

    def __init__(self) -> None:
        self.columns = NodeColumns()
        """The writing side of the node table, for its change log."""
        self._tree = NodeTree()
        self._ghosts: dict[str, NodeInfo] = {}
        self._pods: dict[str, Pod] = {}
        self._assumed: set[str] = set()
        self._order: RowArray | None = None
        self._places: RowArray | None = None
        self.structure = 0
        """Grows when nodes come or go, and rows may stand for other nodes than before."""
        self.nodes = NodeTable(self.columns)
        self.pods = PodIndex()
        self.claims = ClaimIndex()

    def __len__(self) -> int:
        return len(self.columns.infos)

    @property
    def order(self) -> RowArray:
        """The rows in visiting order; it follows nodes that come and go, not zone labels that change."""
        if self._order is None:
            row_of = self.columns.row_of
            self._order = np.fromiter((row_of[name] for name in self._tree.names()), np.int64, count=len(self.columns))
        return self._order

    @property
    def places(self) -> RowArray:
        """The place of each row in the visiting order."""
        if self._places is None or len(self._places) != len(self.order):
            self._places = np.empty_like(self.order)
            self._places[self.order] = np.arange(len(self.order))
        return self._places

    @property
    def pod_count(self) -> int:
        """How many pods are known, assumed ones included."""
        return len(self._pods)

    @property
    def assumed_count(self) -> int:
        """How many pods are assumed."""
        return len(self._assumed)

    def is_assumed(self, pod: Pod) -> bool:
        """Return whether a pod was given a node that the API has not confirmed yet."""
        return pod.metadata.uid in self._assumed

    def pod(self, uid: str) -> Pod | None:
        """Return a pod on a node as it is known here."""
        return self._pods.get(uid)

    def node(self, name: str) -> NodeInfo | None:
        """Return a node by name."""
        return self.nodes.find(name)

    def assume(self, pod: Pod) -> None:
        """Count a pod on the node it was just given, before the API knows."""
        uid = pod.metadata.uid
        if uid in self._pods:
            raise CacheError(f"pod {uid}({pod.key}) is in the cache, so can't be assumed")
        self._place(pod)
        self._assumed.add(uid)

    def forget(self, pod: Pod) -> None:
        """Undo an assumption; a pod that is not known is left alone."""
        known = self._pods.get(pod.uid)
        if known is None:
            return
        if pod.uid not in self._assumed:
            raise CacheError(f"pod {pod.uid}({pod.key}) was not assumed, so it cannot be forgotten")
        if known.node_name != pod.node_name:
            raise CacheError(f"pod {pod.key} was assumed on {known.node_name} but is forgotten on {pod.node_name}")
        self._displace(known)

    def add_pod(self, pod: Pod) -> None:
        """Take in a pod that the API shows on a node: a new one, or the confirmation of an assumption."""
        uid = pod.metadata.uid
        if uid not in self._pods:
            self._place(pod)
            return
        if uid not in self._assumed:
            raise CacheError(f"pod {uid}({pod.key}) was already in added state")
        self._assumed.discard(uid)
        self._replace(self._pods[uid], pod)

    def update_pod(self, pod: Pod) -> None:
        """Take in a change of a pod on a node."""
        known = self._pods.get(pod.uid)
        if known is None or pod.uid in self._assumed:
            raise CacheError(f"pod {pod.uid}({pod.key}) is not added to the cache, so cannot be updated")
        if known.node_name != pod.node_name:
            raise CacheError(f"pod {pod.key} moved from {known.node_name} to {pod.node_name}, which no pod can")
        self._replace(known, pod)

    def remove_pod(self, pod: Pod) -> None:
        """Take out a pod that is gone, confirmed or not."""
        known = self._pods.get(pod.uid)
        if known is None:
            raise CacheError(f"pod {pod.uid}({pod.key}) is not found in the cache, so cannot be removed from it")
        self._displace(known)

    def add_node(self, node: Node) -> None:
        """Take in a node; pods that came before it are on it at once."""
        if node.name in self.columns.row_of:
            self.update_node(node)
            return
        info = self._ghosts.get(node.name) or SharedNodeInfo(None)
        info.node = node
        self._ghosts.pop(node.name, None)
        row = self.columns.add(info)
        self.pods.resize(len(self.columns))
        for pod in info.pods.values():
            self.pods.add(pod, row)
            self.claims.add(pod)
        self._tree.add(node)
        self._order = self._places = None
        self.structure += 1

    def update_node(self, node: Node) -> None:
        """Take in a change of a node; one that is not known is added."""
        info = self.nodes.find(node.name)
        if info is None:
            self.add_node(node)
            return
        info.node = node
        self.columns.write_node(info)
        self._tree.update(node)

    def remove_node(self, name: str) -> None:
        """Take out a node; pods still on it are kept with its ghost."""
        info = self.nodes.find(name)
        if info is None:
            raise CacheError(f"node {name} is not found in the cache, so cannot be removed from it")
        for pod in info.pods.values():
            self.pods.remove(pod, info.row)
            self.claims.remove(pod)
        row, last = self.columns.remove(info)
        if row != last:
            self.pods.move(self.columns.infos[row].pods.values(), last, row)
        self.pods.resize(len(self.columns))
        self._tree.remove(name)
        self._order = self._places = None
        self.structure += 1
        if info.pods:
            info.node = None
            self._ghosts[name] = info

    def _place(self, pod: Pod) -> None:
        self._pods[pod.metadata.uid] = pod
        info = self.nodes.find(pod.spec.node_name)
        if info is None:
            NodeInfo.add_pod(self._ghosts.setdefault(pod.node_name, SharedNodeInfo(None)), pod)
            return
        NodeInfo.add_pod(info, pod)
        self.columns.write_pods(info, pod)
        self.pods.add(pod, info.row)
        if pod.spec.volumes:
            self.claims.add(pod)

    def _replace(self, known: Pod, pod: Pod) -> None:
        """Put a pod in the place of its former version; if it takes the same of its node, no column changes."""
        info = self.nodes.find(pod.spec.node_name)
        if info is None or not _weighs_the_same(known, pod):
            self._displace(known)
            self._place(pod)
            return
        was, now = known.metadata, pod.metadata
        self._pods[now.uid] = pod
        NodeInfo.replace_pod(info, pod)
        if was.labels != now.labels or (was.deletion_timestamp is None) != (now.deletion_timestamp is None):
            # Usual, not rare: on binding a pod the API server gives it the zone and region of its node as labels.
            self.pods.relabel(pod, info.row)
        self.columns.changes.note(info.row)

    def _displace(self, pod: Pod) -> None:
        del self._pods[pod.uid]
        self._assumed.discard(pod.uid)
        info = self.nodes.find(pod.node_name)
        if info is None:
            ghost = self._ghosts[pod.node_name]
            NodeInfo.remove_pod(ghost, pod)
            if not ghost.pods:
                del self._ghosts[pod.node_name]
            return
        NodeInfo.remove_pod(info, pod)
        self.columns.write_pods(info, pod)
        self.pods.remove(pod, info.row)
        self.claims.remove(pod)


class NodeTree:
    """The order in which nodes are visited: one of each zone in turn.

    Zones keep the order in which they first appeared, nodes the order in which they came.
    """

    def __init__(self) -> None:
        self._zones: dict[str, dict[str, None]] = {}
        self._zone_of: dict[str, str] = {}

    def add(self, node: Node) -> None:
        """Put a node at the end of its zone."""
        self._zone_of[node.name] = node.zone_key
        self._zones.setdefault(node.zone_key, {})[node.name] = None

    def remove(self, name: str) -> None:
        """Take a node out; a zone without nodes is forgotten."""
        zone = self._zone_of.pop(name)
        del self._zones[zone][name]
        if not self._zones[zone]:
            del self._zones[zone]

    def update(self, node: Node) -> None:
        """Move a node whose zone changed to the end of the new one."""
        if self._zone_of[node.name] != node.zone_key:
            self.remove(node.name)
            self.add(node)

    def names(self) -> list[str]:
        """List all nodes: the first of each zone, the second of each zone, and so on."""
        turns = zip_longest(*self._zones.values())
        return [name for turn in turns for name in turn if name is not None]


def _weighs_the_same(known: Pod, pod: Pod) -> bool:
    """Return whether two versions of a pod take the same of their node; labels are not compared.

    Pods with storage are not looked at so closely: the claim index keeps the pods themselves.
    """
    if pod.shape.holds_storage or known.spec.node_name != pod.spec.node_name:
        return False
    return known.shape is pod.shape or (
        known.spec == pod.spec
        and known.requests_on_node == pod.requests_on_node
        and known.nonzero_requests == pod.nonzero_requests
    )
