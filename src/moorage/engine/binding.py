"""The binding cycle: wait on permit, pre-bind, bind, post-bind. One task per pod; one undo stack if any of it fails."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

import structlog
from msgspec import Struct

from moorage.api.pod import Pod
from moorage.engine import timing
from moorage.engine.boundary import ask, failure, require_status
from moorage.engine.observing import AttemptObserver
from moorage.engine.outcome import Failed, Parked
from moorage.engine.placement import Placement, one_node_diagnosis
from moorage.engine.services import Services
from moorage.engine.undo import Undo
from moorage.engine.waiting import HeldPod
from moorage.errors import ExtenderError, MoorageError, PluginError
from moorage.framework.cycle import CycleState
from moorage.framework.events import Action, ClusterEvent, Resource
from moorage.framework.faults import PLUGIN_FAULTS, described, pass_on_interrupt
from moorage.framework.plugin import PreBindPlugin
from moorage.framework.recording import EventNote
from moorage.framework.status import Code, Status
from moorage.queue.entry import QueuedPodInfo
from moorage.queue.scheduling_queue import SchedulingQueue

ASSIGNED_POD_DELETE: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)

log = structlog.get_logger(__name__)


class Binding(Struct):
    """A pod on its way to its node; ``undo`` takes back what was assumed and reserved."""

    queued: QueuedPodInfo
    pod: Pod
    cycle: CycleState
    placement: Placement
    undo: Undo
    node_name: str
    held: HeldPod | None = None


OnFailure = Callable[[QueuedPodInfo, Parked | Failed], None]


class Binder:
    """Runs binding cycles beside the scheduling cycles."""

    def __init__(
        self, services: Services, queue: SchedulingQueue, on_failure: OnFailure, observer: AttemptObserver
    ) -> None:
        self._services = services
        self._observer = observer
        self._announces = services.features.enabled("NominatedNodeNameForExpectation")
        self._queue = queue
        self._on_failure = on_failure
        self._pre_binding: dict[str, asyncio.Task[Status | None]] = {}
        self._cancelled: dict[str, str] = {}
        self.in_flight = 0

    def start(self, binding: Binding) -> None:
        """Begin a binding cycle."""
        self.in_flight += 1
        self._services.background.start(self._run(binding), name=f"binding of {binding.pod.key}")

    def cancel_pre_bind(self, uid: str, reason: str) -> bool:
        """Stop a pod that is in pre-bind, for example because it is preempted; tell whether it was."""
        task = self._pre_binding.get(uid)
        if task is None:
            return False
        self._cancelled[uid] = reason
        task.cancel()
        return True

    async def _run(self, binding: Binding) -> None:
        try:
            refusal = await self._bind(binding)
        except MoorageError as error:
            refusal = Status.error(str(error))
        finally:
            self.in_flight -= 1
            if binding.held is not None:
                self._services.waiting.release(binding.pod.uid)
            self._services.wake()
        if self._services.freeze.thawed is not None:
            await self._services.freeze.over()
        if refusal is not None:
            self._take_back(binding, refusal)
        elif binding.cycle.pods_to_activate:
            self._services.activate(binding.cycle.pods_to_activate)
            binding.cycle.pods_to_activate = {}

    async def _bind(self, binding: Binding) -> Status | None:
        """Go through the steps; return the status of the one that failed."""
        pre_binds = self._pre_flight(binding)
        if (pre_binds or binding.held is not None) and self._is_news(binding):
            await self._announce(binding)
        if binding.held is not None and (status := await self._wait_on_permit(binding.held)) is not None:
            if status.is_rejection:
                return status
            raise PluginError(status.plugin, f"waiting on permit for pod: {status.message}")
        if self._services.freeze.thawed is not None:
            await self._services.freeze.over()
        self._queue.done(binding.pod.metadata.uid)
        if pre_binds and (status := await self._pre_bind(binding, pre_binds)) is not None:
            return status
        if not (self._services.extenders and await self._is_bound_by_extender(binding)):
            began, stopwatch = timing.read(), binding.placement.stopwatch
            if (status := await self._call_bind_plugins(binding)) is not None:
                stopwatch.took(timing.BIND, began, status.code)
                return status
            stopwatch[timing.BIND](timing.read() - began)
        self._tell_bound(binding)
        self._observer.bound(binding.queued, binding.node_name)
        if binding.placement.profile.post_bind:
            await self._post_bind(binding)
        else:
            binding.placement.stopwatch[timing.POST_BIND](0.0)
        return None

    async def _wait_on_permit(self, held: HeldPod) -> Status | None:
        began = timing.read()
        status = await held.decision()
        self._observer.waited(timing.read() - began, Code.SUCCESS if status is None else status.code)
        return status

    def _pre_flight(self, binding: Binding) -> list[PreBindPlugin | None]:
        """Ask who has something to do before the bind; ``None`` marks where one that runs alone was left out."""
        wanted: list[PreBindPlugin | None] = []
        placement = binding.placement
        resting = placement.profile.resting & binding.cycle.skipped_filters
        if placement.profile.pre_binding <= resting:
            placement.stopwatch[timing.PRE_BIND_PRE_FLIGHT](0.0)
            return wanted
        began = timing.read()
        for plugin in placement.profile.pre_bind:
            if plugin.name not in resting and self._has_work(plugin, binding):
                wanted.append(plugin)
            elif not plugin.allows_parallel:
                wanted.append(None)
        placement.stopwatch[timing.PRE_BIND_PRE_FLIGHT](timing.read() - began)
        return wanted if any(wanted) else []

    @staticmethod
    def _has_work(plugin: PreBindPlugin, binding: Binding) -> bool:
        said = ask(
            "PreBindPreFlight", plugin, plugin.pre_bind_pre_flight, binding.cycle, binding.pod, binding.node_name
        )
        status = require_status("PreBindPreFlight", plugin, said)
        if status is None or status.code == Code.SKIP:
            return status is None
        if status.code == Code.ERROR:
            raise failure("PreBindPreFlight", plugin.name, status.message)
        problem = f'PreBindPreFlight {plugin.name} returned "{status.code.label}", which is unsupported.'
        raise PluginError(plugin.name, f"{problem} It is supposed to return Success, Skip, or Error status")

    def _is_news(self, binding: Binding) -> bool:
        return self._announces and binding.queued.pod.nominated_node_name != binding.node_name

    async def _announce(self, binding: Binding) -> None:
        """Let the cluster know where the pod is expected to go; if that fails, it is only noted."""
        try:
            await self._services.cluster.patch_status(binding.queued.pod, {"nominatedNodeName": binding.node_name})
        except MoorageError as error:
            log.warning("expected node was not recorded", pod=binding.pod.key, error=str(error))

    async def _pre_bind(self, binding: Binding, plugins: list[PreBindPlugin | None]) -> Status | None:
        uid, began = binding.pod.uid, timing.read()
        work = asyncio.ensure_future(self._run_groups(binding, plugins))
        self._pre_binding[uid] = work
        try:
            status = await work
        except asyncio.CancelledError:
            reason = self._cancelled.pop(uid, None)
            if reason is None:
                raise
            status = Status.error(reason)
        finally:
            del self._pre_binding[uid]
        binding.placement.stopwatch.took(timing.PRE_BIND, began, Code.SUCCESS if status is None else status.code)
        return status

    async def _run_groups(self, binding: Binding, plugins: list[PreBindPlugin | None]) -> Status | None:
        for group in parallel_groups(plugins):
            results = await asyncio.gather(*(self._call_pre_bind(binding, plugin) for plugin in group))
            for status in results:
                if status is not None:
                    return status
        return None

    async def _call_pre_bind(self, binding: Binding, plugin: PreBindPlugin) -> Status | None:
        try:
            said = await plugin.pre_bind(binding.cycle, binding.pod, binding.node_name)
        except PLUGIN_FAULTS as error:  # the boundary for plugins that wait
            pass_on_interrupt(error)
            raise failure("PreBind", plugin.name, error) from error
        status = require_status("PreBind", plugin, said)
        if status is not None and not status.is_rejection:
            raise failure("PreBind", plugin.name, status.message)
        return None if status is None else status.by(plugin.name)

    async def _is_bound_by_extender(self, binding: Binding) -> bool:
        """Have the first interested extender that binds pods do so; one that may be ignored leaves it to others."""
        for extender in self._services.extenders:
            if extender.is_binder and extender.is_interested_in(binding.pod):
                try:
                    await extender.bind(binding.pod, binding.node_name)
                except ExtenderError as error:
                    if not extender.is_ignorable:
                        raise
                    log.warning("extender did not bind", extender=extender.name, pod=binding.pod.key, error=str(error))
                else:
                    return True
        return False

    async def _call_bind_plugins(self, binding: Binding) -> Status | None:
        for plugin in binding.placement.profile.bind:
            try:
                said = await plugin.bind(binding.cycle, binding.pod, binding.node_name)
            except PLUGIN_FAULTS as error:  # the boundary for plugins that wait
                pass_on_interrupt(error)
                raise failure("Bind", plugin.name, error) from error
            if said is None or (status := require_status("Bind", plugin, said)) is None:
                return None
            if status.code == Code.ERROR:
                raise failure("Bind", plugin.name, status.message)
            if status.code != Code.SKIP:
                return status.by(plugin.name)
        return Status.error("no bind plugin took the pod")

    async def _post_bind(self, binding: Binding) -> None:
        began = timing.read()
        for plugin in binding.placement.profile.post_bind:
            try:
                await plugin.post_bind(binding.cycle, binding.pod, binding.node_name)
            except PLUGIN_FAULTS as error:  # the pod is bound: a plugin that fails now changes nothing
                pass_on_interrupt(error)
                log.warning("post-bind plugin failed", plugin=plugin.name, pod=binding.pod.key, error=described(error))
        binding.placement.stopwatch[timing.POST_BIND](timing.read() - began)

    def _tell_bound(self, binding: Binding) -> None:
        pod = binding.pod
        note = f"Successfully assigned {pod.key} to {binding.node_name}"
        self._services.cluster.record(EventNote(pod, "Scheduled", "Binding", note, pod.scheduler_name))

    def _take_back(self, binding: Binding, refusal: Status) -> None:
        """Undo the placement and send the pod back; what it frees may help others, but not itself."""
        binding.undo.unwind()
        pod, own_uid = binding.pod, binding.pod.uid
        outcome: Parked | Failed = Failed(refusal.message, is_rejection=refusal.is_rejection)
        if refusal.is_rejection and refusal.plugin and binding.held is not None:
            outcome = Parked(one_node_diagnosis(binding.node_name, refusal), "")
        self._observer.binding_failed(binding.queued, outcome)
        if not refusal.is_rejection:
            self._queue.move_all(ASSIGNED_POD_DELETE, pod, None)
            self._on_failure(binding.queued, outcome)
        else:
            self._on_failure(binding.queued, outcome)
            self._queue.move_all(ASSIGNED_POD_DELETE, pod, None, lambda other: other.uid != own_uid)


def parallel_groups(plugins: list[PreBindPlugin | None]) -> Iterator[list[PreBindPlugin]]:
    """Put neighbours that allow it into one group; every other plugin is a group of its own."""
    group: list[PreBindPlugin] = []
    for plugin in plugins:
        if plugin is not None and plugin.allows_parallel:
            group.append(plugin)
            continue
        if group:
            yield group
            group = []
        if plugin is not None:
            yield [plugin]
    if group:
        yield group
