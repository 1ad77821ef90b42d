"""DynamicResources: verdicts, scores and reservations."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import (
    claiming,
    device,
    exactly,
    first_of,
    held,
    in_zone,
    make_claim,
    make_class,
    make_slice,
    refusals,
)

from moorage.common.clock import VirtualClock
from moorage.kube.api.devices import (
    AllocatedDeviceStatus,
    ClaimConsumer,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    ResourceClaim,
    ResourceClaimStatus,
)
from moorage.kube.api.meta import Condition, KubeObject
from moorage.kube.api.pod import Pod, PodResourceClaim, PodResourceClaimStatus, PodStatus
from moorage.kube.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.plugins.dynamic_resources.allocation import allocator
from moorage.scheduler.plugins.dynamic_resources.device_state import KEY
from moorage.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, SCORE_FORMS, FilterForm, Rig, ScoreForm, run_filter

NODES = (make_node("n1", labels={"zone": "a"}), make_node("n2", labels={"zone": "b"}))
GPU = make_class("gpu")
ONE_EACH = (
    make_slice(device("d"), name="s1", pool="p1", node="n1"),
    make_slice(device("d"), name="s2", pool="p2", node="n2"),
)
CANNOT = Status.unresolvable("cannot allocate all claims")
AWAY = Status.unresolvable("resourceclaim not available on the node")
INVALID = Status.unresolvable("invalid resource pools were encountered")


def unresolvable(text: str) -> Status:
    return Status.unresolvable(text)


OWNED = make_pod(
    "web",
    uid="web-uid",
    resource_claims=(PodResourceClaim("gpu", resource_claim_template_name="template"),),
    status=PodStatus(resource_claim_statuses=(PodResourceClaimStatus("gpu", "web-gpu"),)),
)
NEVER_MADE = replace(OWNED, status=PodStatus(resource_claim_statuses=(PodResourceClaimStatus("gpu", None),)))
NOT_YET_MADE = replace(OWNED, status=PodStatus())
TERMINATING = make_claim(deletion_timestamp="2026-01-01T00:00:00Z")

LOOKED_UP: dict[str, tuple[Pod, Sequence[KubeObject], str | None]] = {
    "an existing claim": (claiming("claim"), [make_claim()], None),
    "one that is not": (claiming("claim"), [], 'could not find ResourceClaim "default/claim"'),
    "one that is going": (claiming("claim"), [TERMINATING], 'resourceclaim "claim" is being deleted'),
    "one made from a template": (OWNED, [make_claim(name="web-gpu", owner=OWNED)], None),
    "for another pod": (
        OWNED,
        [make_claim(name="web-gpu")],
        "ResourceClaim default/web-gpu was not created for Pod default/web (Pod is not owner)",
    ),
    "not made yet": (NOT_YET_MADE, [], 'pod "default/web": ResourceClaim not created yet'),
    "never to be made": (NEVER_MADE, [], None),
    "neither a claim nor a template": (
        make_pod("web", resource_claims=(PodResourceClaim("gpu"),)),
        [],
        'pod "default/web", spec.resourceClaim "gpu": none of the supported fields are set',
    ),
}


@pytest.mark.parametrize(("pod", "objects", "text"), LOOKED_UP.values(), ids=LOOKED_UP)
def test_claims_are_looked_up_before_queueing_and_before_filtering(
    pod: Pod, objects: Sequence[KubeObject], text: str | None
) -> None:
    rig = Rig(*NODES, GPU, *objects)
    plugin = DynamicResources(handle=rig)
    want = None if text is None else unresolvable(text)
    assert plugin.pre_enqueue(pod) == want
    answer = plugin.pre_filter(CycleState(), pod, rig.nodes)
    assert answer == want or (want is None and answer == Status.skip())


PREPARED: dict[str, tuple[ResourceClaim, Status | None]] = {
    "an existing class": (make_claim(), None),
    "one that is not": (
        make_claim(exactly("r", device_class_name="nope")),
        unresolvable("request r: device class nope does not exist"),
    ),
    "in a list": (
        make_claim(first_of("r", exactly("s"), exactly("t", device_class_name="nope"))),
        unresolvable("request r/t: device class nope does not exist"),
    ),
    "no class": (
        make_claim(exactly("r", device_class_name="")),
        Status.error("request r: unsupported request type"),
    ),
    "a request of an unknown kind": (
        make_claim(DeviceRequest("r")),
        unresolvable("resource claim default/claim, request r: unknown request type"),
    ),
}


@pytest.mark.parametrize(("claim", "want"), PREPARED.values(), ids=PREPARED)
def test_pre_filter(claim: ResourceClaim, want: Status | None) -> None:
    rig = Rig(*NODES, GPU, claim)
    assert DynamicResources(handle=rig).pre_filter(CycleState(), claiming("claim"), rig.nodes) == want


def zoned(claim: ResourceClaim, selector: NodeSelector) -> ResourceClaim:
    """Restrict the devices of an allocated claim to the nodes of a selector."""
    allocation = claim.status.allocation
    assert allocation is not None
    return replace(claim, status=replace(claim.status, allocation=replace(allocation, node_selector=selector)))


READY = Condition("ready", "True")
BINDING: dict[str, Any] = {"binding_conditions": ("ready",), "binding_failure_conditions": ("failed",)}


def claim_with(*conditions: Condition, since: str = "2026-01-01T00:00:00Z") -> ResourceClaim:
    """Make a claim for a device that must be prepared."""
    allocation = replace(held("d", pool="p1", **BINDING), allocation_timestamp=since)
    status = AllocatedDeviceStatus("gpu.example", "p1", "d", conditions=conditions)
    return replace(make_claim(), status=ResourceClaimStatus(allocation, devices=(status,) if conditions else ()))


JUDGED: dict[str, tuple[Sequence[KubeObject], Pod, Sequence[Status | None]]] = {
    "a pod without claims": ([*ONE_EACH], make_pod(), [None, None]),
    "a device on either node": ([*ONE_EACH, make_claim()], claiming("claim"), [None, None]),
    "on one only": ([ONE_EACH[0], make_claim()], claiming("claim"), [None, CANNOT]),
    "taken by another claim": (
        [*ONE_EACH, make_claim(), make_claim(name="b", allocation=held("d", pool="p1"))],
        claiming("claim"),
        [CANNOT, None],
    ),
    "two claims, one device": ([*ONE_EACH, make_claim(), make_claim(name="b")], claiming("claim", "b"), [CANNOT] * 2),
    "devices for all nodes": (
        [make_slice(device("d"), all_nodes=True), make_claim()],
        claiming("claim"),
        [None, None],
    ),
    "devices for a zone": (
        [make_slice(device("d"), node_selector=in_zone("b")), make_claim()],
        claiming("claim"),
        [CANNOT, None],
    ),
    "an invalid pool": (
        [make_slice(device("d"), device("d")), ONE_EACH[1], make_claim()],
        claiming("claim"),
        [INVALID, None],
    ),
    "an invalid pool next to a valid one": (
        [make_slice(device("d"), device("d")), ONE_EACH[0], make_claim()],
        claiming("claim"),
        [None, CANNOT],
    ),
    "an incomplete pool": ([make_slice(device("d"), of=2), make_claim()], claiming("claim"), [CANNOT, CANNOT]),
    "devices the claim has already": (
        [*ONE_EACH, make_claim(allocation=held("d", pool="p1"))],
        claiming("claim"),
        [None, AWAY],
    ),
    "that can be used everywhere": (
        [make_claim(allocation=held("d", node=None))],
        claiming("claim"),
        [None, None],
    ),
    "in a zone": (
        [zoned(make_claim(allocation=held("d")), in_zone("b"))],
        claiming("claim"),
        [AWAY, None],
    ),
    "nowhere but on a node that is deleted": (
        [make_claim(allocation=held("d", node="n9"))],
        claiming("claim"),
        [AWAY, AWAY],
    ),
    "one claim has its devices, the other looks for them": (
        [*ONE_EACH, make_claim(allocation=held("x", pool="q", node="n2")), make_claim(name="b")],
        claiming("claim", "b"),
        [AWAY, None],
    ),
    "an impossible allocation is reported first": (
        [ONE_EACH[1], make_claim(allocation=held("x", pool="q", node="n2")), make_claim(name="b")],
        claiming("claim", "b"),
        [CANNOT, None],
    ),
    "devices that are ready": ([claim_with(READY)], claiming("claim"), [None, AWAY]),
    "that have failed": ([claim_with(READY, Condition("failed", "True"))], claiming("claim"), [AWAY, AWAY]),
    "that are not ready yet": ([claim_with(Condition("ready", "False"))], claiming("claim"), [None, AWAY]),
    "that are late": ([claim_with(since="2025-12-31T23:00:00Z")], claiming("claim"), [AWAY, AWAY]),
    "an expression that fails on one node": (
        [*ONE_EACH, make_claim(exactly("r", 'device.attributes["x"].y'))],
        claiming("claim"),
        [Status.error("claim default/claim: selector #0 on device gpu.example/p1/d: CEL runtime error"),
         Status.error("claim default/claim: selector #0 on device gpu.example/p2/d: CEL runtime error")],
    ),
    "all devices of a pool that is being updated": (
        [make_slice(device("d"), of=2), make_claim(exactly(allocation_mode="All", count=0))],
        claiming("claim"),
        [
            Status.error(
                "claim default/claim, request r: asks for all devices, but resource pool gpu.example/pool is currently "
                "being updated"
            ),
            CANNOT,
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("objects", "pod", "want"), JUDGED.values(), ids=JUDGED)
def test_filter(form: FilterForm, objects: Sequence[KubeObject], pod: Pod, want: Sequence[Status | None]) -> None:
    rig = Rig(*NODES, GPU, *objects)
    result = run_filter(DynamicResources(handle=rig), rig, pod, form)
    assert [_up_to_cel(status) for status in result] == list(want)


def _up_to_cel(status: Status | None) -> Status | None:
    if status is None or "CEL runtime error" not in status.message:
        return status
    return Status.error(status.message.partition(" error")[0] + " error")


def test_a_selector_of_the_allocation_that_makes_no_sense_is_an_error() -> None:
    odd = NodeSelector((NodeSelectorTerm((NodeSelectorRequirement("zone", "Near", ("a",)),)),))
    rig = Rig(*NODES, zoned(make_claim(allocation=held("d")), odd))
    answer = DynamicResources(handle=rig).pre_filter(CycleState(), claiming("claim"), rig.nodes)
    assert answer is not None
    assert answer.code == Code.ERROR


class Impatient(VirtualClock):
    """A clock on which every look takes four seconds."""

    def now(self) -> float:
        self.advance(4)
        return super().now()


@pytest.mark.parametrize("form", FORMS)
def test_slow_search_is_an_error(form: FilterForm) -> None:
    slices = [make_slice(*(device(f"d{i}") for i in range(20)))]
    claim = make_claim(*(exactly(f"r{i}") for i in range(10)))
    rig = Rig(NODES[0], GPU, *slices, claim)
    rig.clock = Impatient()
    assert run_filter(DynamicResources(handle=rig), rig, claiming("claim"), form) == [
        Status.error("node n1: timed out trying to allocate devices")
    ]


LIST = first_of("r", exactly("s0", 'device.attributes["gpu.example"].size == "big"'), exactly("s1"))
SIZED = (
    make_slice(device("d", attributes={"size": "small"}), name="s1", pool="p1", node="n1"),
    make_slice(device("d", attributes={"size": "big"}), name="s2", pool="p2", node="n2"),
)
RATED: dict[str, tuple[Sequence[KubeObject], Pod, list[int]]] = {
    "no claims": ([], make_pod(), [0, 0]),
    "no lists": ([*SIZED, make_claim()], claiming("claim"), [0, 0]),
    "the earlier alternative is worth more": ([*SIZED, make_claim(LIST)], claiming("claim"), [7, 8]),
    "a list that was served before is also counted": (
        [*SIZED, make_claim(LIST), make_claim(LIST, name="b", allocation=held("x", node=None, request="r/s1"))],
        claiming("claim", "b"),
        [14, 15],
    ),
    "but alone it has nothing to choose": (
        [make_claim(LIST, allocation=held("x", node=None, request="r/s1"))],
        claiming("claim"),
        [0, 0],
    ),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("objects", "pod", "want"), RATED.values(), ids=RATED)
def test_score(form: ScoreForm, objects: Sequence[KubeObject], pod: Pod, want: list[int]) -> None:
    rig = Rig(*NODES, GPU, *objects)
    plugin, cycle = DynamicResources(handle=rig), CycleState()
    plugin.pre_filter(cycle, pod, rig.nodes)
    plugin.filter_nodes(cycle, pod, rig.nodes)
    assert form(plugin, cycle, pod, rig.nodes) == want


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_nodes_that_were_not_filtered_score_zero_and_have_no_devices(form: ScoreForm) -> None:
    rig = Rig(*NODES, GPU, *ONE_EACH, make_claim())
    plugin, cycle, pod = DynamicResources(handle=rig), CycleState(), claiming("claim")
    assert plugin.pre_filter(cycle, pod, rig.nodes) is None
    assert form(plugin, cycle, pod, rig.nodes) == [0, 0]
    assert plugin.reserve(cycle, pod, "n1") == Status.error("claim allocation not found for node")


def reserve(plugin: DynamicResources, rig: Rig, pod: Pod, node: str) -> CycleState:
    """Reserve devices for a pod."""
    cycle = CycleState()
    assert plugin.pre_filter(cycle, pod, rig.nodes) is None
    assert plugin.filter_nodes(cycle, pod, rig.nodes).status_at(rig.nodes.names.index(node)) is None
    assert plugin.reserve(cycle, pod, node) is None
    return cycle


def test_pending_allocations_count_for_all_profiles() -> None:
    rig = Rig(*NODES, GPU, *ONE_EACH, make_claim(), make_claim(name="b"))
    first, second = DynamicResources(handle=rig), DynamicResources(handle=rig)
    reserve(first, rig, claiming("claim"), "n1")
    for form in FORMS:
        assert run_filter(second, rig, claiming("b"), form) == [CANNOT, None]


def test_a_claim_that_is_being_allocated_has_to_be_waited_for() -> None:
    rig = Rig(*NODES, GPU, *ONE_EACH, make_claim())
    plugin = DynamicResources(handle=rig)
    cycle = reserve(plugin, rig, claiming("claim"), "n1")
    second = claiming("claim", name="other")
    waiting = unresolvable("resource claim default/claim is in the process of being allocated")
    assert plugin.pre_filter(CycleState(), second, rig.nodes) == waiting
    plugin.unreserve(cycle, claiming("claim"), "n1")
    assert plugin.pre_filter(CycleState(), second, rig.nodes) is None


def test_results_follow_changes_of_the_cluster() -> None:
    rig = Rig(*NODES, GPU, *ONE_EACH, *(make_claim(name=f"c{i}") for i in range(4)))
    plugin = DynamicResources(handle=rig)
    pod = claiming("c0")

    def verdict() -> list[Status | None]:
        result = [run_filter(plugin, rig, pod, form) for form in FORMS]
        assert result[0] == result[1]
        return result[0]

    assert verdict() == [None, None]
    cycle = reserve(plugin, rig, claiming("c1"), "n1")
    assert verdict() == [CANNOT, None]
    plugin.unreserve(cycle, claiming("c1"), "n1")
    assert verdict() == [None, None]
    rig.add(make_claim(name="c2", allocation=held("d", pool="p2", node="n2")))
    assert verdict() == [None, CANNOT]
    rig.add(make_slice(device("d"), device("e"), name="s2", pool="p2", node="n2"))
    assert verdict() == [None, None]
    rig.add(make_slice(device("d"), device("d"), name="s1", pool="p1", node="n1"))
    assert verdict() == [INVALID, None]
    rig.add(make_node("n3"), make_slice(device("d"), name="s3", pool="p3", node="n3"))
    assert verdict() == [INVALID, None, None]
    rig.add(make_slice(device("d"), name="far", pool="far", node_selector=in_zone("a")))
    assert verdict() == [None, None, None]
    rig.add(make_node("n1", labels={"zone": "c"}))
    assert verdict() == [INVALID, None, None]
    rig.add(make_class("gpu", "false"))
    assert verdict() == [INVALID, CANNOT, CANNOT]
    rig.cache.remove_node("n1")
    assert verdict() == [CANNOT, CANNOT]


def test_windows_agree_with_the_entire_table() -> None:
    rig = Rig(*NODES, GPU, ONE_EACH[1], make_claim())
    plugin, cycle, pod = DynamicResources(handle=rig), CycleState(), claiming("claim")
    plugin.pre_filter(cycle, pod, rig.nodes)
    rows = rig.nodes.rows[::-1]
    assert [plugin.filter_nodes(cycle, pod, rig.nodes.take(rows)).status_at(i) for i in range(2)] == [None, CANNOT]
    first = plugin.filter(cycle, pod, rig.nodes[0].copy())
    assert first == CANNOT


def test_only_pods_without_devices_share_results() -> None:
    rig = Rig(*NODES, make_class("gpu", resource="example.com/gpu"))
    plugin = DynamicResources(handle=rig)
    assert plugin.sign(make_pod(requests={"cpu": "1"})) == ()
    assert plugin.sign(claiming("claim")) is None
    assert plugin.sign(make_pod(requests={"example.com/gpu": "1"})) is None
    before = plugin.epoch()
    rig.add(make_class("other"))
    assert plugin.epoch() != before


def post_filter(rig: Rig, pod: Pod, *, prepared: bool = True) -> Status | None:
    plugin, cycle = DynamicResources(handle=rig), CycleState()
    statuses = NodeStatuses({}, Status.unresolvable())
    if prepared:
        plugin.pre_filter(cycle, pod, rig.nodes)
        if not cycle[KEY].is_empty:
            statuses = refusals(plugin.filter_nodes(cycle, pod, rig.nodes), rig.nodes)
    return asyncio.run(plugin.post_filter(cycle, pod, statuses)).status


def test_post_filter_without_pre_filter_is_an_error() -> None:
    assert post_filter(Rig(*NODES), make_pod(), prepared=False) == Status.error("not found")


def test_post_filter_cannot_help_a_pod_without_claims() -> None:
    assert post_filter(Rig(*NODES), make_pod()) == Status.unschedulable()


def test_post_filter_keeps_shared_claims() -> None:
    user = ClaimConsumer(resource="pods", name="other", uid="other")
    claim = make_claim(allocation=held("d", node="n9"))
    claim = replace(claim, status=replace(claim.status, reserved_for=(user,)))
    assert post_filter(Rig(*NODES, claim), claiming("claim")) == Status.unschedulable()


def test_reserving_needs_devices_that_were_found() -> None:
    rig = Rig(*NODES, GPU, ONE_EACH[0], make_claim())
    plugin, cycle, pod = DynamicResources(handle=rig), CycleState(), claiming("claim")
    plugin.pre_filter(cycle, pod, rig.nodes)
    missing = Status.error("claim allocation not found for node")
    assert plugin.reserve(cycle, pod, "n2") == missing
    assert plugin.reserve(cycle, pod, "gone") == missing


def test_an_unsupported_selector_is_an_error() -> None:
    request = exactly()
    assert request.exactly is not None
    odd = replace(request, exactly=replace(request.exactly, selectors=(DeviceSelector(),)))
    rig = Rig(NODES[0], GPU, ONE_EACH[0], make_claim(odd))
    (status,) = run_filter(DynamicResources(handle=rig), rig, claiming("claim"), FORMS[0])
    text = "claim default/claim, request r, selector #0: CEL expression empty (unsupported selector type?)"
    assert status == Status.error(text)


def hard_cluster() -> tuple[Rig, Pod]:
    """Make nodes with devices that take a search too long: an error of one request keeps it from looking ahead."""
    groups = [device(f"d{number}", attributes={"group": number // 11}) for number in range(44)]
    odd = device("odd", attributes={"group": 9})
    requests = [exactly(f"r{number}", "true" + " && true" * number) for number in range(12)]
    picky = exactly("picky", 'device.attributes["gpu.example"].group != 9 || device.attributes["gpu.example"].nope')
    constraint = DeviceConstraint(match_attribute="gpu.example/group")
    claim = make_claim(*requests, picky, constraints=[constraint])
    slices = [make_slice(*groups, odd, node=node.name, pool=node.name, name=node.name) for node in NODES]
    return Rig(*NODES, make_class(), claim, *slices), claiming("claim")


def test_the_time_to_search_is_for_all_nodes_of_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator, "MAX_STEPS", 5000)
    rig, pod = hard_cluster()
    plugin, cycle = DynamicResources(handle=rig), CycleState()
    assert plugin.pre_filter(cycle, pod, rig.nodes) is None
    verdict = plugin.filter_nodes(cycle, pod, rig.nodes)
    late = [Status.error(f"node {node.name}: timed out trying to allocate devices") for node in rig.nodes]
    assert [verdict.status_at(row) for row in range(len(rig.nodes))] == late
    assert plugin.filter(cycle, pod, rig.nodes[0]) == late[0]


def test_search_that_timed_out_is_not_repeated_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator, "MAX_STEPS", 5000)
    rig, pod = hard_cluster()
    plugin, spent = DynamicResources(handle=rig), []
    for seconds in (0, 1, 58, 1):
        rig.clock.advance(seconds)
        cycle = CycleState()
        assert plugin.pre_filter(cycle, pod, rig.nodes) is None
        assert plugin.filter(cycle, pod, rig.nodes[0]) is not None
        budget = cycle[KEY].budget
        assert budget is not None
        spent.append(budget.last_search_took_most())
    assert spent == [True, False, False, True]
