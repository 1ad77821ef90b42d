"""The cache takes nodes and pods in any order, and always equals one that is built from nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from moorage.common.errors import CacheError
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.state.cache import Cache, NodeTree
from moorage.testing import make_node, make_pod

NODES = {name: make_node(name, zone=zone) for name, zone in (("n1", "a"), ("n2", "b"), ("n3", ""))}
PODS = {
    name: make_pod(name, uid=name, node=node, labels={"app": name}, requests={"cpu": cpu}, host_ports=ports)
    for name, node, cpu, ports in (
        ("p1", "n1", "1", ()),
        ("p2", "n1", "500m", (80,)),
        ("p3", "n2", "2", (80,)),
        ("p4", "n3", "250m", ()),
    )
}


def grown(pod: Pod) -> Pod:
    return make_pod(pod.name, uid=pod.uid, node=pod.node_name, labels={"app": "new"}, requests={"cpu": "3"})


def cpu(cache: Cache) -> dict[str, int]:
    return dict(zip(cache.nodes.names, cache.nodes.requested["cpu"].tolist(), strict=True))


STORIES: dict[str, tuple[Callable[[Cache], object], dict[str, int]]] = {
    "a pod on its node": (lambda c: (c.add_node(NODES["n1"]), c.add_pod(PODS["p1"])), {"n1": 1000}),
    "a pod before its node": (lambda c: (c.add_pod(PODS["p1"]), c.add_node(NODES["n1"])), {"n1": 1000}),
    "a pod on a node that is never added": (lambda c: c.add_pod(PODS["p1"]), {}),
    "a pod that leaves before its node is added": (
        lambda c: (c.add_pod(PODS["p1"]), c.remove_pod(PODS["p1"]), c.add_node(NODES["n1"])),
        {"n1": 0},
    ),
    "a pod that changes before its node is added": (
        lambda c: (c.add_pod(PODS["p1"]), c.update_pod(grown(PODS["p1"])), c.add_node(NODES["n1"])),
        {"n1": 3000},
    ),
    "a node deleted under its pods": (
        lambda c: (c.add_node(NODES["n1"]), c.add_node(NODES["n2"]), c.add_pod(PODS["p1"]), c.remove_node("n1")),
        {"n2": 0},
    ),
    "a node that is re-added to its pods": (
        lambda c: (c.add_node(NODES["n1"]), c.add_pod(PODS["p1"]), c.remove_node("n1"), c.add_node(NODES["n1"])),
        {"n1": 1000},
    ),
    "a node that is re-added after its pods left": (
        lambda c: (
            c.add_node(NODES["n1"]),
            c.add_pod(PODS["p1"]),
            c.remove_node("n1"),
            c.remove_pod(PODS["p1"]),
            c.add_node(NODES["n1"]),
        ),
        {"n1": 0},
    ),
    "an update of an unknown node": (lambda c: c.update_node(NODES["n1"]), {"n1": 0}),
    "a node added twice": (
        lambda c: (c.add_node(NODES["n1"]), c.add_pod(PODS["p1"]), c.add_node(NODES["n1"])),
        {"n1": 1000},
    ),
    "an assumption": (lambda c: (c.add_node(NODES["n1"]), c.assume(PODS["p1"])), {"n1": 1000}),
    "an assumption that is confirmed": (
        lambda c: (c.add_node(NODES["n1"]), c.assume(PODS["p1"]), c.add_pod(PODS["p1"])),
        {"n1": 1000},
    ),
    "an assumption that is confirmed elsewhere": (
        lambda c: (
            c.add_node(NODES["n1"]),
            c.add_node(NODES["n2"]),
            c.assume(PODS["p1"]),
            c.add_pod(PODS["p1"].on_node("n2")),
        ),
        {"n1": 0, "n2": 1000},
    ),
    "an assumption that is forgotten": (
        lambda c: (c.add_node(NODES["n1"]), c.assume(PODS["p1"]), c.forget(PODS["p1"])),
        {"n1": 0},
    ),
    "an assumption that is deleted": (
        lambda c: (c.add_node(NODES["n1"]), c.assume(PODS["p1"]), c.remove_pod(PODS["p1"])),
        {"n1": 0},
    ),
    "an unknown pod is forgotten": (lambda c: c.forget(PODS["p1"]), {}),
}


@pytest.mark.parametrize(("story", "want"), STORIES.values(), ids=STORIES)
def test_in_any_order(story: Callable[[Cache], object], want: dict[str, int]) -> None:
    cache = Cache()
    story(cache)
    assert cpu(cache) == want


@pytest.mark.parametrize("end", ["forget", "add_pod"])
def test_a_pod_that_is_counted_otherwise_is_still_assumed(end: str) -> None:
    """Devices may use CPU of the node: the requests of a pod are final after their allocation."""
    cache = Cache()
    cache.add_node(NODES["n1"])
    small = PODS["p1"]
    large = replace(small, spec=make_pod("p1", node=small.node_name, requests={"cpu": "3"}).spec)
    cache.assume(small)
    cache.recount(large)
    assert cache.is_assumed(large)
    getattr(cache, end)(large)
    assert not cache.is_assumed(large)


def test_only_a_confirmation_ends_an_assumption() -> None:
    cache = Cache()
    cache.add_node(NODES["n1"])
    cache.assume(PODS["p1"])
    assert cache.is_assumed(PODS["p1"])
    assert cache.assumed_count == 1
    cache.add_pod(PODS["p1"])
    assert not cache.is_assumed(PODS["p1"])
    assert (cache.assumed_count, cache.pod_count) == (0, 1)


def test_recounted_pod_remains_assumed() -> None:
    cache = Cache()
    cache.add_node(NODES["n1"])
    cache.assume(PODS["p1"])
    cache.recount(grown(PODS["p1"]))
    assert cpu(cache) == {"n1": 3000}
    assert cache.is_assumed(PODS["p1"])
    cache.forget(PODS["p1"])
    assert cpu(cache) == {"n1": 0}


REFUSED: dict[str, tuple[list[str], Callable[[Cache], None], str]] = {
    "assuming what is there": (["p1"], lambda c: c.assume(PODS["p1"]), "is in the cache, so can't be assumed"),
    "adding what is there": (["p1"], lambda c: c.add_pod(PODS["p1"]), "was already in added state"),
    "forgetting what was not assumed": (["p1"], lambda c: c.forget(PODS["p1"]), "was not assumed"),
    "updating what is not there": ([], lambda c: c.update_pod(PODS["p1"]), "is not added to the cache"),
    "removing what is not there": ([], lambda c: c.remove_pod(PODS["p1"]), "is not found in the cache"),
    "moving a pod": (["p1"], lambda c: c.update_pod(PODS["p1"].on_node("n2")), "moved from n1 to n2"),
    "removing a node that is not there": ([], lambda c: c.remove_node("n9"), "node n9 is not found in the cache"),
}


@pytest.mark.parametrize(("there", "act", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_changes_raise_and_leave_the_cache_unchanged(
    there: list[str], act: Callable[[Cache], None], message: str
) -> None:
    cache = Cache()
    for node in NODES.values():
        cache.add_node(node)
    for name in there:
        cache.add_pod(PODS[name])
    before = state(cache)
    with pytest.raises(CacheError, match=message):
        act(cache)
    assert state(cache) == before


def test_forgetting_on_another_node_is_rejected() -> None:
    cache = Cache()
    cache.assume(PODS["p1"])
    with pytest.raises(CacheError, match="was assumed on n1 but is forgotten on n2"):
        cache.forget(PODS["p1"].on_node("n2"))


STEPS = st.lists(
    st.tuples(st.sampled_from(["node", "cordon", "no node"]), st.sampled_from(sorted(NODES)))
    | st.tuples(st.sampled_from(["pod", "grow", "assume", "forget", "no pod"]), st.sampled_from(sorted(PODS))),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=200, deadline=None)
def test_incremental_cache_equals_a_rebuilt_cache(steps: list[tuple[str, str]]) -> None:
    cache, nodes, pods = Cache(), dict[str, Node](), dict[str, Pod]()
    for action, name in steps:
        take(cache, nodes, pods, action, name)
    fresh = Cache()
    for node in nodes.values():
        fresh.add_node(node)
    for pod in pods.values():
        fresh.add_pod(pod)
    assert state(cache) == state(fresh)


def take(cache: Cache, nodes: dict[str, Node], pods: dict[str, Pod], action: str, name: str) -> None:
    """Apply one step to the cache and to its expected content, if the step is possible."""
    match action:
        case "node" | "cordon":
            node = NODES[name]
            nodes[name] = replace(node, spec=replace(node.spec, unschedulable=action == "cordon"))
            cache.update_node(nodes[name])
        case "no node" if name in nodes:
            del nodes[name]
            cache.remove_node(name)
        case "pod" if name not in pods or cache.is_assumed(pods[name]):
            pods[name] = PODS[name]
            cache.add_pod(PODS[name])
        case "grow" if name in pods and not cache.is_assumed(pods[name]):
            pods[name] = grown(PODS[name])
            cache.update_pod(pods[name])
        case "assume" if name not in pods:
            pods[name] = PODS[name]
            cache.assume(PODS[name])
        case "forget" if name in pods and cache.is_assumed(pods[name]):
            del pods[name]
            cache.forget(PODS[name])
        case "no pod" if name in pods:
            cache.remove_pod(pods.pop(name))


def state(cache: Cache) -> dict[str, Any]:
    """Return all values of the columns, by node."""
    nodes = cache.nodes
    return {
        info.name: {
            "cpu": int(nodes.requested["cpu"][row]),
            "nonzero": int(nodes.nonzero_requested["cpu"][row]),
            "pods": int(nodes.pod_count[row]),
            "names": sorted(info.pods),
            "ports": nodes.host_ports[row],
            "cordoned": bool(nodes.unschedulable[row]),
            "zone": nodes.label("topology.kubernetes.io/zone")[row],
            "row": cache.columns.row_of[info.name] == row,
            "place": bool(cache.order[cache.places[row]] == row),
        }
        for row, info in enumerate(nodes)
    } | {"order": len(np.unique(cache.order)) == len(cache), "known": cache.pod_count}


IMAGES = ("web", "db")
Step = tuple[str, dict[str, int] | None]

steps = st.lists(
    st.tuples(
        st.sampled_from(("a", "b", "c", "d")),
        st.none() | st.dictionaries(st.sampled_from(IMAGES), st.just(100)),
    ),
    max_size=20,
)


@given(steps)
def test_images_match_the_current_nodes(history: list[Step]) -> None:
    cache = Cache()
    for name, images in history:
        for image in IMAGES:
            cache.nodes.holds_image(image)
        if images is not None:
            cache.add_node(make_node(name, images=images))
        elif cache.node(name) is not None:
            cache.remove_node(name)
    rebuilt = NodeTable.of(*cache.nodes)
    for image in IMAGES:
        assert cache.nodes.holds_image(image).tolist() == rebuilt.holds_image(image).tolist()
        cached, counted = cache.nodes.image(image), rebuilt.image(image)
        assert (cached and (cached.size, cached.node_count)) == (counted and (counted.size, counted.node_count))


CASES: dict[str, tuple[list[tuple[str, str]], Callable[[NodeTree], None], list[str]]] = {
    "no node": ([], lambda _: None, []),
    "one zone: in order of arrival": ([("c", "z"), ("a", "z"), ("b", "z")], lambda _: None, ["c", "a", "b"]),
    "zones take turns": (
        [("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a"), ("b2", "b"), ("c1", "c")],
        lambda _: None,
        ["a1", "b1", "c1", "a2", "b2", "a3"],
    ),
    "nodes without a zone are a zone": (
        [("n1", ""), ("a1", "a"), ("n2", "")],
        lambda _: None,
        ["n1", "a1", "n2"],
    ),
    "an emptied zone loses its turn": (
        [("a1", "a"), ("b1", "b"), ("b2", "b")],
        lambda tree: (tree.remove("a1"), tree.add(make_node("a2", zone="a")))[0],
        ["b1", "a2", "b2"],
    ),
    "a moved node is last in its new zone": (
        [("a1", "a"), ("a2", "a"), ("b1", "b")],
        lambda tree: tree.update(make_node("a1", zone="b")),
        ["a2", "b1", "a1"],
    ),
    "a node that remains keeps its place": (
        [("a1", "a"), ("a2", "a")],
        lambda tree: tree.update(make_node("a1", zone="a")),
        ["a1", "a2"],
    ),
}


@pytest.mark.parametrize(("nodes", "change", "order"), CASES.values(), ids=CASES)
def test_visiting_order(nodes: list[tuple[str, str]], change: Callable[[NodeTree], None], order: list[str]) -> None:
    tree = NodeTree()
    for name, zone in nodes:
        tree.add(make_node(name, zone=zone))
    change(tree)
    assert tree.names() == order
