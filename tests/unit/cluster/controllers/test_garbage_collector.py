import pytest
from tests.support.reconciling import describe, make, waits_in

from moorage.cluster.controllers.actions import Delete
from moorage.cluster.controllers.garbage_collector import GarbageCollector
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import owner_reference
from moorage.common.clock import VirtualClock
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.workloads import Deployment, ReplicaSet

DYING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def owner(*finalizers: str) -> Deployment:
    metadata = {"finalizers": list(finalizers), **(DYING if finalizers else {})}
    return make(Deployment, "web", metadata=metadata)


def owned(age: float = 100.0) -> ReplicaSet:
    return make(ReplicaSet, "web-1", owner=make(Deployment, "web"), age=age)


def shared(*owners: KubeObject, **metadata: object) -> Pod:
    """Make a pod with several owners that all block on its deletion."""
    references = [{**owner_reference(item), "controller": False} for item in owners]
    return make(Pod, "p", metadata={"ownerReferences": references, **metadata})


def in_circle(name: str, before: str) -> Pod:
    reference = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": before,
        "uid": f"uid-of-{before}",
        "blockOwnerDeletion": True,
    }
    return make(Pod, name, metadata={"ownerReferences": [reference], "finalizers": ["foregroundDeletion"], **DYING})


OTHER = make(ReplicaSet, "other")
STRANGER = make(Deployment, "web", metadata={"uid": "another"})
CUSTOM = make(Pod, "p", metadata={"ownerReferences": [{"apiVersion": "x/v1", "kind": "Gang", "name": "g", "uid": "u"}]})
CASES = {
    "an object with an owner remains": ([owner(), owned()], "ReplicaSet/shop/web-1", []),
    "an object without its owner is deleted": ([owned()], "ReplicaSet/shop/web-1", ["delete web-1"]),
    "an object with the owner's name but another UID is not an owner": (
        [STRANGER, owned()],
        "ReplicaSet/shop/web-1",
        ["delete web-1"],
    ),
    "an object without owner references remains": ([make(Pod, "p")], "Pod/shop/p", []),
    "owners of unwatched kinds are treated as existing": ([CUSTOM], "Pod/shop/p", []),
    "a foreground deletion deletes the dependents": (
        [owner("foregroundDeletion"), owned()],
        "Deployment/shop/web",
        ["delete web-1"],
    ),
    "a foreground deletion ends without dependents": (
        [owner("foregroundDeletion")],
        "Deployment/shop/web",
        ["change web"],
    ),
    "an orphan deletion removes the owner references": (
        [owner("orphan"), owned()],
        "Deployment/shop/web",
        ["change web-1"],
    ),
    "a dependent with another owner survives a foreground deletion": (
        [owner("foregroundDeletion"), OTHER, shared(owner("foregroundDeletion"), OTHER)],
        "Deployment/shop/web",
        ["change p"],
    ),
    "a reference to a waiting owner is removed": (
        [owner("foregroundDeletion"), OTHER, shared(owner("foregroundDeletion"), OTHER)],
        "Pod/shop/p",
        ["change p"],
    ),
    "a reference to a missing owner is removed": ([OTHER, shared(owner(), OTHER)], "Pod/shop/p", ["change p"]),
    "a cycle of blocking owners is broken": (
        [in_circle("a", "c"), in_circle("b", "a"), in_circle("c", "b")],
        "Pod/shop/a",
        ["change a"],
    ),
    "an orphan deletion ends without dependents": ([owner("orphan")], "Deployment/shop/web", ["change web"]),
}


@pytest.mark.parametrize(("objects", "key", "want"), CASES.values(), ids=CASES)
def test_dependents_follow_their_owners(objects: list[KubeObject], key: str, want: list[str]) -> None:
    assert describe(GarbageCollector(VirtualClock()).reconcile(key, InformerCache(objects))) == want


def test_young_object_is_not_collected() -> None:
    actions = list(GarbageCollector(VirtualClock()).reconcile("ReplicaSet/shop/web-1", InformerCache([owned(age=0.0)])))
    assert describe(actions) == []
    assert waits_in(actions) == [2.0]


def test_foreground_deletion_is_recursive() -> None:
    cache = InformerCache([owner("foregroundDeletion"), owned()])
    (delete,) = GarbageCollector(VirtualClock()).reconcile("ReplicaSet/shop/web-1", cache)
    assert isinstance(delete, Delete)
    assert delete.propagation == "Foreground"


def test_deleted_owner_affects_its_dependents() -> None:
    keys = GarbageCollector(VirtualClock()).affected(owner(), InformerCache([owned()]))
    assert list(keys) == ["ReplicaSet/shop/web-1"]
