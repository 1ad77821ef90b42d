"""The cluster's nodes as columns: one dense row per node, kept by increments.

Rows are dense: a node that goes leaves its row to the last one, so a column of the cluster is always one run of memory.
Every row that changes is noted in a change log, which is how standing answers know what to look at again.
"""

from typing import Final

from moorage.api.node import ContainerImage, Node
from moorage.api.pod import Pod
from moorage.framework.columns import Growing
from moorage.framework.node_storage import ImageFacts, NodeStorage
from moorage.framework.nodeinfo import NO_ROW, NodeInfo
from moorage.lru import LRU
from moorage.state.change_log import ChangeLog

MAX_IMAGE_COLUMNS: Final = 512


class NodeColumns(NodeStorage):
    """Every node of the cluster, by columns. One writer: the cache."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = ChangeLog[int]()
        self.resource_changes = ChangeLog[int]()
        """Those of the changes that alter what pods take of their node, or the node itself."""
        self.node_changes = ChangeLog[int]()
        """Those of the changes that alter the node itself."""
        self.image_index = ImageIndex()
        self._image_columns: LRU[str, Growing] = LRU(MAX_IMAGE_COLUMNS)

    @property
    def position(self) -> int:
        """How far the log of changed rows has come."""
        return self.changes.position

    @property
    def nodes_version(self) -> int:
        """A number that grows when a node itself changes, comes or goes, but not with the pods on it."""
        return self.node_changes.position

    @property
    def images_version(self) -> int:
        """A number that grows whenever the images on some node change."""
        return self.image_index.version

    def changed_since(self, position: int) -> list[int] | None:
        """Return the rows that changed since a position; one that is gone is beyond the end."""
        return self.changes.since(position)

    def remove(self, info: NodeInfo) -> tuple[int, int]:
        """Take a node's row away; return its row and the row that moved there (the same if it was the last)."""
        row, last = info.row, len(self.infos) - 1
        self._label_views.clear()
        self.image_index.drop(info.name)
        del self.row_of[info.name]
        moved = self.infos.pop()
        self.count = last
        info.row = NO_ROW
        if row != last:
            self.infos[row] = moved
            self.row_of[moved.name] = row
            moved.row = row
            self.write_node(moved)
        else:
            self._note_node(row)
        return row, last

    def write_node(self, info: NodeInfo) -> None:
        """Bring a row in line with its node object and its pods."""
        super().write_node(info)
        self.image_index.put(info.node)
        held = info.node.image_names
        for name, column in self._image_columns.entries():
            column.put(info.row, name in held)
        for categorical in self.categoricals():
            if categorical.is_bloated(self.count):
                categorical.fill(self.infos)
        self._note_node(info.row)

    def write_pods(self, info: NodeInfo, pod: Pod) -> None:
        """Bring a row in line with the pods on its node, of which one has come or gone."""
        row, requested = info.row, info.requested
        try:
            for name in pod.requests_on_node:
                self.requested[name].array[row] = requested[name]
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
        """Return which nodes hold an image, a column made when first asked for and kept in line from then on."""
        column = self._image_columns.find(name)
        if column is None:
            column = super().image(name)
            self._image_columns.put(name, column)
        return column

    def image_facts(self, name: str) -> ImageFacts | None:
        """Return what is known of an image, or ``None`` if no node has it."""
        return self.image_index.find(name)

    def _note_node(self, row: int) -> None:
        self.changes.note(row)
        self.resource_changes.note(row)
        self.node_changes.note(row)


class ImageIndex:
    """Facts per image name, kept as nodes come, change and go; ``version`` grows when one of them may have changed."""

    def __init__(self) -> None:
        self._images: dict[str, ImageFacts] = {}
        self._held_by: dict[str, tuple[ContainerImage, ...]] = {}
        self.version = 0

    def find(self, name: str) -> ImageFacts | None:
        """Return what is known of an image, or ``None`` if no node has it."""
        return self._images.get(name)

    def put(self, node: Node) -> None:
        """Take in a node, new or changed; most changes of a node leave its images as they are."""
        held = node.status.images
        if self._held_by.get(node.name, ()) == held:
            return
        self.drop(node.name)
        self._held_by[node.name] = held
        for image in held:
            for name in image.names:
                self._images.setdefault(name, ImageFacts(image.size_bytes))
        for name in node.image_names:
            self._images[name].node_count += 1
        self.version += 1

    def drop(self, node_name: str) -> None:
        """Take out a node that is gone, and the images nobody else has."""
        held = self._held_by.pop(node_name, ())
        for name in {name for image in held for name in image.names}:
            facts = self._images[name]
            facts.node_count -= 1
            if facts.node_count == 0:
                del self._images[name]
        self.version += bool(held)
