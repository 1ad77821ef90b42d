"""The resource use of the leading replica, sampled over its runs, and whether it grows."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.live.replicas import Replicas
from tests.live.scheduler import SchedulerProcess
from tests.soak.growth import Point, Slope, slope
from tests.soak.probing import Prober

SAMPLE_SECONDS: Final = 1.0
PAGE_SIZE: Final = 4096
MIB: Final = 1 << 20
MIN_SAMPLES: Final = 10


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity that may not grow, and its allowance over the second half."""

    name: str
    allowed: float


# The allowance for memory covers caches and the allocator in the minutes after a start, which is all that a short soak
# measures. Leaks by probes or pods would be larger: there are some thousand in three minutes.
MEMORY: Final = 16.0
HANDLES: Final = 8.0
QUANTITIES: Final = (
    Quantity("scheduler: memory, MiB", MEMORY),
    Quantity("scheduler: descriptors", HANDLES),
    Quantity("scheduler: tasks", HANDLES),
    Quantity("scheduler: threads", HANDLES),
    Quantity("supervisor: memory, MiB", MEMORY),
    Quantity("supervisor: descriptors", HANDLES),
    Quantity("supervisor: threads", HANDLES),
)


@dataclass(frozen=True, slots=True)
class Growth:
    """The change of a quantity over the second half."""

    quantity: Quantity
    first: float
    last: float
    slope: Slope
    seconds: float

    @property
    def is_too_much(self) -> bool:
        """Whether it grew by more than is allowed, even at the lower end of the confidence interval."""
        return self.slope.least * self.seconds > self.quantity.allowed


class Meter:
    """Samples the leader once a second; a life is one pair of processes."""

    def __init__(self, replicas: Replicas, ports: Sequence[int], prober: Prober) -> None:
        self.latest: dict[str, float] = {}
        self._replicas = replicas
        self._ports = ports
        self._prober = prober
        self._lives: defaultdict[str, defaultdict[int, list[Point]]] = defaultdict(lambda: defaultdict(list))

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            for port, replica in zip(self._ports, self._replicas.all, strict=True):
                if replica in self._replicas.leading():
                    await self._sample(port, replica)
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _sample(self, port: int, replica: SchedulerProcess) -> None:
        life, now = replica.pid, time.monotonic()
        tasks = await self._prober.tasks(port)
        try:
            ((child,),) = (replica.children(),)
            measured = dict([*_measured("scheduler", child), *_measured("supervisor", life)])
        except (OSError, ValueError):
            return  # it has just ended
        if tasks is not None:
            measured["scheduler: tasks"] = tasks
        self.latest = measured
        for name, value in measured.items():
            self._lives[name][life].append((now, value))

    def growth(self, start: float, warm_up: float) -> Iterator[Growth]:
        """Report growth after a point in time, without the start of each run."""
        for quantity in QUANTITIES:
            lives = [
                retained
                for life in self._lives[quantity.name].values()
                if len(retained := [at for at in life if at[0] >= max(start, life[0][0] + warm_up)]) >= MIN_SAMPLES
            ]
            if result := slope(lives):
                (began, first), (finished, last) = lives[0][0], lives[-1][-1]
                yield Growth(quantity, first, last, result, finished - began)


def _measured(name: str, pid: int) -> Iterator[tuple[str, float]]:
    process = Path("/proc", str(pid))
    yield f"{name}: memory, MiB", int((process / "statm").read_text().split()[1]) * PAGE_SIZE / MIB
    yield f"{name}: descriptors", len(list((process / "fd").iterdir()))
    yield f"{name}: threads", len(list((process / "task").iterdir()))
