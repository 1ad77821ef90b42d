"""The binding cycle: wait on permit, pre-bind, bind, post-bind. One task per pod; one undo stack if any of it fails.

:class:`TaskBackground` runs these tasks, and evictions and status patches besides.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack
from contextvars import Context
from functools import partial
from typing import Any, Final

import structlog
from msgspec import Struct

from moorage.common.errors import ExtenderError, MoorageError, PluginError
from moorage.kube.api.pod import Pod
from moorage.kube.client.event_note import EventNote
from moorage.scheduler.engine.extender import Extender
from moorage.scheduler.engine.extension_points import (
    BIND,
    POST_BIND,
    PRE_BIND,
    PRE_BIND_PRE_FLIGHT,
    ask,
    ask_waiting,
    failure,
    idle,
    rejection,
    require_nothing,
    require_status,
)
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Diagnosis, Failed, Parked
from moorage.scheduler.engine.phases import (
    BIND_PHASE,
    NO_HOOKS,
    PERMIT_WAIT_PHASE,
    POST_BIND_PHASE,
    PRE_BIND_PHASE,
    PRE_FLIGHT_PHASE,
    PhaseHooks,
)
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.services import Services
from moorage.scheduler.engine.waiting import PermitWait
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, ClusterEvent, Resource
from moorage.scheduler.framework.plugin import PreBindPlugin
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue

ASSIGNED_POD_DELETE: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)

log = structlog.get_logger(__name__)


class Undo:
    """Calls to make if a placement comes to nothing, each a function and its arguments.

    One that raises does not keep the others from being made. An :class:`ExitStack` does the work, but is made only
    then: nearly every placement succeeds.
    """

    __slots__ = ("_calls",)

    def __init__(self, *calls: tuple[Any, ...]) -> None:
        self._calls = calls

    def unwind(self) -> None:
        """Make the calls, the last one first, once."""
        calls, self._calls = self._calls, ()
        with ExitStack() as stack:
            for action, *arguments in calls:
                stack.callback(action, *arguments)


class PendingBinding(Struct):
    """A pod on its way to its node; ``undo`` takes back what was assumed and reserved."""

    queued: QueuedPodInfo
    pod: Pod
    cycle: CycleState
    phases: "BindingPhases"
    undo: Undo
    node_name: str
    permit: PermitWait | None = None


class BindingPhases:
    """The phases of the binding cycle of one profile; ``hooks`` time or trace them."""

    def __init__(self, profile: Profile, extenders: Sequence[Extender], hooks: PhaseHooks = NO_HOOKS) -> None:
        self.profile = profile
        self._extenders = extenders
        self.pre_flight = hooks.wrap(self._pre_flight, PRE_FLIGHT_PHASE)
        self.wait_on_permit = hooks.wrap(self._wait_on_permit, PERMIT_WAIT_PHASE)
        self.pre_bind = hooks.wrap(self._pre_bind, PRE_BIND_PHASE)
        self.bind = hooks.wrap(self._bind, BIND_PHASE)
        self.post_bind = hooks.wrap(self._post_bind, POST_BIND_PHASE)
        self.under_way = 0
        """How many pods these phases are binding, those that wait on permit included."""
        self.all_ended: asyncio.Future[None] | None = None
        """Who waits for the last of them."""

    def _pre_flight(self, binding: PendingBinding) -> list[PreBindPlugin | None]:
        """Ask who has something to do before the bind; ``None`` marks where one that runs alone was left out."""
        wanted: list[PreBindPlugin | None] = []
        without = idle(self.profile, binding.cycle)
        if self.profile.pre_binding <= without:
            return wanted
        for plugin in self.profile.pre_bind:
            if plugin.name not in without and _has_work(plugin, binding):
                wanted.append(plugin)
            elif not plugin.allows_parallel:
                wanted.append(None)
        return wanted if any(wanted) else []

    async def _wait_on_permit(self, permit: PermitWait) -> Status | None:
        """Wait until all plugins that hold the pod have let it go, or one has not."""
        return await permit.decision()

    async def _pre_bind(self, binding: PendingBinding, plugins: list[PreBindPlugin | None]) -> Status | None:
        """Have the plugins do their work, neighbours that allow it at the same time."""
        for group in parallel_groups(plugins):
            if len(group) == 1:
                results = [await _pre_bind(binding, group[0])]
            else:
                results = await asyncio.gather(*(_pre_bind(binding, plugin) for plugin in group))
            for status in results:
                if status is not None:
                    return status
        return None

    async def _bind(self, binding: PendingBinding) -> Status | None:
        """Have an extender or the first bind plugin that takes the pod bind it."""
        if self._extenders and await self._is_bound_by_extender(binding):
            return None
        for plugin in self.profile.bind:
            answer = await ask_waiting(BIND, plugin, plugin.bind, binding.cycle, binding.pod, binding.node_name)
            if answer is None or (status := require_status(BIND, plugin, answer)) is None:
                return None
            if status.code == Code.ERROR:
                raise failure(BIND, plugin.name, status.message)
            if status.code != Code.SKIP:
                return status.by(plugin.name)
        return Status.error("no bind plugin took the pod")

    async def _is_bound_by_extender(self, binding: PendingBinding) -> bool:
        """Have the first interested extender that binds pods do so; one that may be ignored leaves it to others."""
        for extender in self._extenders:
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

    async def _post_bind(self, binding: PendingBinding) -> None:
        """Notify the post-bind plugins; the pod is bound, so one that fails now changes nothing."""
        for plugin in self.profile.post_bind:
            try:
                method: Callable[..., Coroutine[Any, Any, object]] = plugin.post_bind
                answer = await ask_waiting(POST_BIND, plugin, method, binding.cycle, binding.pod, binding.node_name)
                require_nothing(POST_BIND, plugin, answer)
            except PluginError as error:
                log.warning("post-bind plugin failed", plugin=plugin.name, pod=binding.pod.key, error=str(error))


class Binder:
    """Runs binding cycles beside the scheduling cycles."""

    def __init__(
        self,
        services: Services,
        queue: SchedulingQueue,
        on_failure: Callable[[QueuedPodInfo, Parked | Failed], None],
        observer: AttemptObserver | None,
    ) -> None:
        self._services = services
        self._observer = observer
        self._announces = services.features.enabled("NominatedNodeNameForExpectation")
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
        """Stop a pod that is in pre-bind, for example because it is preempted; return whether it was."""
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
                self.in_flight -= 1
                if binding.permit is not None:
                    self._services.waiting.release(binding.pod.uid)
                self._services.wake()
            if self._services.freeze.thawed is not None:
                await self._services.freeze.over()
            if refusal is not None:
                self._take_back(binding, refusal)
            elif binding.cycle.pods_to_activate:
                self._services.activate(binding.cycle.pods_to_activate)
                binding.cycle.pods_to_activate = {}
        finally:
            # Not before what was reserved has been taken back: until then the plugins must not be closed.
            phases.under_way -= 1
            if phases.all_ended is not None and not phases.under_way and not phases.all_ended.done():
                phases.all_ended.set_result(None)

    async def _bind(self, binding: PendingBinding) -> Status | None:
        """Go through the phases; return the status of the one that failed."""
        phases = binding.phases
        pre_binds = phases.pre_flight(binding)
        # Most members of a group are let go within the cycle that placed them: those need not be announced.
        waits = binding.permit is not None and not binding.permit.is_decided
        if (pre_binds or waits) and self._is_news(binding):
            await self._announce(binding)
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
            self._observer.bound(binding.queued, binding.node_name)
        await phases.post_bind(binding)
        return None

    async def _wait_on_permit(self, permit: PermitWait, phases: "BindingPhases") -> Status | None:
        """Wait for a permit; meanwhile nothing is under way that further pods would have to wait for.

        If they had to, members of a group that wait for the last one would keep just that one from being tried.
        """
        self.in_flight -= 1
        self._services.wake()
        try:
            return await phases.wait_on_permit(permit)
        finally:
            self.in_flight += 1

    def _is_news(self, binding: PendingBinding) -> bool:
        return self._announces and binding.queued.pod.nominated_node_name != binding.node_name

    async def _announce(self, binding: PendingBinding) -> None:
        """Let the cluster know where the pod is expected to go; if that fails, it is only noted."""
        try:
            await self._services.cluster.patch_status(binding.queued.pod, {"nominatedNodeName": binding.node_name})
        except MoorageError as error:
            log.warning("expected node was not recorded", pod=binding.pod.key, error=str(error))

    async def _pre_bind(self, binding: PendingBinding, plugins: list[PreBindPlugin | None]) -> Status | None:
        """Run pre-bind as a task of its own, so that preemption can cancel it."""
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

    def _take_back(self, binding: PendingBinding, refusal: Status) -> None:
        """Undo the placement and send the pod back; what it frees may help others, but not itself."""
        binding.undo.unwind()
        pod, own_uid = binding.pod, binding.pod.uid
        outcome: Parked | Failed = Failed(refusal.message, is_rejection=refusal.is_rejection)
        if refusal.is_rejection and refusal.plugin and binding.permit is not None:
            outcome = Parked(Diagnosis.on_node(binding.node_name, refusal), "")
        if self._observer is not None:
            self._observer.binding_failed(binding.queued, outcome)
        if not refusal.is_rejection:
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod, None)
            self._on_failure(binding.queued, outcome)
        else:
            self._on_failure(binding.queued, outcome)
            self._queue.move_all_to_active_or_backoff(
                ASSIGNED_POD_DELETE, pod, None, lambda other: other.uid != own_uid
            )


def _has_work(plugin: PreBindPlugin, binding: PendingBinding) -> bool:
    method = plugin.pre_bind_pre_flight
    answer = ask(PRE_BIND_PRE_FLIGHT, plugin, method, binding.cycle, binding.pod, binding.node_name)
    status = require_status(PRE_BIND_PRE_FLIGHT, plugin, answer)
    if status is None or status.code == Code.SKIP:
        return status is None
    if status.code == Code.ERROR:
        raise failure(PRE_BIND_PRE_FLIGHT, plugin.name, status.message)
    problem = f'PreBindPreFlight {plugin.name} returned "{status.code.label}", which is unsupported.'
    raise PluginError(plugin.name, f"{problem} It is supposed to return Success, Skip, or Error status")


async def _pre_bind(binding: PendingBinding, plugin: PreBindPlugin) -> Status | None:
    answer = await ask_waiting(PRE_BIND, plugin, plugin.pre_bind, binding.cycle, binding.pod, binding.node_name)
    status = require_status(PRE_BIND, plugin, answer)
    return None if status is None else rejection(PRE_BIND, plugin, status)


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


class Work(Struct):
    """Something to be done, and what to call it."""

    steps: Coroutine[Any, Any, object]
    name: str
    has_begun: bool = False


class TaskBackground:
    """Runs work as tasks of the running loop, and tells when all of it is done.

    A task that is done waits for more work: making a new one takes longer than most steps of placing a pod.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: list[asyncio.Future[Work]] = []
        self._under_way = 0
        self._drained: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return self._under_way

    def start(self, work: Coroutine[Any, Any, object], *, name: str) -> None:
        """Run something; what it raises is logged."""
        self._under_way += 1
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._idle = loop, []
        while self._idle:
            vacancy = self._idle.pop()
            if not vacancy.cancelled():
                vacancy.set_result(Work(work, name))
                return
        first = Work(work, name)
        # It outlives the attempt that it is made for, so it must not take along what is current there.
        task = loop.create_task(self._run(loop, first), context=Context())
        self._tasks.add(task)
        task.add_done_callback(partial(self._gone, first))

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None] | None:
        """Run something that nobody waits for, and return its task; what it raises is for whoever has that."""
        return asyncio.get_running_loop().create_task(work, name=name)

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Run something after a while, between cycles."""
        asyncio.get_running_loop().call_later(seconds, action)

    async def drain(self) -> None:
        """Wait until nothing is left to do."""
        while self._under_way:
            self._drained = self._drained or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    async def _run(self, loop: asyncio.AbstractEventLoop, work: Work) -> None:
        task = asyncio.current_task(loop)
        assert task is not None
        while True:
            # Whoever lists the tasks of the process reads what each is at.
            task.set_name(work.name)
            work.has_begun = True
            try:
                await work.steps
            except Exception:
                log.exception("background work failed", work=work.name)
            finally:
                self._ended()
            vacancy: asyncio.Future[Work] = loop.create_future()
            self._idle.append(vacancy)
            try:
                work = await vacancy
            except asyncio.CancelledError:
                if not vacancy.cancelled():
                    self._drop(vacancy.result())
                raise

    def _gone(self, first: Work, task: asyncio.Task[None]) -> None:
        """Forget a task, which was cancelled; perhaps before it could begin."""
        self._tasks.discard(task)
        if not first.has_begun:
            self._drop(first)

    def _drop(self, work: Work) -> None:
        work.steps.close()
        self._ended()

    def _ended(self) -> None:
        self._under_way -= 1
        if not self._under_way and self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
