"""Requests to an API server: any verb on any resource and subresource, with errors that say what happens next.

Every pod costs at least two requests, so this is the client's hot path. Bodies are bytes, addresses are not parsed
again, and there are no cookies, no compression and no timer per request.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, cast

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from moorage.api.codec import decode, encode
from moorage.api.custom import CustomObject, decode_custom
from moorage.api.kinds import BY_TYPE, Kind
from moorage.api.meta import KubeObject
from moorage.client.answers import api_error
from moorage.client.kubeconfig import Connection
from moorage.clock import Clock, SystemClock
from moorage.errors import ApiError, InputError, Unreachable

T = TypeVar("T", bound=KubeObject)

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

ANSWER_TIMEOUT: Final = 65.0
"""An API server gives up on a request after a minute; silence for longer means that nobody is there."""
WATCH_SILENCE: Final = 150.0
"""A watch is told something once a minute, if only a bookmark."""
CONNECT_TIMEOUT: Final = 10.0

_BODY: Final = {kind: {"Content-Type": kind} for kind in (JSON, MERGE_PATCH, STRATEGIC_MERGE_PATCH)}
_SKIPPED_HEADERS: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class ApiClient:
    """Talks to one API server over a pool of connections. Use it as an async context manager, or close it."""

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str = "moorage",
        most_connections: int = 128,
        clock: Clock | None = None,
    ) -> None:
        self.connection = connection
        self._clock = clock or SystemClock()
        self._headers: CIMultiDict[str] = CIMultiDict({"User-Agent": user_agent, "Accept": JSON})
        for name, value in connection.headers:
            self._headers.add(name, value)
        self._renewing: asyncio.Future[None] | None = None
        self._expires_at = 0.0
        self._most_connections = most_connections
        self._options: dict[str, Any] = {}
        if connection.server_name:
            self._options["server_hostname"] = connection.server_name
        if connection.proxy:
            self._options["proxy"] = connection.proxy
        self._open_session: aiohttp.ClientSession | None = None
        self._quick = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=ANSWER_TIMEOUT)
        self._patient = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=WATCH_SILENCE)

    async def __aenter__(self) -> "ApiClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        if self._open_session is not None:
            await self._open_session.close()
            self._open_session = None

    def _session(self) -> aiohttp.ClientSession:
        if self._open_session is None:
            connector = aiohttp.TCPConnector(
                limit=self._most_connections,
                ssl=True if self.connection.tls is None else self.connection.tls,
                keepalive_timeout=60.0,
            )
            self._open_session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_SKIPPED_HEADERS,
                auto_decompress=False,
                timeout=self._quick,
            )
        return self._open_session

    async def request(self, method: str, path: str, body: bytes | None = None, content_type: str = JSON) -> bytes:
        """Send a request and return the body of the answer; an answer that is no success is raised."""
        if self._expires_at <= self._clock.now():
            await self._renew()
        answer = await self._send(method, path, body, content_type)
        if answer.status == 401 and await self._has_other_credentials():
            answer = await self._send(method, path, body, content_type)
        if answer.status >= 300:
            raise api_error(answer.status, answer.body, answer.retry_after, self.connection.source)
        return answer.body

    async def _send(self, method: str, path: str, body: bytes | None, content_type: str) -> "Answer":
        headers = self._headers
        if body is not None:
            headers = headers.copy()
            headers.add("Content-Type", content_type)
        url = URL(self.connection.server + path, encoded=True)
        try:
            response = await self._session()._request(method, url, data=body, headers=headers, **self._options)
            return Answer(response.status, await response.read(), response.headers.get("Retry-After"))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise unreachable(self.connection, error) from error

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch; what the block gets yields chunks as they arrive, until the server ends the watch."""
        if self._expires_at <= self._clock.now():
            await self._renew()
        url = URL(self.connection.server + path, encoded=True)
        try:
            async with self._session().get(
                url, headers=self._headers, timeout=self._patient, **self._options
            ) as response:
                if response.status >= 300:
                    body, retry_after = await response.read(), response.headers.get("Retry-After")
                    if response.status == 401:
                        self._expires_at = 0.0
                    raise api_error(response.status, body, retry_after, self.connection.source)
                yield response.content.iter_any()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise unreachable(self.connection, error) from error

    async def _renew(self) -> None:
        """Get the Authorization header, once for all who wait for it."""
        if self._renewing is None:
            self._renewing = asyncio.ensure_future(self._renew_now())
            self._renewing.add_done_callback(self._renewed)
        await asyncio.shield(self._renewing)

    async def _renew_now(self) -> None:
        header = await self.connection.credentials.renew()
        self._headers.pop("Authorization", None)
        if header:
            self._headers["Authorization"] = header
        self._expires_at = self.connection.credentials.expires_at

    def _renewed(self, _: asyncio.Future[None]) -> None:
        self._renewing = None

    async def _has_other_credentials(self) -> bool:
        """Ask for credentials again after they were refused; tell whether these are others."""
        before = self._headers.get("Authorization")
        await self._renew()
        return self._headers.get("Authorization") != before

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        """Read one object as it is now."""
        return decoded(kind, await self.request("GET", BY_TYPE[kind].path(name, namespace)))

    async def list(self, kind: type[T], namespace: str = "", query: str = "") -> list[T]:
        """Read all objects of a kind at once; informers read in pages."""
        path = BY_TYPE[kind].path(namespace=namespace) + (f"?{query}" if query else "")
        items = msgspec.json.decode(await self.request("GET", path), type=RawList).items
        return [decoded(kind, bytes(item)) for item in items or ()]

    async def create(self, thing: T) -> T:
        """Create an object and return it as stored."""
        path = _kind(thing).path(namespace=thing.namespace)
        return decoded(type(thing), await self.request("POST", path, encoded(thing)))

    async def update(self, thing: T, subresource: str = "") -> T:
        """Replace an object by what our struct knows of it: only for kinds that nobody else adds fields to."""
        path = _kind(thing).path(thing.name, thing.namespace, subresource)
        return decoded(type(thing), await self.request("PUT", path, encoded(thing)))

    async def patch(
        self, thing: T, patch: Mapping[str, Any], *, subresource: str = "", content_type: str = MERGE_PATCH
    ) -> T:
        """Merge something into an object and return it as stored."""
        path = _kind(thing).path(thing.name, thing.namespace, subresource)
        body = await self.request("PATCH", path, msgspec.json.encode(patch), content_type)
        return decoded(type(thing), body)

    async def delete(self, thing: KubeObject) -> None:
        """Ask for an object to be deleted."""
        await self.request("DELETE", _kind(thing).path(thing.name, thing.namespace))


class Answer(msgspec.Struct, frozen=True):
    """What a server answered."""

    status: int
    body: bytes
    retry_after: str | None


class RawList(msgspec.Struct, frozen=True):
    """A list whose items have not been looked at."""

    items: list[msgspec.Raw] | None = None


def unreachable(connection: Connection, error: Exception) -> ApiError | InputError:
    """Say why there was no answer; a certificate that does not verify is for the user to mend."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        hint = "check certificate-authority-data and tls-server-name in the kubeconfig"
        problem = f"the certificate of {connection.server} is not trusted: {error.certificate_error}"
        return InputError(connection.source, problem, hint=hint)
    was_sent = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    told = str(error) or type(error).__name__
    return Unreachable(f"no answer from {connection.server}: {told}", was_sent=was_sent)


def _kind(thing: KubeObject) -> Kind:
    return BY_TYPE[type(thing)]


def encoded(thing: KubeObject) -> bytes:
    """Write an object as JSON, with its kind."""
    if isinstance(thing, CustomObject):
        return msgspec.json.encode(thing.content)
    return msgspec.json.encode(encode(thing))


def decoded(kind: type[T], body: bytes) -> T:
    """Read an object from JSON."""
    if issubclass(kind, CustomObject):
        return cast("T", decode_custom(kind, body))
    return decode(kind, body)
