"""ImageLocality: prefer nodes that have the pod's images, if these are large and on many nodes."""

from collections.abc import Hashable
from typing import Final

import numpy as np

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, ScorePlugin
from moorage.scheduler.framework.status import MAX_NODE_SCORE, IntArray

MEBIBYTE: Final = 1024 * 1024
MIN_BYTES: Final = 23 * MEBIBYTE
MAX_BYTES_PER_IMAGE: Final = 1000 * MEBIBYTE


class ImageLocality(ScorePlugin):
    """Score the bytes that a node need not pull, each image scaled by the share of nodes that have it.

    The scaling keeps a pod from crowding the few nodes that have its image. So the score depends on the number of
    nodes and on their images, which :meth:`epoch` covers.
    """

    depends_on = DependsOn.NODE
    _signs_template = True

    def __init__(self, *, handle: Handle) -> None:
        self._handle = handle

    def sign(self, pod: Pod) -> Hashable:
        return image_names(pod)

    def epoch(self) -> Hashable:
        # The number of nodes also matters; but all results are recomputed when nodes are added or removed.
        return self._handle.nodes.images_version

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        names = image_names(pod)
        node_images = node.node.image_names
        total = sum(self._worth(name) for name in names if name in node_images)
        most = MAX_BYTES_PER_IMAGE * len(names)
        # The order matters: without images, the maximum is smaller than the minimum.
        total = MIN_BYTES if total < MIN_BYTES else min(total, most)
        return MAX_NODE_SCORE * (total - MIN_BYTES) // (most - MIN_BYTES)

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        names = image_names(pod)
        total = np.zeros(len(nodes), dtype=np.int64)
        worth = {name: self._worth(name) for name in names}
        most = MAX_BYTES_PER_IMAGE * len(names)
        if sum(worth[name] for name in names) <= MIN_BYTES:
            return total
        for name in names:
            if worth[name]:
                total += worth[name] * nodes.holds_image(name)
        total = np.minimum(np.maximum(total, MIN_BYTES), most)
        return MAX_NODE_SCORE * (total - MIN_BYTES) // (most - MIN_BYTES)

    def _worth(self, name: str) -> int:
        nodes = self._handle.nodes
        image = nodes.image(name)
        return 0 if image is None else int(float(image.size) * (float(image.node_count) / float(len(nodes))))


def image_names(pod: Pod) -> tuple[str, ...]:
    """List all images of a pod, including init containers and image volumes. Duplicates are kept."""
    spec = pod.spec
    if len(spec.containers) == 1 and not spec.init_containers and not spec.volumes:
        return (normalized(spec.containers[0].image),)
    containers = (*spec.init_containers, *spec.containers)
    volumes = (volume.image.reference for volume in spec.volumes if volume.image is not None)
    return (*(normalized(container.image) for container in containers), *map(normalized, volumes))


def normalized(image: str) -> str:
    """Add ``:latest`` to a name without tag or digest. A colon before the last slash belongs to a port."""
    return image if image.rfind(":") > image.rfind("/") else image + ":latest"
