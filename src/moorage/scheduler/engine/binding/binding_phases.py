"""The phases of the binding cycle: wait on permit, pre-bind, bind, post-bind; and the undo stack of a placement."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import structlog
from msgspec import Struct

from moorage.common.errors import ExtenderError, PluginError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.extender import Extender
from moorage.scheduler.engine.extension_points import (
    BIND,
    POST_BIND,
    PRE_BIND,
    PRE_BIND_PRE_FLIGHT,
    call_plugin,
    call_plugin_async,
    failure,
    idle,
    rejection,
    require_nothing,
    require_status,
)
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
from moorage.scheduler.engine.waiting import PermitWait
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.plugin import PreBindPlugin
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.queue.entities import QueuedPodInfo

log = structlog.get_logger(__name__)


class Undo:
    """The undo stack of a placement: each entry is a function and its arguments.

    All entries are called, even if one raises. An :class:`ExitStack` does the work, but is created only when needed:
    nearly every placement succeeds.
    """

    __slots__ = ("_calls",)

    def __init__(self, *calls: tuple[Any, ...]) -> None:
        self._calls = calls

    def unwind(self) -> None:
        """Call all entries once, the last one first."""
        calls, self._calls = self._calls, ()
        with ExitStack() as stack:
            for action, *arguments in calls:
                stack.callback(action, *arguments)


class PendingBinding(Struct):
    """A pod that is being bound; ``undo`` reverts assume and reserve."""

    queued: QueuedPodInfo
    pod: Pod
    cycle: CycleState
    phases: "BindingPhases"
    undo: Undo
    node_name: str
    permit: PermitWait | None = None


class BindingPhases:
    """The phases of the binding cycle of a profile; ``hooks`` time or trace them."""

    def __init__(self, profile: Profile, extenders: Sequence[Extender], hooks: PhaseHooks = NO_HOOKS) -> None:
        self.profile = profile
        self._extenders = extenders
        self.pre_flight = hooks.wrap(self._pre_flight, PRE_FLIGHT_PHASE)
        self.wait_on_permit = hooks.wrap(PermitWait.decision, PERMIT_WAIT_PHASE)
        self.pre_bind = hooks.wrap(self._pre_bind, PRE_BIND_PHASE)
        self.bind = hooks.wrap(self._bind, BIND_PHASE)
        self.post_bind = hooks.wrap(self._post_bind, POST_BIND_PHASE)
        self.under_way = 0
        """Number of pods in these phases, including pods that wait on permit."""
        self.all_ended: asyncio.Future[None] | None = None
        """Resolved when the last pod has left the phases."""

    def _pre_flight(self, binding: PendingBinding) -> list[PreBindPlugin | None]:
        """Return the plugins with work before the bind. ``None`` replaces a skipped plugin that runs alone."""
        plugins: list[PreBindPlugin | None] = []
        idle_plugins = idle(self.profile, binding.cycle)
        if self.profile.pre_binding <= idle_plugins:
            return plugins
        for plugin in self.profile.pre_bind:
            if plugin.name not in idle_plugins and _has_work(plugin, binding):
                plugins.append(plugin)
            elif not plugin.allows_parallel:
                plugins.append(None)
        return plugins if any(plugins) else []

    async def _pre_bind(self, binding: PendingBinding, plugins: list[PreBindPlugin | None]) -> Status | None:
        """Run the plugins; adjacent plugins that allow it run in parallel."""
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
        """Bind the pod by an extender, or by the first bind plugin that does not skip it."""
        if self._extenders and await self._is_bound_by_extender(binding):
            return None
        for plugin in self.profile.bind:
            result = await call_plugin_async(BIND, plugin, plugin.bind, binding.cycle, binding.pod, binding.node_name)
            if result is None or (status := require_status(BIND, plugin, result)) is None:
                return None
            if status.code == Code.ERROR:
                raise failure(BIND, plugin.name, status.message)
            if status.code != Code.SKIP:
                return status.by(plugin.name)
        return Status.error("no bind plugin bound the pod")

    async def _is_bound_by_extender(self, binding: PendingBinding) -> bool:
        """Bind by the first interested extender that binds pods. Errors of ignorable extenders are logged."""
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
        """Run the post-bind plugins. The pod is bound, so errors are only logged."""
        for plugin in self.profile.post_bind:
            try:
                method: Callable[..., Coroutine[Any, Any, object]] = plugin.post_bind
                result = await call_plugin_async(
                    POST_BIND, plugin, method, binding.cycle, binding.pod, binding.node_name
                )
                require_nothing(POST_BIND, plugin, result)
            except PluginError as error:
                log.warning("post-bind plugin failed", plugin=plugin.name, pod=binding.pod.key, error=str(error))


def _has_work(plugin: PreBindPlugin, binding: PendingBinding) -> bool:
    method = plugin.pre_bind_pre_flight
    result = call_plugin(PRE_BIND_PRE_FLIGHT, plugin, method, binding.cycle, binding.pod, binding.node_name)
    status = require_status(PRE_BIND_PRE_FLIGHT, plugin, result)
    if status is None or status.code == Code.SKIP:
        return status is None
    if status.code == Code.ERROR:
        raise failure(PRE_BIND_PRE_FLIGHT, plugin.name, status.message)
    problem = f'PreBindPreFlight {plugin.name} returned "{status.code.label}", which is unsupported.'
    raise PluginError(plugin.name, f"{problem} It is supposed to return Success, Skip, or Error status")


async def _pre_bind(binding: PendingBinding, plugin: PreBindPlugin) -> Status | None:
    result = await call_plugin_async(PRE_BIND, plugin, plugin.pre_bind, binding.cycle, binding.pod, binding.node_name)
    status = require_status(PRE_BIND, plugin, result)
    return None if status is None else rejection(PRE_BIND, plugin, status)


def parallel_groups(plugins: list[PreBindPlugin | None]) -> Iterator[list[PreBindPlugin]]:
    """Group adjacent plugins that may run in parallel. Every other plugin is a separate group."""
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
