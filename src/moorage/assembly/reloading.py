"""Changing how a running scheduler schedules: what it knows and who waits stays, its profiles are replaced at once."""

from collections.abc import Iterable
from contextlib import AsyncExitStack
from time import perf_counter
from typing import Final

import structlog

from moorage.api.kinds import BUILT_IN
from moorage.assembly.parts import Parts
from moorage.assembly.policy import Policy
from moorage.assembly.remote import RemoteApi
from moorage.client.extender import HttpExtender, sent_whole
from moorage.engine.profiles import Profiles, describes_groups
from moorage.engine.scheduler import Scheduler
from moorage.errors import ConfigError

LIST_SECONDS: Final = 30.0
"""What kinds that only the new plugins list may take to be listed."""
HELD: Final = "moorage_config_reload_hold_seconds"

log = structlog.get_logger(__name__)


async def reload(parts: Parts[RemoteApi], policy: Policy) -> None:
    """Have a scheduler go on under another policy; if that cannot be used, this raises and nothing has changed.

    The new plugins are built and started beside the old ones, and what only they list is listed. Then both are swapped
    between two cycles. Bindings under way end on the plugins they began with, which are closed after the last of them.
    """
    async with parts.changing:
        scheduler = parts.scheduler
        _require_same_ground(parts, policy)
        async with AsyncExitStack() as undo:
            extenders = [parts.tuning.make_extender(config) for config in policy.config.extenders]
            for extender in extenders:
                undo.callback(extender.close)
            began = perf_counter()
            profiles = _build(parts, policy, extenders, undo)
            built = perf_counter() - began
            undo.push_async_callback(profiles.life.close)
            await _list_more(parts, profiles, undo)
            if scheduler.life.has_begun:
                await profiles.life.start()
            former, swapped = await parts.deliveries.between_cycles(lambda: _swap(scheduler, profiles))
            undo.pop_all()
    scheduler.services.meter.observe(HELD, built, "build")
    scheduler.services.meter.observe(HELD, swapped, "swap")
    log.info("plugins swapped between cycles", build_ms=round(built * 1e3, 1), swap_ms=round(swapped * 1e3, 3))
    old_extenders = [*parts.extenders]
    parts.extenders.extend(extenders)
    parts.background.spawn(_retire(parts, former, old_extenders), name="closing former plugins")
    scheduler.services.wake()


def _require_same_ground(parts: Parts[RemoteApi], policy: Policy) -> None:
    """Refuse what the running scheduler has not prepared for from its start."""
    scheduler = parts.scheduler
    if scheduler.cache.groups is None and describes_groups(policy.config, policy.registry):
        problem = "a plugin that describes groups is enabled, and there were no groups when the scheduler started"
        raise ConfigError("profiles", problem, hint="restart the scheduler with this configuration")
    if missing := sorted(sent_whole(policy.config.extenders) - sent_whole(parts.first.config.extenders)):
        problem = f"an extender is to be sent whole {' and '.join(missing)}, which were not kept from the start"
        raise ConfigError("extenders", problem, hint="restart the scheduler, or write nodeCacheCapable: true")


def _build(
    parts: Parts[RemoteApi], policy: Policy, extenders: Iterable[HttpExtender], undo: AsyncExitStack
) -> Profiles:
    """Build the new plugins, which may ask for kinds that nobody lists yet."""
    scheduler, services = parts.scheduler, parts.scheduler.services
    known, shared = {*scheduler.objects.kinds()}, {*services.shared}
    undo.callback(lambda: scheduler.objects.forget({*scheduler.objects.kinds()} - known))
    undo.callback(lambda: [services.shared.pop(key) for key in [*services.shared] if key not in shared])
    services.is_following = False
    try:
        return scheduler.build_profiles(policy.config, policy.registry, extenders)
    finally:
        services.is_following = True


def _swap(scheduler: Scheduler, profiles: Profiles) -> tuple[Profiles, float]:
    began = perf_counter()
    former = scheduler.change_profiles(profiles)
    return former, perf_counter() - began


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
