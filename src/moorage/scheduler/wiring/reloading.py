"""Changing how a running scheduler schedules: what it knows and who waits stays, its profiles are replaced at once."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from time import perf_counter, thread_time
from typing import Final

import structlog

from moorage.common.errors import ConfigError
from moorage.kube.api.kinds import BUILT_IN
from moorage.scheduler.engine.profiles import Profiles, describes_groups
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.engine.steps import take_some
from moorage.scheduler.framework.metering import PluginMeter
from moorage.scheduler.wiring.http_extender import HttpExtender, sent_whole
from moorage.scheduler.wiring.parts import Parts
from moorage.scheduler.wiring.policy import Policy
from moorage.scheduler.wiring.remote import RemoteApi

LIST_SECONDS: Final = 30.0
"""What kinds that only the new plugins list may take to be listed."""
HELD: Final = "moorage_config_reload_hold_seconds"

log = structlog.get_logger(__name__)


async def reload(parts: Parts[RemoteApi], policy: Policy) -> None:
    """Have a scheduler go on under another policy; if that cannot be used, this raises and nothing has changed.

    The new plugins are built and started beside the old ones, and what only they list is listed. Then both are swapped
    between two cycles, and who waits is handed over. Bindings under way end on the plugins they began with, which are
    closed after the last of them. Pods are tried all the while: whatever takes long is done a little at a time.
    """
    holds, cycles = HoldTimes(parts.scheduler.services.meter), parts.loop.cycles
    async with parts.changing:
        scheduler = parts.scheduler
        _require_same_ground(parts, policy)
        async with AsyncExitStack() as undo:
            extenders = await _build_extenders(parts, policy, undo, holds)
            profiles = scheduler.prepare_profiles(policy.config, policy.registry, extenders)
            await _build(scheduler, profiles, undo, holds)
            undo.push_async_callback(profiles.life.close)
            await _list_more(parts, profiles, undo)
            if scheduler.life.has_begun:
                await profiles.life.start()
            former = await parts.deliveries.between_cycles(lambda: _swap(scheduler, profiles, holds))
            undo.pop_all()
        await _hand_over(parts, holds)
    log.info("plugins swapped between cycles", **holds.summary(), cycles_meanwhile=parts.loop.cycles - cycles)
    old_extenders = [*parts.extenders]
    parts.extenders.extend(extenders)
    parts.background.spawn(_retire(parts, former, old_extenders), name="closing former plugins")
    scheduler.services.wake()


class HoldTimes:
    """For how long a change kept the loop from trying pods, in how many pieces, the longest of which counts.

    Beside the time that has passed, the time of the processor is taken: it says more on a machine that is busy.
    """

    def __init__(self, meter: PluginMeter) -> None:
        self._meter = meter
        self._longest_cpu = 0.0
        self._pieces: dict[str, list[float]] = {"build": [], "swap": [], "handover": []}

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        """Time a piece."""
        began, cpu = perf_counter(), thread_time()
        try:
            yield
        finally:
            seconds = perf_counter() - began
            self._longest_cpu = max(self._longest_cpu, thread_time() - cpu)
            self._pieces[step].append(seconds)
            self._meter.observe(HELD, seconds, step)

    def summary(self) -> dict[str, float]:
        """Return for the log what was noted, in milliseconds."""
        told: dict[str, float] = {"cpu_ms": round(self._longest_cpu * 1e3, 3)}
        for step, pieces in self._pieces.items():
            told[f"{step}_ms"] = round(max(pieces, default=0.0) * 1e3, 3)
            if step != "swap":
                told[f"{step}_pieces"] = len(pieces)
        return told


def _require_same_ground(parts: Parts[RemoteApi], policy: Policy) -> None:
    """Refuse what the running scheduler has not prepared for from its start."""
    scheduler = parts.scheduler
    if scheduler.cache.groups is None and describes_groups(policy.config, policy.registry):
        problem = "a plugin that describes groups is enabled, and there were no groups when the scheduler started"
        raise ConfigError("profiles", problem, hint="restart the scheduler with this configuration")
    if missing := sorted(sent_whole(policy.config.extenders) - sent_whole(parts.first.config.extenders)):
        problem = f"an extender is to be sent whole {' and '.join(missing)}, which were not kept from the start"
        raise ConfigError("extenders", problem, hint="restart the scheduler, or write nodeCacheCapable: true")


async def _build_extenders(
    parts: Parts[RemoteApi], policy: Policy, undo: AsyncExitStack, holds: HoldTimes
) -> list[HttpExtender]:
    """Make the new extenders, one at a time: each may have certificates to read."""
    made = []
    for config in policy.config.extenders:
        with holds.of("build"):
            made.append(parts.tuning.make_extender(config))
        undo.callback(made[-1].close)
        await asyncio.sleep(0)
    return made


async def _build(scheduler: Scheduler, profiles: Profiles, undo: AsyncExitStack, holds: HoldTimes) -> None:
    """Build the new plugins, which may ask for kinds that nobody lists yet, a few at a time."""
    steps = profiles.build()
    undo.callback(steps.close)
    is_unfinished = True
    while is_unfinished:
        with holds.of("build"), _asking(scheduler, undo):
            is_unfinished = take_some(steps)
        await asyncio.sleep(0)


@contextmanager
def _asking(scheduler: Scheduler, undo: AsyncExitStack) -> Iterator[None]:
    """Let plugins that are being built ask for kinds, and share something; forget that if they are not used."""
    services, objects = scheduler.services, scheduler.objects
    kinds, shared = {*objects.kinds()}, {*services.shared}
    services.is_following = False
    try:
        yield
    finally:
        services.is_following = True
        if more := {*objects.kinds()} - kinds:
            undo.callback(objects.forget, more)
        if new := {*services.shared} - shared:
            undo.callback(lambda: [services.shared.pop(key, None) for key in new])


def _swap(scheduler: Scheduler, profiles: Profiles, holds: HoldTimes) -> Profiles:
    with holds.of("swap"):
        return scheduler.change_profiles(profiles)


async def _hand_over(parts: Parts[RemoteApi], holds: HoldTimes) -> None:
    """Go through who waits, between cycles."""
    scheduler = parts.scheduler

    def some() -> bool:
        with holds.of("handover"):
            return take_some(scheduler.handing_over)

    while await parts.deliveries.between_cycles(some):
        await asyncio.sleep(0)


async def _list_more(parts: Parts[RemoteApi], profiles: Profiles, undo: AsyncExitStack) -> None:
    informers = parts.connection.informers
    if more := profiles.listed() - {informer.kind.type for informer in informers.all}:
        await informers.add(more, LIST_SECONDS)
        undo.callback(informers.remove, more)


async def _retire(parts: Parts[RemoteApi], former: Profiles, extenders: list[HttpExtender]) -> None:
    """Close plugins once the last pod that they placed is bound, and let go of what only they needed."""
    await former.bindings_ended()
    await former.life.close()
    for extender in extenders:
        if extender in parts.extenders:
            parts.extenders.remove(extender)
            extender.close()
    async with parts.changing:  # plugins that are being built may share what seems to be nobody's
        in_use, shared = parts.scheduler.living(), parts.scheduler.services.shared
        for key in former.shared() - {key for profiles in in_use for key in profiles.shared()}:
            shared.pop(key, None)
        # Code that was loaded anew has structs of its own for the same custom resources.
        unlisted = former.listed() - BUILT_IN - {kind for profiles in in_use for kind in profiles.listed()}
        parts.connection.informers.remove(unlisted)
        parts.scheduler.objects.forget(unlisted)
    log.info("former plugins are closed")
