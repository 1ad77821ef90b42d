"""Which events wake a pod that waits for devices."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.support.engine import registry_with
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import (
    claiming,
    device,
    held,
    make_claim,
    make_class,
    make_slice,
)

from moorage.cluster.simulation.simulated_cluster import SimulatedCluster
from moorage.cluster.simulation.simulation import Simulation
from moorage.common.clock import VirtualClock
from moorage.kube.api.devices import ClaimConsumer, ResourceClaim
from moorage.kube.api.pod import Pod, PodResourceClaim, PodResourceClaimStatus, PodStatus
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.dynamic_resources import hints
from moorage.scheduler.plugins.dynamic_resources.claims.tracker import ClaimTracker
from moorage.scheduler.plugins.dynamic_resources.hints import DeviceHints, PodsAwaitingClaims
from moorage.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from moorage.scheduler.state.objects import ObjectCache
from moorage.scheduler.wiring.policy import Policy
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig

POD = claiming("claim")
FREE, HELD = make_claim(), make_claim(allocation=held("d"))
OTHER, OTHER_HELD = make_claim(name="other"), make_claim(name="other", allocation=held("d"))
RESERVED = replace(HELD, status=replace(HELD.status, reserved_for=(ClaimConsumer(uid="x"),)))
LABELED = replace(FREE, metadata=replace(FREE.metadata, labels={"a": "b"}))

Claim = ResourceClaim | None
CASES: dict[str, tuple[Sequence[ResourceClaim], Claim, Claim, bool]] = {
    "the pod's claim was made": ([FREE], None, FREE, True),
    "another was made": ([FREE, OTHER], None, OTHER, False),
    "the pod's claim was allocated": ([HELD], FREE, HELD, True),
    "and reserved": ([RESERVED], HELD, RESERVED, True),
    "only its labels changed": ([LABELED], FREE, LABELED, False),
    "another was allocated": ([FREE, OTHER_HELD], OTHER, OTHER_HELD, False),
    "another was deallocated": ([FREE, OTHER], OTHER_HELD, OTHER, True),
    "which does not help while the pod's own is missing": ([OTHER], OTHER_HELD, OTHER, False),
    "one without devices was deleted": ([FREE], OTHER, None, False),
    "one with devices was deleted": ([FREE], OTHER_HELD, None, True),
    "one was deleted unseen": ([FREE], None, None, True),
}


def make_hints(*claims: ResourceClaim) -> DeviceHints:
    shelf = Rig(*claims).lister(ResourceClaim)
    return DeviceHints(ClaimTracker(shelf, shares=True, on_change=lambda _pools: None), PodsAwaitingClaims(shelf))


@pytest.mark.parametrize(("claims", "old", "new", "helps"), CASES.values(), ids=CASES)
def test_claims(claims: Sequence[ResourceClaim], old: Claim, new: Claim, helps: bool) -> None:
    want = QueueingHint.QUEUE if helps else QueueingHint.SKIP
    assert make_hints(*claims).after_claim(POD, old, new) == want


def test_pod_is_requeued_when_its_claims_exist() -> None:
    assert make_hints(FREE).after_pod(POD, POD, POD) == QueueingHint.QUEUE
    assert make_hints().after_pod(POD, POD, POD) == QueueingHint.SKIP


@pytest.mark.release("1.37")
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


COUNT = 30


def waiting(*pods: str) -> tuple[ObjectCache[ResourceClaim], PodsAwaitingClaims]:
    """Have some pods wait for claims of their names."""
    claims = ObjectCache[ResourceClaim]()
    result = PodsAwaitingClaims(claims)
    assert result.reconsidered() is None, "nothing is known yet: it could be any"
    for pod in pods:
        result.add(pod, f"default/{pod}")
    assert result.reconsidered() == set()
    return claims, result


def test_a_gated_pod_is_checked_once_after_its_claim_changed() -> None:
    claims, result = waiting("a", "b")
    claims.put(make_claim(name="c"))
    assert result.reconsidered() == set()
    claims.put(make_claim(name="b"))
    assert result.reconsidered() == {"b"}
    assert result.reconsidered() == set()
    result.add("b", "default/b")
    claims.drop(make_claim(name="b"))
    assert result.reconsidered() == {"b"}


def test_a_pod_that_must_change_itself_is_not_indexed() -> None:
    claims, result = waiting()
    result.add("a", "")
    claims.put(make_claim(name="a"))
    assert result.reconsidered() == set()


def test_the_index_restarts_with_too_many_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "MAX_AWAITING", 2)
    _, result = waiting("a", "b", "b")
    result.add("c", "default/c")
    assert result.reconsidered() is None
    assert result.reconsidered() == set()


def test_pods_listed_before_their_claims_are_not_all_checked_for_each_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requested: list[str] = []
    usual = DynamicResources.pre_enqueue

    def counting(plugin: DynamicResources, pod: Pod) -> Status | None:
        requested.append(pod.name)
        return usual(plugin, pod)

    monkeypatch.setattr(DynamicResources, "pre_enqueue", counting)
    world = SimulatedCluster(VirtualClock())
    scheduler = Simulation(world, Policy(default_config(), registry_with(), FeatureGates())).scheduler
    handlers = scheduler.handlers
    for number in range(COUNT):
        handlers.pod_added(claiming(f"claim-{number}", name=f"pod-{number}"))
    handlers.apply(None, make_node("n"))
    handlers.apply(None, make_class("gpu"))
    handlers.apply(None, make_slice(device("a"), node="n"))
    for number in range(COUNT):
        handlers.apply(None, make_claim(name=f"claim-{number}"))
    assert sum(scheduler.queue.pop() is not None for _ in range(COUNT + 1)) == COUNT
    assert len(requested) <= 6 * COUNT, "each when it comes, all once, and each when its claim comes"


def templated(*claims: str) -> Pod:
    """Make a pod with a claim from a template; with the name of that claim once there is one."""
    use = PodResourceClaim(name="gpu", resource_claim_template_name="one-gpu")
    created = tuple(PodResourceClaimStatus(name="gpu", resource_claim_name=claim) for claim in claims)
    pod = make_pod("first", uid="first", resource_claims=(use,), status=PodStatus(resource_claim_statuses=created))
    return replace(pod, metadata=replace(pod.metadata, resource_version=str(len(created))))


@pytest.mark.parametrize("first", ["the claim", "its name in the pod"])
def test_a_pod_is_admitted_whether_its_claim_or_its_claim_name_is_first(first: str) -> None:
    scheduler = Simulation(
        SimulatedCluster(VirtualClock()), Policy(default_config(), registry_with(), FeatureGates())
    ).scheduler
    handlers = scheduler.handlers
    handlers.apply(None, make_node("n"))
    handlers.apply(None, make_class("gpu"))
    before, after = templated(), templated("made")
    handlers.pod_added(before)
    handlers.apply(None, make_slice(device("a"), node="n"))  # the first call checks all pods
    claim = make_claim(name="made", owner=after)
    news = [lambda: handlers.apply(None, claim), lambda: handlers.pod_updated(before, after)]
    for tell in news if first == "the claim" else reversed(news):
        assert scheduler.queue.pop() is None
        tell()
    queued = scheduler.queue.pop()
    assert queued is not None
    assert queued.pod is after


def test_pods_that_were_indexed_from_the_start_are_not_all_checked_at_the_first_event() -> None:
    claims = ObjectCache[ResourceClaim]()
    result = PodsAwaitingClaims(claims)
    result.add("a", "default/a")
    assert result.reconsidered() == set()
    claims.put(make_claim(name="a"))
    assert result.reconsidered() == {"a"}
