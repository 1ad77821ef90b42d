"""Requests that the supervisor forwards, and its replies while the scheduler is blocked."""

import asyncio
from collections.abc import Awaitable, Callable

from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.kube.http.messages import HttpRequest, Reply
from moorage.scheduler.daemon.supervisor.forwarding import MAX_ASKED, PAGE_SECONDS, Forwarding, LinkMeter
from moorage.scheduler.daemon.supervisor.link import Answered, Asked, Link, Measured
from moorage.scheduler.daemon.supervisor.process import Child, SharedState
from moorage.scheduler.daemon.supervisor.watchdog import Incidents, Watchdog


class Sent(Link):
    """A link that records messages; ``is_full`` simulates a scheduler that does not read."""

    def __init__(self) -> None:
        self.messages_sent: list[object] = []
        self.is_full = False

    @property
    def is_backed_up(self) -> bool:
        return self.is_full

    def send(self, message: object) -> None:
        self.messages_sent.append(message)


class Scene:
    """A supervisor that forwards requests."""

    def __init__(self) -> None:
        self.link = Sent()
        self.watchdog = Watchdog(SharedState())
        meter = LinkMeter(self.link)
        self.incidents = Incidents(self.watchdog, Child(0), 0, meter)
        self.forwarding = Forwarding(self.link, self.watchdog, self.incidents, meter)


def request(path: str = "/configz?a=b", method: str = "GET") -> HttpRequest:
    headers = [(b"accept", b"text/plain"), (b"authorization", b"Bearer secret")]
    return HttpRequest(method, path.encode(), headers, b"body", asyncio.BaseTransport())


def play(work: Callable[[Scene], Awaitable[Reply]]) -> tuple[Scene, Reply]:
    async def run() -> tuple[Scene, Reply]:
        scene = Scene()
        return scene, await work(scene)

    return run_virtual(run(), VirtualClock())


def test_request_is_forwarded_without_credentials_and_its_reply_returned() -> None:
    async def work(scene: Scene) -> Reply:
        asking = asyncio.ensure_future(scene.forwarding.page(request()))
        await asyncio.sleep(0)
        (query,) = scene.link.messages_sent
        assert isinstance(query, Asked)
        assert (query.method, query.target, query.body) == ("GET", b"/configz?a=b", b"body")
        assert query.headers == [(b"accept", b"text/plain")]
        scene.forwarding.answered(Answered(query.number + 1, 200, b"for another request", "text/plain"))
        scene.forwarding.answered(Answered(query.number, 201, b"text", "text/plain", (("A", "b"),)))
        return await asking

    _, reply = play(work)
    assert reply == Reply(201, b"text", "text/plain", (("A", "b"),))


def blocked(path: str, method: str = "GET", plugin: str = "Slow") -> Reply:
    async def work(scene: Scene) -> Reply:
        scene.watchdog.blocked = PAGE_SECONDS
        scene.incidents.plugin, scene.incidents.counts = plugin, {plugin: 2}
        return await scene.forwarding.page(request(path, method))

    return play(work)[1]


def test_blocked_scheduler_is_reported_with_its_plugin() -> None:
    assert blocked("/configz") == Reply(
        503, b"the scheduler has been blocked in plugin Slow for 3 s\n", "text/plain; charset=utf-8"
    )
    assert blocked("/configz", plugin="").body == b"the scheduler has been blocked for 3 s\n"


def test_metrics_of_a_blocked_scheduler_name_the_plugin() -> None:
    reply = blocked("/metrics")
    assert reply.status == 200
    assert b'moorage_stuck_total{plugin="Slow"} 2.0\n' in reply.body
    assert blocked("/metrics", "DELETE").status == 503


def test_requests_fail_when_the_scheduler_ends() -> None:
    async def work(scene: Scene) -> Reply:
        asking = asyncio.ensure_future(scene.forwarding.page(request()))
        await asyncio.sleep(0)
        scene.forwarding.end()
        return await asking

    assert play(work)[1].body == b"the scheduler has ended\n"


def test_number_of_waiting_requests_is_limited() -> None:
    async def work(scene: Scene) -> Reply:
        waiting = [asyncio.ensure_future(scene.forwarding.page(request())) for _ in range(MAX_ASKED)]
        await asyncio.sleep(0)
        reply = await scene.forwarding.page(request())
        scene.forwarding.end()
        await asyncio.gather(*waiting)
        assert (await asyncio.wait_for(scene.forwarding.page(request()), 60)).status == 503
        return reply

    async def bounded(scene: Scene) -> Reply:
        scene.watchdog.blocked = PAGE_SECONDS
        return await work(scene)

    assert play(bounded)[1].body == b"too many requests are waiting for the scheduler\n"


def test_counts_are_sent_in_batches_and_dropped_while_the_scheduler_does_not_read() -> None:
    link = Sent()

    async def work() -> None:
        meter = LinkMeter(link)
        for value in (0.5, 1.5):
            meter.count("a_total", "x")
            meter.observe("b_seconds", value, "y")
        assert link.messages_sent == []
        meter.flush()
        link.is_full = True
        meter.count("a_total", "x")
        meter.observe("b_seconds", 0.5, "y")
        meter.flush()
        link.is_full = False
        meter.flush()

    asyncio.run(work())
    assert link.messages_sent == [Measured("a_total", ("x",), 2), Measured("b_seconds", ("y",), values=[0.5, 1.5])]
