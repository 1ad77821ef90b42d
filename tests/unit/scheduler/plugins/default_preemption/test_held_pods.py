"""Pods that wait for their victims to leave: which of them are worth asking about."""

from moorage.scheduler.plugins.default_preemption.eviction import HeldPods
from moorage.scheduler.state.cache import Cache
from moorage.testing import make_node, make_pod

VICTIM = make_pod("victim", node="a")


def held() -> tuple[Cache, HeldPods]:
    cache = Cache()
    for name in "abc":
        cache.add_node(make_node(name))
    cache.add_pod(VICTIM)
    pods = HeldPods(cache.nodes)
    assert pods.reconsidered() is None, "nothing is known yet: it could be any"
    pods.add("default/p", "uid-of-p", ["a"])
    assert pods.reconsidered() == set()
    return cache, pods


def test_a_pod_is_worth_asking_about_when_the_node_of_its_victim_changed_and_once() -> None:
    cache, pods = held()
    cache.add_pod(make_pod("other", node="b"))
    assert pods.reconsidered() == set()
    cache.remove_pod(VICTIM)
    assert pods.reconsidered() == {"default/p"}
    assert pods.reconsidered() == set()


def test_a_pod_is_worth_asking_about_when_the_work_for_it_has_come_further() -> None:
    _, pods = held()
    pods.reconsider("uid-of-another")
    assert pods.reconsidered() == set()
    pods.reconsider("uid-of-p")
    assert pods.reconsidered() == {"default/p"}


def test_when_a_node_goes_it_could_be_any_pod() -> None:
    cache, pods = held()
    cache.remove_node("c")
    assert pods.reconsidered() is None
    assert pods.reconsidered() == set()
