"""Carrying a preemption out: victims are marked and deleted, and those not bound yet are stopped in memory."""

import asyncio
import inspect
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

import msgspec
import structlog

from moorage.api.meta import Condition, format_time
from moorage.api.pod import Pod
from moorage.errors import ApiError, NotFound
from moorage.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource
from moorage.framework.handle import PreemptionHandle
from moorage.framework.recording import EventNote
from moorage.plugins.default_preemption.eligibility import DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER

log = structlog.get_logger(__name__)

IN_MEMORY: Final = " (in kube-scheduler memory)."


class Eviction:
    """Evicts before the cycle goes on: the world is frozen meanwhile, and what fails fails the attempt."""

    events: Sequence[EventRegistration] = ()

    def __init__(self, handle: PreemptionHandle, plugin: str) -> None:
        self._handle = handle
        self._plugin = plugin

    async def carry_out(self, preemptor: Pod, node_name: str, victims: Sequence[Pod]) -> None:
        """Evict the victims and take the node from less important pods it was promised to; ApiError if that fails."""
        for victim in victims:
            await self._evict(victim, preemptor, node_name)
        await self._clear_promises(preemptor, node_name)

    def is_under_way_for(self, pod: Pod) -> bool:
        """Tell whether the pod has to wait for its victims to be evicted, which it never has to here."""
        return False

    async def _evict(self, victim: Pod, preemptor: Pod, node_name: str) -> bool:
        """Evict one pod; tell whether that happened in memory only, so that no deletion will be heard of."""
        in_memory = self._stop_in_memory(victim)
        if not in_memory and not await self._delete(victim, preemptor):
            return False
        note = f"Preempted by pod {preemptor.uid} on node {node_name}" + (IN_MEMORY if in_memory else "")
        self._handle.cluster.record(
            EventNote(victim, "Preempted", "Preempting", note, preemptor.scheduler_name, related=preemptor)
        )
        return in_memory

    def _stop_in_memory(self, victim: Pod) -> bool:
        waiting = self._handle.waiting_pod(victim.uid)
        if waiting is not None:
            return waiting.preempt(self._plugin, "preempted")
        return self._handle.cancel_pre_bind(victim.uid, f"preempted by {self._plugin}")

    async def _delete(self, victim: Pod, preemptor: Pod) -> bool:
        """Say on the pod why it goes and delete it; tell whether it was still there."""
        cluster = self._handle.cluster
        try:
            if (patch := disruption_patch(victim, preemptor, self._handle.clock.now())) is not None:
                await cluster.patch_status(victim, patch)
            await cluster.delete(victim)
        except NotFound:
            return False
        return True

    async def _clear_promises(self, preemptor: Pod, node_name: str) -> bool:
        """Take the node from less important pods it was promised to; a failure is logged and told."""
        is_clear = True
        for other in self._handle.nominator.nominated_pods(node_name):
            if other.priority < preemptor.priority and other.nominated_node_name:
                try:
                    await self._handle.cluster.patch_status(other, {"nominatedNodeName": ""})
                except ApiError as error:
                    is_clear = False
                    log.warning("nomination not cleared", pod=other.key, node=node_name, error=str(error))
        return is_clear


class BackgroundEviction(Eviction):
    """Evicts beside the cycles. Until the last victim is on its way out, the preemptor is kept out of the queue."""

    def __init__(self, handle: PreemptionHandle, plugin: str) -> None:
        super().__init__(handle, plugin)
        # Asked by the queue when a pod is deleted, only so that it looks at gated pods again: whether a pod is worth
        # another try is for the plugins to say that turned it down.
        self.events = (EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), never_by_itself),)
        self._pods = handle.lister(Pod)
        self._under_way: dict[str, Coroutine[Any, Any, None]] = {}
        self._last_victims: dict[str, Pod] = {}

    async def carry_out(self, preemptor: Pod, node_name: str, victims: Sequence[Pod]) -> None:
        """Start evicting; without victims that are not leaving already there is nothing to do."""
        if victims:
            work = self._work(preemptor, node_name, victims)
            self._under_way[preemptor.uid] = work
            self._handle.in_background(work, name=f"preemption for {preemptor.key}")

    def is_under_way_for(self, pod: Pod) -> bool:
        """Tell whether victims are still to be evicted; the last one counts until its deletion is heard of."""
        work = self._under_way.get(pod.uid)
        # Work that was dropped unstarted, as in a what-if, holds nobody back.
        if work is None or inspect.getcoroutinestate(work) == inspect.CORO_CLOSED:
            return False
        last = self._last_victims.get(pod.uid)
        if last is None:
            return True
        known = self._pods.get(last.name, last.namespace)
        return known is not None and not known.is_terminating

    async def _work(self, preemptor: Pod, node_name: str, victims: Sequence[Pod]) -> None:
        will_be_heard_of = False
        try:
            will_be_heard_of = await self._evict_all(preemptor, node_name, victims)
        finally:
            self._under_way.pop(preemptor.uid, None)
            self._last_victims.pop(preemptor.uid, None)
            if not will_be_heard_of:
                # No deletion may come to wake the preemptor up.
                self._handle.activate({preemptor.key: preemptor})

    async def _evict_all(self, preemptor: Pod, node_name: str, victims: Sequence[Pod]) -> bool:
        """Evict the last victim after all others, so that ``is_under_way_for`` need watch only that one."""
        is_clear = await self._clear_promises(preemptor, node_name)
        *others, last = victims
        if others:
            await asyncio.gather(*(self._evict(victim, preemptor, node_name) for victim in others))
        self._last_victims[preemptor.uid] = last
        in_memory = await self._evict(last, preemptor, node_name)
        return is_clear and not in_memory


def never_by_itself(pod: Pod, old: Any, new: Any) -> QueueingHint:
    """Leave the decision to the plugins that turned the pod down."""
    return QueueingHint.SKIP


def disruption_patch(victim: Pod, preemptor: Pod, now: float) -> Mapping[str, Any] | None:
    """Return the condition that says why a pod goes, as a change of its status; ``None`` if it is there already."""
    known = victim.condition(DISRUPTION_TARGET)
    condition = Condition(
        type=DISRUPTION_TARGET,
        status="True",
        reason=PREEMPTION_BY_SCHEDULER,
        message=f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod",
        observed_generation=victim.metadata.generation,
        last_transition_time=known.last_transition_time if known and known.status == "True" else format_time(now),
    )
    if known is not None and _told(known) == _told(condition):
        return None
    return {"conditions": [msgspec.to_builtins(condition)]}


def _told(condition: Condition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message
