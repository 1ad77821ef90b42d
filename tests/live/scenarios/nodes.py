"""Constraints of pods on nodes, and of nodes on pods."""

from typing import Final

from tests.live.scenarios.scene import Data, Scene

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


async def pod_with_a_node_name_runs_there(scene: Scene) -> None:
    """No scheduler is involved, but its requests reduce the free resources."""
    await scene.node("only")
    await scene.pod("pinned", nodeName="only", requests={"cpu": "3"})
    await scene.running("pinned")
    await scene.pod("other", requests={"cpu": "2"})
    await scene.rejection("other", "1 Insufficient cpu")


async def node_selector_restricts_nodes(scene: Scene) -> None:
    await scene.nodes({"hdd": {"disk": "hdd"}, "ssd": {"disk": "ssd"}})
    await scene.pod("fast", nodeSelector={"disk": "ssd"})
    await scene.pod("odd", nodeSelector={"disk": "tape"})
    assert await scene.node_of("fast") == "ssd"
    await scene.rejection("odd", "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.")


async def all_operators_of_node_affinity_match(scene: Scene) -> None:
    await scene.nodes({"a": {"size": "5", "zone": "east"}, "b": {"size": "20", "zone": "west", "spot": ""}})
    spec = {
        "in": (_expression("zone", "In", "west", "north"), "b"),
        "not-in": (_expression("zone", "NotIn", "west"), "a"),
        "exists": (_expression("spot", "Exists"), "b"),
        "does-not-exist": (_expression("spot", "DoesNotExist"), "a"),
        "gt": (_expression("size", "Gt", "10"), "b"),
        "lt": (_expression("size", "Lt", "10"), "a"),
        "field": ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}, "b"),
        "not-field": ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["b"]}]}, "a"),
    }
    for name, (term, _) in spec.items():
        await scene.pod(name, affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}})
    for name, (_, node) in spec.items():
        assert await scene.node_of(name) == node, name


async def one_matching_term_is_enough(scene: Scene) -> None:
    await scene.nodes({"a": {"zone": "east"}, "b": {"zone": "west"}})
    terms = [_expression("zone", "In", "north"), _expression("zone", "In", "west")]
    await scene.pod("web", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
    assert await scene.node_of("web") == "b"


async def preferred_node_is_chosen(scene: Scene) -> None:
    await scene.nodes({"a": {"zone": "east"}, "b": {"zone": "west"}})
    await scene.seen("a", "b")
    for name, zone in (("first", "west"), ("second", "east")):
        wish = {"weight": 100, "preference": _expression("zone", "In", zone)}
        await scene.pod(name, affinity={"nodeAffinity": {PREFERRED: [wish]}})
    assert await scene.nodes_of("first", "second") == ["b", "a"]


async def untolerated_taints_repel_pods(scene: Scene) -> None:
    await scene.node("only", spec={"taints": [_taint("team", "red", "NoSchedule"), _taint("slow", "", "NoExecute")]})
    slow = {"key": "slow", "operator": "Exists"}
    tolerant = {
        "equal": [{"key": "team", "operator": "Equal", "value": "red", "effect": "NoSchedule"}, slow],
        "exists": [{"key": "team", "operator": "Exists"}, slow],
        "everything": [{"operator": "Exists"}],
    }
    intolerant = {
        "nothing": [],
        "other-value": [{"key": "team", "value": "blue"}, slow],
        "other-effect": [{"key": "team", "operator": "Exists", "effect": "NoExecute"}, slow],
    }
    for name, tolerations in (tolerant | intolerant).items():
        await scene.pod(name, tolerations=tolerations)
    for name in tolerant:
        assert await scene.node_of(name) == "only"
    for name in intolerant:
        await scene.rejection(name, "0/1 nodes are available: 1 node(s) had untolerated taint(s).")


async def node_with_a_prefer_no_schedule_taint_is_avoided(scene: Scene) -> None:
    await scene.node("avoided", spec={"taints": [_taint("old", "", "PreferNoSchedule")]})
    await scene.node("liked")
    await scene.seen("avoided", "liked")
    await scene.pod("picky")
    assert await scene.node_of("picky") == "liked"
    await scene.delete("v1/nodes", "liked")
    await scene.gone("liked", "v1/nodes")
    await scene.pod("content")
    assert await scene.node_of("content") == "avoided"


async def host_port_is_used_once(scene: Scene) -> None:
    await scene.node("only")
    await scene.pod("tcp", container=_port(hostPort=8080))
    assert await scene.node_of("tcp") == "only"
    await scene.pod("udp", container=_port(hostPort=8080, protocol="UDP"))
    await scene.pod("other", container=_port(hostPort=8081))
    await scene.nodes_of("udp", "other")
    for name, port in (("same", _port(hostPort=8080)), ("same-address", _port(hostPort=8080, hostIP="127.0.0.1"))):
        await scene.pod(name, container=port)
        await scene.rejection(name, "1 node(s) didn't have free ports for the requested pod ports.")


async def host_ports_of_different_addresses_do_not_conflict(scene: Scene) -> None:
    await scene.node("only")
    await scene.pod("one", container=_port(hostPort=8080, hostIP="127.0.0.1"))
    await scene.pod("two", container=_port(hostPort=8080, hostIP="127.0.0.2"))
    assert await scene.nodes_of("one", "two") == ["only", "only"]


def _expression(key: str, operator: str, *values: str) -> Data:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": values} if values else {})}]}


def _taint(key: str, value: str, effect: str) -> Data:
    return {"key": key, "value": value, "effect": effect}


def _port(**port: object) -> Data:
    return {"ports": [{"containerPort": 80, **port}]}
