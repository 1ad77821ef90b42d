"""Nodes with measured load, and the plugins that score them."""

import asyncio
from collections.abc import Mapping

from msgspec.structs import replace

from moorage.contrib.community.load_variation_risk_balancing import LoadVariationRiskBalancing
from moorage.contrib.community.measured_load import LoadPlugin, MeasuredLoad, Measurements
from moorage.contrib.community.target_load_packing import TargetLoadPacking
from moorage.kube.api.node import Node
from moorage.scheduler.config.contrib_args import LoadVariationRiskBalancingArgs, TargetLoadPackingArgs
from moorage.testing import make_node
from moorage.testing.rig import Rig

WATCHER = "http://127.0.0.1:9"


def node(name: str, cpu: str = "10", memory: str = "100") -> Node:
    base_node = make_node(name, allocatable={"cpu": cpu, "memory": memory, "pods": "110"})
    return replace(base_node, status=replace(base_node.status, capacity={"cpu": cpu, "memory": memory}))


def measure(plugin: LoadPlugin, loads: Mapping[str, MeasuredLoad], until: float) -> None:
    """Let the plugin fetch these measurements."""

    async def fetch() -> Measurements:
        return Measurements(dict(loads), until)

    plugin._source.polled._fetch = fetch
    asyncio.run(plugin._source.polled.refresh())


def packing(rig: Rig, **loads: MeasuredLoad) -> TargetLoadPacking:
    plugin = TargetLoadPacking(args=TargetLoadPackingArgs(watcher_address=WATCHER), handle=rig)
    measure(plugin, loads, rig.clock.wall())
    return plugin


def balancing(rig: Rig, args: LoadVariationRiskBalancingArgs, **loads: MeasuredLoad) -> LoadVariationRiskBalancing:
    plugin = LoadVariationRiskBalancing(args=replace(args, watcher_address=WATCHER), handle=rig)
    measure(plugin, loads, rig.clock.wall())
    return plugin
