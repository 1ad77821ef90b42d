"""A scheduler on an API server, with the production client."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import structlog

from moorage.common.clock import Clock
from moorage.common.errors import MoorageError
from moorage.common.observers import Observer
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.wiring.api_connection import ApiConnection
from moorage.scheduler.wiring.assembly import Tuning, assemble
from moorage.scheduler.wiring.policy import Policy, keep_fixed_fields
from moorage.scheduler.wiring.reload import reload

Connect = Callable[[], ApiClient]

DRAIN_SECONDS: Final = 5.0
EVENT_SECONDS: Final = 1.0

log = structlog.get_logger(__name__)


class RunningScheduler:
    """One scheduler; :meth:`run` runs until it is cancelled."""

    def __init__(
        self,
        connect: Connect,
        clock: Clock,
        policy: Policy,
        *,
        cross_check: bool = False,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._api = ApiConnection(connect(), connect(), clock, policy.config.client_connection)
        tuning = Tuning(cross_check=cross_check)
        self._parts = assemble(policy, self._api, clock, observers=observers, tuning=tuning)
        self.scheduler = self._parts.scheduler

    async def reload(self, policy: Policy) -> list[str]:
        """Switch to another policy; return the configuration fields that cannot change at run time."""
        usable, differing = keep_fixed_fields(policy, self.scheduler.profiles.config)
        await reload(self._parts, usable)
        return differing

    def failure(self) -> Exception | None:
        """Return the first internal error of an attempt: an unexpected exception or a wrong cached result."""
        if self.scheduler.unexpected is not None:
            return self.scheduler.unexpected
        checks = (runner.filtering.cross_check for runner in self.scheduler.runners.values())
        return next((check.first for check in checks if check is not None and check.first is not None), None)

    async def run(self) -> None:
        """List and watch, then schedule until cancelled; pending work is finished."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._api.informers.run(), name="scheduler's informers")
                group.create_task(self._api.recorder.run(), name="event series")
                await self._api.informers.synced()
                async with self._parts.changing:
                    await self.scheduler.lifecycle.start()
                    self._parts.deliveries.start_through_loop()
                await self._parts.loop.run()
        except BaseExceptionGroup as group:
            # Report a single message; the failed task is not relevant to users.
            raise _first(group) from group
        finally:
            await self._finish()
            self._parts.close()

    async def _finish(self) -> None:
        """Finish pending bindings, status patches and events, with a timeout."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._parts.background.drain()
        except TimeoutError:
            log.info("shutdown timed out with pending work", tasks=len(self._parts.background))
        await self.scheduler.lifecycle.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(EVENT_SECONDS):
                await self._api.recorder.flush()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first MoorageError of a group, or the group itself."""
    error: BaseException | None = group.subgroup(MoorageError)
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error or group
