"""The devices of a node and their free amounts, computed from the node and its pods."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from moorage.contrib.gpu.demand import MAX_DEVICES, GpuDemand, devices_written, readable_demand
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_MODEL, WHOLE_GPU
from moorage.scheduler.framework.nodeinfo import NodeInfo


class NodeGpus(Struct, frozen=True):
    """The free amount of each device of a node in thousandths, and the classes of its pods as bits."""

    free: tuple[int, ...]
    model: str | None = None
    cpu_free: int = 0
    classes: int = 0

    @property
    def idle(self) -> int:
        """The free amount of all devices."""
        return sum(self.free)


NO_GPUS: Final = NodeGpus(())


def read_gpus(info: NodeInfo) -> NodeGpus:
    """Compute the free amounts of a node, which may be a modified copy.

    A pod without a device annotation (bound by another scheduler, or only nominated) is counted on the devices that it
    would get now: whole GPUs in numerical order, shares on the tightest device.
    """
    count = min(info.allocatable.get(GPU_COUNT, 0), MAX_DEVICES)
    cpu_free = info.allocatable.get("cpu", 0) - info.requested.get("cpu", 0)
    model = info.labels.get(GPU_MODEL)
    if count <= 0:
        return NodeGpus((), model, cpu_free)
    free = [WHOLE_GPU] * count
    classes = 0
    unsettled: list[tuple[str, GpuDemand]] = []
    for pod in info.pods.values():
        demand = readable_demand(pod)
        if demand is None:
            continue
        classes |= demand.class_bit
        devices = devices_written(pod)
        if len(devices) == demand.count and max(devices) < count:
            _take(free, devices, demand.milli)
        else:
            unsettled.append((pod.uid, demand))
    for _, demand in sorted(unsettled, key=lambda entry: entry[0]):
        _take(free, tightest(free, demand) or _emptiest(free, demand.count), demand.milli)
    return NodeGpus(tuple(free), model, cpu_free, classes)


def _take(free: list[int], devices: Iterable[int], milli: int) -> None:
    for device in devices:
        # Another scheduler may have overcommitted a device; its free amount is 0 then, not negative.
        free[device] = max(free[device] - milli, 0)


def _emptiest(free: Sequence[int], count: int) -> tuple[int, ...]:
    return tuple(sorted(range(len(free)), key=lambda device: (-free[device], device))[:count])


def fits(free: Sequence[int], demand: GpuDemand) -> bool:
    """Return whether enough devices have enough free capacity."""
    return sum(device_free >= demand.milli for device_free in free) >= demand.count


def first_fitting(free: Sequence[int], demand: GpuDemand) -> tuple[int, ...]:
    """Return the first devices with enough free capacity; empty if there are too few."""
    fitting = tuple(device for device, device_free in enumerate(free) if device_free >= demand.milli)
    return fitting[: demand.count] if len(fitting) >= demand.count else ()


def tightest(free: Sequence[int], demand: GpuDemand) -> tuple[int, ...]:
    """Return the devices with the least sufficient free capacity; whole GPUs in the order of their numbers."""
    fitting = sorted((device_free, device) for device, device_free in enumerate(free) if device_free >= demand.milli)
    return tuple(sorted(device for _, device in fitting[: demand.count])) if len(fitting) >= demand.count else ()


def loosest(free: Sequence[int], demand: GpuDemand) -> tuple[int, ...]:
    """Return the devices with the most free capacity; empty if there are too few."""
    return _emptiest(free, demand.count) if fits(free, demand) else ()
