"""Small trials for the tests of the lab."""

from random import Random
from typing import Any

import msgspec

from moorage.lab.cluster import LabCluster, NodePool, Watts, build_cluster
from moorage.lab.experiment import ConfigurationEntry, changed_config
from moorage.lab.trace import Trace, TracePod
from moorage.lab.trial import Conditions, NodeFailures, PolicyText, Trial
from moorage.scheduler.config.expansion import expand_plugins
from moorage.scheduler.config.plugin_facts import KNOWN_PLUGINS
from moorage.scheduler.wiring.policy import collect_plugins, load_policy


def pool_cluster(count: int = 2, cpu: int = 4, **more: Any) -> LabCluster:
    """Make a cluster of one pool."""
    return build_cluster("small", [NodePool("pool", count, cpu, "64Gi", **more)], "a test")


def trial_with(
    *pods: TracePod, cluster: LabCluster | None = None, config: str = "", seed: int = 1, **conditions: Any
) -> Trial:
    """Make a trial of some pods."""
    policy = PolicyText("policy", config)
    return Trial(Trace("trace", pods), cluster or pool_cluster(), policy, seed, Conditions(**conditions))


def random_trial(seed: int) -> Trial:
    """Make a trial with GPUs, evictions, failed pods and, for odd seeds, failed nodes."""
    random = Random(seed)
    pods = [
        TracePod(
            f"p{number}",
            arrives=number * random.uniform(0, 20),
            runs=random.choice([None, 30.0, 400.0]),
            cpu_milli=random.choice([100, 1000, 3000]),
            memory_mib=random.choice([128, 4096]),
            gpus=(gpus := random.choice([0, 0, 1, 1, 2])),
            gpu_milli=1000 if gpus == 2 else random.choice([250, 600, 1000]) if gpus else 0,
            priority=random.choice([0, 0, 10]),
            fails=random.choice([0, 0, 1]),
        )
        for number in range(60)
    ]
    failing = NodeFailures(600.0, 60.0) if seed % 2 else None
    config = config_with(enabled=("GpuShare",), weights={"FGD": 2})
    return trial_with(
        *pods,
        cluster=pool_cluster(3, 8, gpus=4, price=1.5, watts=Watts(100, 300)),
        config=config,
        seed=seed,
        node_failures=failing,
    )


def config_with(**changes: Any) -> str:
    """Return the default configuration with changes."""
    return msgspec.json.encode(changed_config(ConfigurationEntry("x", **changes))).decode()


def read_score_weights(text: str) -> dict[str, int]:
    """Read a configuration as the scheduler does, and return the weights of its score plugins."""
    profile = load_policy(collect_plugins(), text).config.profiles[0]
    return dict(expand_plugins(profile, lambda name: KNOWN_PLUGINS[name].points).score_weights)


EXPERIMENT = """
name: small
traces: [{preset: mixed, pods: 30}]
clusters:
  - name: shared
    pools:
      - {name: general, count: 2, cpu: 8, memory: 32Gi, price: 0.5, watts: {idle: 100, busy: 300}}
      - {name: gpu, count: 1, cpu: 64, memory: 512Gi, gpus: 8, gpuModel: A100, price: 20}
configurations:
  - {name: default, enabled: [GpuShare]}
  - name: pack
    enabled: [GpuShare]
    args: {NodeResourcesFit: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}
seeds: 2
"""
