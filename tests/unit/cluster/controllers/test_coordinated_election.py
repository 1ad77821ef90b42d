"""Coordinated leader election: pinged candidates, elected candidates, and replaced leaders."""

from typing import Any

import pytest
from tests.support.reconciling import make

from moorage.cluster.controllers.actions import ControllerAction, Create, Patch, RequeueAfter
from moorage.cluster.controllers.coordinated_election import ElectionController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.common.clock import VirtualClock
from moorage.kube.api.meta import format_micro_time
from moorage.kube.api.records import Lease, LeaseCandidate

NOW = VirtualClock().wall()
KEY = "kube-system/kube-scheduler"


def ago(seconds: float) -> str:
    return format_micro_time(NOW - seconds)


def candidate(
    name: str, *, emulated: str = "1.37.0", binary: str = "1.37.0", renewed: float = 1.0, **more: Any
) -> LeaseCandidate:
    ping = {"pingTime": ago(more["asked"])} if "asked" in more else {}
    spec = {
        "leaseName": "kube-scheduler",
        "binaryVersion": binary,
        "emulationVersion": emulated,
        "strategy": more.get("strategy", "OldestEmulationVersion"),
        "renewTime": ago(renewed),
        **ping,
    }
    return make(LeaseCandidate, name, age=more.get("age", 100.0), metadata={"namespace": "kube-system"}, spec=spec)


def lease(holder: str, *, renewed: float = 1.0, preferred: str | None = None) -> Lease:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 5, "renewTime": ago(renewed), "leaseTransitions": 3}
    if preferred is not None:
        spec["preferredHolder"] = preferred
    return make(Lease, "kube-scheduler", metadata={"namespace": "kube-system"}, spec=spec)


def current(action: ControllerAction) -> str:
    match action:
        case Create(data=data):
            return f"elect {data['spec']['holderIdentity']}"
        case Patch(obj=Lease(), patch=patch):
            spec = patch["spec"]
            return (
                f"elect {spec['holderIdentity']}" if "holderIdentity" in spec else f"prefer {spec['preferredHolder']}"
            )
        case Patch(obj=obj):
            return f"ask {obj.name}"
        case RequeueAfter():
            return "wait"
    raise AssertionError(action)


CASES: dict[str, tuple[list[Any], list[str]]] = {
    "without candidates": ([lease("gone", renewed=100)], []),
    "a live candidate is elected": ([candidate("a")], ["elect a"]),
    "a silent candidate is pinged first": ([candidate("a", renewed=60)], ["ask a", "wait"]),
    "a pinged candidate has time to renew": ([candidate("a", renewed=60, asked=2)], ["wait"]),
    "a candidate that renewed after a ping is elected": ([candidate("a", renewed=1, asked=2)], ["elect a"]),
    "the oldest emulated version is preferred": ([candidate("a"), candidate("b", emulated="1.36.0")], ["elect b"]),
    "then the oldest binary version": ([candidate("a"), candidate("b", binary="1.36.0")], ["elect b"]),
    "versions are compared as numbers": (
        [candidate("a", emulated="1.9.0"), candidate("b", emulated="1.10.0")],
        ["elect a"],
    ),
    "then the oldest candidate": ([candidate("a"), candidate("b", age=200.0)], ["elect b"]),
    "candidates expire after half an hour": (
        [candidate("a", renewed=1801, emulated="1.36.0"), candidate("b")],
        ["elect b"],
    ),
    "an election does not wait for dead candidates": (
        [candidate("a", renewed=60, asked=9, emulated="1.36.0"), candidate("b")],
        ["elect b"],
    ),
    "the best candidate keeps the lease": ([candidate("a"), lease("a")], ["wait"]),
    "an expired lease gets a new holder": ([candidate("a"), lease("b", renewed=9)], ["elect a"]),
    "a released lease gets a new holder": ([candidate("a"), lease("")], ["elect a"]),
    "a better candidate becomes the preferred holder": (
        [candidate("a"), candidate("b", emulated="1.36.0"), lease("a")],
        ["prefer b", "wait"],
    ),
    "the preferred holder is set once": (
        [candidate("a"), candidate("b", emulated="1.36.0"), lease("a", preferred="b")],
        ["wait"],
    ),
    "a silent better candidate is pinged first": (
        [candidate("a"), candidate("b", emulated="1.36.0", renewed=60), lease("a")],
        ["ask b", "wait", "wait"],
    ),
    "a better candidate that missed a ping is ignored": (
        [candidate("a"), candidate("b", emulated="1.36.0", renewed=60, asked=9), lease("a")],
        ["wait"],
    ),
    "the newest binary selects the strategy": (
        [candidate("a", binary="1.36.0"), candidate("b", strategy="SomethingNew")],
        [],
    ),
}


@pytest.mark.parametrize(("objects", "want"), CASES.values(), ids=CASES)
def test_elections(objects: list[Any], want: list[str]) -> None:
    controller = ElectionController(VirtualClock())
    assert [current(action) for action in controller.reconcile(KEY, InformerCache(objects))] == want


def test_affected_leases() -> None:
    controller, someone = ElectionController(VirtualClock()), candidate("a")
    assert controller.affected(someone, InformerCache()) == (KEY,)
    assert controller.affected(lease("a"), InformerCache([someone])) == (KEY,)
    assert controller.affected(lease("a"), InformerCache()) == (), "most leases are nobody's business here"
