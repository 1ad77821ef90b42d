import pytest
from tests.unit.scheduler.queue.queue_bench import Bench

from moorage.kube.api.pod import Pod, PodStatus
from moorage.scheduler.queue.nominator import PodNominator
from moorage.scheduler.state.objects import ObjectCache
from moorage.testing import make_pod


def pod(nominated: str = "", *, node: str = "", name: str = "p", priority: int | None = 5) -> Pod:
    status = PodStatus(nominated_node_name=nominated)
    return make_pod(name, uid=f"uid-{name}", status=status, node=node, priority=priority)


# (the pod, the node named in addition, what the API knows, where it is nominated)
ADDS: dict[str, tuple[Pod, str | None, Pod | None, str]] = {
    "the pod's status names the node": (pod("n1"), None, pod(), "n1"),
    "a name given overrides it": (pod("n1"), "n2", pod(), "n2"),
    "an empty name clears it": (pod("n1"), "", pod(), ""),
    "no name anywhere": (pod(), None, pod(), ""),
    "a pod that is deleted": (pod("n1"), None, None, ""),
    "a pod that has a node": (pod("n1"), None, pod("n1", node="n1"), ""),
}


@pytest.mark.parametrize(("added", "name", "existing", "want"), ADDS.values(), ids=ADDS)
def test_add(added: Pod, name: str | None, existing: Pod | None, want: str) -> None:
    shelf = ObjectCache[Pod]()
    if existing is not None:
        shelf.put(existing)
    nominations = PodNominator({added.key: added}.get, shelf)
    nominations.add(added, name)
    nominations.check_invariants()
    assert nominations.node_of(added) == want
    assert list(nominations.nodes_with_nominations()) == ([want] if want else [])
    assert list(nominations.nominated_pods(want)) == ([added] if want else [])


def test_re_adding_moves_the_nomination() -> None:
    nominations = PodNominator({}.get)
    nominations.add(pod("n1"))
    nominations.add(pod("n1"), "n2")
    nominations.check_invariants()
    assert list(nominations.nodes_with_nominations()) == ["n2"]


# (old status, new status, promised in memory beforehand, promised afterward)
UPDATES = {
    "a promise kept in memory survives an update without it": ("", "", "n1", "n1"),
    "nothing was promised": ("", "", "", ""),
    "the status names a node for the first time": ("", "n2", "n1", "n2"),
    "the status names another node": ("n1", "n2", "n1", "n2"),
    "the status names none any more": ("n1", "", "n1", ""),
    "the status remains": ("n1", "n1", "n1", "n1"),
}


@pytest.mark.parametrize(("old", "new", "before", "after"), UPDATES.values(), ids=UPDATES)
def test_update(old: str, new: str, before: str, after: str) -> None:
    nominations = PodNominator({}.get)
    nominations.add(pod(old), before)
    nominations.update(pod(old), pod(new))
    nominations.check_invariants()
    assert nominations.node_of(pod()) == after


def test_removing() -> None:
    nominations = PodNominator({}.get)
    nominations.add(pod("n1"))
    nominations.add(pod("n1", name="q"))
    nominations.remove(pod())
    nominations.remove(pod())
    nominations.check_invariants()
    assert [p.name for p in nominations.nominated_pods("n1")] == ["q"]


def test_nominated_pods_are_current_and_stubs_while_in_flight() -> None:
    bench = Bench()
    nominator = bench.queue.nominator
    bench.queue.add(pod("n1"))
    (nominated,) = nominator.nominated_pods("n1")
    assert nominated.priority == 5
    changed = pod("n1", priority=7)
    bench.update(pod("n1"), changed)
    assert list(nominator.nominated_pods("n1")) == [changed]
    info = bench.pop("p")
    (stub,) = nominator.nominated_pods("n1")
    assert (stub.key, stub.uid, stub.priority, stub.requests) == (changed.key, changed.uid, 0, {})
    bench.fail(info, "Fit")
    assert list(nominator.nominated_pods("n1")) == [changed]


def test_a_gated_pod_keeps_its_nomination() -> None:
    bench = Bench()
    bench.first.close("p")
    bench.queue.add(pod("n1"))
    assert bench.where("p") == "gated"
    assert list(bench.queue.nominator.nodes_with_nominations()) == ["n1"]


@pytest.mark.parametrize("queue", ["active", "unschedulable"])
def test_an_update_moves_the_nomination_and_a_deletion_removes_it(queue: str) -> None:
    bench = Bench()
    bench.queue.add(pod("n1"))
    if queue == "unschedulable":
        bench.fail(bench.pop("p"), "Deaf")
    bench.update(pod("n1"), pod("n2"))
    assert list(bench.queue.nominator.nodes_with_nominations()) == ["n2"]
    bench.queue.delete(pod("n2"))
    bench.check()
    assert list(bench.queue.nominator.nodes_with_nominations()) == []
