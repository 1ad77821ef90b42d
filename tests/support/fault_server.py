"""The embedded API with injected faults: it can be down, slow or disconnected, lose versions, or send invalid data.

It replaces the connections: requests and responses are the bytes that would go over the wire.
"""

import asyncio
import re
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from moorage.cluster.apiserver.api import Api
from moorage.cluster.apiserver.requests import request as server_side
from moorage.cluster.apiserver.storage.store import Store
from moorage.cluster.in_process import InProcessClient
from moorage.common.clock import Clock
from moorage.common.errors import Unreachable
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.http.messages import Response, ResponseStream


async def _at_once(_request: server_side.ApiRequest) -> None:
    """Take no time."""


@dataclass
class Request:
    """A request as the server reads it."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @classmethod
    def read(cls, raw: bytes) -> "Request":
        head, _, body = raw.partition(b"\r\n\r\n")
        line, *lines = head.decode().split("\r\n")
        method, target, _ = line.split(" ")
        parts = urlsplit(target)
        query = {key: words[0] for key, words in parse_qs(parts.query, keep_blank_values=True).items()}
        return cls(method, parts.path, query, dict(text.split(": ", 1) for text in lines if text), body)


@dataclass
class Fault:
    """The fault of the next requests that match."""

    matches: str
    answer: Response | None
    """``None`` carries out the request and loses the response."""
    times: int
    late: float = 0.0
    """Seconds until the request is carried out; its sender sees a closed connection immediately."""


class FaultServer:
    """The embedded API over its store, and pending faults; the namespace ``shop`` exists."""

    host_header = "server"

    def __init__(self, clock: Clock) -> None:
        self.requests: list[Request] = []
        self.is_down = False
        self.pause = 0.0
        self.store = Store()
        self.api = Api(clock, self.store)
        self._inner = InProcessClient(self.api, clock, _at_once)
        self._clock = clock
        self._faults: list[Fault] = []
        self._watches: list[MemoryStream] = []
        self.store.put("namespaces", "shop", {"metadata": {"name": "shop", "uid": "shop"}})

    def client(self) -> ApiClient:
        return ApiClient(Connection("https://server", "test"), clock=self._clock, transport=self)

    def fail(
        self, matches: str, status: int, *, times: int = 1, retry_after: str | None = None, message: str = "no"
    ) -> None:
        """Reject the next requests with a matching "METHOD path"."""
        body = msgspec.json.encode({"kind": "Status", "message": message, "code": status})
        self._faults.append(Fault(matches, Response(status, body, retry_after), times))

    def rubbish(self, matches: str, body: bytes = b"<html>", *, times: int = 1) -> None:
        """Return invalid data for the next requests that match."""
        self._faults.append(Fault(matches, Response(200, body), times))

    def lose_answer(self, matches: str, times: int = 1) -> None:
        """Carry out the next requests that match, and lose the responses."""
        self._faults.append(Fault(matches, None, times))

    def delay(self, matches: str, seconds: float) -> None:
        """Cut the connection of the next request that matches, but carry it out later."""
        self._faults.append(Fault(matches, None, 1, seconds))

    def cut_watches(self, problem: str = "cut") -> None:
        """End all watches, regularly if ``problem`` is empty."""
        for stream in self._watches:
            stream.end(problem)

    def compact(self) -> None:
        """Remove all old versions."""
        self.store.forget_history()

    def stored(self, collection: str) -> dict[str, dict[str, Any]]:
        """Return the objects of the API by key."""
        answer = self.api.answer(server_side.ApiRequest("GET", collection))
        assert isinstance(answer, server_side.ApiResponse)
        return {_key(obj): obj for obj in msgspec.json.decode(answer.body)["items"]}

    def put(self, collection: str, obj: dict[str, Any]) -> dict[str, Any]:
        """Create or change an object in the store, without a request and without validation."""
        copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(obj))
        copy["metadata"].setdefault("uid", f"uid-{self.store.version}")
        kind = _kind(collection)
        copy |= {"apiVersion": kind.api_version, "kind": kind.name}
        self.store.put(_storage(collection), _key(copy), copy)
        return copy

    def remove(self, collection: str, key: str) -> None:
        """Delete an object."""
        self.store.remove(_storage(collection), key)

    def tell_raw(self, line: bytes) -> None:
        """Send raw data to all watches."""
        for stream in self._watches:
            stream.add(line)

    async def send(self, request: bytes, seconds: float) -> Response:
        fault = await self._met(request)
        if fault is not None and fault.answer is not None:
            return fault.answer
        if fault is not None and fault.late:
            self._late = asyncio.create_task(self._carry_out_late(request, fault.late))
            raise Unreachable("the connection was closed")
        answer = self._carry_out(request)
        if fault is not None:
            raise Unreachable("the connection was closed")
        return answer

    def _carry_out(self, request: bytes) -> Response:
        query = Request.read(request)
        content_type = query.headers.get("Content-Type", server_side.JSON)
        answer = self.api.answer(
            server_side.ApiRequest(
                query.method, query.path, query.query, query.body, content_type, user_agent=query.headers["User-Agent"]
            )
        )
        assert isinstance(answer, server_side.ApiResponse), "watches are streamed"
        return Response(answer.status, answer.body, None if answer.retry_after is None else str(answer.retry_after))

    async def _carry_out_late(self, request: bytes, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._carry_out(request)

    async def _met(self, request: bytes) -> Fault | None:
        query = Request.read(request)
        self.requests.append(query)
        if self.pause:
            await asyncio.sleep(self.pause)
        if self.is_down:
            raise Unreachable("refused", was_sent=False)
        for fault in self._faults:
            if fault.times and re.search(fault.matches, f"{query.method} {query.path}"):
                fault.times -= 1
                return fault
        return None

    @asynccontextmanager
    async def stream(self, request: bytes, max_silence: float) -> AsyncIterator[ResponseStream]:
        fault = await self._met(request)
        if fault is not None and fault.answer is not None:
            rejected = MemoryStream(fault.answer.status, fault.answer.retry_after)
            rejected.add(fault.answer.body)
            rejected.end("")
            yield rejected
            return
        target = request.split(b" ", 2)[1].decode()
        async with self._inner.stream(target) as report:
            stream = MemoryStream(200, None)
            filling = asyncio.create_task(stream.fill(report))
            self._watches.append(stream)
            try:
                yield stream
            finally:
                self._watches.remove(stream)
                filling.cancel()
                await asyncio.gather(filling, return_exceptions=True)

    def close(self) -> None:
        self.cut_watches("closed")


class MemoryStream:
    """A response that is read as it arrives, without a connection, and may end early."""

    def __init__(self, status: int, retry_after: str | None) -> None:
        self.status = status
        self.retry_after = retry_after
        self._chunks: asyncio.Queue[bytes | str] = asyncio.Queue()

    async def fill(self, report: AsyncIterable[bytes]) -> None:
        async for chunk in report:
            self.add(chunk)
        self.end("")

    def add(self, chunk: bytes) -> None:
        self._chunks.put_nowait(chunk)

    def end(self, problem: str) -> None:
        self._chunks.put_nowait(problem)

    async def read_status(self) -> int:
        return self.status

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._chunks.get()
        if isinstance(chunk, bytes):
            return chunk
        if chunk:
            raise Unreachable(chunk)
        raise StopAsyncIteration

    async def rest(self) -> bytes:
        return b"".join([chunk async for chunk in self])


def _kind(collection: str) -> Kind:
    return next(kind for kind in BY_TYPE.values() if kind.path() == collection)


def _storage(collection: str) -> str:
    """Return the storage of a collection; both event groups share one."""
    kind = _kind(collection)
    return f"{kind.plural}.{kind.group}" if kind.group and kind.plural != "events" else kind.plural


def _key(obj: dict[str, Any]) -> str:
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
