"""Which events wake a pod that waits for devices."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import claiming, held, make_claim

from moorage.kube.api.devices import ClaimConsumer, ResourceClaim
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.plugins.dynamic_resources.awaiting import PodsAwaitingClaims
from moorage.scheduler.plugins.dynamic_resources.claims import ClaimBook
from moorage.scheduler.plugins.dynamic_resources.hints import DeviceHints
from moorage.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from moorage.testing.rig import Rig

POD = claiming("claim")
FREE, HELD = make_claim(), make_claim(allocation=held("d"))
OTHER, OTHER_HELD = make_claim(name="other"), make_claim(name="other", allocation=held("d"))
RESERVED = replace(HELD, status=replace(HELD.status, reserved_for=(ClaimConsumer(uid="x"),)))
LABELLED = replace(FREE, metadata=replace(FREE.metadata, labels={"a": "b"}))

Claim = ResourceClaim | None
CASES: dict[str, tuple[Sequence[ResourceClaim], Claim, Claim, bool]] = {
    "the pod's claim was made": ([FREE], None, FREE, True),
    "another was made": ([FREE, OTHER], None, OTHER, False),
    "the pod's claim was allocated": ([HELD], FREE, HELD, True),
    "and reserved": ([RESERVED], HELD, RESERVED, True),
    "only its labels changed": ([LABELLED], FREE, LABELLED, False),
    "another was allocated": ([FREE, OTHER_HELD], OTHER, OTHER_HELD, False),
    "another was deallocated": ([FREE, OTHER], OTHER_HELD, OTHER, True),
    "which does not help while the pod's own is missing": ([OTHER], OTHER_HELD, OTHER, False),
    "one without devices was deleted": ([FREE], OTHER, None, False),
    "one with devices was deleted": ([FREE], OTHER_HELD, None, True),
    "one was deleted unseen": ([FREE], None, None, True),
}


def hints(*claims: ResourceClaim) -> DeviceHints:
    shelf = Rig(*claims).lister(ResourceClaim)
    return DeviceHints(ClaimBook(shelf, shares=True, on_change=lambda _pools: None), PodsAwaitingClaims(shelf))


@pytest.mark.parametrize(("claims", "old", "new", "helps"), CASES.values(), ids=CASES)
def test_claims(claims: Sequence[ResourceClaim], old: Claim, new: Claim, helps: bool) -> None:
    want = QueueingHint.QUEUE if helps else QueueingHint.SKIP
    assert hints(*claims).after_claim(POD, old, new) == want


def test_a_pod_may_be_tried_once_its_claims_are_there() -> None:
    assert hints(FREE).after_pod(POD, POD, POD) == QueueingHint.QUEUE
    assert hints().after_pod(POD, POD, POD) == QueueingHint.SKIP


def test_registrations() -> None:
    events = [item.event for item in DynamicResources(handle=Rig()).events_to_register()]
    node = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
    assert events == [
        ClusterEvent(Resource.NODE, node),
        ClusterEvent(Resource.RESOURCE_CLAIM, Action.ADD | Action.UPDATE | Action.DELETE),
        ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
        ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE),
        ClusterEvent(Resource.RESOURCE_SLICE, Action.ADD | Action.UPDATE),
    ]
