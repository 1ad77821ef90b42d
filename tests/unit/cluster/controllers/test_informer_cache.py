from msgspec.structs import replace
from tests.support.reconciling import make, pod

from moorage.cluster.controllers.informer_cache import ObjectIndex
from moorage.kube.api.pod import Pod
from moorage.kube.api.workloads import ReplicaSet


def at(obj: Pod, version: int) -> Pod:
    return replace(obj, metadata=replace(obj.metadata, resource_version=str(version)))


def test_newest_version_wins_in_any_order() -> None:
    shelf: ObjectIndex[Pod] = ObjectIndex()
    placed, waiting = at(pod("p", node="n1"), 9), at(pod("p", node=""), 5)
    shelf.put(placed)
    shelf.put(waiting)
    assert shelf.get("shop/p") == placed


def test_response_after_the_deletion_is_ignored() -> None:
    shelf: ObjectIndex[Pod] = ObjectIndex()
    obj = at(pod("p"), 5)
    shelf.put(obj)
    shelf.drop(obj)
    shelf.put(at(obj, 6))
    assert len(shelf) == 0


def test_new_object_of_an_old_name_replaces_it() -> None:
    shelf: ObjectIndex[Pod] = ObjectIndex()
    old = at(pod("p", node="n1"), 50)
    new = make(Pod, "p", metadata={"uid": "another", "resourceVersion": "7"})
    shelf.put(old)
    shelf.put(new)
    shelf.drop(old)
    assert shelf.get("shop/p") == new
    assert not shelf.on_node("n1")


def test_objects_are_found_by_owner_node_and_namespace() -> None:
    shelf: ObjectIndex[Pod] = ObjectIndex()
    maker = make(ReplicaSet, "web")
    owned, unowned = pod("a", owner=maker, node="n1"), pod("b", node="n2")
    shelf.put(owned)
    shelf.put(unowned)
    assert list(shelf.owned_by(maker.uid)) == [owned]
    assert list(shelf.on_node("n2")) == [unowned]
    assert len(shelf.in_namespace("shop")) == 2
    moved = at(pod("a", node="n2"), 10**6)
    shelf.put(moved)
    assert not shelf.owned_by(maker.uid)
    assert len(shelf.on_node("n2")) == 2
