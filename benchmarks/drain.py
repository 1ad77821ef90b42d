"""One measurement: a cluster, a queue full of pods, and the engine alone; bindings succeed immediately."""

import asyncio
import gc
import resource
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import uvloop

from benchmarks.engine_workloads import Workload
from moorage.cluster import InstantApi, OfflineScheduler
from moorage.common.clock import SystemClock
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.engine.profiles import Profiles
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.wiring.policy import Policy
from moorage.testing import make_pod

BATCH = 250


@dataclass(slots=True)
class Measurement:
    """The cost of a drain."""

    workload: str
    nodes: int
    existing_pods: int
    pods: int
    seconds: float
    rss_mib: float
    evicted: int = 0
    unplaced: int = 0

    def row(self) -> dict[str, Any]:
        """Return the row of the table, and of the JSON file."""
        return {
            "workload": self.workload,
            "nodes": self.nodes,
            "existing_pods": self.existing_pods,
            "pods": self.pods,
            "pods_per_second": round(self.pods / self.seconds, 1) if self.seconds else 0.0,
            "us_per_pod": round(self.seconds / self.pods * 1e6, 1) if self.pods else 0.0,
            "rss_mib": round(self.rss_mib, 1),
            "evicted": self.evicted,
            "unplaced": self.unplaced,
        }


class InstantCluster(InstantApi):
    """An API that completes each request immediately.

    With ``is_late``, victims leave only when the scheduler is idle, as with slow kubelets.
    """

    def __init__(self, *, is_late: bool = False) -> None:
        super().__init__(on_bound=self._count)
        self.bound = 0
        self.evicted = 0
        self.is_late = is_late
        self.leaving: deque[Pod] = deque()

    def _count(self, _pod: Pod) -> None:
        self.bound += 1

    async def delete(self, obj: KubeObject) -> None:
        """Delete a victim."""
        assert isinstance(obj, Pod)
        self.evicted += 1
        self.leaving.append(obj)
        if not self.is_late:
            self.finish_deletion()

    def finish_deletion(self) -> bool:
        """Report the deletion of the next victim, if there is one."""
        if self.leaving:
            self._report(self.leaving.popleft(), None)
            return True
        return False


def measure(
    workload: Workload, nodes: int, *, existing_pods: int = 0, seconds: float = 3.0, policy: Policy | None = None
) -> Measurement:
    """Fill a cluster, then schedule pods for about ``seconds``, optionally with another policy."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure(Rig(workload, nodes, policy), existing_pods, seconds))


async def _measure(rig: "Rig", existing_pods: int, seconds: float) -> Measurement:
    workload, nodes = rig.workload, rig.nodes
    for number in range(existing_pods):
        rig.scheduler.handlers.pod_added(
            make_pod(f"old-{number}", node=f"node-{number % nodes}", requests={"cpu": "10m"}, labels={"app": "old"})
        )
    gc.collect()
    gc.freeze()
    most = int(nodes * workload.most_pods_per_node)
    spent = 0.0
    while spent < seconds and rig.added < most:
        rig.add(BATCH)
        start = time.process_time()
        await rig.drain()
        spent += time.process_time() - start
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    unplaced = rig.added - rig.cluster.bound
    return Measurement(workload.name, nodes, existing_pods, rig.added, spent, rss, rig.cluster.evicted, unplaced)


class Rig:
    """The engine with a full cluster, ready to receive pods."""

    def __init__(
        self, workload: Workload, nodes: int, policy: Policy | None = None, features: FeatureGates | None = None
    ) -> None:
        features = features or FeatureGates()
        self.workload = workload
        self.nodes = nodes
        self.added = 0
        self.cluster = InstantCluster(is_late=workload.is_late)
        self._policy = Policy(
            policy.config if policy else default_config(gates=features),
            policy.registry if policy else Registry(IN_TREE),
            features,
        )
        self.offline = OfflineScheduler(self._policy, self.cluster, SystemClock())
        self.scheduler = self.offline.scheduler
        for obj in workload.cluster(nodes):
            self.put(obj)

    def add(self, pods: int) -> None:
        """Add the next pods to the queue."""
        for number in range(self.added, self.added + pods):
            for obj in self.workload.companions(number):
                self.put(obj)
            self.scheduler.handlers.pod_added(self.workload.pods(number))
        self.added += pods

    async def drain(self) -> None:
        """Schedule all queued pods."""
        while not await self.offline.settle() or self.cluster.finish_deletion():
            await asyncio.sleep(0)

    def put(self, obj: KubeObject) -> None:
        """Add an object to the cluster."""
        self.scheduler.handlers.apply(None, obj)

    def build_profiles(self) -> Profiles:
        """Build the profiles of the same configuration again."""
        return self.scheduler.build_profiles(self._policy.config, self._policy.registry)
