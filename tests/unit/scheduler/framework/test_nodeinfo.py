"""Rows are read-only: a plugin's accidental change would affect all plugins."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.kube.api.pod import HostPort
from moorage.scheduler.framework.nodeinfo import NodeInfo, PortTest, ports_conflict
from moorage.scheduler.state.cache import Cache
from moorage.testing import make_node, make_pod

POD = make_pod("p", node="n", requests={"cpu": "1"}, host_ports=[80])
OTHER = make_pod("q", requests={"cpu": "1"})

ATTEMPTS: dict[str, Callable[[Any], object]] = {
    "its pods": lambda node: node.pods.clear(),
    "a pod": lambda node: node.pods.pop(POD.uid),
    "its labels": lambda node: node.labels.update(zone="a"),
    "a label": lambda node: node.labels.__setitem__("zone", "a"),
    "what it can give": lambda node: node.allocatable.__setitem__("cpu", 1),
    "what is taken": lambda node: node.requested.__delitem__("cpu"),
    "its ports": lambda node: node.used_ports.clear(),
    "all pods together": lambda node: setattr(node, "pods", {}),
    "all labels together": lambda node: setattr(node, "labels", {}),
    "the node itself": lambda node: setattr(node, "node", make_node("m")),
    "its name": lambda node: setattr(node, "name", "m"),
    "its row": lambda node: setattr(node, "row", 7),
    "its version": lambda node: setattr(node, "version", 0),
    "what is treated as taken": lambda node: setattr(node, "nonzero_cpu", 0),
    "anything that is not there": lambda node: setattr(node, "note", 1),
    "by replacing the node": lambda node: node.replace_node(make_node("m")),
    "by moving it": lambda node: node.move_to(7),
    "by adding a pod": lambda node: node.add_pod(OTHER),
    "by removing a pod": lambda node: node.remove_pod(POD),
}


def row() -> NodeInfo:
    cache = Cache()
    cache.add_node(make_node("n", labels={"zone": "b"}))
    cache.add_pod(POD)
    info = cache.node("n")
    assert info is not None
    return info


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
def test_a_plugin_cannot_change(attempt: Callable[[Any], object]) -> None:
    node = row()
    before = described(node)
    with pytest.raises((TypeError, AttributeError)):
        attempt(node)
    assert described(node) == before


def test_copy_has_separate_pods() -> None:
    node = row()
    before = described(node)
    copy = node.copy()
    copy.add_pod(OTHER)
    copy.remove_pod(POD)
    assert {*copy.pods} == {OTHER.uid}
    assert (copy.requested["cpu"], {*copy.used_ports}) == (1000, set())
    assert described(node) == before


def described(node: NodeInfo) -> object:
    read = (node.pods, node.labels, node.allocatable, node.requested)
    plain = (node.node, node.name, node.row, node.version, node.nonzero_cpu, node.nonzero_memory)
    return [dict(part) for part in read], {*node.used_ports}, plain


def test_absent_resources_are_treated_as_zero() -> None:
    empty = NodeInfo(make_node("empty", allocatable={"cpu": 2}))
    pod = make_pod(requests={"memory": "1Gi"})
    for amounts in (empty.requested, empty.copy().requested, empty.allocatable, pod.requests, row().requested):
        assert amounts["nvidia.com/gpu"] == 0
        assert "nvidia.com/gpu" not in amounts
        assert amounts.get("nvidia.com/gpu") is None
    assert (empty.requested["cpu"], empty.allocatable["cpu"], pod.requests["cpu"]) == (0, 2000, 0)
    assert dict(empty.requested) == {} == empty.requested
    copy = empty.copy()
    copy.add_pod(pod)
    assert copy.requested == {"memory": 2**30}


PORTS = st.builds(
    HostPort, st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]), st.sampled_from(["TCP", "UDP"]), st.integers(1, 3)
)


@given(left=st.lists(PORTS, max_size=4).map(tuple), right=st.sets(PORTS, max_size=4))
def test_ports_conflict_if_any_two_do(left: tuple[HostPort, ...], right: set[HostPort]) -> None:
    want = any(
        one[1:] == other[1:] and (one.ip == other.ip or "0.0.0.0" in (one.ip, other.ip))
        for one in left
        for other in right
    )
    assert ports_conflict(left, right) == want
    assert PortTest(left).conflicts(right) == want
