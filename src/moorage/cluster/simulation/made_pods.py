"""The pods that workloads would have: made by their controllers before a scheduler has placed any."""

import asyncio
from dataclasses import replace
from typing import Final

from moorage.cluster.files.loading import ClusterInput
from moorage.cluster.files.workloads import controllers_for, selector_uids
from moorage.cluster.simulation.world import World
from moorage.cluster.virtual_time import run_virtual
from moorage.common.clock import VirtualClock
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates

SETTLED_SECONDS: Final = 3
"""When so many virtual seconds have brought no further pod, those there are are all."""


def with_made_pods(cluster: ClusterInput, features: FeatureGates) -> ClusterInput:
    """Add to a cluster what its controllers make of its workloads; no pod is placed, and none runs."""
    if not cluster.workloads:
        return cluster
    clock = VirtualClock(cluster.now)

    async def work() -> ClusterInput:
        controllers = controllers_for(cluster.objects, clock)
        hidden = selector_uids(cluster.objects)
        world = World(clock, features=features, controllers=controllers, hidden=hidden, has_kubelets=False)
        own = {thing.uid for thing in _stored(world)}
        for content in cluster.shaping:
            world.put_data(content)
        for thing in cluster.objects:
            world.store.put(thing)
        world.start_controllers()
        pods, quiet_for = 0, 0
        while quiet_for < SETTLED_SECONDS:
            await asyncio.sleep(1.0)
            now = sum(1 for _ in world.store.list(Pod))
            pods, quiet_for = now, quiet_for + 1 if now == pods else 0
        given = [thing.uid for thing in cluster.objects]
        stored = {thing.uid: thing for thing in _stored(world) if thing.uid not in own}
        kept = [stored.pop(uid) for uid in given if uid in stored]
        return replace(cluster, objects=(*kept, *stored.values()), refusals=world.refusals)

    return run_virtual(work(), clock)


def _stored(world: World) -> list[KubeObject]:
    return [thing for kind in BY_NAME.values() for thing in world.store.list(kind.type)]
