"""Small trials for the tests of the lab."""

from typing import Any

from moorage.lab.cluster import LabCluster
from moorage.lab.cluster_files import NodePool, cluster_of_pools
from moorage.lab.conditions import Conditions
from moorage.lab.trace import Trace, TracePod
from moorage.lab.trial import PolicyText, Trial


def pool_cluster(count: int = 2, cpu: int = 4, **more: Any) -> LabCluster:
    """Make a cluster of one pool."""
    return cluster_of_pools("small", [NodePool("pool", count, cpu, "64Gi", **more)], "a test")


def trial_with(
    *pods: TracePod, cluster: LabCluster | None = None, config: str = "", seed: int = 1, **conditions: Any
) -> Trial:
    """Make a trial of some pods."""
    policy = PolicyText("policy", config)
    return Trial(Trace("trace", pods), cluster or pool_cluster(), policy, seed, Conditions(**conditions))


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
