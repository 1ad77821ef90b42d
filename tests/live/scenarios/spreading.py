"""Topology spread constraints over nodes and zones."""

from collections import Counter
from typing import Any, Final

from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL
from tests.live.scenarios.scene import Data, Scene

ZONES: Final = {"a1": {ZONE_LABEL: "a"}, "a2": {ZONE_LABEL: "a"}, "b1": {ZONE_LABEL: "b"}}
WEB: Final = {"app": "web"}


async def zones_get_equal_numbers_of_pods(scene: Scene) -> None:
    await scene.nodes(ZONES)
    names = [f"web-{number}" for number in range(6)]
    for name in names:
        await scene.pod(name, labels=WEB, topologySpreadConstraints=[_constraint()])
    zones = Counter(ZONES[node][ZONE_LABEL] for node in await scene.nodes_of(*names))
    assert zones == {"a": 3, "b": 3}


async def excessive_skew_is_rejected(scene: Scene) -> None:
    await scene.nodes({"a1": {ZONE_LABEL: "a"}})
    await scene.node("b1", metadata={"labels": {ZONE_LABEL: "b"}}, resources={"pods": "1"})
    for name in ("web-0", "web-1", "web-2"):
        await scene.pod(name, labels=WEB, topologySpreadConstraints=[_constraint()])
        await scene.node_of(name)
    await scene.pod("web-3", labels=WEB, topologySpreadConstraints=[_constraint()])
    await scene.rejection("web-3", "1 Too many pods, 1 node(s) didn't match pod topology spread constraints.")


async def missing_domains_count_as_empty(scene: Scene) -> None:
    """With minDomains, the pods wait for a third zone once both zones have a pod."""
    await scene.nodes({"a1": {ZONE_LABEL: "a"}, "b1": {ZONE_LABEL: "b"}})
    for name in ("web-0", "web-1"):
        await scene.pod(name, labels=WEB, topologySpreadConstraints=[_constraint(minDomains=3)])
        await scene.node_of(name)
    await scene.pod("web-2", labels=WEB, topologySpreadConstraints=[_constraint(minDomains=3)])
    await scene.rejection("web-2", "0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints.")
    await scene.nodes({"c1": {ZONE_LABEL: "c"}})
    assert await scene.node_of("web-2") == "c1"


async def node_without_the_topology_label_is_infeasible(scene: Scene) -> None:
    await scene.node("nowhere")
    await scene.pod("web", labels=WEB, topologySpreadConstraints=[_constraint()])
    want = "1 node(s) didn't match pod topology spread constraints (missing required label)."
    await scene.rejection("web", f"0/1 nodes are available: {want}")


async def match_label_keys_restrict_spreading(scene: Scene) -> None:
    await scene.nodes({"a1": {ZONE_LABEL: "a"}, "b1": {ZONE_LABEL: "b"}})
    for number in range(2):
        old = {HOSTNAME_LABEL: "a1"}
        await scene.pod(f"old-{number}", labels={**WEB, "revision": "1"}, nodeSelector=old)
    await scene.nodes_of("old-0", "old-1")
    names = [f"new-{number}" for number in range(4)]
    for name in names:
        constraint = _constraint(matchLabelKeys=["revision"])
        await scene.pod(name, labels={**WEB, "revision": "2"}, topologySpreadConstraints=[constraint])
    assert Counter(await scene.nodes_of(*names)) == {"a1": 2, "b1": 2}


async def soft_constraint_is_followed_if_possible(scene: Scene) -> None:
    await scene.nodes({"a1": {ZONE_LABEL: "a"}})
    await scene.node("b1", metadata={"labels": {ZONE_LABEL: "b"}}, resources={"pods": "1"})
    soft = _constraint(whenUnsatisfiable="ScheduleAnyway")
    await scene.pod("web-0", labels=WEB, topologySpreadConstraints=[soft], nodeSelector={HOSTNAME_LABEL: "a1"})
    assert await scene.node_of("web-0") == "a1"
    for name in ("web-1", "web-2"):
        await scene.pod(name, labels=WEB, topologySpreadConstraints=[soft])
        await scene.node_of(name)
    assert await scene.nodes_of("web-1", "web-2") == ["b1", "a1"]


async def pods_of_a_service_are_spread_by_default(scene: Scene) -> None:
    """A pod is placed on the emptier node; a pod of the service on a node without pods of the service."""
    await scene.nodes({"a1": {}, "b1": {}})
    await scene.create("v1/services", "web", spec={"selector": WEB, "ports": [{"port": 80}]})
    await scene.pod("web-0", labels=WEB, nodeSelector={HOSTNAME_LABEL: "a1"})
    await scene.pod("ballast", requests={"cpu": "1", "memory": "2Gi"}, nodeSelector={HOSTNAME_LABEL: "b1"})
    await scene.nodes_of("web-0", "ballast")
    await scene.pod("stranger")
    assert await scene.node_of("stranger") == "a1"
    await scene.pod("web-1", labels=WEB)
    assert await scene.node_of("web-1") == "b1"


def _constraint(**more: Any) -> Data:
    return {
        "maxSkew": 1,
        "topologyKey": ZONE_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": WEB},
        **more,
    }
