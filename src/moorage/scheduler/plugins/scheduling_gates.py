"""SchedulingGates: a pod with gates stays out of the queue until the last one is lifted."""

from collections.abc import Sequence
from typing import Final

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, Resource
from moorage.scheduler.framework.plugin import PreEnqueuePlugin
from moorage.scheduler.framework.status import Status

_EVENTS: Final = (EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)),)


class SchedulingGates(PreEnqueuePlugin):
    """Hold back pods that still have scheduling gates."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        return Status.unresolvable(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")

    def events_to_register(self) -> Sequence[EventRegistration]:
        return _EVENTS
