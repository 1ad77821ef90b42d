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
    """Make a pod with several owners, each of which would wait for it."""
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
    "what has its owner stays": ([owner(), owned()], "ReplicaSet/shop/web-1", []),
    "what lost it goes": ([owned()], "ReplicaSet/shop/web-1", ["delete web-1"]),
    "another of the same name is no owner": ([STRANGER, owned()], "ReplicaSet/shop/web-1", ["delete web-1"]),
    "what has no owner stays": ([make(Pod, "p")], "Pod/shop/p", []),
    "owners of kinds we do not watch are believed": ([CUSTOM], "Pod/shop/p", []),
    "dependents of an owner that waits for them go": (
        [owner("foregroundDeletion"), owned()],
        "Deployment/shop/web",
        ["delete web-1"],
    ),
    "then it may go itself": ([owner("foregroundDeletion")], "Deployment/shop/web", ["change web"]),
    "an owner that lets them go is forgotten": (
        [owner("orphan"), owned()],
        "Deployment/shop/web",
        ["change web-1"],
    ),
    "what has another owner is let go of by one that waits": (
        [owner("foregroundDeletion"), OTHER, shared(owner("foregroundDeletion"), OTHER)],
        "Deployment/shop/web",
        ["change p"],
    ),
    "and lets go of it itself": (
        [owner("foregroundDeletion"), OTHER, shared(owner("foregroundDeletion"), OTHER)],
        "Pod/shop/p",
        ["change p"],
    ),
    "an owner that is gone is named no more": ([OTHER, shared(owner(), OTHER)], "Pod/shop/p", ["change p"]),
    "of pods that wait for each other none is waited for": (
        [in_circle("a", "c"), in_circle("b", "a"), in_circle("c", "b")],
        "Pod/shop/a",
        ["change a"],
    ),
    "then it may go, too": ([owner("orphan")], "Deployment/shop/web", ["change web"]),
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
