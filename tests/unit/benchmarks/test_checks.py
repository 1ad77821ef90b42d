from collections.abc import Sequence
from typing import Any

import pytest
from benchmarks.live import workload
from benchmarks.live.checks import CHECKS, State
from msgspec.structs import replace
from tests.support.groups import gang, member

from moorage.kube.api.affinity import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from moorage.kube.api.devices import (
    AllocationResult,
    ClaimConsumer,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from moorage.kube.api.meta import Condition, ObjectMeta
from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL
from moorage.kube.api.pod import Pod, PodResourceClaim, PodStatus
from moorage.kube.api.selectors import LabelSelector
from moorage.testing import make_node, make_pod
from moorage.testing.storage import claim_volume, make_csi_node

NODES = (
    make_node("a", zone="1", allocatable={"cpu": 4, "pods": 3}),
    make_node("b", zone="1", allocatable={"cpu": 4, "pods": 3}),
    make_node("c", zone="2", allocatable={"cpu": 4, "pods": 3}, taints=[Taint("team", "", "NoSchedule")]),
)
WEB = {"app": "web"}


def term(key: str) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels=WEB))


def web(name: str, node: str, **more: Any) -> Pod:
    return make_pod(name, node=node, labels=WEB, **{"tolerates": [Toleration("team", "Exists")], **more})


def apart(name: str, node: str) -> Pod:
    return web(name, node, affinity=Affinity(pod_anti_affinity=PodAntiAffinity(required=(term(HOSTNAME_LABEL),))))


def together(name: str, node: str) -> Pod:
    return web(name, node, affinity=Affinity(pod_affinity=PodAffinity(required=(term(ZONE_LABEL),))))


def even(name: str, node: str) -> Pod:
    selector = LabelSelector(match_labels=WEB)
    constraint = TopologySpreadConstraint(1, ZONE_LABEL, "DoNotSchedule", selector)
    return web(name, node, topology_spread_constraints=(constraint,))


def reported(name: str) -> Pod:
    return make_pod(name, status=PodStatus(conditions=(Condition("PodScheduled", "False", "Unschedulable"),)))


CASES: dict[str, tuple[Sequence[Pod], int, str]] = {
    "all is well": ([web("x", "a"), web("y", "c")], 2, ""),
    "a pod that is not bound": ([web("x", "a"), web("y", "")], 2, "1 pods are bound and 0 reported"),
    "a reported pod that should be bound": ([reported("x")], 1, "0 pods are bound and 1 reported"),
    "pods that ran before do not count": ([web("running-1", "a"), web("x", "a")], 1, ""),
    "a node that never was": ([web("x", "z")], 1, "which does not exist"),
    "a node that was added and removed": ([web("x", "churn-7")], 1, ""),
    "too much CPU": ([web(n, "a", requests={"cpu": 3}) for n in "xy"], 2, "a is over capacity: 6000 of 4000 cpu"),
    "too many pods": ([web(n, "a") for n in "wxyz"], 4, "a is over capacity: 4 of 3 pods"),
    "the wrong node": ([web("x", "a", node_selector={ZONE_LABEL: "2"})], 1, "does not want to be on a"),
    "a taint that is not tolerated": ([web("x", "c", tolerates=[])], 1, "does not tolerate"),
    "sisters on different hosts": ([apart("x", "a"), apart("y", "b")], 2, ""),
    "sisters on one host": ([apart("x", "a"), apart("y", "a")], 2, "shares kubernetes.io/hostname a"),
    "friends in one zone": ([together("x", "a"), together("y", "b")], 2, ""),
    "a lonely friend": ([together("x", "a"), together("y", "c")], 2, "without company"),
    "the first friend is alone": ([together("x", "a")], 1, ""),
    "an even spread": ([even("x", "a"), even("y", "c"), even("z", "b")], 3, ""),
    "an uneven spread": ([even("x", "a"), even("y", "b")], 2, "0 to 2 pods in a topology.kubernetes.io/zone"),
}


def problems(state: State) -> list[str]:
    return [problem for check in CHECKS for problem in check(state)]


def work(bound: int) -> workload.Workload:
    return workload.load("basic", len(NODES), bound)


@pytest.mark.parametrize(("pods", "bound", "want"), CASES.values(), ids=CASES)
def test_problems_are_reported(pods: Sequence[Pod], bound: int, want: str) -> None:
    messages = problems(State(work(bound), pods, NODES))
    assert any(want in problem for problem in messages) if want else not messages


def test_more_volumes_than_a_node_can_hold() -> None:
    pods = [web(name, "a", volumes=(claim_volume(f"claim-{name}"),)) for name in "xy"]
    few = make_csi_node("a", limits={"csi.example.com": 1})
    assert problems(State(work(2), pods, NODES, [few])) == ["a has 2 volumes, and can hold 1"]


def test_device_allocated_twice_or_on_another_node() -> None:
    def claim(name: str, pod: Pod) -> ResourceClaim:
        result = DeviceRequestAllocationResult(request="gpu", driver="gpu.example.com", pool="a", device="gpu-0")
        allocation = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
        status = ResourceClaimStatus(allocation=allocation, reserved_for=(ClaimConsumer(uid=pod.uid),))
        return ResourceClaim(metadata=ObjectMeta(name=name, namespace="default"), status=status)

    here, there = (
        web(name, node, resource_claims=(PodResourceClaim(name="gpu", resource_claim_name=name),))
        for name, node in (("x", "a"), ("y", "b"))
    )
    state = State(work(2), [here, there], NODES, claims=[claim("x", here), claim("y", there)])
    assert problems(state) == ["('a', 'gpu-0') is given to 2 claims", "y is on b, its devices are of ['a']"]
    forgotten = replace(state.claims[0], status=replace(state.claims[0].status, reserved_for=()))
    assert problems(State(work(1), [here], NODES, claims=[forgotten])) == ["x is on a, its devices are of ['a']"]


def test_incomplete_gang_or_gang_in_two_zones() -> None:
    pods = [member("x", "g", node="a"), member("y", "g", node="c", tolerates=[Toleration("team", "Exists")])]
    together = gang("g", 2, topology=ZONE_LABEL)
    assert problems(State(work(2), pods, NODES, groups=[together])) == [f"g is in 2 values of {ZONE_LABEL}"]
    assert problems(State(work(2), pods, NODES, groups=[gang("g", 3)])) == ["g has 2 pods on nodes, and needs 3"]
    assert problems(State(work(2), pods, NODES, groups=[gang("g", 2), gang("none", 2)])) == []
