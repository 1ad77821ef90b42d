"""`moorage scheduler --ui`: the web page of a running scheduler."""

import asyncio
import socket
from typing import TYPE_CHECKING

from msgspec.structs import replace

from moorage.common.background import start_task
from moorage.common.clock import SteadyClock
from moorage.common.observers import Observer
from moorage.insight.explain.explain_events import request_from_options
from moorage.insight.page.paths import API, ROOT, TRY, public_paths
from moorage.scheduler.daemon.metrics.instruments import Instruments
from moorage.scheduler.daemon.options import Options
from moorage.scheduler.daemon.services import DaemonParts, DaemonService
from moorage.scheduler.daemon.serving.routing import Router

if TYPE_CHECKING:
    from moorage.insight.page.live_cluster import LiveCluster


def allow_page(options: Options) -> Options:
    """Serve the static files of the page without authorization. Its data requires authorization as other pages do."""
    authorization = options.authorization
    always_allow = (*authorization.always_allow, *public_paths())
    return replace(options, authorization=replace(authorization, always_allow=always_allow))


class SchedulerPage(DaemonService):
    """The page of a daemon and the process that handles its questions."""

    def __init__(self, options: Options, instruments: Instruments) -> None:
        from moorage.insight.page.live_cluster import PageObserver
        from moorage.insight.page.question_process import QuestionProcess

        self._clock = SteadyClock()
        self._asking = QuestionProcess(request_from_options(options))
        self._source: LiveCluster | None = None
        self._changing: asyncio.Task[None] | None = None
        self._observer = PageObserver(self._clock)

    @property
    def observer(self) -> Observer:
        """The observer that collects the page's data."""
        return self._observer

    def reconfigure(self, options: Options) -> None:
        """Handle later questions under a new configuration."""
        changing = self._asking.change(request_from_options(options))
        self._changing = start_task(changing, "reconfigure the page")

    def start(self, parts: DaemonParts, router: Router) -> None:
        """Register the page."""
        from moorage.insight.page.live_cluster import LiveCluster
        from moorage.insight.page.service import PageService

        title = f"scheduler on {socket.gethostname()}"
        self._source = LiveCluster(parts.scheduler, self._observer, self._clock, title, self._asking.ask)
        answer = PageService(self._source).answer
        for path in ("/ui", ROOT, API):
            router.add("GET", path, answer)
        router.add("POST", TRY, answer)

    async def close(self) -> None:
        """Stop searches and the process that handles questions."""
        if self._source is not None:
            await self._source.stop()
        await self._asking.stop()
