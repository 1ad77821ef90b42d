"""Starts plugins before the first pod is scheduled, and closes them after the last binding."""

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from moorage.common.errors import PluginError
from moorage.scheduler.engine.handle import ProfileHandles
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.framework.faults import PLUGIN_FAULTS, described, pass_on_interrupt, place_of
from moorage.scheduler.framework.plugin import Plugin

START_SECONDS: Final = 60.0
CLOSE_SECONDS: Final = 5.0

log = structlog.get_logger(__name__)


class PluginLifecycle:
    """Starts the plugins of all profiles in the order of construction, and closes them in reverse order."""

    def __init__(self, profiles: Iterable[tuple[Profile, ProfileHandles]]) -> None:
        self._members = [
            (plugin, handles.made[name]) for profile, handles in profiles for name, plugin in profile.plugins.items()
        ]
        self._started: list[Plugin] = []
        self._former: list[PluginLifecycle] = []
        self.has_begun = False
        """Whether ``start`` was called."""
        self.is_closed = False

    async def start(self) -> None:
        """Start every plugin once; raise PluginError if one fails."""
        if self.has_begun:
            return
        self.has_begun = True
        for plugin, _ in self._members:
            # Before the await: a plugin that fails in start must be closed too.
            self._started.append(plugin)
            if type(plugin).start is not Plugin.start:
                await _start(plugin)

    def follow(self, former: "PluginLifecycle") -> None:
        """Replace other plugins, which still bind pods; close them with these plugins at the latest."""
        self._former = [former, *(lifecycle for lifecycle in former._former if not lifecycle.is_closed)]
        former._former = []

    async def close(self) -> None:
        """Close all started plugins and cancel their background work; never raises, may take seconds."""
        for former in self._former:
            await former.close()
        self._former = []
        while self._started:
            plugin = self._started.pop()
            if type(plugin).close is not Plugin.close:
                await _close(plugin)
        for _, handle in self._members:
            await handle.close()
        self.is_closed = True


async def _start(plugin: Plugin) -> None:
    where = f"starting plugin {plugin.name!r}"
    try:
        async with asyncio.timeout(START_SECONDS) as limit:
            await plugin.start()
    except PLUGIN_FAULTS as error:  # plugin code may raise anything
        pass_on_interrupt(error)
        if limit.expired():
            advice = "what takes long belongs into handle.in_background"
            raise PluginError(plugin.name, f"{where}: not done after {START_SECONDS:g} s; {advice}") from error
        raise PluginError(plugin.name, f"{where}: {described(error)}{place_of(error)}") from error


async def _close(plugin: Plugin) -> None:
    try:
        async with asyncio.timeout(CLOSE_SECONDS) as limit:
            await plugin.close()
    except PLUGIN_FAULTS as error:  # the other plugins must still be closed
        pass_on_interrupt(error)
        if limit.expired():
            log.warning("plugin takes too long to close", plugin=plugin.name, seconds=CLOSE_SECONDS)
        else:
            log.exception("plugin failed to close", plugin=plugin.name, error=described(error))
