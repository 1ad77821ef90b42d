"""Replaces the policy of a running scheduler. Cached state and pending pods remain."""

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from time import perf_counter, thread_time
from typing import Final

import structlog

from moorage.common.errors import ConfigError
from moorage.kube.api.kinds import BUILT_IN
from moorage.scheduler.engine.profiles import Profiles, describes_groups
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.framework.metering import PluginMeter
from moorage.scheduler.wiring.assembly import ApiConnection, AssembledScheduler
from moorage.scheduler.wiring.http_extender import HttpExtender, extender_demands
from moorage.scheduler.wiring.policy import Policy

LIST_SECONDS: Final = 30.0
"""The timeout for listing kinds that only the new plugins use."""
PAUSE_SECONDS: Final = "moorage_config_reload_hold_seconds"

log = structlog.get_logger(__name__)


async def reload(parts: AssembledScheduler[ApiConnection], policy: Policy) -> None:
    """Replace the policy of a running scheduler. If the new one cannot be used, this raises and nothing changes.

    The new plugins are built and started while the old ones are in use, and the kinds that only they list are listed.
    Then one synchronous swap between two cycles replaces the profiles and re-admits all pending pods. Bindings in
    progress end on the plugins they began with, which are closed after the last binding.
    """
    pauses = PauseTimes(parts.scheduler.services.meter)
    async with parts.changing:
        scheduler = parts.scheduler
        _require_reloadable(parts, policy)
        async with AsyncExitStack() as undo:
            with pauses.timed("build"), _forgetting_new_kinds(scheduler, undo):
                extenders: list[HttpExtender] = []
                for config in policy.config.extenders:
                    extenders.append(parts.tuning.make_extender(config))
                    undo.callback(extenders[-1].close)
                profiles = scheduler.build_profiles(policy.config, policy.registry, extenders)
            undo.push_async_callback(profiles.lifecycle.close)
            informers = parts.connection.informers
            if new_kinds := profiles.listed() - {informer.kind.type for informer in informers.all}:
                await informers.add(new_kinds, LIST_SECONDS)
                undo.callback(informers.remove, new_kinds)
            if scheduler.lifecycle.has_begun:
                await profiles.lifecycle.start()

            def swap() -> Profiles:
                with pauses.timed("swap"):
                    return scheduler.change_profiles(profiles)

            previous = await parts.deliveries.between_cycles(swap)
            undo.pop_all()
    log.info("plugins swapped between cycles", **pauses.milliseconds)
    old_extenders = [*parts.extenders]
    parts.extenders.extend(extenders)
    parts.background.spawn(_retire(parts, previous, old_extenders), name="closing previous plugins")
    scheduler.services.wake()


class PauseTimes:
    """Measures how long a reload keeps the loop from scheduling pods.

    The CPU time is logged with the elapsed time, because it is more meaningful on a busy machine.
    """

    def __init__(self, meter: PluginMeter) -> None:
        self._meter = meter
        self.milliseconds: dict[str, float] = {}

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Time one step."""
        began, cpu = perf_counter(), thread_time()
        try:
            yield
        finally:
            seconds = perf_counter() - began
            self.milliseconds[f"{step}_ms"] = round(seconds * 1e3, 3)
            self.milliseconds[f"{step}_cpu_ms"] = round((thread_time() - cpu) * 1e3, 3)
            self._meter.observe(PAUSE_SECONDS, seconds, step)


def _require_reloadable(parts: AssembledScheduler[ApiConnection], policy: Policy) -> None:
    """Raise ConfigError for settings that need a restart."""
    scheduler = parts.scheduler
    if scheduler.cache.groups is None and describes_groups(policy.config, policy.registry):
        problem = "a plugin that describes groups is enabled, and there were no groups when the scheduler started"
        raise ConfigError("profiles", problem, hint="restart the scheduler with this configuration")
    if missing_kinds := sorted(
        extender_demands(policy.config.extenders) - extender_demands(parts.first.config.extenders)
    ):
        problem = (
            f"an extender needs complete {' and '.join(missing_kinds)}, which the cache has omitted since the start"
        )
        raise ConfigError("extenders", problem, hint="restart the scheduler, or write nodeCacheCapable: true")


@contextmanager
def _forgetting_new_kinds(scheduler: Scheduler, undo: AsyncExitStack) -> Iterator[None]:
    """Forget the kinds that new plugins request and the state that they share, if the reload fails."""
    services, objects = scheduler.services, scheduler.objects
    kinds, shared = {*objects.kinds()}, {*services.shared}
    try:
        yield
    finally:
        if new_kinds := {*objects.kinds()} - kinds:
            undo.callback(objects.forget, new_kinds)
        if new_keys := {*services.shared} - shared:
            undo.callback(lambda: [services.shared.pop(key, None) for key in new_keys])


async def _retire(parts: AssembledScheduler[ApiConnection], previous: Profiles, extenders: list[HttpExtender]) -> None:
    """Close former plugins after their last binding, and forget the kinds and state that only they used."""
    await previous.bindings_ended()
    await previous.lifecycle.close()
    for extender in extenders:
        if extender in parts.extenders:
            parts.extenders.remove(extender)
            extender.close()
    async with parts.changing:  # plugins of another reload may use state that seems unused
        in_use, shared = parts.scheduler.living(), parts.scheduler.services.shared
        for key in previous.shared() - {key for profiles in in_use for key in profiles.shared()}:
            shared.pop(key, None)
        # Reloaded code has new structs for the same custom resources.
        unlisted = previous.listed() - BUILT_IN - {kind for profiles in in_use for kind in profiles.listed()}
        parts.connection.informers.remove(unlisted)
        parts.scheduler.objects.forget(unlisted)
    log.info("plugins of the previous configuration are closed")
