"""`moorage scheduler --ui`: the page among the other pages of the scheduler, for whoever may read them."""

import asyncio
import socket
from typing import TYPE_CHECKING

from msgspec.structs import replace

from moorage.common.clock import SteadyClock
from moorage.insight.explain.in_scheduler import request_of
from moorage.insight.page.paths import API, ROOT, public_paths
from moorage.scheduler.daemon.options import AuthorizationOptions, Options
from moorage.scheduler.daemon.serving.routing import Router
from moorage.scheduler.engine.scheduler import Scheduler

if TYPE_CHECKING:
    from moorage.insight.page.live import LiveCluster


def allowing_page(options: AuthorizationOptions) -> AuthorizationOptions:
    """Let everybody load the page itself, which holds no data; its data is for those who are allowed to read it."""
    return replace(options, always_allow=(*options.always_allow, *public_paths()))


class SchedulerPage:
    """The page of one scheduler: what it looks at, and where it is served."""

    def __init__(self, options: Options) -> None:
        from moorage.insight.page.beside import QuestionProcess
        from moorage.insight.page.watching import PageObserver

        self._clock = SteadyClock()
        self._asking = QuestionProcess(request_of(options))
        self._source: LiveCluster | None = None
        self._changing: asyncio.Task[None] | None = None
        self.observer = PageObserver(self._clock)

    def change(self, options: Options) -> None:
        """Answer questions as these options say from now on."""
        changing = self._asking.change(request_of(options))
        self._changing = asyncio.get_running_loop().create_task(changing, name="page of another configuration")

    def add_to(self, router: Router, scheduler: Scheduler) -> None:
        """Register the page."""
        from moorage.insight.page.live import LiveCluster
        from moorage.insight.page.service import PageService

        title = f"scheduler on {socket.gethostname()}"
        self._source = LiveCluster(scheduler, self.observer, self._clock, title, self._asking.ask)
        answer = PageService(self._source).answer
        for path in ("/ui", ROOT, API):
            router.add("GET", path, answer)
        router.add("POST", f"{API}try", answer)

    async def stop(self) -> None:
        """End what looks for help."""
        if self._source is not None:
            await self._source.stop()
        await self._asking.stop()
