"""Pod affinity and anti-affinity."""

from typing import Any, Final

from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL
from tests.live.scenarios.scene import Data, Scene

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
ZONES: Final = {"a1": {ZONE_LABEL: "a"}, "a2": {ZONE_LABEL: "a"}, "b1": {ZONE_LABEL: "b"}}


async def affinity_selects_the_zone_of_another_pod(scene: Scene) -> None:
    await scene.nodes(ZONES)
    await scene.pod("cache", labels={"app": "cache"}, nodeSelector={HOSTNAME_LABEL: "b1"})
    await scene.node_of("cache")
    await scene.pod("web", affinity=_near("app", "cache"))
    assert await scene.node_of("web") == "b1"


async def pod_without_a_matching_pod_is_unschedulable(scene: Scene) -> None:
    """The other pod appears later."""
    await scene.nodes(ZONES)
    await scene.pod("web", affinity=_near("app", "cache"))
    await scene.rejection("web", "0/3 nodes are available: 3 node(s) didn't match pod affinity rules.")
    await scene.pod("cache", labels={"app": "cache"}, nodeSelector={HOSTNAME_LABEL: "b1"})
    assert await scene.node_of("web") == "b1"


async def first_pod_with_affinity_to_itself_starts(scene: Scene) -> None:
    await scene.nodes({"a1": {ZONE_LABEL: "a"}, "b1": {ZONE_LABEL: "b"}})
    for name in ("first", "second", "third"):
        await scene.pod(name, labels={"app": "group"}, affinity=_near("app", "group"))
    assert len(set(await scene.nodes_of("first", "second", "third"))) == 1


async def anti_affinity_separates_pods(scene: Scene) -> None:
    """Three nodes in two zones have space for two pods."""
    await scene.nodes(ZONES)
    for name in ("first", "second", "third"):
        await scene.pod(name, labels={"app": "db"}, affinity=_far("app", "db"))

    async def placed() -> set[str] | None:
        selected = {pod.name for pod in (await scene.pods()).values() if pod.node_name}
        return selected if len(selected) == 2 else None

    bound = await scene.until("two are bound", placed)
    (remaining,) = {"first", "second", "third"} - bound
    await scene.rejection(remaining, "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.")
    zones = {ZONES[node][ZONE_LABEL] for node in await scene.nodes_of(*bound)}
    assert zones == {"a", "b"}


async def anti_affinity_of_existing_pods_applies(scene: Scene) -> None:
    await scene.nodes({"a1": {ZONE_LABEL: "a"}})
    await scene.pod("loner", affinity=_far("app", "web"))
    await scene.node_of("loner")
    await scene.pod("web", labels={"app": "web"})
    await scene.rejection("web", "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.")


async def affinity_selects_other_namespaces(scene: Scene) -> None:
    await scene.nodes(ZONES)
    other = f"{scene.namespace}-friends"
    await scene.create("v1/namespaces", other, metadata={"labels": {"team": scene.namespace}})
    await scene.pod("cache", namespace=other, labels={"app": "cache"}, nodeSelector={HOSTNAME_LABEL: "b1"})
    await scene.node_of("cache", other)
    teams = {"namespaceSelector": {"matchLabels": {"team": scene.namespace}}}
    await scene.pod("selected", affinity=_near("app", "cache", **teams))
    await scene.pod("named", affinity=_near("app", "cache", namespaces=[other]))
    await scene.pod("lost", affinity=_near("app", "cache"))
    assert await scene.nodes_of("selected", "named") == ["b1", "b1"]
    await scene.rejection("lost")


async def match_label_keys_restrict_anti_affinity(scene: Scene) -> None:
    """Labels in matchLabelKeys narrow the pods that a pod avoids."""
    await scene.nodes({"a1": {ZONE_LABEL: "a"}})
    for revision in ("1", "2"):
        apart = _far("app", "web", matchLabelKeys=["revision"])
        await scene.pod(f"web-{revision}", labels={"app": "web", "revision": revision}, affinity=apart)
    assert await scene.nodes_of("web-1", "web-2") == ["a1", "a1"]
    await scene.pod("web-2-again", labels={"app": "web", "revision": "2"}, affinity=apart)
    await scene.rejection("web-2-again")


async def mismatch_label_keys_separate_tenants(scene: Scene) -> None:
    """Labels in mismatchLabelKeys are those of other pods."""
    await scene.nodes({"a1": {ZONE_LABEL: "a"}, "b1": {ZONE_LABEL: "b"}})
    await scene.pod("theirs", labels={"tenant": "x", "app": "web"}, nodeSelector={HOSTNAME_LABEL: "a1"})
    await scene.node_of("theirs")
    apart = _far("app", "web", mismatchLabelKeys=["tenant"])
    for name in ("ours-1", "ours-2"):
        await scene.pod(name, labels={"tenant": "y", "app": "web"}, affinity=apart)
    assert await scene.nodes_of("ours-1", "ours-2") == ["b1", "b1"]


async def preferred_affinity_attracts(scene: Scene) -> None:
    await scene.nodes(ZONES)
    await scene.pod("cache", labels={"app": "cache"}, nodeSelector={HOSTNAME_LABEL: "b1"})
    await scene.node_of("cache")
    wish = {"weight": 100, "podAffinityTerm": _term("app", "cache")}
    await scene.pod("web", affinity={"podAffinity": {PREFERRED: [wish]}})
    assert await scene.node_of("web") == "b1"


async def preferred_anti_affinity_repels(scene: Scene) -> None:
    await scene.nodes({"a1": {ZONE_LABEL: "a"}, "b1": {ZONE_LABEL: "b"}})
    await scene.pod("there", labels={"app": "db"}, nodeSelector={HOSTNAME_LABEL: "b1"})
    # Without the repelled pod, the other node would be worse.
    await scene.pod("ballast", requests={"cpu": "1", "memory": "2Gi"}, nodeSelector={HOSTNAME_LABEL: "a1"})
    await scene.nodes_of("there", "ballast")
    wish = {"weight": 100, "podAffinityTerm": _term("app", "db")}
    await scene.pod("db", labels={"app": "db"}, affinity={"podAntiAffinity": {PREFERRED: [wish]}})
    assert await scene.node_of("db") == "a1"


def _term(key: str, value: str, **more: Any) -> Data:
    return {"labelSelector": {"matchLabels": {key: value}}, "topologyKey": ZONE_LABEL, **more}


def _near(key: str, value: str, **more: Any) -> Data:
    return {"podAffinity": {REQUIRED: [_term(key, value, **more)]}}


def _far(key: str, value: str, **more: Any) -> Data:
    return {"podAntiAffinity": {REQUIRED: [_term(key, value, **more)]}}
