"""Requests to an API server: any verb on any resource and subresource, with typed errors.

Every pod costs at least two requests, so this is the hot path of the client: a request is assembled as bytes from
precomputed parts.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from time import perf_counter
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from moorage.common.clock import Clock, SteadyClock
from moorage.common.errors import Forbidden, NotFound, ServerError, Unreachable
from moorage.kube.api.codec import UNREADABLE, decode, encode
from moorage.kube.api.kinds import VERSIONS, Kind, find_kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.client.api_errors import api_error
from moorage.kube.client.credentials import NEVER
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.http.pool import ANSWER_SECONDS, HttpPool, Transport

T = TypeVar("T", bound=KubeObject)

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
ACCEPTED: Final = f"{JSON};drop=metadata.managedFields"
"""About a third of a small pod is managedFields, which no caller reads. Servers before Kubernetes 1.38 ignore this."""

Exchange: TypeAlias = tuple[str, int, float, int, int]
"""A finished request: method, status (0 without a response), seconds, bytes sent, bytes received."""
OnExchange: TypeAlias = Callable[[Exchange], None]

WATCH_SILENCE: Final = 150.0
"""A watch receives at least a bookmark per minute."""


class ApiClient:
    """Talks to one API server over a pool of connections. Use it as an async context manager, or close it."""

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str = "moorage",
        clock: Clock | None = None,
        transport: Transport | None = None,
        on_exchange: OnExchange = lambda _exchange: None,
    ) -> None:
        self.connection = connection
        self._on_exchange = on_exchange
        self._transport = transport or HttpPool(
            connection.server,
            tls=connection.tls,
            server_name=connection.server_name,
            proxy=connection.proxy,
            source=connection.source,
        )
        self._clock = clock or SteadyClock()
        fixed = {"Host": self._transport.host_header, "User-Agent": user_agent, "Accept": ACCEPTED}
        self._fixed = "".join(f"{name}: {text}\r\n" for name, text in (*fixed.items(), *connection.headers))
        self._authorization = ""
        self._headers = ""
        self._renewing: asyncio.Future[None] | None = None
        self._expires_at = 0.0
        self._versions: dict[Kind, Kind] = {}
        """The served version of each kind that :meth:`discover` has looked up."""

    async def __aenter__(self) -> "ApiClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        if (renewing := self._renewing) is not None:
            # Otherwise asyncio.run would cancel it with the start of its program.
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    def close(self) -> None:
        """Close all connections. Running requests fail."""
        self._transport.close()

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = JSON,
        *,
        seconds: float = ANSWER_SECONDS,
    ) -> bytes:
        """Send a request and return the body of the response. Raise an ApiError if it failed."""
        may_read_again, may_log_in_again = method == "GET" and not body, True
        while True:
            if self._expires_at != NEVER and self._expires_at <= self._clock.now():
                await self._renew()
            began = perf_counter()
            try:
                answer = await self._transport.send(self._encode_request(method, path, body, content_type), seconds)
            except Unreachable as error:
                self._on_exchange((method, 0, perf_counter() - began, len(body), 0))
                if not (may_read_again and error.was_sent):
                    raise
                # A read can be repeated, and the server may have closed an old connection.
                may_read_again = False
                continue
            self._on_exchange((method, answer.status, perf_counter() - began, len(body), len(answer.body)))
            if answer.status < 300:
                return answer.body
            if answer.status != 401 or not may_log_in_again or not await self._has_other_credentials():
                raise api_error(answer.status, answer.body, answer.retry_after, self.connection.source)
            may_log_in_again = False

    def _encode_request(self, method: str, path: str, body: bytes = b"", content_type: str = JSON) -> bytes:
        if not body and method == "GET":
            return f"GET {path} HTTP/1.1\r\n{self._headers}".encode()
        about_body = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}"
        return f"{method} {path} HTTP/1.1\r\n{about_body}\r\n{self._headers}".encode() + body

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterable[bytes]]:
        """Open a watch. The block receives an iterator of chunks until the server ends the watch."""
        if self._expires_at <= self._clock.now():
            await self._renew()
        async with self._transport.stream(self._encode_request("GET", path), WATCH_SILENCE) as answer:
            status = await answer.read_status()
            if status >= 300:
                if status == 401:
                    self._expires_at = 0.0
                raise api_error(status, await answer.rest(), answer.retry_after, self.connection.source)
            yield answer

    async def _renew(self) -> None:
        """Get the Authorization header. Concurrent callers share one lookup."""
        if self._renewing is None:
            self._renewing = asyncio.ensure_future(self._renew_now())
            self._renewing.add_done_callback(self._on_renewal)
        await asyncio.shield(self._renewing)

    async def _renew_now(self) -> None:
        self._authorization = await self.connection.credentials.renew()
        own = f"Authorization: {self._authorization}\r\n" if self._authorization else ""
        self._headers = f"{self._fixed}{own}\r\n"
        self._expires_at = self.connection.credentials.expires_at

    def _on_renewal(self, _: asyncio.Future[None]) -> None:
        self._renewing = None

    async def _has_other_credentials(self) -> bool:
        """Refresh rejected credentials. Return whether the header or the certificate changed."""
        tls = self.connection.tls
        before = self._authorization, tls and tls.context
        await self._renew()
        return before != (self._authorization, tls and tls.context)

    async def discover(self, kind: Kind) -> Kind:
        """Find the most stable version of a kind that the server serves. Without one, return the kind itself.

        Only kinds that have several versions need requests. All later requests about the kind use the version.
        """
        served = kind
        with suppress(Forbidden):  # discovery is public by default, but an administrator can restrict it
            for version in VERSIONS.get(kind, ()):
                if await self.serves(version):
                    served = version
                    break
        self._versions[kind] = served
        return served

    async def serves(self, kind: Kind) -> bool:
        """Return whether the server serves a kind in its version, by the discovery document of the version."""
        try:
            body = await self.request("GET", kind.root)
            resources = msgspec.json.decode(body, type=_Discovery).resources
        except NotFound:
            return False
        except UNREADABLE as error:
            raise ServerError(f"invalid list of the resources in {kind.api_version}: {error}") from error
        return any(resource.name == kind.plural for resource in resources)

    def resolve_kind(self, struct: type[KubeObject]) -> Kind:
        """Return the kind of a struct, in the version that was discovered or else in the decoded one."""
        kind = find_kind(struct)
        return self._versions.get(kind, kind) if kind in VERSIONS else kind

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        """Read one object."""
        return decoded(kind, await self.request("GET", self.resolve_kind(kind).path(name, namespace)))

    async def list(self, kind: type[T], namespace: str = "", query: str = "") -> list[T]:
        """Read all objects of a kind in one request; informers read in pages."""
        path = self.resolve_kind(kind).path(namespace=namespace) + (f"?{query}" if query else "")
        body = await self.request("GET", path)
        try:
            items = msgspec.json.decode(body, type=RawList).items
        except UNREADABLE as error:
            raise ServerError(f"invalid list of {kind.__name__}: {error}") from error
        return [decoded(kind, bytes(item)) for item in items or ()]

    async def create(self, obj: T) -> T:
        """Create an object and return it as stored."""
        kind = self.resolve_kind(type(obj))
        return decoded(type(obj), await self.request("POST", kind.path(namespace=obj.namespace), encoded(obj, kind)))

    async def update(self, obj: T, subresource: str = "") -> T:
        """Replace an object by the fields of its struct; only for kinds without fields of other writers."""
        kind = self.resolve_kind(type(obj))
        path = kind.path(obj.name, obj.namespace, subresource)
        return decoded(type(obj), await self.request("PUT", path, encoded(obj, kind)))

    async def patch(
        self, obj: T, patch: Mapping[str, Any], *, subresource: str = "", content_type: str = MERGE_PATCH
    ) -> T:
        """Merge something into an object and return it as stored."""
        path = self.resolve_kind(type(obj)).path(obj.name, obj.namespace, subresource)
        body = await self.request("PATCH", path, msgspec.json.encode(patch), content_type)
        return decoded(type(obj), body)

    async def delete(self, obj: KubeObject) -> None:
        """Delete an object."""
        await self.request("DELETE", self.resolve_kind(type(obj)).path(obj.name, obj.namespace))


class RawList(msgspec.Struct, frozen=True):
    """A list of items that are not decoded."""

    items: list[msgspec.Raw] | None = None


class _ServedResource(msgspec.Struct):
    name: str


class _Discovery(msgspec.Struct):
    """The resources of a version of an API group."""

    resources: list[_ServedResource] = []


def encoded(obj: KubeObject, kind: Kind) -> bytes:
    """Write an object as JSON, in a version of its kind."""
    return msgspec.json.encode({**encode(obj), "apiVersion": kind.api_version})


def decoded(kind: type[T], body: bytes) -> T:
    """Decode an object from JSON. Raise ServerError if it is invalid."""
    try:
        return decode(kind, body)
    except UNREADABLE as error:
        raise ServerError(f"invalid {kind.__name__} in the response: {error}") from error
