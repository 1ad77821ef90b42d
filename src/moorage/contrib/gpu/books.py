"""Shared state of the GPU plugins of one profile: columns, typical shapes and the device selection."""

from collections.abc import Callable
from random import Random
from typing import Final

from moorage.contrib.gpu.columns import GpuColumns
from moorage.contrib.gpu.demand import GpuDemand
from moorage.contrib.gpu.devices import NodeGpus, first_fitting, loosest, tightest
from moorage.contrib.gpu.shapes import ShapeSource
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.contrib_args import BY_POLICY, FIRST, LOOSEST, RANDOM, TIGHTEST
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.framework.handle import Handle

ChooseDevices = Callable[[Pod, GpuDemand, NodeGpus], tuple[int, ...]]
"""Returns the devices of a node for a pod; empty if there are too few."""


class GpuBooks:
    """The shared state of the GPU plugins of one profile."""

    def __init__(self, columns: GpuColumns) -> None:
        self.columns = columns
        self.choose: ChooseDevices | None = None
        """Set by a score plugin that selects devices."""
        self.shapes: ShapeSource | None = None
        """Set by a plugin that defines the typical shapes."""


_COLUMNS: Final = StateKey[GpuColumns]("the GPUs of every node")
_BOOKS: Final = StateKey[dict[str, GpuBooks]]("shared state of the GPU plugins of each profile")


def shared_books(handle: Handle) -> GpuBooks:
    """Return the shared state of the GPU plugins of the handle's profile."""
    columns = handle.shared(_COLUMNS, lambda: GpuColumns(handle.nodes))
    by_profile: dict[str, GpuBooks] = handle.shared(_BOOKS, dict)
    return by_profile.setdefault(handle.profile, GpuBooks(columns))


def device_selection(selection: str, seed: int, books: GpuBooks) -> ChooseDevices:
    """Return the device selection of GpuShare's configuration or of the profile's policy.

    Selections differ for shares only; whole GPUs are taken from free devices in the order of their numbers.
    """

    def by_policy(pod: Pod, demand: GpuDemand, node: NodeGpus) -> tuple[int, ...]:
        # Resolved late: the policy may be constructed after GpuShare.
        return tightest(node.free, demand) if books.choose is None else books.choose(pod, demand, node)

    selections: dict[str, ChooseDevices] = {
        BY_POLICY: by_policy,
        TIGHTEST: lambda _pod, demand, node: tightest(node.free, demand),
        LOOSEST: lambda _pod, demand, node: loosest(node.free, demand),
        FIRST: lambda _pod, demand, node: first_fitting(node.free, demand),
        RANDOM: random_selection(seed),
    }
    return selections[selection]


def random_selection(seed: int) -> ChooseDevices:
    """Return a selection of any device with enough free capacity, determined by the seed and the pod."""

    def choose(pod: Pod, demand: GpuDemand, node: NodeGpus) -> tuple[int, ...]:
        fitting = [device for device, free in enumerate(node.free) if free >= demand.milli]
        if not fitting or not demand.is_share:
            return first_fitting(node.free, demand)
        return (Random(f"{seed} {pod.key}").choice(fitting),)

    return choose
