"""An in-process transport of the API client: no sockets, so it works in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl

from moorage.cluster.apiserver.api import Api
from moorage.cluster.apiserver.reading.watching import Watch
from moorage.cluster.apiserver.requests.request import JSON, ApiRequest
from moorage.cluster.apiserver.storage.store import StoredChange
from moorage.kube.http.messages import Response, ResponseStream
from moorage.kube.http.parsing import parse_request


class InProcess:
    """Passes requests to an API in the same process; each takes ``latency`` seconds."""

    host_header = "in.process"

    def __init__(self, api: Api, *, latency: float = 0.001) -> None:
        self._api = api
        self._latency = latency
        self._waiting: dict[str, set[asyncio.Event]] = {}
        api.store.subscribe(self._wake)

    def _wake(self, resource: str, _change: StoredChange) -> None:
        for event in self._waiting.get(resource, ()):
            event.set()

    async def send(self, request: bytes, seconds: float) -> Response:
        """Execute a request and return its response."""
        await asyncio.sleep(self._latency)
        answer = self._api.answer(parsed(request))
        assert not isinstance(answer, Watch), "watches are streamed"
        retry = None if answer.retry_after is None else str(answer.retry_after)
        return Response(answer.status, answer.body, retry)

    @asynccontextmanager
    async def stream(self, request: bytes, max_silence: float) -> AsyncIterator[ResponseStream]:
        """Start a watch and yield its stream of events."""
        await asyncio.sleep(self._latency)
        answer = self._api.answer(parsed(request))
        if not isinstance(answer, Watch):
            yield _WholeAnswer(answer.status, answer.body)
            return
        event = asyncio.Event()
        waiting = self._waiting.setdefault(answer.resource.storage, set())
        waiting.add(event)
        try:
            yield _WatchAnswer(answer, event, self._latency)
        finally:
            waiting.discard(event)

    def close(self) -> None:
        """Do nothing: there is no connection."""


class _WatchAnswer:
    """The events of a watch, as they happen."""

    retry_after = None

    def __init__(self, watch: Watch, event: asyncio.Event, latency: float) -> None:
        self._watch = watch
        self._event = event
        self._latency = latency

    async def begun(self) -> int:
        return 200

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + (self._watch.terms.seconds or 1800.0)
        for chunk in self._watch.begin():
            yield chunk
        while not self._watch.is_over and loop.time() < end:
            self._event.clear()
            if data := self._watch.take():
                yield data
                continue
            try:
                async with asyncio.timeout_at(end):
                    await self._event.wait()
            except TimeoutError:
                return
            await asyncio.sleep(self._latency)

    async def rest(self) -> bytes:
        return b""


class _WholeAnswer:
    """A complete response: not a watch, or an error."""

    retry_after = None

    def __init__(self, status: int, body: bytes) -> None:
        self._status = status
        self._body = body

    async def begun(self) -> int:
        return self._status

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body

    async def rest(self) -> bytes:
        return self._body


def parsed(request: bytes) -> ApiRequest:
    """Parse a serialized HTTP request."""
    http_request = parse_request(request)
    return ApiRequest(
        method=http_request.method,
        path=http_request.path,
        query=dict(parse_qsl(http_request.query_string, keep_blank_values=True)),
        body=http_request.body,
        content_type=http_request.header(b"content-type", JSON),
        accept=http_request.header(b"accept"),
        user_agent=http_request.header(b"user-agent"),
    )
