"""Executes preemptions: deletes victims, and stops victims that are not bound yet in memory."""

import asyncio
import inspect
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from operator import attrgetter
from time import perf_counter
from typing import Any, Final

import msgspec
import structlog

from moorage.common.caches import LRU
from moorage.common.errors import ApiError, NotFound
from moorage.kube.api.meta import Condition, KubeObject, format_time
from moorage.kube.api.pod import Pod
from moorage.kube.api.records import EventNote
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource
from moorage.scheduler.framework.groups import DescribedGroup
from moorage.scheduler.framework.handle import PreemptionHandle
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.plugins.default_preemption.eligibility import (
    DISRUPTION_TARGET,
    MAX_EVICTIONS,
    PREEMPTION_BY_SCHEDULER,
    Evictions,
)

log = structlog.get_logger(__name__)

IN_MEMORY: Final = " (in kube-scheduler memory)."
EXECUTIONS: Final = "scheduler_preemption_goroutines_execution_total"
SECONDS: Final = "scheduler_preemption_goroutines_duration_seconds"
EVICTIONS: Final = StateKey[Evictions]("evictions by preemptors of all profiles")


pod_uid: Final[Callable[[Pod], str]] = attrgetter("metadata.uid")


class Preemptor(msgspec.Struct, frozen=True):
    """The object that preempts: a pod, or a group with all its pods."""

    obj: KubeObject
    scheduler_name: str
    priority: int
    pods: Mapping[str, Pod]
    """The pods to activate afterward, by name."""
    kind: str = "pod"

    @classmethod
    def of_pod(cls, pod: Pod) -> "Preemptor":
        return cls(pod, pod.scheduler_name, pod.priority, {pod.key: pod})

    @property
    def uid(self) -> str:
        """The UID of the pod or the group."""
        return self.obj.uid

    @property
    def related(self) -> KubeObject | None:
        """The related object of events. Groups described by a plugin are not API objects."""
        return None if isinstance(self.obj, DescribedGroup) else self.obj

    @property
    def key(self) -> str:
        """The key of the pod or the group."""
        return self.obj.key


class Eviction:
    """Evicts synchronously: the cycle waits, and an error fails the attempt."""

    events: Sequence[EventRegistration] = ()

    def __init__(self, handle: PreemptionHandle, plugin: str, preemptor_uid: Callable[[Pod], str] = pod_uid) -> None:
        self._handle = handle
        self._plugin = plugin
        self._preemptor_uid = preemptor_uid
        self._has_groups = handle.features.enabled("GenericWorkload")
        self.evictions = handle.shared(EVICTIONS, Evictions)

    async def carry_out(self, preemptor: Preemptor, node_name: str, victims: Sequence[Pod]) -> None:
        """Evict the victims, then clear the nominations of lower-priority pods. Raise ApiError if a deletion fails."""
        began, has_failed = perf_counter(), True
        try:
            for victim in victims:
                await self._evict(victim, preemptor, node_name)
            await self._clear_nominations(preemptor, node_name)
            has_failed = False
        finally:
            self._note_time(preemptor, began, failed=has_failed)

    def has_evictions(self, pod: Pod) -> bool:
        """Return whether the pod must wait for its victims; never with synchronous eviction."""
        return False

    def reconsidered(self) -> Collection[str] | None:
        """Return the keys of pods to re-admit. Synchronous eviction holds no pods back."""
        return ()

    async def _evict(self, victim: Pod, preemptor: Preemptor, node_name: str) -> bool:
        """Evict one pod. Return whether it was stopped in memory, in which case no deletion is delivered."""
        waiting_pod = self._handle.waiting_pod(victim.uid)
        if waiting_pod is not None:
            in_memory = waiting_pod.preempt(self._plugin, "preempted")
        else:
            in_memory = self._handle.cancel_pre_bind(victim.uid, f"preempted by {self._plugin}")
        if not in_memory and not await self._delete(victim, preemptor):
            return False
        self._handle.log.v(2).info(
            "Preemptor Pod preempted victim Pod", preemptor=preemptor.key, victim=victim.key, node=node_name
        )
        note = f"Preempted by {preemptor.kind} {preemptor.uid} on node {node_name}" + (IN_MEMORY if in_memory else "")
        self._handle.cluster.record(
            EventNote(victim, "Preempted", "Preempting", note, preemptor.scheduler_name, related=preemptor.related)
        )
        return in_memory

    async def _delete(self, victim: Pod, preemptor: Preemptor) -> bool:
        """Add the disruption condition and delete the pod. Return whether the pod still existed."""
        cluster = self._handle.cluster
        try:
            if (patch := disruption_patch(victim, preemptor, self._handle.clock.wall())) is not None:
                await cluster.patch_status(victim, patch)
            await cluster.delete(victim)
        except NotFound:
            return False
        return True

    def _note_time(self, preemptor: Preemptor, began: float, *, failed: bool) -> None:
        """Observe the duration; as upstream, only if groups are enabled."""
        if self._has_groups:
            labels = preemptor.kind, "error" if failed else "success"
            seconds = perf_counter() - began
            self._handle.meter.observe("scheduler_preemption_execution_duration_seconds", seconds, *labels)

    async def _clear_nominations(self, preemptor: Preemptor, node_name: str) -> bool:
        """Clear the nominations of lower-priority pods for the node. Return whether all writes succeeded."""
        is_clear = True
        for nominated in self._handle.nominator.nominated_pods(node_name):
            if nominated.priority < preemptor.priority and nominated.nominated_node_name:
                try:
                    await self._handle.cluster.patch_status(nominated, {"nominatedNodeName": ""})
                except ApiError as error:
                    is_clear = False
                    log.warning("nomination not cleared", pod=nominated.key, node=node_name, error=str(error))
        return is_clear


class Preemption(msgspec.Struct, eq=False):
    """The running evictions of a preemptor."""

    last: Pod | None = None
    """The last victim, set when all other victims are evicted."""
    held_back: bool = False
    """Whether the preemptor was held back, possibly at the event that should have activated it."""
    work: Coroutine[Any, Any, None] | None = None

    @property
    def was_dropped(self) -> bool:
        """Whether the work was closed before it started (dry runs). Then it holds no pod back."""
        return self.work is not None and inspect.getcoroutinestate(self.work) == inspect.CORO_CLOSED


class HeldPods:
    """Pods held back until their victims leave, indexed so that only affected pods are rechecked.

    This state changes with the nodes of the victims, or with the work that evicts them.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._position = -1
        self._node_count = -1
        self._on_node: dict[str, set[str]] = {}
        self._of_preemptor: dict[str, set[str]] = {}
        self._reconsidered: set[str] = set()

    def add(self, key: str, preemptor_uid: str, node_names: Iterable[str]) -> None:
        """Record that a pod is held back because of victims on some nodes."""
        self._of_preemptor.setdefault(preemptor_uid, set()).add(key)
        for name in node_names:
            self._on_node.setdefault(name, set()).add(key)

    def reconsider(self, preemptor_uid: str) -> None:
        """Record progress of the work for a preemptor."""
        self._reconsidered |= self._of_preemptor.pop(preemptor_uid, set())

    def reconsidered(self) -> Collection[str] | None:
        """Return the keys of pods affected by changes since the last call; None if all may be."""
        nodes = self._nodes
        changed_rows = nodes.changed_since(self._position) if self._node_count == len(nodes) else None
        self._position, self._node_count = nodes.position, len(nodes)
        keys, self._reconsidered = self._reconsidered, set()
        if changed_rows is None:
            return None
        for row in changed_rows:
            keys |= self._on_node.pop(nodes[row].name, set())
        return keys


class BackgroundEviction(Eviction):
    """Evicts in the background. The preemptor remains out of the queue until its victims are seen to leave.

    The response to a deletion arrives before the watch event. A preemptor retried in between would find its
    victim on the node, and evict another pod.
    """

    def __init__(self, handle: PreemptionHandle, plugin: str, preemptor_uid: Callable[[Pod], str] = pod_uid) -> None:
        super().__init__(handle, plugin, preemptor_uid)
        self.events = (EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self.after_pod_deleted),)
        self._under_way: dict[str, Preemption] = {}
        self._victims: LRU[str, Mapping[str, str]] = LRU("preemption victims", MAX_EVICTIONS)
        """The nodes of a preemptor's victims by UID. Storing the pods would keep deleted pods in memory."""
        self._held_pods = HeldPods(handle.nodes)

    async def carry_out(self, preemptor: Preemptor, node_name: str, victims: Sequence[Pod]) -> None:
        """Start the evictions; without victims there is nothing to do."""
        if victims:
            self._victims.put(preemptor.uid, {victim.uid: victim.node_name for victim in victims})
            preemption = self._under_way[preemptor.uid] = Preemption()
            preemption.work = self._work(preemption, preemptor, node_name, victims)
            for victim in victims:
                self.evictions.begin(victim, preemption.work)
            self._handle.in_background(preemption.work, name=f"preemption for {preemptor.key}", must_finish=True)

    def after_pod_deleted(self, pod: Pod, old: Pod, _new: None) -> QueueingHint:
        """Queue if the deleted pod was a victim of this pod, which was held back and may have missed other events.

        Otherwise the event only makes the queue recheck gated pods; the plugins that rejected a pod decide about
        retries. Upstream does nothing else.
        """
        victims = self._victims.find(self._preemptor_uid(pod)) or ()
        return QueueingHint.QUEUE if old.uid in victims else QueueingHint.SKIP

    async def _evict(self, victim: Pod, preemptor: Preemptor, node_name: str) -> bool:
        in_memory = await super()._evict(victim, preemptor, node_name)
        (self.evictions.cancel if in_memory else self.evictions.accept)(victim)
        return in_memory

    def has_evictions(self, pod: Pod) -> bool:
        """Return whether victims are still to be evicted, or evicted but not yet seen to leave."""
        uid = self._preemptor_uid(pod)
        if self._holds(uid):
            self._held_pods.add(pod.key, uid, (self._victims.find(uid) or {}).values())
            return True
        return False

    def reconsidered(self) -> Collection[str] | None:
        """Return the keys of pods that may be re-admitted."""
        return self._held_pods.reconsidered()

    def _holds(self, uid: str) -> bool:
        preemption = self._under_way.get(uid)
        if preemption is None or preemption.was_dropped:
            return any(
                self.evictions.is_accepted(victim) and not self._is_leaving(victim, node)
                for victim, node in (self._victims.find(uid) or {}).items()
            )
        if preemption.last is not None and self._is_leaving(preemption.last.uid, preemption.last.node_name):
            return False
        preemption.held_back = True
        return True

    def _is_leaving(self, victim: str, node_name: str) -> bool:
        pod = self._on_node(victim, node_name)
        return pod is None or pod.is_terminating

    def _on_node(self, victim: str, node_name: str) -> Pod | None:
        """Return the observed victim if it is still on its node.

        Use the node, not the lister: if a victim was being bound when it was deleted, the failed binding activates the
        preemptor, and the later deletion of a pod without a node triggers no event.
        """
        info = self._handle.nodes.find(node_name)
        return None if info is None else info.pods.get(victim)

    async def _work(self, preemption: Preemption, preemptor: Preemptor, node_name: str, victims: Sequence[Pod]) -> None:
        will_be_woken, began, has_failed = False, perf_counter(), True
        try:
            # The last victim is evicted after all other victims, so ``has_evictions`` checks only that one.
            is_clear = await self._clear_nominations(preemptor, node_name)
            *earlier, last = victims
            if earlier:
                await asyncio.gather(*(self._evict(victim, preemptor, node_name) for victim in earlier))
            preemption.last = last
            self._held_pods.reconsider(preemptor.uid)
            in_memory = await self._evict(last, preemptor, node_name)
            # If another client deleted all victims, the preemptor was held back when the events were delivered.
            was_missed = preemption.held_back and not any(
                self._on_node(victim.uid, victim.node_name) for victim in victims
            )
            will_be_woken = is_clear and not in_memory and not was_missed
            has_failed = False
        except ApiError:
            self._victims.discard(preemptor.uid)
            raise
        finally:
            self._note_time(preemptor, began, failed=has_failed)
            result = "error" if has_failed else "success"
            self._handle.meter.count(EXECUTIONS, result)
            self._handle.meter.observe(SECONDS, perf_counter() - began, result)
            if self._under_way.get(preemptor.uid) is preemption:
                del self._under_way[preemptor.uid]
            self._held_pods.reconsider(preemptor.uid)
            if not will_be_woken:
                self._handle.activate(preemptor.pods)


def disruption_patch(victim: Pod, preemptor: Preemptor, now: float) -> Mapping[str, Any] | None:
    """Return the status patch with the disruption condition, or ``None`` if the condition is already set."""
    existing = victim.condition(DISRUPTION_TARGET)
    transition_time = existing.last_transition_time if existing and existing.status == "True" else format_time(now)
    beneficiary = "pod" if preemptor.kind == "pod" else "podgroup"
    condition = Condition(
        type=DISRUPTION_TARGET,
        status="True",
        reason=PREEMPTION_BY_SCHEDULER,
        message=f"{preemptor.scheduler_name}: preempting to accommodate a higher priority {beneficiary}",
        observed_generation=victim.metadata.generation,
        last_transition_time=transition_time,
    )
    content = attrgetter("status", "reason", "message")
    if existing is not None and content(existing) == content(condition):
        return None
    return {"conditions": [msgspec.to_builtins(condition)]}
