"""Where episodes come from: generated traces, or a function that makes a trial of a seed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.kube.api.node import Node
from moorage.lab.cluster import LabCluster
from moorage.lab.cluster_files import make_lab_node
from moorage.lab.generating import generate
from moorage.lab.learn.episodes import EpisodeSource
from moorage.lab.trace import Trace
from moorage.lab.trial import PolicyText, Trial
from moorage.scheduler.wiring.policy import collect_plugins, load_policy

TrialOf = Callable[[int], Trial]
"""Makes the trial of a seed; its policy is ignored."""

SIZES: Final = ((8, 32), (16, 64), (32, 128))
"""Cores and GiB of generated nodes, in turn."""


def generated(preset: str, nodes: int, pods: int, load: float) -> TrialOf:
    """Return trials of a preset on nodes of three sizes; the pods request ``load`` times the capacity."""
    if nodes < 2 or pods < 1 or load <= 0:
        problem = f"{nodes} nodes, {pods} pods and a load of {load:g} leave nothing to choose"
        raise InputError("trials", problem, hint="give two nodes or more, a pod or more, and a load such as 1.2")
    cluster = LabCluster("generated", tuple(_node(index) for index in range(nodes)))
    milli = sum(1000 * SIZES[index % len(SIZES)][0] for index in range(nodes))

    def trial_of(seed: int) -> Trial:
        return Trial(at_load(generate(preset, seed, pods=pods), milli, load), cluster, PolicyText("learning"), seed)

    return trial_of


def _node(index: int) -> Node:
    cores, gib = SIZES[index % len(SIZES)]
    return make_lab_node(f"node-{index}", {"cpu": cores, "memory": f"{gib}Gi", "pods": 110}, labels={}, numbers={})


def at_load(trace: Trace, milli: int, load: float) -> Trace:
    """Compress the arrivals of a trace until the pods request ``load`` times the given CPU, in thousandths."""
    cpu_seconds = sum(pod.cpu_milli * (pod.runs or 0.0) for pod in trace.pods)
    last = max((pod.arrives for pod in trace.pods), default=0.0)
    if not cpu_seconds or not last:
        return trace
    factor = cpu_seconds / (milli * load) / last
    return replace(trace, pods=tuple(replace(pod, arrives=round(pod.arrives * factor, 3)) for pod in trace.pods))


def episode_source(trial_of: TrialOf, config: str | Path, plugins: Sequence[str]) -> EpisodeSource:
    """Put trials and the profile that filters nodes together."""
    policy = load_policy(collect_plugins(paths=plugins), config or None)
    cluster = trial_of(0).cluster
    return EpisodeSource(trial_of, policy, len(cluster.nodes) + sum(pool.scaling.at_most for pool in cluster.scaled))
