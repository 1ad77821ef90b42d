"""Server-sent events: the newest version, to readers of any speed, at no cost for slow ones."""

import asyncio

from moorage.insight.page import events
from moorage.insight.page.events import MAX_IN_PROGRESS, EventStream, PageNews, with_page_events
from moorage.kube.http.messages import HttpRequest, Reply


class Reader:
    """Takes what is sent, unless it is full."""

    def __init__(self) -> None:
        self.is_full = False
        self.got: list[bytes] = []
        self.has_ended = False
        self.was_dropped = False

    def send(self, piece: bytes) -> None:
        assert not self.is_full, "a reader who does not read is not sent to"
        self.got.append(piece)

    def end(self) -> None:
        self.has_ended = True

    def abort(self) -> None:
        self.was_dropped = True

    @property
    def versions(self) -> list[bytes]:
        return [piece.split(b"data: ")[1].strip() for piece in self.got if b"data: " in piece]


OPENING = HttpRequest("GET", b"/ui/api/events", [], b"")


async def nothing(_request: HttpRequest) -> Reply:
    return Reply(500, b"")


def reading(news: PageNews) -> tuple[Reader, EventStream]:
    reader, stream = Reader(), news.stream(OPENING)
    assert isinstance(stream, EventStream)
    stream.start(reader)
    return reader, stream


def in_a_loop(test: object) -> None:
    async def go() -> None:
        news = PageNews(nothing)
        test(news)  # type: ignore[operator]
        await news.stop()

    asyncio.run(go())


def test_slow_reader_gets_the_newest_version() -> None:
    def test(news: PageNews) -> None:
        reader, stream = reading(news)
        reader.is_full = True
        for number in range(50):
            news.latest = b'{"version":%d}' % number
            stream.tick()
        reader.is_full = False
        stream.resume_sending()
        assert reader.versions == [b'{"version":49}']

    in_a_loop(test)


def test_stalled_reader_is_disconnected() -> None:
    def test(news: PageNews) -> None:
        reader, stream = reading(news)
        reader.is_full = True
        for _ in range(events.STALLED_TICKS):
            stream.tick()
        assert reader.was_dropped

    in_a_loop(test)


def test_versions_are_sent_once_with_comments_in_between() -> None:
    def test(news: PageNews) -> None:
        reader, stream = reading(news)
        news.latest = b'{"version":1}'
        for _ in range(events.QUIET_TICKS):
            stream.tick()
        assert reader.versions == [b'{"version":1}']
        assert sum(b"still here" in piece for piece in reader.got) == 1

    in_a_loop(test)


def test_stream_ends_after_a_time_limit() -> None:
    def test(news: PageNews) -> None:
        reader, stream = reading(news)
        for _ in range(events.MAX_TICKS):
            stream.tick()
        assert reader.has_ended

    in_a_loop(test)


def test_number_of_readers_is_limited() -> None:
    def test(news: PageNews) -> None:
        for _ in range(events.MAX_READERS):
            reading(news)
        rejected = news.stream(OPENING)
        assert isinstance(rejected, Reply)
        assert rejected.status == 503

    in_a_loop(test)


def test_version_is_polled_while_a_reader_is_connected() -> None:
    async def go() -> list[bytes]:
        answers = iter(range(10))

        async def version(request: HttpRequest) -> Reply:
            assert request.path == "/ui/api/version"
            return Reply(200, b'{"version":%d}' % next(answers))

        news = PageNews(version)
        reader, _ = reading(news)
        while not reader.versions:
            await asyncio.sleep(0)
        await news.stop()
        return reader.versions

    assert asyncio.run(go()) == [b'{"version":0}']


def test_supervisor_serves_files_and_rejects_other_paths_of_the_page() -> None:
    async def go() -> None:
        forwarded: list[str] = []

        async def forward(request: HttpRequest) -> Reply:
            forwarded.append(request.path)
            return Reply(200, b"")

        handle, _ = with_page_events(forward, nothing)
        statuses = {}
        for path in ("/ui", "/ui/", "/ui/absent.js", "/ui/%61bsent", "/ui/api/state", "/metrics"):
            reply = await handle(HttpRequest("GET", path.encode(), [], b""))
            assert isinstance(reply, Reply)
            statuses[path] = reply.status
        assert forwarded == ["/ui/api/state", "/metrics"]
        assert [*statuses.values()] == [302, 200, 404, 404, 200, 200]

    asyncio.run(go())


def test_readers_of_the_page_leave_places_for_metrics() -> None:
    async def go() -> None:
        may_end = asyncio.Event()

        async def forward(request: HttpRequest) -> Reply:
            if request.path != "/metrics":
                await may_end.wait()
            return Reply(200, b"")

        async def read(path: str) -> int:
            reply = await handle(HttpRequest("GET", path.encode(), [], b""))
            assert isinstance(reply, Reply)
            return reply.status

        handle, _ = with_page_events(forward, nothing)
        waiting = [asyncio.ensure_future(read("/ui/api/reasons")) for _ in range(MAX_IN_PROGRESS)]
        await asyncio.sleep(0)
        assert await read("/ui/api/reasons") == 503
        assert await read("/metrics") == 200
        may_end.set()
        assert {await request for request in waiting} == {200}
        assert await read("/ui/api/reasons") == 200

    asyncio.run(go())
