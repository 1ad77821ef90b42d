"""Pods that come before their claims: which of them are worth asking about, and that all of them get in."""

import pytest
from msgspec.structs import replace
from tests.support.engine import registry_with
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import (
    claiming,
    device,
    make_claim,
    make_class,
    make_slice,
)

from moorage.cluster.simulation.simulation import Simulation
from moorage.cluster.simulation.world import World
from moorage.common.clock import VirtualClock
from moorage.kube.api.devices import ResourceClaim
from moorage.kube.api.pod import Pod, PodResourceClaim, PodResourceClaimStatus, PodStatus
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.dynamic_resources import awaiting
from moorage.scheduler.plugins.dynamic_resources.awaiting import PodsAwaitingClaims
from moorage.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from moorage.scheduler.state.objects import ObjectCache
from moorage.testing import make_node, make_pod

COUNT = 30


def waiting(*pods: str) -> tuple[ObjectCache[ResourceClaim], PodsAwaitingClaims]:
    """Have some pods wait for claims of their names."""
    claims = ObjectCache[ResourceClaim]()
    found = PodsAwaitingClaims(claims)
    assert found.reconsidered() is None, "nothing is known yet: it could be any"
    for pod in pods:
        found.add(pod, f"default/{pod}")
    assert found.reconsidered() == set()
    return claims, found


def test_a_pod_is_worth_asking_about_when_its_claim_changed_and_once() -> None:
    claims, found = waiting("a", "b")
    claims.put(make_claim(name="c"))
    assert found.reconsidered() == set()
    claims.put(make_claim(name="b"))
    assert found.reconsidered() == {"b"}
    assert found.reconsidered() == set()
    found.add("b", "default/b")
    claims.drop(make_claim(name="b"))
    assert found.reconsidered() == {"b"}


def test_a_pod_that_has_to_change_itself_waits_for_no_claim() -> None:
    claims, found = waiting()
    found.add("a", "")
    claims.put(make_claim(name="a"))
    assert found.reconsidered() == set()


def test_with_too_many_pods_it_could_be_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaiting, "MAX_AWAITING", 2)
    _, found = waiting("a", "b", "b")
    found.add("c", "default/c")
    assert found.reconsidered() is None
    assert found.reconsidered() == set()


def test_pods_that_are_listed_before_their_claims_are_not_all_asked_about_for_each_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    usual = DynamicResources.pre_enqueue

    def counting(plugin: DynamicResources, pod: Pod) -> Status | None:
        asked.append(pod.name)
        return usual(plugin, pod)

    monkeypatch.setattr(DynamicResources, "pre_enqueue", counting)
    world = World(VirtualClock())
    scheduler = Simulation(world, default_config(), registry_with(), features=FeatureGates()).scheduler
    handlers = scheduler.handlers
    for number in range(COUNT):
        handlers.pod_added(claiming(f"claim-{number}", name=f"pod-{number}"))
    handlers.node_added(make_node("n"))
    handlers.object_added(make_class("gpu"))
    handlers.object_added(make_slice(device("a"), node="n"))
    for number in range(COUNT):
        handlers.object_added(make_claim(name=f"claim-{number}"))
    assert sum(scheduler.queue.pop() is not None for _ in range(COUNT + 1)) == COUNT
    assert len(asked) <= 6 * COUNT, "each when it comes, all once, and each when its claim comes"


def templated(*claims: str) -> Pod:
    """Make a pod whose claim is made from a template; with the name of that claim once there is one."""
    use = PodResourceClaim(name="gpu", resource_claim_template_name="one-gpu")
    made = tuple(PodResourceClaimStatus(name="gpu", resource_claim_name=claim) for claim in claims)
    pod = make_pod("first", uid="first", resource_claims=(use,), status=PodStatus(resource_claim_statuses=made))
    return replace(pod, metadata=replace(pod.metadata, resource_version=str(len(made))))


@pytest.mark.parametrize("first", ["the claim", "its name in the pod"])
def test_a_pod_gets_in_whether_its_claim_or_the_name_of_it_comes_first(first: str) -> None:
    scheduler = Simulation(World(VirtualClock()), default_config(), registry_with(), features=FeatureGates()).scheduler
    handlers = scheduler.handlers
    handlers.node_added(make_node("n"))
    handlers.object_added(make_class("gpu"))
    before, after = templated(), templated("made")
    handlers.pod_added(before)
    handlers.object_added(make_slice(device("a"), node="n"))  # asks about everybody the first time
    claim = make_claim(name="made", owner=after)
    news = [lambda: handlers.object_added(claim), lambda: handlers.pod_updated(before, after)]
    for tell in news if first == "the claim" else reversed(news):
        assert scheduler.queue.pop() is None
        tell()
    queued = scheduler.queue.pop()
    assert queued is not None
    assert queued.pod is after
