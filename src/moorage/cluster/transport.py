"""The API in the same process, behind the client's own seam: no sockets, so that it works in virtual time."""

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
    """Carries requests to an API in the same process; each takes ``latency`` seconds."""

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
        """Carry a request to the API and bring the answer back."""
        await asyncio.sleep(self._latency)
        answer = self._api.answer(parsed(request))
        assert not isinstance(answer, Watch), "a watch is read as it comes"
        retry = None if answer.retry_after is None else str(answer.retry_after)
        return Response(answer.status, answer.body, retry)

    @asynccontextmanager
    async def stream(self, request: bytes, max_silence: float) -> AsyncIterator[ResponseStream]:
        """Carry a watch to the API and give the block its events."""
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
        """Be done; there is nothing to close."""


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
    """An answer that is there at once: what was asked for is no watch, or was refused."""

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
    """Read the request a client would have put on the wire."""
    found = parse_request(request)
    return ApiRequest(
        method=found.method,
        path=found.path,
        query=dict(parse_qsl(found.query_string, keep_blank_values=True)),
        body=found.body,
        content_type=found.header(b"content-type", JSON),
        accept=found.header(b"accept"),
        user_agent=found.header(b"user-agent"),
    )
