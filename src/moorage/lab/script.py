"""The events of a trial before scheduling: the trace, as changed by conditions and seed."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.lab.cluster import LabCluster
from moorage.lab.conditions import Conditions, NodeFailures
from moorage.lab.ledger import CPU, GPU, UsageLedger
from moorage.lab.trace import NodeOutage, Trace, TracePod

MAX_CLONES: Final = 10_000_000


def chance_of(seed: int, purpose: str) -> Random:
    """Return randomness for one purpose: what another purpose draws does not change it."""
    return Random(f"{seed}/{purpose}")


def pods_of(trace: Trace, cluster: LabCluster, conditions: Conditions, seed: int) -> list[TracePod]:
    """Return the pods that arrive, in their order; those that come one after another come a second apart."""
    chance = chance_of(seed, "order")
    pods = list(trace.pods)
    if conditions.shuffle:
        moments = sorted(pod.arrives for pod in pods)
        chance.shuffle(pods)
        pods = [replace(pod, arrives=moment) for pod, moment in zip(pods, moments, strict=True)]
    else:
        pods.sort(key=lambda pod: pod.arrives)
    if conditions.inflate is not None:
        pods += _clones(pods, cluster, conditions.inflate, chance)
    if conditions.arrivals_only:
        return [replace(pod, arrives=float(index), runs=None, fails=0) for index, pod in enumerate(pods)]
    return pods


def measure_capacity(cluster: LabCluster) -> tuple[int, int]:
    """Return how much there is to give away and of which resource: GPUs if there are some, else CPU."""
    ledger = UsageLedger()
    for node in cluster.nodes:
        ledger.add_node(node)
    resource = GPU if ledger.total[GPU] else CPU
    return ledger.total[resource], resource


def asked_by(pod: TracePod, resource: int) -> int:
    """Return the request of a pod for this resource."""
    return pod.gpu_asked if resource == GPU else pod.cpu_milli


def _clones(pods: Sequence[TracePod], cluster: LabCluster, share: float, chance: Random) -> Iterator[TracePod]:
    total, resource = measure_capacity(cluster)
    requested = sum(asked_by(pod, resource) for pod in pods)
    if not requested:
        problem = (
            f"no pod of the trace requests any {'GPU' if resource == GPU else 'CPU'}, so clones would never reach it"
        )
        raise InputError("options.inflate", problem, hint="leave inflate out, or use another trace or cluster")
    last = max(pod.arrives for pod in pods)
    for number in range(MAX_CLONES):
        if requested >= share * total:
            return
        template = pods[chance.randrange(len(pods))]
        requested += asked_by(template, resource)
        yield replace(template, name=f"{template.name}-clone-{number}", arrives=last)


def outages_of(trace: Trace, cluster: LabCluster, conditions: Conditions, seed: int, until: float) -> list[NodeOutage]:
    """Return the node failures: those of the trace, and random ones until the last arrival."""
    outages = list(trace.outages)
    if conditions.node_failures is not None:
        outages += _failures(cluster, conditions.node_failures, chance_of(seed, "failures"), until)
    return sorted(outages, key=lambda outage: (outage.down, outage.node))


def _failures(cluster: LabCluster, failures: NodeFailures, chance: Random, until: float) -> Iterator[NodeOutage]:
    for node in cluster.nodes:
        moment = chance.expovariate(1 / failures.mean_seconds_between)
        while moment < until:
            back = moment + failures.repair_seconds
            yield NodeOutage(node.name, moment, back)
            moment = back + chance.expovariate(1 / failures.mean_seconds_between)
