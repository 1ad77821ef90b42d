"""API writes before a pod is bound, and their rollback."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.metering import Tally
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import (
    claiming,
    device,
    exactly,
    held,
    make_claim,
    make_class,
    make_slice,
    refusals,
)

from moorage.cluster.apiserver.storage.store import StoredChange, storage_name
from moorage.cluster.simulation.simulated_cluster import SimulatedCluster, SimulatedWriter, no_faults
from moorage.common.errors import ApiError, Conflict
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.devices import AllocatedDeviceStatus, ClaimConsumer, ResourceClaim
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import Condition, KubeObject
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.dynamic_resources.claim_binding import FINALIZER
from moorage.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig

POD = claiming("claim", uid="pod-uid")
NODE = make_node("n1")
SLICE = make_slice(device("d"))
SLOW = make_slice(device("d", binding_conditions=("ready",), binding_failure_conditions=("failed",)))


class LiveRig(Rig):
    """A rig over the store of a simulated cluster; writes are observed immediately, unless it is deaf."""

    def __init__(self, *objects: KubeObject) -> None:
        super().__init__()
        self.world = SimulatedCluster(self.clock)
        self.is_deaf = False
        self.world.api.store.subscribe(self._hear)
        for obj in objects:
            self.world.store.create(obj)

    @property
    def cluster(self) -> SimulatedWriter:
        return self.world.cluster

    def _hear(self, resource: str, change: StoredChange) -> None:
        kind = next((kind for kind in BY_TYPE if storage_name(kind) == resource), None)
        if self.is_deaf or kind is None:
            return
        before = change.before and change.before.typed(kind)
        after = change.after and change.after.typed(kind)
        if after is not None:
            self.add(after)
        elif before is not None:
            self.objects[type(before)].drop(before)

    def claim(self, name: str = "claim") -> ResourceClaim:
        """Return the stored version of a claim."""
        result = self.world.store.get(ResourceClaim, name, "default")
        assert result is not None
        return result


def rig_with(*objects: KubeObject) -> LiveRig:
    return LiveRig(NODE, make_class("gpu"), POD, *objects)


def reserved(rig: LiveRig, pod: Pod = POD) -> tuple[DynamicResources, CycleState]:
    """Bring a pod up to the point where its node is chosen."""
    plugin, cycle = DynamicResources(handle=rig), CycleState()
    assert plugin.pre_filter(cycle, pod, rig.nodes) is None
    assert plugin.filter(cycle, pod, rig.nodes[0]) is None
    assert plugin.reserve(cycle, pod, "n1") is None
    return plugin, cycle


def run(rig: LiveRig, work: Coroutine[Any, Any, Any]) -> Any:
    """Do something in virtual time."""
    return run_virtual(work, rig.clock)


def undone(rig: LiveRig, plugin: DynamicResources, cycle: CycleState, pod: Pod = POD) -> None:
    """Undo a reservation, its writes included."""
    plugin.unreserve(cycle, pod, "n1")

    async def background() -> None:
        for work in rig.background:
            await work

    run(rig, background())


def test_allocation_and_reservation_are_stored() -> None:
    rig = rig_with(SLICE, make_claim())
    plugin, cycle = reserved(rig)
    assert plugin.pre_bind_pre_flight(cycle, POD, "n1") is None
    assert run(rig, plugin.pre_bind(cycle, POD, "n1")) is None
    claim = rig.claim()
    assert claim.metadata.finalizers == (FINALIZER,)
    assert claim.status.reserved_for == (ClaimConsumer(resource="pods", name="pod", uid="pod-uid"),)
    assert claim.status.allocation is not None
    assert [result.device for result in claim.status.allocation.devices.results] == ["d"]
    assert claim.status.allocation.allocation_timestamp == "2026-01-01T00:00:00Z"


def test_a_claim_that_has_its_devices_is_only_reserved() -> None:
    user = ClaimConsumer(resource="pods", name="other", uid="other")
    shared = make_claim(allocation=held("d"), finalizers=(FINALIZER,))
    shared = replace(shared, status=replace(shared.status, reserved_for=(user,)))
    rig = rig_with(SLICE, shared)
    plugin, cycle = reserved(rig)
    assert run(rig, plugin.pre_bind(cycle, POD, "n1")) is None
    assert [consumer.uid for consumer in rig.claim().status.reserved_for] == ["other", "pod-uid"]


def test_claim_reserved_for_the_pod_is_unchanged() -> None:
    claim = make_claim(allocation=held("d"))
    own = ClaimConsumer(resource="pods", name="pod", uid="pod-uid")
    rig = rig_with(SLICE, replace(claim, status=replace(claim.status, reserved_for=(own,))))
    before = rig.claim()
    plugin, cycle = reserved(rig)
    assert run(rig, plugin.pre_bind(cycle, POD, "n1")) is None
    assert rig.claim() is before


def test_pods_without_claims_skip() -> None:
    rig = rig_with()
    plugin, cycle = DynamicResources(handle=rig), CycleState()
    plugin.pre_filter(cycle, make_pod(), rig.nodes)
    assert plugin.pre_bind_pre_flight(cycle, make_pod(), "n1") == Status.skip()


def test_devices_remain_allocated_until_the_watch_event_arrives() -> None:
    rig = rig_with(SLICE, make_claim(), make_claim(name="b"))
    plugin, cycle = reserved(rig)
    rig.is_deaf = True
    assert run(rig, plugin.pre_bind(cycle, POD, "n1")) is None
    second = CycleState()
    plugin.pre_filter(second, claiming("b"), rig.nodes)
    assert plugin.filter(second, claiming("b"), rig.nodes[0]) == Status.unresolvable("cannot allocate all claims")
    shared = CycleState()
    assert plugin.pre_filter(shared, claiming("claim", name="c"), rig.nodes) is None
    assert plugin.filter(shared, claiming("claim", name="c"), rig.nodes[0]) is None


def _store_device(rig: LiveRig) -> None:
    _changed(rig, lambda claim: replace(claim, status=replace(claim.status, allocation=held("d"))))


def _refuse_after_storing(rig: LiveRig) -> None:
    def fault(verb: str, _obj: KubeObject) -> ApiError | None:
        if verb != "update":
            return None
        _store_device(rig)
        return ApiError("the answer was lost")

    rig.world.fault = fault


UNKNOWN_TO_US = {"an earlier attempt stored it": _store_device, "this one did, and fails": _refuse_after_storing}


@pytest.mark.parametrize("trouble", UNKNOWN_TO_US.values(), ids=UNKNOWN_TO_US)
def test_a_stored_device_is_not_allocated_twice(trouble: Callable[[LiveRig], None]) -> None:
    rig = rig_with(SLICE, make_claim(finalizers=(FINALIZER,)), make_claim(name="b"))
    plugin, cycle = reserved(rig)
    rig.is_deaf = True
    trouble(rig)
    assert run(rig, plugin.pre_bind(cycle, POD, "n1")) is not None
    rig.world.fault = no_faults
    undone(rig, plugin, cycle)
    second = CycleState()
    plugin.pre_filter(second, claiming("b"), rig.nodes)
    assert plugin.filter(second, claiming("b"), rig.nodes[0]) == Status.unresolvable("cannot allocate all claims")


def _changed(rig: LiveRig, change: Callable[[ResourceClaim], ResourceClaim]) -> None:
    rig.world.store.update(change(rig.claim()))


def test_a_conflict_is_retried_with_the_latest_version() -> None:
    rig = rig_with(SLICE, make_claim())
    plugin, cycle = reserved(rig)
    _changed(rig, lambda claim: replace(claim, metadata=replace(claim.metadata, labels={"a": "b"})))
    assert run(rig, plugin.pre_bind(cycle, POD, "n1")) is None
    assert rig.claim().labels == {"a": "b"}
    assert rig.claim().status.allocation is not None


MEANWHILE: dict[str, tuple[Callable[[ResourceClaim], ResourceClaim], str]] = {
    "it was deleted": (
        lambda claim: replace(claim, metadata=replace(claim.metadata, deletion_timestamp="2026-01-01T00:00:00Z")),
        "claim default/claim got deleted in the meantime",
    ),
    "it was allocated": (
        lambda claim: replace(claim, status=replace(claim.status, allocation=held("x"))),
        "claim default/claim got allocated elsewhere in the meantime",
    ),
}


@pytest.mark.parametrize(("change", "text"), MEANWHILE.values(), ids=MEANWHILE)
def test_concurrent_changes_may_end_the_attempt(change: Callable[[ResourceClaim], ResourceClaim], text: str) -> None:
    rig = rig_with(SLICE, make_claim())
    plugin, cycle = reserved(rig)
    _changed(rig, change)
    status = run(rig, plugin.pre_bind(cycle, POD, "n1"))
    assert status.message == text


def test_a_concurrently_deallocated_claim_ends_the_attempt() -> None:
    rig = rig_with(SLICE, make_claim(allocation=held("d")))
    plugin, cycle = reserved(rig)
    _changed(rig, lambda claim: replace(claim, status=replace(claim.status, allocation=None)))
    status = run(rig, plugin.pre_bind(cycle, POD, "n1"))
    assert status.message == "claim default/claim got deallocated elsewhere in the meantime"


@pytest.mark.parametrize(
    ("claim", "message"),
    {
        "a claim that is allocated only now": (
            make_claim(finalizers=(FINALIZER,)),
            "add allocation and reservation to claim default/claim: no",
        ),
        "a claim that has its devices": (
            make_claim(allocation=held("d")),
            "add reservation to claim default/claim: no",
        ),
    }.values(),
)
def test_api_errors_name_the_failed_action(claim: ResourceClaim, message: str) -> None:
    rig = rig_with(SLICE, claim)
    plugin, cycle = reserved(rig)
    rig.world.fault = lambda verb, _obj: ApiError("no") if verb == "update" else None
    assert run(rig, plugin.pre_bind(cycle, POD, "n1")).message == message


def test_conflicts_without_end_are_given_up() -> None:
    rig = rig_with(SLICE, make_claim())
    plugin, cycle = reserved(rig)
    rejected = []

    def fault(verb: str, _obj: KubeObject) -> ApiError | None:
        rejected.append(verb)
        return Conflict("again") if verb == "update" else None

    rig.world.fault = fault
    assert run(rig, plugin.pre_bind(cycle, POD, "n1")).message == "add finalizer to claim default/claim: again"
    assert rejected.count("update") == 5


def test_unreserve_releases_pending_allocations() -> None:
    rig = rig_with(SLICE, make_claim(), make_claim(name="b"))
    plugin, cycle = reserved(rig)
    undone(rig, plugin, cycle)
    reserved(rig, claiming("b", name="other"))


def test_undo_reverts_the_reservation_but_not_the_allocation() -> None:
    rig = rig_with(SLICE, make_claim())
    plugin, cycle = reserved(rig)
    run(rig, plugin.pre_bind(cycle, POD, "n1"))
    undone(rig, plugin, cycle)
    assert rig.claim().status.reserved_for == ()
    assert rig.claim().status.allocation is not None


def test_undoing_without_a_reservation_does_nothing() -> None:
    rig = rig_with()
    DynamicResources(handle=rig).unreserve(CycleState(), make_pod(), "n1")
    assert not rig.background


def report(rig: LiveRig, *conditions: Condition) -> None:
    """Report the conditions of a device, as its driver does."""
    status = AllocatedDeviceStatus("gpu.example", "pool", "d", conditions=conditions)
    _changed(rig, lambda claim: replace(claim, status=replace(claim.status, devices=(status,))))


def slowly(rig: LiveRig, *conditions: Condition, after: float = 12) -> Status | None:
    """Bind a pod with a device that gets ready, or not, after a while."""
    plugin, cycle = reserved(rig)

    async def work() -> Status | None:
        if conditions:
            asyncio.get_running_loop().call_later(after, lambda: report(rig, *conditions))
        return await plugin.pre_bind(cycle, POD, "n1")

    status: Status | None = run(rig, work())
    return status


def test_devices_that_get_ready_are_waited_for() -> None:
    rig = rig_with(SLOW, make_claim())
    start = rig.clock.now()
    assert slowly(rig, Condition("ready", "True")) is None
    assert 12 < rig.clock.now() - start <= 16
    (event,) = rig.world.events
    assert (event.reason, event.note) == (
        "BindingConditionsPending",
        "waiting for binding conditions for device on node n1",
    )


def test_devices_that_fail_end_the_attempt() -> None:
    status = slowly(rig_with(SLOW, make_claim()), Condition("failed", "True", "Broken", 'it "broke"'))
    assert status is not None
    assert status.message == 'device binding failed: claim=claim, reason=Broken, message="it \\"broke\\""'


def test_devices_that_take_too_long_end_the_attempt() -> None:
    rig = rig_with(SLOW, make_claim())
    start = rig.clock.now()
    status = slowly(rig)
    assert status is not None
    assert status.message.startswith("device binding timeout")
    assert 600 <= rig.clock.now() - start < 606


WAITS = {
    "ready in time": ((Condition("ready", "True"),), "success", 15),
    "failed": ((Condition("failed", "True", "Broken", "it broke"),), "failure", 15),
    "too late": ((), "timeout", 600),
}


@pytest.mark.parametrize(("conditions", "result", "seconds"), WAITS.values(), ids=WAITS)
def test_the_wait_for_devices_is_counted(conditions: tuple[Condition, ...], result: str, seconds: float) -> None:
    rig = rig_with(SLOW, make_claim())
    rig.meter = tally = Tally()
    slowly(rig, *conditions)
    labels = ("default-scheduler", "gpu.example", result)
    assert tally.counted == {("scheduler_dra_bindingconditions_allocations_total", *labels): 1}
    waits = {("scheduler_dra_bindingconditions_wait_duration_seconds", *labels): [seconds]}
    assert tally.observed == waits


def test_devices_that_are_ready_immediately_need_no_wait() -> None:
    rig = rig_with(SLICE, make_claim())
    rig.meter = tally = Tally()
    assert slowly(rig) is None
    assert (tally.counted, tally.observed) == ({}, {})


def helped(rig: LiveRig, pod: Pod) -> Status | None:
    plugin, cycle = DynamicResources(handle=rig), CycleState()
    assert plugin.pre_filter(cycle, pod, rig.nodes) is None
    statuses = refusals(plugin.filter_nodes(cycle, pod, rig.nodes), rig.nodes)
    assert len(statuses) > 0
    status: Status | None = run(rig, plugin.post_filter(cycle, pod, statuses)).status
    return status


def test_a_claim_out_of_reach_is_deallocated() -> None:
    rig = rig_with(SLICE, make_claim(allocation=held("d", node="gone")))
    assert helped(rig, POD) == Status.unschedulable("deallocation of ResourceClaim completed")
    assert rig.claim().status.allocation is None


def test_a_claim_without_rejected_nodes_is_not_deallocated() -> None:
    rig = rig_with(SLICE, make_claim(allocation=held("d", node="gone")))
    plugin, cycle = DynamicResources(handle=rig), CycleState()
    assert plugin.pre_filter(cycle, POD, rig.nodes) is None
    # No node reaches the claim, but a nominated pod fills the node, so the claim is never checked.
    plugin.filter_nodes(cycle, POD, rig.nodes)
    full = NodeStatuses(
        {node.name: Status.unschedulable("Insufficient cpu") for node in rig.nodes}, Status.unresolvable()
    )
    assert run(rig, plugin.post_filter(cycle, POD, full)).status == Status.unschedulable()
    assert rig.claim().status.allocation is not None


def test_a_write_that_fails_is_an_error() -> None:
    rig = rig_with(SLICE, make_claim(allocation=held("d", node="gone")))
    rig.world.fault = lambda _verb, _obj: ApiError("no")
    status = helped(rig, POD)
    assert status is not None
    assert status.message == "no"


RESOURCE = "example.com/gpu"
ASKING = make_pod("asking", uid="asking-uid", requests={RESOURCE: "1"})


def extended_rig() -> LiveRig:
    return LiveRig(NODE, make_class("gpu", resource=RESOURCE), SLICE, ASKING)


def extended_claim(rig: LiveRig) -> ResourceClaim | None:
    return next(rig.world.store.list(ResourceClaim), None)


def test_a_claim_for_extended_resources_is_created_and_reported() -> None:
    rig = extended_rig()
    plugin, cycle = reserved(rig, ASKING)
    assert run(rig, plugin.pre_bind(cycle, ASKING, "n1")) is None
    claim, pod = extended_claim(rig), rig.world.store.get(Pod, "asking", "default")
    assert claim is not None
    assert pod is not None
    assert claim.name.startswith("asking-extended-resources-")
    assert claim.metadata.controller is not None
    assert claim.metadata.controller.uid == "asking-uid"
    assert claim.status.allocation is not None
    reported = pod.status.extended_resource_claim_status
    assert reported is not None
    assert reported.resource_claim_name == claim.name
    assert [(item.container_name, item.resource_name, item.request_name) for item in reported.request_mappings] == [
        ("main", RESOURCE, "container-0-request-0")
    ]


@pytest.mark.parametrize(("fails", "result"), [(False, "success"), (True, "failure")])
def test_claims_made_for_extended_resources_are_counted(fails: bool, result: str) -> None:
    rig = extended_rig()
    rig.meter = tally = Tally()
    plugin, cycle = reserved(rig, ASKING)
    rig.world.fault = lambda verb, _obj: ApiError("no") if fails and verb == "create" else None
    run(rig, plugin.pre_bind(cycle, ASKING, "n1"))
    created = "dynamic_resource_allocation_resourceclaim_creates_total"
    assert tally.counted == {(created, result, "false", "", "Pod"): 1}


def test_a_claim_for_extended_resources_is_deleted_when_binding_fails() -> None:
    rig = extended_rig()
    plugin, cycle = reserved(rig, ASKING)
    run(rig, plugin.pre_bind(cycle, ASKING, "n1"))
    undone(rig, plugin, cycle, ASKING)
    assert extended_claim(rig) is None
    reserved(rig, ASKING)


def test_claim_of_an_earlier_attempt_is_deleted_first() -> None:
    remaining = make_claim(
        exactly(), name="left", owner=ASKING, annotations={"resource.kubernetes.io/extended-resource-claim": "true"}
    )
    rig = extended_rig()
    rig.world.store.create(remaining)
    assert helped(rig, ASKING) == Status.unschedulable("deletion of ResourceClaim completed")
    assert extended_claim(rig) is None
