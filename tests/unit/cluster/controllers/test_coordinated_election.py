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
    "nobody stands": ([lease("gone", renewed=100)], []),
    "one who has just said so is elected": ([candidate("a")], ["elect a"]),
    "one who was silent for a while is asked first": ([candidate("a", renewed=60)], ["ask a", "wait"]),
    "who was asked has time to answer": ([candidate("a", renewed=60, asked=2)], ["wait"]),
    "and is elected when it has": ([candidate("a", renewed=1, asked=2)], ["elect a"]),
    "the oldest emulated version leads": ([candidate("a"), candidate("b", emulated="1.36.0")], ["elect b"]),
    "then the oldest binary": ([candidate("a"), candidate("b", binary="1.36.0")], ["elect b"]),
    "numbers are compared, not texts": (
        [candidate("a", emulated="1.9.0"), candidate("b", emulated="1.10.0")],
        ["elect a"],
    ),
    "then who was there first": ([candidate("a"), candidate("b", age=200.0)], ["elect b"]),
    "who has not been heard of for half an hour is none": (
        [candidate("a", renewed=1801, emulated="1.36.0"), candidate("b")],
        ["elect b"],
    ),
    "somebody who lives is not kept waiting by the dead": (
        [candidate("a", renewed=60, asked=9, emulated="1.36.0"), candidate("b")],
        ["elect b"],
    ),
    "a leader is left alone": ([candidate("a"), lease("a")], ["wait"]),
    "a lease that has run out is given anew": ([candidate("a"), lease("b", renewed=9)], ["elect a"]),
    "so is one that was given back": ([candidate("a"), lease("")], ["elect a"]),
    "a better candidate is preferred": (
        [candidate("a"), candidate("b", emulated="1.36.0"), lease("a")],
        ["prefer b", "wait"],
    ),
    "once": ([candidate("a"), candidate("b", emulated="1.36.0"), lease("a", preferred="b")], ["wait"]),
    "if it lives": (
        [candidate("a"), candidate("b", emulated="1.36.0", renewed=60), lease("a")],
        ["ask b", "wait", "wait"],
    ),
    "and not if it does not answer": (
        [candidate("a"), candidate("b", emulated="1.36.0", renewed=60, asked=9), lease("a")],
        ["wait"],
    ),
    "the newest binary says how it is done": (
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
