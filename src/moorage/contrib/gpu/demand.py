"""The GPU request of a pod, from its annotations."""

import re
from typing import Final

from msgspec import Struct

from moorage.common.caches import cached
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_DEVICES, GPU_MILLI, GPU_MODEL, WHOLE_GPU
from moorage.kube.api.pod import Pod

MAX_DEVICES: Final = 62
"""Maximum number of devices per node: the classes of a node's pods are bits of one 64-bit number."""

_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII).fullmatch


class GpuDemand(Struct, frozen=True):
    """A number of devices, an amount of each, and the accepted models; no model means any."""

    count: int
    milli: int
    models: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """The total request in thousandths of a GPU."""
        return self.count * self.milli

    @property
    def is_share(self) -> bool:
        """Whether it is a part of one device."""
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
    """Return the GPU request of a pod; ``None`` without one."""
    annotations = pod.metadata.annotations
    if not annotations or (GPU_COUNT not in annotations and GPU_MILLI not in annotations):
        return None
    return _read(annotations.get(GPU_COUNT), annotations.get(GPU_MILLI), annotations.get(GPU_MODEL, ""))


def readable_demand(pod: Pod) -> GpuDemand | None:
    """Return the GPU request of a pod; an invalid one counts as none."""
    demand = read_demand(pod)
    return demand if isinstance(demand, GpuDemand) else None


@cached(4096)
def _read(count: str | None, milli: str | None, models: str) -> GpuDemand | UnreadableDemand | None:
    devices = 1 if count is None else _number(count)
    if devices is None or devices > MAX_DEVICES:
        return _unreadable(GPU_COUNT, count, f"a number of devices from 0 to {MAX_DEVICES}")
    if devices == 0:
        return None
    each = WHOLE_GPU if milli is None else _number(milli)
    if each is None or not 1 <= each <= WHOLE_GPU:
        return _unreadable(GPU_MILLI, milli, f"thousandths of each device from 1 to {WHOLE_GPU}")
    accepted_models = tuple(sorted({model.strip() for model in models.split("|") if model.strip()}))
    if models.strip() and not accepted_models:
        return _unreadable(GPU_MODEL, models, "names of models joined by |, such as A100|H100")
    return GpuDemand(devices, each, accepted_models)


def _number(text: str) -> int | None:
    return int(text) if _NUMBER(text) else None


def _unreadable(key: str, text: str | None, correction: str) -> UnreadableDemand:
    return UnreadableDemand(f'annotation {key} is "{text}": write {correction}')


def devices_written(pod: Pod) -> tuple[int, ...]:
    """Return the devices in a pod's annotation; empty if it is missing or invalid."""
    annotations = pod.metadata.annotations
    text = annotations.get(GPU_DEVICES) if annotations else None
    return _devices(text) if text else ()


@cached(4096)
def _devices(text: str) -> tuple[int, ...]:
    numbers = [_number(part.strip()) for part in text.split(",")]
    devices = tuple(number for number in numbers if number is not None and number < MAX_DEVICES)
    return devices if len(devices) == len(numbers) and len({*devices}) == len(devices) else ()
