"""`moorage scheduler --ui`: the page among the other pages of the scheduler, for whoever may read them."""

import asyncio
import socket
from typing import TYPE_CHECKING

from msgspec.structs import replace

from moorage.app.explain_events import request_of
from moorage.app.options import AuthorizationOptions, Options
from moorage.app.serving.routing import Router
from moorage.clock import SteadyClock
from moorage.engine.scheduler import Scheduler
from moorage.ui.paths import API, ROOT, public_paths

if TYPE_CHECKING:
    from moorage.ui.live import LiveCluster


def allowing_page(options: AuthorizationOptions) -> AuthorizationOptions:
    """Let everybody load the page itself, which holds no data; its data is for those who are allowed to read it."""
    return replace(options, always_allow=(*options.always_allow, *public_paths()))


class SchedulerPage:
    """The page of one scheduler: what it looks at, and where it is served."""

    def __init__(self, options: Options) -> None:
        from moorage.app.page.beside import QuestionProcess
        from moorage.ui.watching import PageObserver

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
        from moorage.ui.live import LiveCluster
        from moorage.ui.service import PageService

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
