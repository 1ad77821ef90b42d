"""The handling of failed attempts: the pod is requeued, and gets a condition and an event."""

from collections.abc import Mapping
from typing import Any, Final

import structlog

from moorage.common.text import cut_note, shortened
from moorage.kube.api.pod import Pod
from moorage.kube.api.records import EventNote
from moorage.scheduler.engine.outcomes import Failed, Unschedulable
from moorage.scheduler.engine.services import Services
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.observer import QueueObserver
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue
from moorage.scheduler.state.objects import ObjectCache

MAX_MESSAGE: Final = 32768
"""As long as the API lets messages of conditions be where it looks at their length."""
SCHEDULED: Final = "PodScheduled"

log = structlog.get_logger(__name__)


class FailureHandler:
    """Requeues pods after failed attempts."""

    def __init__(self, services: Services, queue: SchedulingQueue) -> None:
        self._services = services
        self._queue = queue
        self._pods: ObjectCache[Pod] = services.objects[Pod]
        self._heeds_resizes = services.features.enabled("InPlacePodVerticalScalingSchedulerPreemption")

    def handle(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Requeue the pod if it is still pending, and record an event with the reasons."""
        attempted_pod = queued.pod
        if isinstance(outcome, Unschedulable):
            queued.rejected_by(set(outcome.diagnosis.unschedulable_plugins), set(outcome.diagnosis.pending_plugins))
        else:
            queued.rejected_by(set())
        current = self._pods.get(queued.pod.name, queued.pod.namespace)
        if current is not None and current.uid != queued.pod.uid:
            self._queue.done(queued.uid)
            return
        if current is not None and current.node_name and self._heeds_resizes and current.has_deferred_resize:
            # The pod is running: it gets no event, condition or nomination.
            self._queue.add_unschedulable(queued, current)
            return
        if current is None or current.node_name:
            if current is None:
                log.info("Pod doesn't exist in informer cache", pod=queued.key)
            else:
                message = "Pod has been assigned to node. Abort adding it back to queue."
                log.info(message, pod=queued.key, node=current.node_name)
            self._queue.done(queued.uid)
        elif not self._queue.serves(current.scheduler_name):
            # Its profile was removed after the pod was placed: another scheduler owns the pod now.
            self._queue.done(queued.uid)
            return
        else:
            self._queue.add_unschedulable(queued, current)
        self._report(attempted_pod, current or attempted_pod, outcome)

    def _report(self, attempted_pod: Pod, pod: Pod, outcome: Unschedulable | Failed) -> None:
        nominated = outcome.nominated_node
        if nominated is None:
            # Not ``add``: a nomination that is still being written to the status would be lost.
            self._queue.nominator.update(attempted_pod, pod)
        else:
            if not nominated and not pod.nominated_node_name:
                self._queue.end_nomination(pod)  # no change of the status ends it
            self._queue.nominator.add(pod, nominated)
        # Reasons come from plugins: text that cannot be encoded or stored must not suppress the event.
        message = shortened(outcome.message, MAX_MESSAGE).encode(errors="replace").decode()
        rejected = isinstance(outcome, Unschedulable) or outcome.is_rejection
        reason = "Unschedulable" if rejected else "SchedulerError"
        self._services.cluster.record(
            EventNote(pod, "FailedScheduling", "Scheduling", cut_note(message), pod.scheduler_name, True)
        )
        if patch := status_patch(pod, reason, message, nominated):
            self._services.write_status(pod, patch)


class QueueFailureReporter(QueueObserver):
    """Gives a pod an event and a condition if a plugin raised while the pod was queued."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_plugin_failure(self, plugin: str, pod: Pod, problem: str) -> None:
        """Record an event. Write the condition unless the pod has it already."""
        message = shortened(problem, MAX_MESSAGE)
        note = EventNote(pod, "FailedScheduling", "Scheduling", cut_note(message), pod.scheduler_name, True)
        self._services.cluster.record(note)
        if patch := status_patch(pod, "SchedulerError", message, None):
            self._services.write_status(pod, patch)


def status_patch(pod: Pod, reason: str, message: str, nominated: str | None) -> Mapping[str, Any]:
    """Return the patch of the pod's status, or empty if nothing changes."""
    patch: dict[str, Any] = {}
    current = pod.condition(SCHEDULED)
    desired = ("False", reason, message, pod.metadata.generation)
    if current is None or (current.status, current.reason, current.message, current.observed_generation) != desired:
        condition = {"type": SCHEDULED, "status": "False", "reason": reason, "message": message}
        if pod.metadata.generation:
            condition["observedGeneration"] = pod.metadata.generation  # type: ignore[assignment]
        patch["conditions"] = [condition]
    if nominated is not None and nominated != pod.nominated_node_name:
        patch["nominatedNodeName"] = nominated
    return patch
