"""A campaign: a server in a separate thread, and thousands of requests from a seed."""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog
import uvloop

from moorage.cluster.apiserver.server import ApiServer
from tests.hostile import strangers
from tests.hostile.caller import Caller, Silence
from tests.hostile.classes import find_problems
from tests.hostile.judging import Audit, problem_of
from tests.hostile.requests import Requests
from tests.support.api import DEPLOYMENTS, NODES, PODS, deployment, node, pod

AUDIT_EVERY = 1000


class Campaign:
    """The requests, the responses, and all problems."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.statuses: Counter[int] = Counter()
        self.ways: Counter[str] = Counter()
        self.problems: list[str] = []
        self.slowest = (0.0, "")

    def run(self, count: int) -> None:
        """Send the requests, and check the complete store regularly."""
        chance = random.Random(self.seed)
        with serving(self.problems) as server:
            self.problems += find_problems(server.plain_url, server.token)
            requests = Requests(chance, server.api.resources)
            caller = Caller(chance, int(server.plain_url.rpartition(":")[2]), server.token)
            audit = Audit(server.plain_url, server.token, server.api.resources)
            sent = 0
            while sent < count and len(self.problems) < 20:
                before = sent // AUDIT_EVERY
                sent += self._call(caller, requests, chance)
                if sent // AUDIT_EVERY != before or sent >= count:
                    self.problems += audit.problems()
            caller.close()
            self.problems += strangers.problems(server)
            self.problems += strangers.problems_of_daemon(server)

    def _call(self, caller: Caller, requests: Requests, chance: random.Random) -> int:
        batch = [requests.draw() for _ in range(chance.randrange(1, 6))]
        output = f"{batch[0].method} {batch[0].target[:300]} {batch[0].content_type} {batch[0].body[:2000]!r}"
        began = time.perf_counter()
        try:
            received = caller.call(batch)
        except Silence as silence:
            self.problems.append(f"{silence} ({caller.way}): {output}")
            caller.close()
            return 1
        self.slowest = max(self.slowest, (time.perf_counter() - began, output))
        self.ways[caller.way] += 1
        for request, answer in received:
            self.statuses[answer.status] += 1
            if problem := problem_of(request, answer):
                report = (answer.body or b"")[:500]
                self.problems.append(
                    f"{problem} ({caller.way}): {answer.status} {report!r} to {output} … {request.target[:300]}"
                )
        return max(len(received), 1)


@contextmanager
def serving(problems: list[str]) -> Iterator[ApiServer]:
    """Serve in a thread; logged errors and errors of the event loop are problems."""
    before = structlog.get_config()

    def note(_logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        if method in ("error", "exception", "critical"):
            problems.append(f"logged: {event['event']} {event.get('path', '')} {event.get('exception', '')[-1500:]}")
        raise structlog.DropEvent

    structlog.configure(
        processors=[structlog.processors.format_exc_info, note], wrapper_class=structlog.make_filtering_bound_logger(0)
    )
    started = threading.Event()
    results: list[tuple[ApiServer, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        loop.set_exception_handler(lambda _loop, context: problems.append(f"in the loop: {context}"))
        async with ApiServer(plain=True) as server:
            furnish(server)
            results.append((server, loop, end))
            started.set()
            await end.wait()

    thread = threading.Thread(target=lambda: uvloop.run(serve()), daemon=True)
    thread.start()
    try:
        started.wait(60)
        server, loop, end = results[0]
        yield server
        loop.call_soon_threadsafe(end.set)
        thread.join(60)
        if thread.is_alive():
            problems.append("the server does not stop")
    finally:
        structlog.configure(**before)


def furnish(server: ApiServer) -> None:
    """Create the objects of the requests."""
    import msgspec

    from moorage.cluster.apiserver.requests.request import ApiRequest

    for path, obj in ((PODS, pod()), (NODES, node()), (DEPLOYMENTS, deployment())):
        server.api.answer(ApiRequest("POST", path, body=msgspec.json.encode(obj)))
