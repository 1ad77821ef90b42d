"""Shared state of the GPU plugins of one profile: columns, typical shapes and the device selection."""

from collections.abc import Callable
from typing import Final

from moorage.contrib.gpu.columns import GpuColumns
from moorage.contrib.gpu.demand import GpuDemand
from moorage.contrib.gpu.devices import NodeGpus
from moorage.contrib.gpu.shapes import ShapeSource
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.framework.handle import Handle

ChooseDevices = Callable[[Pod, GpuDemand, NodeGpus], tuple[int, ...]]
"""Returns the devices of a node for a pod; empty if there are too few."""


class GpuBooks:
    """The shared state of the GPU plugins of one profile."""

    def __init__(self, columns: GpuColumns) -> None:
        self.columns = columns
        self.choose: ChooseDevices | None = None
        """Set by a score plugin that has a device in mind when it scores a node."""
        self.shapes: ShapeSource | None = None
        """Set by a plugin that knows which shapes are typical."""


_COLUMNS: Final = StateKey[GpuColumns]("the GPUs of every node")
_BOOKS: Final = StateKey[dict[str, GpuBooks]]("what the GPU plugins of each profile share")


def books_of(handle: Handle) -> GpuBooks:
    """Return the shared state of the GPU plugins of the handle's profile."""
    columns = handle.shared(_COLUMNS, lambda: GpuColumns(handle.nodes))
    by_profile: dict[str, GpuBooks] = handle.shared(_BOOKS, dict)
    return by_profile.setdefault(handle.profile, GpuBooks(columns))
