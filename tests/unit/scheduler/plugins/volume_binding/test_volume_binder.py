"""From reserve to bound: what is assumed, written and waited for, with a PV controller that runs in virtual time."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.metering import Tally

from moorage.common.errors import ApiError
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.claims import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim
from moorage.scheduler.config.args import VolumeBindingArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import ClusterApi
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.volume_binding.plugin import BIND_CONFLICT, RESERVED, STAGE_ERRORS, VolumeBinding
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig
from moorage.testing.storage import claim_volume, make_claim, make_class, make_volume, reachable


class WriteRefusedError(ApiError):
    """The API's response when it rejects a write."""


class StorageApi:
    """An API that stores claims and volumes, and shows them to the rig after a while."""

    def __init__(self, rig: Rig, *, lag: float = 0.0) -> None:
        self.rig = rig
        self.lag = lag
        self.versions = 100
        self.written: list[KubeObject] = []
        self.refused: set[str] = set()

    async def update(self, obj: KubeObject, *, subresource: str = "") -> KubeObject:
        await asyncio.sleep(0)
        if obj.name in self.refused:
            raise WriteRefusedError(f"{obj.name} cannot be written")
        stored = self.store(obj)
        self.written.append(stored)
        return stored

    def store(self, obj: KubeObject) -> KubeObject:
        self.versions += 1
        stored = replace(obj, metadata=replace(obj.metadata, resource_version=str(self.versions)))
        if self.lag:
            asyncio.get_running_loop().call_later(self.lag, self.rig.add, stored)
        else:
            self.rig.add(stored)
        return stored

    def claim(self, name: str = "c") -> PersistentVolumeClaim:
        result = self.rig.lister(PersistentVolumeClaim).get(name, "default")
        assert result is not None
        return result

    def volume(self, name: str = "v") -> PersistentVolume:
        result = self.rig.lister(PersistentVolume).get(name)
        assert result is not None
        return result

    def complete(self, volume: str = "v", claim: str = "c") -> None:
        """Do what the PV controller does at last."""
        existing = self.claim(claim)
        notes = {**existing.annotations, BIND_COMPLETED: "yes"}
        bound = replace(existing, spec=replace(existing.spec, volume_name=volume))
        self.store(replace(bound, metadata=replace(existing.metadata, annotations=notes)))

    def annotate(self, notes: Mapping[str, str]) -> None:
        """Replace the annotations of the claim."""
        existing = self.claim()
        self.store(replace(existing, metadata=replace(existing.metadata, annotations=dict(notes))))

    async def bind(self, pod: Pod, node_name: str) -> None:
        raise AssertionError("not written by volume binding")

    async def create(self, obj: KubeObject) -> KubeObject:
        raise AssertionError("not written by volume binding")

    async def patch(self, obj: KubeObject, patch: Mapping[str, Any], *, subresource: str = "") -> KubeObject:
        raise AssertionError("not written by volume binding")

    async def patch_status(self, obj: KubeObject, patch: Mapping[str, Any]) -> KubeObject:
        raise AssertionError("not written by volume binding")

    async def delete(self, obj: KubeObject) -> None:
        raise AssertionError("not written by volume binding")

    def record(self, event: Any) -> None:
        raise AssertionError("not written by volume binding")


class StorageRig(Rig):
    """A rig with plugins that can write."""

    def __init__(self, *objects: KubeObject, lag: float = 0.0) -> None:
        self.api = StorageApi(self, lag=lag)
        super().__init__(*objects)

    @property
    def cluster(self) -> ClusterApi:
        return self.api


LATE, LOCAL = make_class("late"), make_class("local", provisioner="kubernetes.io/no-provisioner")
POD = make_pod("p", volumes=(claim_volume("c"),))


def static_rig(**fields: Any) -> StorageRig:
    volume = make_volume("v", storage_class="local", reach=reachable(host="n"))
    return StorageRig(make_node("n"), POD, make_claim("c", storage_class="local"), LOCAL, volume, **fields)


def dynamic_rig(**fields: Any) -> StorageRig:
    return StorageRig(make_node("n"), POD, make_claim("c", storage_class="late"), LATE, **fields)


def reserve(plugin: VolumeBinding, rig: Rig, pod: Pod = POD) -> CycleState:
    cycle = CycleState()
    assert plugin.pre_filter(cycle, pod, rig.nodes) is None
    assert plugin.filter(cycle, pod, rig.nodes[0]) is None
    assert plugin.reserve(cycle, pod, "n") is None
    return cycle


def bind(
    rig: StorageRig, meanwhile: Callable[[StorageApi], None] | None = None, *, after: float = 2.5, timeout: int = 600
) -> tuple[Status | None, float]:
    """Reserve and bind; return the result and its seconds."""
    plugin = VolumeBinding(args=VolumeBindingArgs(bind_timeout_seconds=timeout), handle=rig)
    cycle = reserve(plugin, rig)
    assert plugin.pre_bind_pre_flight(cycle, POD, "n") is None
    start = rig.clock.now()

    async def work() -> Status | None:
        if meanwhile is not None:
            asyncio.get_running_loop().call_later(after, meanwhile, rig.api)
        return await plugin.pre_bind(cycle, POD, "n")

    return run_virtual(work(), rig.clock), round(rig.clock.now() - start, 3)


def test_reserved_volumes_are_unavailable_until_released() -> None:
    rig = static_rig()
    rig.add(make_claim("d", storage_class="local"))
    plugin = VolumeBinding(handle=rig)
    cycle = reserve(plugin, rig)
    second, again = make_pod("q", volumes=(claim_volume("d"),)), CycleState()
    assert plugin.pre_filter(again, second, rig.nodes) is None
    assert plugin.filter(again, second, rig.nodes[0]) == Status.unresolvable(BIND_CONFLICT)
    plugin.unreserve(cycle, POD, "n")
    plugin.unreserve(cycle, POD, "n")
    reserve(plugin, rig, second)


def test_volume_reserved_by_another_profile_is_treated_as_free() -> None:
    """As in kube-scheduler, where each profile has its own volume binder; a profile keeps its own across reloads."""
    rig = static_rig()
    rig.add(make_claim("d", storage_class="local"))
    reserve(VolumeBinding(handle=rig), rig)
    second = make_pod("q", volumes=(claim_volume("d"),))
    reloaded, cycle = VolumeBinding(handle=rig), CycleState()
    assert reloaded.pre_filter(cycle, second, rig.nodes) is None
    assert reloaded.filter(cycle, second, rig.nodes[0]) == Status.unresolvable(BIND_CONFLICT)
    rig.profile = "second"
    reserve(VolumeBinding(handle=rig), rig, second)


def test_claim_to_provision_is_tied_to_its_node_until_it_is_released() -> None:
    rig = dynamic_rig()
    rig.add(make_node("other"))
    plugin = VolumeBinding(handle=rig)
    cycle = reserve(plugin, rig)
    again = CycleState()
    plugin.pre_filter(again, POD, rig.nodes)
    verdicts = [plugin.filter(again, POD, node) for node in rig.nodes]
    assert verdicts == [None, Status.unresolvable(BIND_CONFLICT)]
    plugin.unreserve(cycle, POD, "n")
    plugin.pre_filter(again, POD, rig.nodes)
    assert [plugin.filter(again, POD, node) for node in rig.nodes] == [None, None]


def test_the_smallest_volume_that_fits_is_taken_and_the_first_of_equals() -> None:
    rig = static_rig()
    rig.add(
        make_claim("c", storage_class="local", request="2Gi"),
        make_volume("huge", storage_class="local", capacity="9Gi"),
        make_volume("first", storage_class="local", capacity="3Gi"),
        make_volume("second", storage_class="local", capacity="3Gi"),
    )
    plugin = VolumeBinding(handle=rig)
    assert [binding.volume.name for binding in reserve(plugin, rig)[RESERVED].bindings] == ["first"]


def test_changed_volume_fails_the_complete_reservation() -> None:
    rig = static_rig()
    rig.add(make_claim("d", storage_class="local"), make_volume("w", storage_class="local", capacity="2Gi"))
    pod = make_pod(volumes=(claim_volume("c"), claim_volume("d")))
    plugin, cycle = VolumeBinding(handle=rig), CycleState()
    assert plugin.pre_filter(cycle, pod, rig.nodes) is None
    plugin.filter_nodes(cycle, pod, rig.nodes)
    rig.add(make_volume("w", storage_class="local", version="7"))
    want = Status.error('"w" is out of sync (stored: 7, assume: 1)')
    rig.meter = tally = Tally()
    assert plugin.reserve(cycle, pod, "n") == want
    assert tally.counted == {(STAGE_ERRORS, "assume"): 1}
    plugin.unreserve(cycle, pod, "n")
    assert plugin.pre_bind_pre_flight(cycle, pod, "n") == Status.skip()
    reserve(plugin, rig)


def test_a_bound_claim_needs_no_binding() -> None:
    rig = StorageRig(make_node("n"), POD, make_claim("c", bound_to="v"), make_volume("v"))
    plugin = VolumeBinding(handle=rig)
    cycle = reserve(plugin, rig)
    assert plugin.pre_bind_pre_flight(cycle, POD, "n") == Status.skip()
    assert run_virtual(plugin.pre_bind(cycle, POD, "n"), rig.clock) is None
    assert rig.api.written == []


def test_a_pod_without_volume_search_is_not_bound() -> None:
    rig = StorageRig(make_node("n"))
    plugin, cycle, pod = VolumeBinding(handle=rig), CycleState(), make_pod()
    assert plugin.pre_filter(cycle, pod, rig.nodes) == Status.skip()
    assert plugin.pre_bind_pre_flight(cycle, pod, "n") == Status.error('no pod volume found for node "n"')
    assert plugin.reserve(cycle, pod, "n") is None
    assert plugin.pre_bind_pre_flight(cycle, pod, "n") == Status.skip()


def test_a_static_binding_is_written_and_awaited() -> None:
    rig = static_rig()
    assert bind(rig, StorageApi.complete) == (None, 3.0)
    (volume,) = rig.api.written
    assert isinstance(volume, PersistentVolume)
    reference = volume.spec.claim_ref
    assert reference is not None
    assert (reference.kind, reference.api_version, reference.namespace, reference.name) == (
        "PersistentVolumeClaim",
        "v1",
        "default",
        "c",
    )
    assert (reference.uid, reference.resource_version) == ("claim/default/c", "1")
    assert volume.annotations == {BOUND_BY_CONTROLLER: "yes"}


def test_volume_reserved_by_its_owner_keeps_its_annotations() -> None:
    claim = make_claim("c", storage_class="local")
    rig = StorageRig(make_node("n"), POD, claim, LOCAL, make_volume("v", storage_class="local", claim=claim))
    assert bind(rig, StorageApi.complete) == (None, 3.0)
    assert rig.api.volume().annotations == {}


def test_a_claim_to_be_provisioned_is_written_and_awaited() -> None:
    rig = dynamic_rig()

    def provision(api: StorageApi) -> None:
        api.rig.add(make_volume("made", storage_class="late"))
        api.complete("made")

    assert bind(rig, provision) == (None, 3.0)
    (claim,) = rig.api.written
    assert claim.annotations == {SELECTED_NODE: "n"}


def test_volumes_are_written_before_claims() -> None:
    rig = static_rig()
    rig.add(make_claim("a", storage_class="late"), LATE)
    pod = make_pod("p", volumes=(claim_volume("a"), claim_volume("c")))
    plugin = VolumeBinding(args=VolumeBindingArgs(bind_timeout_seconds=2), handle=rig)
    cycle = reserve(plugin, rig, pod)
    run_virtual(plugin.pre_bind(cycle, pod, "n"), rig.clock)
    assert [obj.name for obj in rig.api.written] == ["v", "a"]


def test_delayed_watch_of_written_objects() -> None:
    rig = dynamic_rig(lag=4.5)

    def provision(api: StorageApi) -> None:
        api.rig.add(make_volume("made"))
        api.lag = 0
        api.complete("made")

    assert bind(rig, provision, after=5.5) == (None, 6.0), "until then the claim looks as if nobody had selected a node"


def drop_pod(api: StorageApi) -> None:
    api.rig.objects[Pod].drop(POD)


def drop_node(api: StorageApi) -> None:
    api.rig.cache.remove_node("n")


def reset_claim_ref(api: StorageApi) -> None:
    volume = api.volume()
    api.store(replace(volume, spec=replace(volume.spec, claim_ref=None)))


def move_node(api: StorageApi) -> None:
    api.rig.add(replace(make_node("n"), metadata=replace(make_node("n").metadata, labels={})))


def drop_volume(api: StorageApi) -> None:
    api.rig.objects[PersistentVolume].drop(api.volume())


def drop_claim(api: StorageApi) -> None:
    api.rig.objects[PersistentVolumeClaim].drop(api.claim())


def forget_everything(api: StorageApi) -> None:
    api.annotate({})


def fail_provisioning(api: StorageApi) -> None:
    api.annotate({"other": "note"})


def provision_elsewhere(api: StorageApi) -> None:
    api.rig.add(make_volume("made", reach=reachable(host="elsewhere")))
    api.complete("made")


FAILURES: dict[str, tuple[Callable[[], StorageRig], Callable[[StorageApi], None], str]] = {
    "the pod is deleted": (static_rig, drop_pod, 'pod does not exist any more: pod "p" not found'),
    "the node is deleted": (static_rig, drop_node, 'failed to get node "n": node "n" not found'),
    "the claim reference of the volume was reset": (static_rig, reset_claim_ref, 'ClaimRef got reset for pv "v"'),
    "the node is elsewhere now": (
        static_rig,
        move_node,
        'pv "v" node affinity doesn\'t match node "n": no matching NodeSelectorTerms',
    ),
    "the volume is deleted": (static_rig, drop_volume, 'failed to check binding: persistentvolumes "v" not found'),
    "the claim is deleted": (
        static_rig,
        drop_claim,
        'failed to check binding: persistentvolumeclaims "default/c" not found',
    ),
    "the claim to be provisioned is deleted": (
        dynamic_rig,
        drop_claim,
        'failed to check provisioning pvc: persistentvolumeclaims "default/c" not found',
    ),
    "no annotation is left": (dynamic_rig, forget_everything, 'selectedNode annotation reset for PVC "c"'),
    "the provisioner gave up": (dynamic_rig, fail_provisioning, 'provisioning failed for PVC "c"'),
    "the volume was made elsewhere": (
        dynamic_rig,
        provision_elsewhere,
        'pv "made" node affinity doesn\'t match node "n": no matching NodeSelectorTerms',
    ),
}


@pytest.mark.parametrize(("rig", "meanwhile", "text"), FAILURES.values(), ids=FAILURES)
def test_events_that_end_the_wait(
    rig: Callable[[], StorageRig], meanwhile: Callable[[StorageApi], None], text: str
) -> None:
    assert bind(rig(), meanwhile) == (Status.error(f"binding volumes: {text}"), 3.0)


@pytest.mark.parametrize("seconds", [0, 1, 5, 600])
def test_the_wait_ends_when_its_time_is_up(seconds: int) -> None:
    timed_out = Status.error("binding volumes: context deadline exceeded")
    rig = static_rig()
    rig.meter = tally = Tally()
    assert bind(rig, timeout=seconds) == (timed_out, float(seconds))
    assert tally.counted == {(STAGE_ERRORS, "bind"): 1}


def test_a_claim_ahead_of_its_volume_is_waited_for() -> None:
    timed_out = Status.error("binding volumes: context deadline exceeded")
    assert bind(dynamic_rig(), lambda api: api.complete("unseen"), timeout=9) == (timed_out, 9.0)


def test_a_failed_write_is_raised_and_the_remaining_assumptions_are_released() -> None:
    rig = static_rig()
    rig.add(
        make_claim("d", storage_class="local", request="2Gi"),
        make_volume("w", storage_class="local", capacity="2Gi"),
        make_claim("e", storage_class="late"),
        LATE,
    )
    pod = make_pod("p", volumes=tuple(map(claim_volume, "cde")))
    plugin = VolumeBinding(handle=rig)
    cycle = reserve(plugin, rig, pod)
    rig.api.refused = {"w"}
    rig.meter = tally = Tally()
    with pytest.raises(WriteRefusedError):
        run_virtual(plugin.pre_bind(cycle, pod, "n"), rig.clock)
    assert tally.counted == {(STAGE_ERRORS, "bind"): 1}
    plugin.unreserve(cycle, pod, "n")
    assert [obj.name for obj in rig.api.written] == ["v"]
    stored = rig.api.volume("v").spec.claim_ref
    assert stored is not None, "what is in the API stays there"
    again = reserve(plugin, rig, pod)[RESERVED]
    assert [binding.volume.name for binding in again.bindings] == ["v", "w"]
    assert [claim.name for claim in again.claims] == ["e"]
