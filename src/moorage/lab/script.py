"""The events of a trial before scheduling: the trace, as changed by conditions and seed."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.lab.cluster import LabCluster
from moorage.lab.ledger import CPU, GPU, UsageLedger
from moorage.lab.trace import NodeOutage, TracePod
from moorage.lab.trial import Trial

MAX_CLONES: Final = 10_000_000


def make_random(seed: int, purpose: str) -> Random:
    """Return a generator for one purpose, which draws for other purposes do not affect."""
    return Random(f"{seed}/{purpose}")


def arrange_pods(trial: Trial) -> list[TracePod]:
    """Return the pods in the order of their arrival; with ``arrivals_only``, one per second."""
    random, conditions = make_random(trial.seed, "order"), trial.conditions
    pods = list(trial.trace.pods)
    if conditions.shuffle:
        moments = sorted(pod.arrives for pod in pods)
        random.shuffle(pods)
        pods = [replace(pod, arrives=moment) for pod, moment in zip(pods, moments, strict=True)]
    else:
        pods.sort(key=lambda pod: pod.arrives)
    if conditions.inflate is not None:
        pods += _clones(pods, trial.cluster, conditions.inflate, random)
    if conditions.arrivals_only:
        return [replace(pod, arrives=float(index), runs=None, fails=0) for index, pod in enumerate(pods)]
    return pods


def measure_capacity(cluster: LabCluster) -> tuple[int, int]:
    """Return the capacity of a cluster and its resource: GPUs if it has any, otherwise CPU."""
    ledger = UsageLedger()
    for node in cluster.nodes:
        ledger.add_node(node)
    resource = GPU if ledger.total[GPU] else CPU
    return ledger.total[resource], resource


def find_request(pod: TracePod, resource: int) -> int:
    """Return the request of a pod for this resource."""
    return pod.gpu_request if resource == GPU else pod.cpu_milli


def _clones(pods: Sequence[TracePod], cluster: LabCluster, share: float, random: Random) -> Iterator[TracePod]:
    total, resource = measure_capacity(cluster)
    requested = sum(find_request(pod, resource) for pod in pods)
    if not requested:
        problem = (
            f"no pod of the trace requests {'GPUs' if resource == GPU else 'CPU'}, so clones never reach the share"
        )
        raise InputError("options.inflate", problem, hint="remove inflate, or use another trace or cluster")
    last = max(pod.arrives for pod in pods)
    for number in range(MAX_CLONES):
        if requested >= share * total:
            return
        template = pods[random.randrange(len(pods))]
        requested += find_request(template, resource)
        yield replace(template, name=f"{template.name}-clone-{number}", arrives=last)


def arrange_outages(trial: Trial, until: float) -> list[NodeOutage]:
    """Return the node failures: those of the trace, and random ones until the last arrival."""
    outages, failures = list(trial.trace.outages), trial.conditions.node_failures
    if failures is not None:
        random, rate = make_random(trial.seed, "failures"), 1 / failures.mean_seconds_between
        for node in trial.cluster.nodes:
            moment = random.expovariate(rate)
            while moment < until:
                repaired = moment + failures.repair_seconds
                outages.append(NodeOutage(node.name, moment, repaired))
                moment = repaired + random.expovariate(rate)
    return sorted(outages, key=lambda outage: (outage.down, outage.node))
