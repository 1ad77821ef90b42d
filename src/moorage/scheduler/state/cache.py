"""The cached state of the cluster, including assumed pods.

    assume ──> assumed ──add (the API confirms)──> added ──update──> added ──remove──> gone
                  └──forget (binding failed), or remove (deleted before)──> gone

Inside a cycle nothing changes, so the cache is the snapshot. Pods may arrive before their node and outlive it: such a
node is a ghost, stored separately with its pods until it is added or the last pod is removed.
"""

from collections.abc import Iterable
from itertools import zip_longest
from typing import Final

import numpy as np
from msgspec import Struct, field

from moorage.common.caches import LRU
from moorage.common.errors import CacheError
from moorage.common.observers import Observer
from moorage.kube.api.node import ContainerImage, Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.columns import Growing
from moorage.scheduler.framework.node_storage import ImageFacts, NodeStorage
from moorage.scheduler.framework.nodeinfo import NO_ROW, NodeInfo, SharedNodeInfo
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.plugin import DependsOn
from moorage.scheduler.state.claim_index import ClaimIndex
from moorage.scheduler.state.objects import ChangeLog
from moorage.scheduler.state.pod_groups import PodGroups
from moorage.scheduler.state.pod_index import PodIndex

MAX_IMAGE_COLUMNS: Final = 512


class CacheObserver(Observer):
    """The assumed pods of a cache."""

    def on_assume(self, pod: Pod) -> None:
        """A pod is assumed on its node."""

    def on_forget(self, pod: Pod) -> None:
        """An assumption is undone."""


class Cache:
    """Nodes and the pods on them, as columns and rows, kept by increments. One writer: the loop, between cycles."""

    def __init__(self, observer: CacheObserver | None = None) -> None:
        self._observer = observer
        self.columns = NodeColumns()
        """The writing side of the node table, for its change log."""
        self._tree = NodeTree()
        self._ghosts: dict[str, NodeInfo] = {}
        self._pods: dict[str, Pod] = {}
        self._assumed: set[str] = set()
        self._order: RowArray | None = None
        self._positions: RowArray | None = None
        self.structure = 0
        """Incremented when nodes are added or removed, because rows may then represent different nodes."""
        self.nodes = NodeTable(self.columns)
        self.pods = PodIndex()
        self.claims = ClaimIndex()
        self.groups: PodGroups | None = None
        """The state of pod groups, or ``None`` if no groups exist."""

    def __len__(self) -> int:
        return len(self.columns.infos)

    @property
    def order(self) -> RowArray:
        """The rows in visiting order. It follows nodes that come and go, not zone labels that change."""
        if self._order is None:
            row_of = self.columns.row_of
            self._order = np.fromiter((row_of[name] for name in self._tree.names()), np.int64, count=len(self.columns))
        return self._order

    @property
    def places(self) -> RowArray:
        """The place of each row in the visiting order."""
        if self._positions is None or len(self._positions) != len(self.order):
            self._positions = np.empty_like(self.order)
            self._positions[self.order] = np.arange(len(self.order))
        return self._positions

    @property
    def pod_count(self) -> int:
        """The number of cached pods, assumed ones included."""
        return len(self._pods)

    @property
    def assumed_count(self) -> int:
        """The number of assumed pods."""
        return len(self._assumed)

    def assumed_pods(self) -> list[Pod]:
        """Return the pods that were given a node which the API has not confirmed yet."""
        return [self._pods[uid] for uid in self._assumed]

    def is_assumed(self, pod: Pod) -> bool:
        """Return whether a pod was given a node that the API has not confirmed yet."""
        return pod.metadata.uid in self._assumed

    def pod(self, uid: str) -> Pod | None:
        """Return the cached version of a pod on a node."""
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
        if self.groups is not None and pod.spec.scheduling_group is not None:
            self.groups.assume(pod)
        if self._observer is not None:
            self._observer.on_assume(pod)

    def recount(self, pod: Pod) -> None:
        """Replace an assumed pod by another version with a use of the node that differs from its requests."""
        self._replace(self._pods[pod.uid], pod)
        # One that takes more or less was off its node for a moment. It is still to be confirmed, or forgotten.
        self._assumed.add(pod.uid)

    def forget(self, pod: Pod) -> None:
        """Revert an assumption. Unknown pods are ignored."""
        cached_pod = self._pods.get(pod.uid)
        if cached_pod is None:
            return
        if pod.uid not in self._assumed:
            raise CacheError(f"pod {pod.uid}({pod.key}) was not assumed, so it cannot be forgotten")
        if cached_pod.node_name != pod.node_name:
            raise CacheError(f"pod {pod.key} was assumed on {cached_pod.node_name} but is forgotten on {pod.node_name}")
        self._remove_cached(cached_pod)
        if self._observer is not None:
            self._observer.on_forget(pod)

    def add_pod(self, pod: Pod) -> None:
        """Take in a pod that the API shows on a node: a new one, or the confirmation of an assumption."""
        uid = pod.metadata.uid
        if uid not in self._pods:
            self._place(pod)
        elif uid not in self._assumed:
            raise CacheError(f"pod {uid}({pod.key}) was already in added state")
        else:
            # The API may show another node than the assumed one; _replace moves the pod.
            self._assumed.discard(uid)
            self._replace(self._pods[uid], pod)
        if self.groups is not None and pod.spec.scheduling_group is not None:
            self.groups.assign(pod)

    def update_pod(self, pod: Pod) -> None:
        """Take in a change of a pod on a node."""
        cached_pod = self._pods.get(pod.uid)
        if cached_pod is None or pod.uid in self._assumed:
            raise CacheError(f"pod {pod.uid}({pod.key}) is not added to the cache, so cannot be updated")
        if cached_pod.node_name != pod.node_name:
            raise CacheError(f"pod {pod.key} moved from {cached_pod.node_name} to {pod.node_name}, which no pod can")
        self._replace(cached_pod, pod)
        if self.groups is not None and pod.spec.scheduling_group is not None:
            self.groups.assign(pod)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a deleted pod, confirmed or not."""
        cached_pod = self._pods.get(pod.uid)
        if cached_pod is None:
            raise CacheError(f"pod {pod.uid}({pod.key}) is not found in the cache, so cannot be removed from it")
        self._remove_cached(cached_pod)

    def _remove_cached(self, pod: Pod) -> None:
        self._displace(pod)
        if self.groups is not None and pod.spec.scheduling_group is not None:
            self.groups.displace(pod)

    def lift(self, pods: Iterable[Pod]) -> "Lifted":
        """Remove pods from their nodes temporarily. :meth:`restore_lifted` restores them."""
        lifted = Lifted()
        for pod in pods:
            cached_pod = self._pods[pod.metadata.uid]
            lifted.pods.append((cached_pod, cached_pod.metadata.uid in self._assumed))
            self._displace(cached_pod)
        # Upstream's quirk: in the copy of a snapshot no node has any image.
        self.columns.image_index.hide(True)
        return lifted

    def restore_lifted(self, lifted: "Lifted") -> None:
        """Restore lifted pods."""
        self.columns.image_index.hide(False)
        for pod, was_assumed in lifted.pods:
            self._place(pod)
            # _displace ended the assumption. Without it, the confirmation by the API would be treated as a second pod.
            if was_assumed:
                self._assumed.add(pod.metadata.uid)

    def add_node(self, node: Node) -> None:
        """Add a node; pods that arrived before it are placed on it immediately."""
        if node.name in self.columns.row_of:
            self.update_node(node)
            return
        # Watches of pods and nodes are independent, so a pod may arrive before its node and waits in a ghost.
        info = self._ghosts.get(node.name) or SharedNodeInfo(None)
        NodeInfo.replace_node(info, node)
        self._ghosts.pop(node.name, None)
        row = self.columns.add(info)
        self.pods.resize(len(self.columns))
        for pod in info.pods.values():
            self.pods.add(pod, row)
            self.claims.add(pod)
        self._tree.add(node)
        self._order = self._positions = None
        self.structure += 1

    def update_node(self, node: Node) -> None:
        """Apply a change of a node. An unknown node is added."""
        info = self.nodes.find(node.name)
        if info is None:
            self.add_node(node)
            return
        NodeInfo.replace_node(info, node)
        self.columns.write_node(info)
        self._tree.update(node)

    def remove_node(self, name: str) -> None:
        """Take out a node. Pods still on it are kept with its ghost."""
        info = self.nodes.find(name)
        if info is None:
            raise CacheError(f"node {name} is not found in the cache, so cannot be removed from it")
        for pod in info.pods.values():
            self.pods.remove(pod, info.row)
            self.claims.remove(pod)
        row, last = self.columns.remove(info)
        # Rows are dense: the last node moved into the free row, so its pods are counted there from now on.
        if row != last:
            self.pods.move(self.columns.infos[row].pods.values(), last, row)
        self.pods.resize(len(self.columns))
        self._tree.remove(name)
        self._order = self._positions = None
        self.structure += 1
        if info.pods:
            NodeInfo.replace_node(info, None)
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

    def _replace(self, cached_pod: Pod, pod: Pod) -> None:
        """Replace the previous version of a pod; equal requests change no column."""
        info = self.nodes.find(pod.spec.node_name)
        if info is None or not _weighs_the_same(cached_pod, pod):
            self._displace(cached_pod)
            self._place(pod)
            return
        was, now = cached_pod.metadata, pod.metadata
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


class Lifted(Struct):
    """Pods that were taken off their nodes for a while, and whether each was assumed there."""

    pods: list[tuple[Pod, bool]] = field(default_factory=list)


class NodeColumns(NodeStorage):
    """Every node of the cluster, by columns. One writer: the cache.

    Rows are dense: the last node moves to the row of a removed one, so a column of the cluster is always one run of
    memory. Every changed row is recorded in a change log, from which cached results find the rows to re-evaluate.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changes = ChangeLog[int]()
        self.resource_changes = ChangeLog[int]()
        """The changes of nodes, and of the resources that pods use on them."""
        self.node_changes = ChangeLog[int]()
        """Those of the changes that alter the node itself."""
        self._nodes_version = 0
        self.image_index = ImageIndex()
        self._image_columns: LRU[str, Growing] = LRU("image columns", MAX_IMAGE_COLUMNS)

    @property
    def position(self) -> int:
        """The position in the log of changed rows."""
        return self.changes.position

    @property
    def nodes_version(self) -> int:
        """Incremented when a node itself is added, changed or removed, but not for changes of its pods."""
        return self._nodes_version

    @property
    def images_version(self) -> int:
        """A number that grows whenever the images on some node change."""
        return self.image_index.version

    def changed_since(self, position: int) -> list[int] | None:
        """Return the rows that changed since a position. Removed rows are beyond the end."""
        return self.changes.since(position)

    def remove(self, info: NodeInfo) -> tuple[int, int]:
        """Take a node's row away. Return its row and the row that moved there (the same if it was the last)."""
        row, last = info.row, len(self.infos) - 1
        self._label_views.clear()
        self.image_index.drop(info.name)
        del self.row_of[info.name]
        last_node = self.infos.pop()
        self.count = last
        NodeInfo.move_to(info, NO_ROW)
        if row != last:
            self.infos[row] = last_node
            self.row_of[last_node.name] = row
            NodeInfo.move_to(last_node, row)
            self.write_node(last_node)
        else:
            self._note_node(row)
        return row, last

    def write_node(self, info: NodeInfo) -> None:
        """Bring a row in line with its node object and its pods."""
        super().write_node(info)
        self.image_index.put(info.node)
        image_names = info.node.image_names
        for name, column in self._image_columns.items():
            column.put(info.row, name in image_names)
        for categorical in self.categoricals():
            if categorical.is_bloated(self.count):
                categorical.fill(self.infos)
        self._note_node(info.row)

    def write_pods(self, info: NodeInfo, pod: Pod) -> None:
        """Update a row after a pod was added to its node or removed from it."""
        row = info.row
        try:
            self.requested.write_some(info, pod.requests_on_node)
            self.nonzero["cpu"].array[row] = info.nonzero_cpu
            self.nonzero["memory"].array[row] = info.nonzero_memory
            self.pod_count.array[row] = len(info.pods)
        except (KeyError, IndexError, OverflowError):
            self.write_requests(info)
        if pod.host_ports:
            self.host_ports.write(row, info)
            if self.host_ports.is_bloated(self.count):
                self.host_ports.fill(self.infos)
        self.changes.note(row)
        self.resource_changes.note(row)

    def image(self, name: str) -> Growing:
        """Return the nodes with an image, as a column that is created at first use and updated from then on."""
        column = self._image_columns.find(name)
        if column is None:
            column = super().image(name)
            self._image_columns.put(name, column)
        return column

    def image_facts(self, name: str) -> ImageFacts | None:
        """Return the facts about an image, or ``None`` if no node has it."""
        return self.image_index.find(name)

    def select_log(self, depends_on: DependsOn) -> ChangeLog[int]:
        """Return the log of the changes that results of a plugin depend on."""
        match depends_on:
            case DependsOn.NODE:
                return self.node_changes
            case DependsOn.REQUESTS:
                return self.resource_changes
            case _:
                return self.changes

    def invalidate(self, row: int, depends_on: DependsOn) -> None:
        """Recompute the results of a row, although neither its node nor its pods changed."""
        self.changes.note(row)
        if depends_on <= DependsOn.REQUESTS:
            self.resource_changes.note(row)
        if depends_on == DependsOn.NODE:
            self.node_changes.note(row)

    def _note_node(self, row: int) -> None:
        self.invalidate(row, DependsOn.NODE)
        self._nodes_version += 1


class ImageIndex:
    """Facts per image name, updated with the nodes; ``version`` grows when an entry may have changed."""

    def __init__(self) -> None:
        self._images: dict[str, ImageFacts] = {}
        self._held_by: dict[str, tuple[ContainerImage, ...]] = {}
        self._is_hidden = False
        self.version = 0

    def find(self, name: str) -> ImageFacts | None:
        """Return the facts about an image, or ``None`` if no node has it."""
        return None if self._is_hidden else self._images.get(name)

    def hide(self, is_hidden: bool) -> None:
        """Hide all images, or make them visible."""
        self._is_hidden = is_hidden
        self.version += bool(self._images)

    def put(self, node: Node) -> None:
        """Add or update a node. Most changes of a node do not change its images."""
        images = node.status.images
        if self._held_by.get(node.name, ()) == images:
            return
        self.drop(node.name)
        self._held_by[node.name] = images
        for image in images:
            for name in image.names:
                self._images.setdefault(name, ImageFacts(image.size_bytes))
        for name in node.image_names:
            self._images[name].node_count += 1
        self.version += 1

    def drop(self, node_name: str) -> None:
        """Remove a node, and the images that no other node has."""
        images = self._held_by.pop(node_name, ())
        for name in {name for image in images for name in image.names}:
            facts = self._images[name]
            facts.node_count -= 1
            if facts.node_count == 0:
                del self._images[name]
        self.version += bool(images)


class NodeTree:
    """The order in which nodes are visited: one of each zone in turn.

    Zones keep the order in which they first appeared, nodes the order in which they were added.
    """

    def __init__(self) -> None:
        self._zones: dict[str, dict[str, None]] = {}
        self._zone_of: dict[str, str] = {}

    def add(self, node: Node) -> None:
        """Put a node at the end of its zone."""
        self._zone_of[node.name] = node.zone_key
        self._zones.setdefault(node.zone_key, {})[node.name] = None

    def remove(self, name: str) -> None:
        """Take a node out. A zone without nodes is forgotten."""
        zone = self._zone_of.pop(name)
        del self._zones[zone][name]
        if not self._zones[zone]:
            del self._zones[zone]

    def update(self, node: Node) -> None:
        """Move a node to the end of its new zone."""
        if self._zone_of[node.name] != node.zone_key:
            self.remove(node.name)
            self.add(node)

    def names(self) -> list[str]:
        """List all nodes: the first of each zone, the second of each zone, and so on."""
        turns = zip_longest(*self._zones.values())
        return [name for turn in turns for name in turn if name is not None]


def _weighs_the_same(cached_pod: Pod, pod: Pod) -> bool:
    """Return whether two versions of a pod use the same resources of their node. Labels are not compared.

    Pods with storage are always treated as different: the claim index stores the pods themselves.
    """
    if pod.shape.holds_storage or cached_pod.spec.node_name != pod.spec.node_name:
        return False
    return cached_pod.shape is pod.shape or (
        cached_pod.spec == pod.spec
        and cached_pod.requests_on_node == pod.requests_on_node
        and cached_pod.nonzero_requests == pod.nonzero_requests
    )
