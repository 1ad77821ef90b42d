import pytest

from moorage.kube.api.pod import Pod, SchedulingGate
from moorage.scheduler.framework.events import Action, ClusterEvent, Resource
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.scheduling_gates import SchedulingGates
from moorage.testing import make_pod


def gated(*names: str) -> Pod:
    return make_pod(scheduling_gates=tuple(SchedulingGate(name) for name in names))


CASES = {
    "a pod without gates may enter": (gated(), None),
    "one gate holds it back": (gated("a"), Status.unresolvable("waiting for scheduling gates: [a]")),
    "all gates are named in their order": (gated("b", "a"), Status.unresolvable("waiting for scheduling gates: [b a]")),
}


@pytest.mark.parametrize(("pod", "want"), CASES.values(), ids=CASES)
def test_pre_enqueue(pod: Pod, want: Status | None) -> None:
    assert SchedulingGates().pre_enqueue(pod) == want


def test_only_removal_of_the_last_gate_is_an_event() -> None:
    (registration,) = SchedulingGates().events_to_register()
    assert registration.event == ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    assert registration.hint is None
