"""Random latencies for every call and every watch event."""

from random import Random


class RandomPace:
    """A :class:`~moorage.cluster.simulation.simulated_cluster.Pace` with a different latency each time.

    ``scale`` is the average duration of a call. Watches lag behind responses by zero to several calls.
    """

    def __init__(self, chance: Random, scale: float) -> None:
        self._chance = chance
        self._scale = scale

    @property
    def bind(self) -> float:
        return self._chance.expovariate(1) * self._scale

    @property
    def write(self) -> float:
        return self._chance.expovariate(1) * self._scale

    @property
    def watch(self) -> float:
        return self._chance.expovariate(1) * self._scale * self._chance.choice((0.1, 1, 3))

    @property
    def start_container(self) -> float:
        return self._chance.random()

    @property
    def stop_container(self) -> float:
        return self._chance.random() * 3

    run = None
    run_job = None
