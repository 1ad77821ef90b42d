"""A server in front of the API server with injected faults: delays, rejections, errors and invalid data."""

import asyncio
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import aiohttp
import msgspec
import yaml
from aiohttp import web

from tests.support.control_plane import ADMIN, ControlPlane

LARGEST: Final = 1 << 26
PASSED_ON: Final = ("Content-Type", "Accept")
Garble = Callable[[bytes], bytes]
"""Takes a response, or a line of a watch, and returns its replacement."""


@dataclass
class Refusal:
    """A response for a share of the requests, which are not carried out; at most ``times`` responses."""

    matches: str
    status: int
    share: float = 1.0
    times: int = 1_000_000
    retry_after: str = ""


@dataclass
class Hold:
    """Limits requests of a kind: later requests get no response; ``reached`` is set by the first."""

    matches: str
    after: int
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def block_or_pass(self, line: str) -> None:
        """Pass a request, or block forever."""
        if re.search(self.matches, line):
            self.after -= 1
            if self.after < 0:
                self.reached.set()
                await asyncio.Event().wait()


@dataclass
class FaultyServer:
    """Forwards requests to the API server, except for faults; ``rejected`` counts the rejections by status."""

    plane: ControlPlane
    refusals: list[Refusal] = field(default_factory=list)
    slowest: float = 0.0
    """Maximum delay of a response in seconds."""
    garble: Garble | None = None
    hold: Hold | None = None
    rejected: Counter[int] = field(default_factory=Counter)
    chance: Random = field(default_factory=lambda: Random(1))
    _session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Path]:
        """Serve for the duration of the block; yield a kubeconfig for this server."""
        app = web.Application(client_max_size=LARGEST)
        app.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        async with aiohttp.ClientSession(connector=self._connector()) as self._session:
            await site.start()
            try:
                yield self._kubeconfig(runner.addresses[0][1])
            finally:
                await runner.cleanup()

    def _connector(self) -> aiohttp.TCPConnector:
        trusted = ssl.create_default_context(cafile=str(self.plane.directory / "certs" / "apiserver.crt"))
        return aiohttp.TCPConnector(ssl=trusted, limit=0)

    def _kubeconfig(self, port: int) -> Path:
        content = yaml.safe_load(self.plane.kubeconfig().read_text())
        content["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{port}"}
        path = self.plane.directory / f"faulty-{port}.kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return path

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if self.slowest:
            await asyncio.sleep(self.chance.uniform(0.0, self.slowest))
        line = f"{request.method} {request.path_qs}"
        if self.hold is not None:
            await self.hold.block_or_pass(line)
        refusal = self._refusal(line)
        if refusal is not None:
            self.rejected[refusal.status] += 1
            headers = {"Retry-After": refusal.retry_after} if refusal.retry_after else {}
            status = {"kind": "Status", "message": "the test refuses", "code": refusal.status}
            return web.json_response(status, status=refusal.status, headers=headers)
        return await self._forward(request)

    def _refusal(self, line: str) -> Refusal | None:
        for refusal in self.refusals:
            if refusal.times and re.search(refusal.matches, line) and self.chance.random() < refusal.share:
                refusal.times -= 1
                return refusal
        return None

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        headers["Authorization"] = f"Bearer {self.plane.tokens[ADMIN]}"
        async with self._session.request(
            request.method,
            f"{self.plane.server}{request.path_qs}",
            data=await request.read() or None,
            headers=headers,
            timeout=aiohttp.ClientTimeout(None),
        ) as answer:
            if "watch=" in request.query_string:
                return await self._streamed(request, answer)
            body = await answer.read()
            if self.garble is not None:
                body = self.garble(body)
            return web.Response(body=body, status=answer.status, content_type=answer.content_type)

    async def _streamed(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers={"Content-Type": "application/json"})
        await response.prepare(request)
        remainder = b""
        async for chunk in answer.content.iter_any():
            *lines, remainder = (remainder + chunk).split(b"\n")
            for line in lines:
                await response.write((self.garble(line) if self.garble is not None else line) + b"\n")
        return response


def without_sense(name: str, key: str, nonsense: object) -> Garble:
    """Replace a part of one object with invalid data, in lists and watches."""

    def garble(body: bytes) -> bytes:
        if f'"name":"{name}"'.encode() not in body:
            return body
        content = msgspec.json.decode(body)
        for obj in content.get("items") or [content.get("object", content)]:
            if obj.get("metadata", {}).get("name") == name:
                obj[key] = nonsense
        return msgspec.json.encode(content)

    return garble
