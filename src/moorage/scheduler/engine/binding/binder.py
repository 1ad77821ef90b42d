"""The binder: runs one binding cycle per pod as a task, and reverts the placement if any phase fails."""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from moorage.common.errors import MoorageError, PluginError
from moorage.kube.api.records import EventNote
from moorage.scheduler.engine.binding.binding_phases import BindingPhases, PendingBinding
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Diagnosis, Failed, Unschedulable
from moorage.scheduler.engine.services import Services
from moorage.scheduler.engine.waiting import PermitWait
from moorage.scheduler.framework.events import ASSIGNED_POD_DELETE
from moorage.scheduler.framework.plugin import PreBindPlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue

MAX_BINDINGS: Final = 256
"""The limit of concurrent bindings: beyond it, no further pod is tried."""

log = structlog.get_logger(__name__)


class Binder:
    """Runs binding cycles in parallel with scheduling cycles."""

    def __init__(
        self,
        services: Services,
        queue: SchedulingQueue,
        on_failure: Callable[[QueuedPodInfo, Unschedulable | Failed], None],
        observer: AttemptObserver | None,
    ) -> None:
        self._services = services
        self._observer = observer
        self._nominates = services.features.enabled("NominatedNodeNameForExpectation")
        self._queue = queue
        self._on_failure = on_failure
        self._pre_binding: dict[str, asyncio.Task[Status | None]] = {}
        self._cancelled: dict[str, str] = {}
        self.in_flight = 0

    def start(self, binding: PendingBinding) -> None:
        """Begin a binding cycle."""
        self.in_flight += 1
        binding.phases.under_way += 1
        self._services.background.start(self._run(binding), name=f"binding of {binding.pod.key}")

    def cancel_pre_bind(self, uid: str, reason: str) -> bool:
        """Cancel the pre-bind of a pod, for example because it is preempted. Return whether it was in pre-bind."""
        task = self._pre_binding.get(uid)
        if task is None:
            return False
        self._cancelled[uid] = reason
        task.cancel()
        return True

    async def _run(self, binding: PendingBinding) -> None:
        phases = binding.phases
        try:
            try:
                refusal = await self._bind(binding)
            except MoorageError as error:
                refusal = Status.error(str(error))
            finally:
                if self.in_flight >= MAX_BINDINGS:
                    self._services.wake()
                self.in_flight -= 1
                if binding.permit is not None:
                    self._services.waiting.release(binding.pod.uid)
            if self._services.freeze.thawed is not None:
                await self._services.freeze.over()
            if refusal is not None:
                self._revert(binding, refusal)
                self._services.wake()
            elif binding.cycle.pods_to_activate:
                self._services.activate(binding.cycle.pods_to_activate)
                binding.cycle.pods_to_activate = {}
        finally:
            # After the reservations are reverted: before that, the plugins must not be closed.
            phases.under_way -= 1
            if phases.all_ended is not None and not phases.under_way and not phases.all_ended.done():
                phases.all_ended.set_result(None)

    async def _bind(self, binding: PendingBinding) -> Status | None:
        """Run the phases. Return the status of the failed phase."""
        phases = binding.phases
        pre_binds = phases.pre_flight(binding)
        # Most members of a group are allowed within the cycle that placed them: no nomination is needed.
        waits = binding.permit is not None and not binding.permit.is_decided
        if (pre_binds or waits) and self._nominates and binding.queued.pod.nominated_node_name != binding.node_name:
            try:
                await self._services.cluster.patch_status(binding.queued.pod, {"nominatedNodeName": binding.node_name})
            except MoorageError as error:
                log.warning("cannot write the nominated node", pod=binding.pod.key, error=str(error))
        if binding.permit is not None and (status := await self._wait_on_permit(binding.permit, phases)) is not None:
            if status.is_rejection:
                return status
            raise PluginError(status.plugin, f"waiting on permit for pod: {status.message}")
        if self._services.freeze.thawed is not None:
            await self._services.freeze.over()
        self._queue.done(binding.pod.metadata.uid)
        if pre_binds and (status := await self._pre_bind(binding, pre_binds)) is not None:
            return status
        if (status := await phases.bind(binding)) is not None:
            return status
        pod, note = binding.pod, f"Successfully assigned {binding.pod.key} to {binding.node_name}"
        self._services.cluster.record(EventNote(pod, "Scheduled", "Binding", note, pod.scheduler_name))
        if self._observer is not None:
            self._observer.on_bound(binding.queued, binding.node_name)
        await phases.post_bind(binding)
        return None

    async def _wait_on_permit(self, permit: PermitWait, phases: BindingPhases) -> Status | None:
        """Wait for a permit. The pod is not treated as in flight during the wait.

        Otherwise the members of a group that wait for the last one could block the attempt of the last one.
        """
        self.in_flight -= 1
        self._services.wake()
        try:
            return await phases.wait_on_permit(permit)
        finally:
            self.in_flight += 1

    async def _pre_bind(self, binding: PendingBinding, plugins: list[PreBindPlugin | None]) -> Status | None:
        """Run pre-bind as a separate task, so that preemption can cancel it."""
        uid = binding.pod.uid
        work = asyncio.ensure_future(binding.phases.pre_bind(binding, plugins))
        self._pre_binding[uid] = work
        try:
            return await work
        except asyncio.CancelledError:
            reason = self._cancelled.pop(uid, None)
            if reason is None:
                raise
            return Status.error(reason)
        finally:
            del self._pre_binding[uid]

    def _revert(self, binding: PendingBinding, refusal: Status) -> None:
        """Revert the placement and requeue the pod. The freed resources may help other pods, but not itself."""
        binding.undo.unwind()
        pod, own_uid = binding.pod, binding.pod.uid
        outcome: Unschedulable | Failed = Failed(refusal.message, is_rejection=refusal.is_rejection)
        if refusal.is_rejection and refusal.plugin and binding.permit is not None:
            outcome = Unschedulable(Diagnosis.on_node(binding.node_name, refusal), "")
        if self._observer is not None:
            self._observer.on_binding_failure(binding.queued, outcome)
        if not refusal.is_rejection:
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod, None)
            self._on_failure(binding.queued, outcome)
        else:
            self._on_failure(binding.queued, outcome)
            self._queue.move_all_to_active_or_backoff(
                ASSIGNED_POD_DELETE, pod, None, lambda candidate: candidate.uid != own_uid
            )
