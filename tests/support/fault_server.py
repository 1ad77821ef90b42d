"""An API server in this process, behind a layer of faults: it can be down, slow, forgetful, or talk rubbish.

It stands where the connections would: requests are the bytes that would go over the wire, and so are the answers.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from moorage.client.kubeconfig import Connection
from moorage.client.rest import ApiClient
from moorage.client.wire import Answer
from moorage.clock import Clock
from moorage.errors import Unreachable

ITEM = re.compile(
    r"(?P<collection>.*/(?:pods|nodes|leases|events|persistentvolumes))(?:/(?P<name>[^/]+))?(?:/(?P<sub>\w+))?$"
)


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
    """What goes wrong with the next requests that match."""

    matches: str
    answer: Answer | None
    """``None`` carries the request out and loses the answer."""
    times: int


@dataclass
class FaultServer:
    """Objects by path, a log of changes to watch, and the faults to come."""

    objects: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    version: int = 100
    requests: list[Request] = field(default_factory=list)
    host_header: str = "server"
    is_down: bool = False
    pause: float = 0.0
    _log: list[tuple[int, str, str, dict[str, Any]]] = field(default_factory=list)
    _oldest: int = 0
    _faults: list[Fault] = field(default_factory=list)
    _watches: "list[MemoryStream]" = field(default_factory=list)

    def client(self, clock: Clock) -> ApiClient:
        return ApiClient(Connection("https://server", "test"), clock=clock, transport=self)

    def fail(
        self, matches: str, status: int, *, times: int = 1, retry_after: str | None = None, message: str = "no"
    ) -> None:
        """Have the next requests whose "METHOD path" matches refused."""
        body = msgspec.json.encode({"kind": "Status", "message": message, "code": status})
        self._faults.append(Fault(matches, Answer(status, body, retry_after), times))

    def rubbish(self, matches: str, body: bytes = b"<html>") -> None:
        """Have the next request that matches answered with rubbish."""
        self._faults.append(Fault(matches, Answer(200, body), 1))

    def lose_answer(self, matches: str, times: int = 1) -> None:
        """Carry the next requests that match out, and lose the answers."""
        self._faults.append(Fault(matches, None, times))

    def cut_watches(self, problem: str = "cut") -> None:
        """End all watches, by the server's will if ``problem`` is empty."""
        for stream in self._watches:
            stream.end(problem)

    def compact(self) -> None:
        """Forget all old versions."""
        self._oldest = self.version
        self._log.clear()

    def put(self, collection: str, thing: dict[str, Any]) -> dict[str, Any]:
        """Create or change an object behind the client's back."""
        meta = thing["metadata"]
        self.version += 1
        key = _key(thing)
        known = self.objects.setdefault(collection, {})
        event = "MODIFIED" if key in known else "ADDED"
        meta.setdefault("uid", f"uid-{self.version}")
        meta["resourceVersion"] = str(self.version)
        known[key] = thing
        self._tell(event, collection, thing)
        return thing

    def remove(self, collection: str, key: str) -> None:
        self.version += 1
        thing = self.objects[collection].pop(key)
        thing["metadata"]["resourceVersion"] = str(self.version)
        self._tell("DELETED", collection, thing)

    def tell_raw(self, line: bytes) -> None:
        """Have all watches told something as it is."""
        for stream in self._watches:
            stream.add(line)

    def _tell(self, event: str, collection: str, thing: dict[str, Any]) -> None:
        self._log.append((self.version, event, collection, msgspec.json.decode(msgspec.json.encode(thing))))
        for stream in self._watches:
            if stream.collection == collection:
                stream.add(_line(event, thing))

    async def send(self, request: bytes, seconds: float) -> Answer:
        asked = Request.read(request)
        self.requests.append(asked)
        if self.pause:
            await asyncio.sleep(self.pause)
        if self.is_down:
            raise Unreachable("refused", was_sent=False)
        fault = self._fault(asked)
        if fault is not None and fault.answer is not None:
            return fault.answer
        answer = self._answer(asked)
        if fault is not None:
            raise Unreachable("the connection was closed")
        return answer

    def _fault(self, asked: Request) -> Fault | None:
        for fault in self._faults:
            if fault.times and re.search(fault.matches, f"{asked.method} {asked.path}"):
                fault.times -= 1
                return fault
        return None

    def _answer(self, asked: Request) -> Answer:
        match = ITEM.match(asked.path)
        if match is None:
            return _refusal(404, "NotFound")
        collection, name, sub = match["collection"], match["name"], match["sub"]
        namespace = re.search("/namespaces/([^/]+)/", asked.path)
        store = re.sub("/namespaces/[^/]+", "", collection)
        key = f"{namespace[1]}/{name}" if namespace else name or ""
        actions: dict[str, Callable[[], Answer]] = {
            "GET": lambda: self._get(store, key) if name else self._list(store, asked),
            "POST": lambda: self._bind(store, key, asked) if sub == "binding" else self._create(store, asked),
            "PUT": lambda: self._update(store, key, asked),
            "PATCH": lambda: self._patch(store, key, asked),
            "DELETE": lambda: self._delete(store, key),
        }
        return actions[asked.method]()

    def _get(self, store: str, key: str) -> Answer:
        thing = self.objects.get(store, {}).get(key)
        return _refusal(404, "NotFound") if thing is None else _success(thing)

    def _list(self, store: str, asked: Request) -> Answer:
        items = list(self.objects.get(store, {}).values())
        meta: dict[str, Any] = {"resourceVersion": str(self.version)}
        start, limit = 0, int(asked.query.get("limit", len(items) or 1))
        if token := asked.query.get("continue"):
            version, start = (int(part) for part in token.split("-"))
            if version < self._oldest:
                return _refusal(410, "Expired")
        if start + limit < len(items):
            meta["continue"] = f"{self.version}-{start + limit}"
        return _success({"kind": "List", "metadata": meta, "items": items[start : start + limit]})

    def _create(self, store: str, asked: Request) -> Answer:
        thing = msgspec.json.decode(asked.body)
        if _key(thing) in self.objects.get(store, {}):
            return _refusal(409, "AlreadyExists")
        return _success(self.put(store, thing), 201)

    def _bind(self, store: str, key: str, asked: Request) -> Answer:
        pod = self.objects.get(store, {}).get(key)
        if pod is None:
            return _refusal(404, "NotFound")
        if pod["spec"].get("nodeName"):
            return _refusal(409, "Conflict")
        node = msgspec.json.decode(asked.body)["target"]["name"]
        self.put(store, {**pod, "metadata": dict(pod["metadata"]), "spec": {**pod["spec"], "nodeName": node}})
        return _success({"kind": "Status"}, 201)

    def _update(self, store: str, key: str, asked: Request) -> Answer:
        thing, known = msgspec.json.decode(asked.body), self.objects.get(store, {}).get(key)
        if known is None:
            return _refusal(404, "NotFound")
        if thing["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
            return _refusal(409, "Conflict")
        return _success(self.put(store, thing))

    def _patch(self, store: str, key: str, asked: Request) -> Answer:
        patch, known = msgspec.json.decode(asked.body), self.objects.get(store, {}).get(key)
        if known is None:
            return _refusal(404, "NotFound")
        wanted = patch.get("metadata", {}).pop("resourceVersion", None)
        if wanted not in (None, known["metadata"]["resourceVersion"]):
            return _refusal(409, "Conflict")
        return _success(self.put(store, merged(known, patch)))

    def _delete(self, store: str, key: str) -> Answer:
        if key not in self.objects.get(store, {}):
            return _refusal(404, "NotFound")
        self.remove(store, key)
        return _success({"kind": "Status"})

    @asynccontextmanager
    async def stream(self, request: bytes, patience: float) -> "AsyncIterator[MemoryStream]":
        asked = Request.read(request)
        self.requests.append(asked)
        if self.is_down:
            raise Unreachable("refused", was_sent=False)
        fault = self._fault(asked)
        since = int(asked.query["resourceVersion"])
        stream = MemoryStream(asked.path)
        if fault is not None and fault.answer is not None:
            stream.status, stream.retry_after = fault.answer.status, fault.answer.retry_after
            stream.add(fault.answer.body)
            stream.end("")
        elif since < self._oldest:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            stream.add(_line("ERROR", status))
            stream.end("")
        for version, event, collection, thing in self._log:
            if version > since and collection == asked.path:
                stream.add(_line(event, thing))
        self._watches.append(stream)
        try:
            yield stream
        finally:
            self._watches.remove(stream)

    def close(self) -> None:
        self.cut_watches("closed")


class MemoryStream:
    """An answer that is read as it arrives, without a connection."""

    def __init__(self, collection: str) -> None:
        self.collection = collection
        self.status = 200
        self.retry_after: str | None = None
        self._chunks: asyncio.Queue[bytes | str] = asyncio.Queue()

    def add(self, chunk: bytes) -> None:
        self._chunks.put_nowait(chunk)

    def end(self, problem: str) -> None:
        self._chunks.put_nowait(problem)

    async def begun(self) -> int:
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


def merged(known: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch."""
    result = dict(known)
    for key, content in patch.items():
        if content is None:
            result.pop(key, None)
        elif isinstance(content, dict):
            result[key] = merged(result.get(key) or {}, content)
        else:
            result[key] = content
    return result


def _key(thing: dict[str, Any]) -> str:
    meta = thing["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _line(event: str, thing: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": event, "object": thing}) + b"\n"


def _success(content: dict[str, Any], status: int = 200) -> Answer:
    return Answer(status, msgspec.json.encode(content))


def _refusal(status: int, reason: str) -> Answer:
    return Answer(status, msgspec.json.encode({"kind": "Status", "reason": reason, "message": reason, "code": status}))
