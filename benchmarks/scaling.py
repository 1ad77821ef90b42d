"""`make bench-scale`: measure how the cost of a pod, memory and the pause of a reload grow with the size of a cluster.

Each row runs in a separate process: a cluster of some size is filled, then batches of pods are scheduled by the engine
alone. The cost is that of the cheapest batch, because other programs only add to it. *Growth* compares two rows: 1 is
linear in the size, 0 does not depend on the size.
"""

import argparse
import asyncio
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.drain import Rig
from benchmarks.engine_workloads import (
    SMALL,
    WORKLOADS,
    Workload,
    bound_volume,
    identical,
    nodes_with_csi,
    plain_nodes,
    with_volume,
)
from benchmarks.live.charts import line_chart
from moorage.common.memory import freeze_gc
from moorage.kube.api.affinity import Affinity, PodAffinityTerm, PodAntiAffinity, TopologySpreadConstraint
from moorage.kube.api.meta import KubeObject, ObjectMeta
from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL
from moorage.kube.api.pod import Pod, SchedulingGate, SchedulingGroup
from moorage.kube.api.pod_groups import GangPolicy, PodGroup, PodGroupPolicy, PodGroupSpec
from moorage.kube.api.quantity import Quantity
from moorage.kube.api.selectors import LabelSelector
from moorage.kube.features import FeatureGates
from moorage.testing import make_node, make_pod

NODES: Final = (1_000, 3_000, 10_000, 30_000, 100_000)
NUMBERS: Final = (1, 10, 100, 1_000, 10_000)
FIXED_NODES: Final = 1_000
"""Number of nodes of sweeps over another number."""
BATCH: Final = 50
BATCHES: Final = 8
RELOADS: Final = 3
LINEAR: Final = 1.0


@dataclass(frozen=True, slots=True)
class Sweep:
    """A series of clusters that differ in one number: the nodes, objects that exist, and the pods that are measured."""

    title: str
    nodes: Callable[[int], Iterator[KubeObject]]
    pods: Callable[[int, int], Pod]
    """Makes a measured pod from its number and the size."""
    sizes: Sequence[int] = NUMBERS
    companions: Callable[[int], Iterator[KubeObject]] = lambda _number: iter(())
    waiting: Callable[[int], Iterator[KubeObject]] = lambda _size: iter(())
    """Makes the objects that exist or wait before the measurement."""
    gates: str = ""


def waiting_shapes(size: int) -> Iterator[KubeObject]:
    """Make pods with different requests that fit on no node."""
    return (make_pod(f"waiting-{number}", requests={"cpu": 100 + number}) for number in range(size))


def gated(size: int) -> Iterator[KubeObject]:
    """Make pods with a different scheduling gate each."""
    for number in range(size):
        yield make_pod(f"gated-{number}", scheduling_gates=(SchedulingGate(name=f"example.com/gate-{number}"),))


def incomplete_gangs(size: int) -> Iterator[KubeObject]:
    """Make gangs of two pods with one existing pod each."""
    for number in range(size):
        policy = PodGroupPolicy(gang=GangPolicy(min_count=2))
        yield PodGroup(
            ObjectMeta(name=f"g{number}", namespace="default", uid=f"g{number}"), PodGroupSpec(scheduling_policy=policy)
        )
        yield make_pod(f"member-{number}", scheduling_group=SchedulingGroup(pod_group_name=f"g{number}"))


def running(size: int) -> Iterator[KubeObject]:
    """Make running pods with a different label each."""
    for number in range(size):
        node = f"node-{number % FIXED_NODES}"
        yield make_pod(f"old-{number}", node=node, requests={"cpu": "10m"}, labels={"app": f"a{number}"})


def running_apart(size: int) -> Iterator[KubeObject]:
    """Make running pods, each with anti-affinity to another label."""
    for number in range(size):
        app = f"a{number}"
        node = f"node-{number % FIXED_NODES}"
        yield make_pod(f"old-{number}", node=node, requests={"cpu": "10m"}, labels={"app": app}, affinity=_apart(app))


def claims_in_use(size: int) -> Iterator[KubeObject]:
    """Make running pods with a volume each."""
    for number in range(10_000_000, 10_000_000 + size):
        yield from bound_volume(number)
        yield make_pod(f"old-{number}", node=f"node-{number % FIXED_NODES}", volumes=with_volume(number).spec.volumes)


def in_pools(size: int) -> Iterator[KubeObject]:
    """Make nodes with as many different labels."""
    shape: dict[str, Quantity] = {"cpu": 32, "memory": "256Gi", "pods": 250}
    for number in range(FIXED_NODES):
        yield make_node(f"node-{number}", labels={"pool": f"p{number % size}"}, allocatable=shape)


def _apart(app: str) -> Affinity:
    term = PodAffinityTerm(topology_key=HOSTNAME_LABEL, label_selector=LabelSelector(match_labels={"app": app}))
    return Affinity(pod_anti_affinity=PodAntiAffinity(required=(term,)))


def _evenly(number: int, size: int) -> Pod:
    app = {"app": f"a{number % size}"}
    constraint = TopologySpreadConstraint(
        max_skew=5,
        topology_key=ZONE_LABEL,
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels=app),
    )
    return make_pod(f"pod-{number}", requests=SMALL, labels=app, topology_spread_constraints=(constraint,))


def _labeled(number: int, size: int) -> Pod:
    return make_pod(f"pod-{number}", requests=SMALL, labels={"app": f"a{number % size}"})


def _selecting(number: int, size: int) -> Pod:
    return make_pod(f"pod-{number}", requests=SMALL, node_selector={"pool": f"p{number % size}"})


def _repelling(number: int, size: int) -> Pod:
    app = f"a{number % size}"
    return make_pod(f"pod-{number}", requests=SMALL, labels={"app": app}, affinity=_apart(app))


def _identical(number: int, _size: int) -> Pod:
    return identical(number)


def _fixed(_size: int) -> Iterator[KubeObject]:
    return plain_nodes(FIXED_NODES)


def _by_nodes(name: str) -> Sweep:
    workload = WORKLOADS[name]
    return Sweep(f"nodes, pods {name}", workload.cluster, lambda number, _size: workload.pods(number), NODES)


SWEEPS: Final[dict[str, Sweep]] = {
    **{f"nodes-{name}": _by_nodes(name) for name in ("identical", "own-shape", "anti-affinity", "spread-hard")},
    "shapes": Sweep("waiting pods of different shapes", _fixed, _identical, waiting=waiting_shapes),
    "gates": Sweep("gated pods with different gates", _fixed, _identical, waiting=gated),
    "groups": Sweep("incomplete groups", _fixed, _identical, waiting=incomplete_gangs, gates="GenericWorkload=true"),
    "labels": Sweep("different labels", _fixed, _labeled, waiting=running),
    "selectors": Sweep("different node selectors", in_pools, _selecting, (1, 10, 100, 1_000)),
    "anti-affinity": Sweep("different anti-affinity terms", _fixed, _repelling, waiting=running_apart),
    "spread": Sweep("different spread selectors", _fixed, _evenly, waiting=running),
    "claims": Sweep(
        "volume claims in use",
        lambda _size: nodes_with_csi(FIXED_NODES),
        lambda number, _size: with_volume(number),
        companions=bound_volume,
        waiting=claims_in_use,
    ),
}


def main() -> None:
    """Measure the selected sweeps, print a table, and write rows and plots."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sweeps", nargs="*", choices=[[], *SWEEPS], help="only these (default: all)")
    parser.add_argument("--most", type=int, default=max(NODES), help="largest size (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    parser.add_argument("--plots", type=Path, help="write plots to this directory")
    parser.add_argument("--one", nargs=2, metavar=("SWEEP", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, size = options.one
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            sys.stdout.write(json.dumps(runner.run(measured(name, int(size)))) + "\n")
        return
    rows = [
        _measured_apart(name, size)
        for name in options.sweeps or SWEEPS
        for size in SWEEPS[name].sizes
        if size <= options.most
    ]
    with_growth(rows)
    show(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if options.plots:
        write_plots(rows, options.plots)


async def measured(name: str, size: int) -> dict[str, Any]:
    """Measure one row in this process."""
    sweep = SWEEPS[name]
    workload = Workload(name, sweep.nodes, lambda number: sweep.pods(number, size), companions=sweep.companions)
    rig = Rig(workload, size, features=FeatureGates.parse(sweep.gates) if sweep.gates else None)
    for obj in sweep.waiting(size):
        rig.put(obj)
    await rig.drain()
    freeze_gc()
    best = math.inf
    for _ in range(BATCHES):
        rig.add(BATCH)
        began = time.process_time()
        await rig.drain()
        best = min(best, time.process_time() - began)
    assert rig.cluster.bound >= BATCH * BATCHES, f"{name}: {rig.cluster.bound} pods were bound"
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pause = min(_reload(rig) for _ in range(RELOADS))
    return {
        "sweep": name,
        "size": size,
        "us_per_pod": round(best / BATCH * 1e6, 1),
        "mib": round(rss, 1),
        "reload_ms": round(pause * 1e3, 1),
    }


def _reload(rig: Rig) -> float:
    profiles = rig.build_profiles()
    began = time.process_time()
    rig.scheduler.change_profiles(profiles)
    return time.process_time() - began


def with_growth(rows: Sequence[dict[str, Any]]) -> None:
    """Add to each row how the cost grew since the previous size of its sweep."""
    previous: dict[str, Any] = {}
    for row in rows:
        row["growth"] = growth(previous, row) if previous.get("sweep") == row["sweep"] else None
        previous = row


def growth(before: dict[str, Any], after: dict[str, Any]) -> float:
    """Return the exponent of the growth.

    >>> growth({"size": 10, "us_per_pod": 100.0}, {"size": 1000, "us_per_pod": 1000.0})
    0.5
    """
    return round(math.log(after["us_per_pod"] / before["us_per_pod"]) / math.log(after["size"] / before["size"]), 2)


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print the table."""
    table = Table("sweep", "size", "µs per pod", "MiB", "reload ms", "growth", "")
    for row in rows:
        numbers = (f"{row['size']:,}", f"{row['us_per_pod']:,}", f"{row['mib']:,}", f"{row['reload_ms']:,}")
        step = row["growth"]
        comment = "worse than linear" if step is not None and step > LINEAR else ""
        table.add_row(row["sweep"], *numbers, "" if step is None else f"{step}", comment)
    Console(width=110).print(table)


def write_plots(rows: Sequence[dict[str, Any]], directory: Path) -> None:
    """Write the plots of the page on growth: one for each measured value and kind of size."""
    for file, title, value, by_nodes in (
        ("scale-cpu-nodes", "Microseconds of CPU per pod", "us_per_pod", True),
        ("scale-memory-nodes", "Peak memory in MiB", "mib", True),
        ("scale-cpu-numbers", "Microseconds of CPU per pod, 1,000 nodes", "us_per_pod", False),
        ("scale-memory-numbers", "Peak memory in MiB, 1,000 nodes", "mib", False),
        ("scale-reload-numbers", "Pause of a reload in milliseconds, 1,000 nodes", "reload_ms", False),
    ):
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in rows:
            name = row["sweep"].removeprefix("nodes-")
            if (name != row["sweep"]) == by_nodes:
                lines.setdefault(name, []).append((row["size"], max(row[value], 0.1)))
        if lines:
            across = (
                "nodes" if by_nodes else "different waiting shapes, gates, groups, labels, selectors, terms, claims"
            )
            (directory / f"{file}.svg").write_text(line_chart(title, across, lines))


def _measured_apart(name: str, size: int) -> dict[str, Any]:
    sys.stderr.write(f"{SWEEPS[name].title}: {size:,}\n")
    command = [sys.executable, "-m", "benchmarks.scaling", "--one", name, str(size)]
    process = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    row: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return row


if __name__ == "__main__":
    main()
