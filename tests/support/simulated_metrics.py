"""The metrics of simulated clusters, as values that tests can compare."""

import asyncio
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from prometheus_client import CollectorRegistry
from tests.support.exposing import exposing

from moorage.cluster.simulation.simulated_cluster import Fault, SimulatedCluster, no_faults
from moorage.cluster.simulation.simulation import Simulation
from moorage.common.clock import VirtualClock
from moorage.common.observers import Observer
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.meta import KubeObject
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.instruments import Instruments, read_process, read_scheduler
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.wiring.policy import Policy
from moorage.testing.builders import make_node, make_pod


class AlwaysSampling(Random):
    """Draws zero, so every cycle is sampled."""

    def random(self) -> float:
        return 0.0


def simulate(
    objects: Iterable[KubeObject],
    *,
    later: Iterable[KubeObject] = (),
    fault: Fault = no_faults,
    observers: Sequence[Observer] = (),
    clock: VirtualClock | None = None,
) -> CellRegistry:
    """Schedule a cluster, add the later objects after a second, and return the metrics."""
    clock, cells = clock or VirtualClock(), CellRegistry()
    instruments = Instruments(cells, clock, AlwaysSampling())

    async def work() -> Simulation:
        world = SimulatedCluster(clock, fault=fault)
        simulation = Simulation(
            world,
            Policy(default_config(), Registry(IN_TREE), FeatureGates()),
            observers=(*observers, *instruments.observers),
        )
        instruments.sampler.watch(placement.profile for placement in simulation.scheduler.runners.values())
        simulation.load(objects)
        world.start_watching(simulation.loop)
        asyncio.get_running_loop().call_later(1.0, lambda: world.add(*later))
        await simulation.run_until_quiet(max_seconds=20.0)
        await asyncio.sleep(2.0)
        await simulation.run_until_quiet(max_seconds=20.0)
        return simulation

    simulation = run_virtual(work(), clock)
    read_scheduler(cells, simulation.scheduler)
    read_process(cells, FeatureGates())
    return cells


def scheduled(objects: Iterable[KubeObject], **options: Any) -> CollectorRegistry:
    """Schedule a cluster and return the exposed metrics."""
    return exposing(simulate(objects, **options))


def value(registry: CollectorRegistry, name: str, /, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


PROFILE = "default-scheduler"
BUSY = [
    make_node("n1"),
    make_node("n2"),
    make_pod("small", requests={"cpu": "1"}),
    make_pod("other", requests={"cpu": "1"}),
    make_pod("huge", requests={"cpu": "100"}),
]


def read_samples(cells: CellRegistry, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a counter or gauge by label values."""
    cells.fold()
    family = cells[name].family()
    labels = cells[name].spec.labels
    return {} if family is None else {tuple(s.labels[label] for label in labels): s.value for s in family.samples}


def read_buckets(cells: CellRegistry, name: str) -> dict[tuple[str, ...], tuple[list[float], float]]:
    """Return the cumulative counts and the sum of each histogram by label values."""
    family, spec = cells[name].family(), cells[name].spec
    buckets: dict[tuple[str, ...], tuple[list[float], float]] = {}
    for sample in family.samples if family is not None else ():
        key = tuple(sample.labels[label] for label in spec.labels)
        counts, _ = buckets.setdefault(key, ([], 0.0))
        if sample.name.endswith("_bucket"):
            counts.append(sample.value)
        elif sample.name.endswith("_sum"):
            buckets[key] = counts, sample.value
    return {key: (counts, total) for key, (counts, total) in buckets.items() if counts[-1]}
