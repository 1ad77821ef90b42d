"""The devices of a node and their free amounts, computed from the node and its pods."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from moorage.common.caches import cached
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_DEVICES, GPU_MILLI, GPU_MODEL, WHOLE_GPU
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.nodeinfo import NodeInfo

MAX_DEVICES: Final = 62
"""Maximum number of devices per node: the classes of a node's pods are bits of one 64-bit number."""

_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII).fullmatch


class GpuDemand(Struct, frozen=True):
    """A number of devices, an amount of each, and the accepted models. No model means any."""

    count: int
    milli: int
    models: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """The total request in thousandths of a GPU."""
        return self.count * self.milli

    @property
    def is_share(self) -> bool:
        """Whether it is a part of a device."""
        return self.count == 1 and self.milli < WHOLE_GPU

    @property
    def class_bit(self) -> int:
        """The class of the request: shares are one class, and each number of whole GPUs another."""
        return 1 if self.is_share else 1 << self.count

    def accepts(self, model: str | None) -> bool:
        """Return whether devices of a model are accepted."""
        return not self.models or model in self.models


class UnreadableDemand(Struct, frozen=True):
    """A problem in the annotations of a pod, with a correction."""

    problem: str


def read_demand(pod: Pod) -> GpuDemand | UnreadableDemand | None:
    """Return the GPU request of a pod, or ``None`` without one."""
    annotations = pod.metadata.annotations
    if not annotations or (GPU_COUNT not in annotations and GPU_MILLI not in annotations):
        return None
    return _parse(annotations.get(GPU_COUNT), annotations.get(GPU_MILLI), annotations.get(GPU_MODEL, ""))


def readable_demand(pod: Pod) -> GpuDemand | None:
    """Return the GPU request of a pod. An invalid one is treated as none."""
    demand = read_demand(pod)
    return demand if isinstance(demand, GpuDemand) else None


@cached(4096)
def _parse(count: str | None, milli: str | None, models: str) -> GpuDemand | UnreadableDemand | None:
    devices = 1 if count is None else _number(count)
    if devices is None or devices > MAX_DEVICES:
        return _unreadable(GPU_COUNT, count, f"a number of devices from 0 to {MAX_DEVICES}")
    if devices == 0:
        return None
    share = WHOLE_GPU if milli is None else _number(milli)
    if share is None or not 1 <= share <= WHOLE_GPU:
        return _unreadable(GPU_MILLI, milli, f"thousandths of each device from 1 to {WHOLE_GPU}")
    accepted_models = tuple(sorted({model.strip() for model in models.split("|") if model.strip()}))
    if models.strip() and not accepted_models:
        return _unreadable(GPU_MODEL, models, "names of models joined by |, such as A100|H100")
    return GpuDemand(devices, share, accepted_models)


def _number(text: str) -> int | None:
    return int(text) if _NUMBER(text) else None


def _unreadable(key: str, text: str | None, correction: str) -> UnreadableDemand:
    return UnreadableDemand(f'annotation {key} is "{text}": write {correction}')


def devices_written(pod: Pod) -> tuple[int, ...]:
    """Return the devices in a pod's annotation, or empty if it is missing or invalid."""
    annotations = pod.metadata.annotations
    text = annotations.get(GPU_DEVICES) if annotations else None
    return _devices(text) if text else ()


@cached(4096)
def _devices(text: str) -> tuple[int, ...]:
    numbers = [_number(part.strip()) for part in text.split(",")]
    devices = tuple(number for number in numbers if number is not None and number < MAX_DEVICES)
    return devices if len(devices) == len(numbers) and len({*devices}) == len(devices) else ()


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
        # Another scheduler may have overcommitted a device. Its free amount is 0 then, not negative.
        free[device] = max(free[device] - milli, 0)


def _emptiest(free: Sequence[int], count: int) -> tuple[int, ...]:
    return tuple(sorted(range(len(free)), key=lambda device: (-free[device], device))[:count])


def fits(free: Sequence[int], demand: GpuDemand) -> bool:
    """Return whether enough devices have enough free capacity."""
    return sum(device_free >= demand.milli for device_free in free) >= demand.count


def first_fitting(free: Sequence[int], demand: GpuDemand) -> tuple[int, ...]:
    """Return the first devices with enough free capacity, or empty if there are too few."""
    fitting = tuple(device for device, device_free in enumerate(free) if device_free >= demand.milli)
    return fitting[: demand.count] if len(fitting) >= demand.count else ()


def tightest(free: Sequence[int], demand: GpuDemand) -> tuple[int, ...]:
    """Return the devices with the least sufficient free capacity; whole GPUs in the order of their numbers."""
    fitting = sorted((device_free, device) for device, device_free in enumerate(free) if device_free >= demand.milli)
    return tuple(sorted(device for _, device in fitting[: demand.count])) if len(fitting) >= demand.count else ()


def loosest(free: Sequence[int], demand: GpuDemand) -> tuple[int, ...]:
    """Return the devices with the most free capacity, or empty if there are too few."""
    return _emptiest(free, demand.count) if fits(free, demand) else ()
