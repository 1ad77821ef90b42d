"""A scheduler extender as a web service in this process, with responses defined by the test."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any, TypeAlias

import msgspec
from tests.support.tcp import serving

Reply: TypeAlias = Callable[[dict[str, Any]], Any]
"""Takes a request and returns the response: plain data, raw bytes, or a status."""


class ExtenderService:
    """Handles POST /<prefix>/<verb> with the function for the verb; records the requests."""

    def __init__(self, **verbs: Reply) -> None:
        self.verbs = verbs
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.heads: list[str] = []
        self.url = ""

    @asynccontextmanager
    async def running(self, ssl: SSLContext | None = None) -> AsyncIterator["ExtenderService"]:
        async with serving(self._serve, ssl=ssl) as port:
            self.url = f"{'https' if ssl else 'http'}://127.0.0.1:{port}/scheduler/"
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            path = head.split(" ")[1]
            length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
            self._answer(path, await reader.readexactly(length), writer)

    def _answer(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        verb = path.removeprefix("/scheduler/")
        request = msgspec.json.decode(body)
        self.requests.append((verb, request))
        answer = self.verbs[verb](request)
        if answer is None:
            return  # never responds
        status = answer if isinstance(answer, int) else 200
        content = (
            b"" if isinstance(answer, int) else answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
        )
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
