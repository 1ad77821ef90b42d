"""The API on a loopback port: HTTP around :class:`~moorage.apiserver.api.Api`, and nothing else."""

import asyncio
import base64
import hmac
import logging
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from moorage.apiserver.api import HEALTH, Api
from moorage.apiserver.certificates import loopback_certificate
from moorage.apiserver.expiry import forget_old_events
from moorage.apiserver.journal import Journal
from moorage.apiserver.refusals import status_of, too_large, unauthorized
from moorage.apiserver.requests import JSON, Answer, Request
from moorage.apiserver.store import Change, Store
from moorage.apiserver.watching import Watch
from moorage.clock import Clock, SystemClock
from moorage.errors import ApiError, InputError, ServerError

LOOPBACK: Final = "127.0.0.1"
LONGEST_BODY: Final = 3 * 1024 * 1024
LONGEST_WATCH: Final = 1800.0
BOOKMARK_SECONDS: Final = 30.0
TICK_SECONDS: Final = 5.0
AUTHORITY: Final = "extension-apiserver-authentication"
PROXY_HEADERS: Final = {
    "allowed-names": "[]",
    "extra-headers-prefix": '["X-Remote-Extra-"]',
    "group-headers": '["X-Remote-Group"]',
    "username-headers": '["X-Remote-User"]',
}
OPEN_TO_ALL: Final = (*HEALTH, "/version")

log = structlog.get_logger(__name__)


class ApiServer:
    """Serves an API until it is stopped. Use it as an async context manager.

    Whoever has ``token`` may do everything, nobody else anything; only this machine can connect. ``url`` is served over
    TLS, as kubectl wants it; with ``plain``, so is ``plain_url`` without, for clients that count microseconds. With a
    ``data_dir``, what was acknowledged is there after a restart, however the process ended.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        token: str = "",
        port: int = 0,
        plain: bool = False,
        data_dir: Path | None = None,
    ) -> None:
        self.token = token or secrets.token_urlsafe(24)
        self._journal = Journal(data_dir) if data_dir is not None else None
        store = self._journal.store if self._journal is not None else Store()
        self.api = Api(clock or SystemClock(), store, knows_token=self._knows)
        self._bearer = f"Bearer {self.token}".encode()
        self._port = port
        self._plain_port = 0
        self._is_plain = plain
        self._certificate = loopback_certificate(LOOPBACK)
        self._runner: web.ServerRunner | None = None
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._ticking: asyncio.TimerHandle | None = None
        self.api.store.subscribe(self._wake)

    def _knows(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())

    @property
    def url(self) -> str:
        """Where the server listens."""
        return f"https://{LOOPBACK}:{self._port}"

    @property
    def plain_url(self) -> str:
        """Where the server listens without TLS, if it does."""
        return f"http://{LOOPBACK}:{self._plain_port}"

    def kubeconfig(self) -> dict[str, Any]:
        """Return a kubeconfig that leads here."""
        context = {"cluster": "moorage", "user": "moorage-admin"}
        authority = base64.b64encode(self._certificate.pem).decode()
        cluster = {"server": self.url, "certificate-authority-data": authority}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "moorage",
            "contexts": [{"name": "moorage", "context": context}],
            "clusters": [{"name": "moorage", "cluster": cluster}],
            "users": [{"name": "moorage-admin", "user": {"token": self.token}}],
        }

    async def __aenter__(self) -> "ApiServer":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; a port of 0 becomes one that is free."""
        if self._journal is not None:
            self._journal.start()
        server = web.Server(
            self._handle, request_factory=_request_factory(), handler_cancellation=True, logger=_quiet_logger()
        )
        self._runner = web.ServerRunner(server, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await self._listen(web.TCPSite(self._runner, LOOPBACK, self._port, ssl_context=self._certificate.context))
        self._port = self._runner.addresses[0][1]
        if self._is_plain:
            await web.TCPSite(self._runner, LOOPBACK, 0).start()
            self._plain_port = self._runner.addresses[1][1]
        self._publish_authority()
        self._tick()

    async def _listen(self, site: web.TCPSite) -> None:
        try:
            await site.start()
        except OSError as error:
            hint = "give another port, or 0 for one that is free"
            raise InputError(f"port {self._port}", f"cannot listen: {error.strerror}", hint=hint) from error

    def _publish_authority(self) -> None:
        """Leave the certificate where components with a port of their own look for whom to trust."""
        place = "/api/v1/namespaces/kube-system/configmaps"
        authority = self._certificate.pem.decode()
        content = {"client-ca-file": authority, "requestheader-client-ca-file": authority}
        content |= {f"requestheader-{name}": text for name, text in PROXY_HEADERS.items()}
        body = msgspec.json.encode({"metadata": {"name": AUTHORITY}, "data": content})
        # The certificate is new at every start, the map may be there from the last one.
        self.api.answer(Request("DELETE", f"{place}/{AUTHORITY}"))
        self.api.answer(Request("POST", place, body=body))

    async def stop(self) -> None:
        """End all watches and stop listening."""
        if self._ticking is not None:
            self._ticking.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._journal is not None:
            await self._journal.close()

    def _tick(self) -> None:
        """Have every watch look at the clock now and then, with one timer for all of them; old events go."""
        for events in self._waiting.values():
            for event in events:
                event.set()
        forget_old_events(self.api.store, self.api.clock.now())
        self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _wake(self, resource: str, _change: Change) -> None:
        for event in self._waiting.get(resource, ()):
            event.set()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            answer = await self._answer(request)
            if isinstance(answer, Watch):
                return await self._stream(request, answer)
            if self._journal is not None and request.method != "GET":
                await self._journal.settle(self.api.store.version)
        except ApiError as error:
            answer = Answer(msgspec.json.encode(status_of(error)), error.status)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            # The last line of defence: one request fails, the server lives on.
            log.exception("a request failed", method=request.method, path=request.path)
            failure = ServerError("an error on the server has prevented it from answering", status=500)
            failure.reason = "InternalError"
            answer = Answer(msgspec.json.encode(status_of(failure)), 500)
        return _response(answer)

    async def _answer(self, request: web.BaseRequest) -> Answer | Watch:
        url, headers = request.rel_url, request.headers
        path = url.raw_path
        if not self._is_allowed(headers.get("Authorization", "")) and path not in OPEN_TO_ALL:
            raise unauthorized()
        body = b""
        if request.can_read_body:
            try:
                body = await request.read()
            except web.HTTPRequestEntityTooLarge as error:
                raise too_large(LONGEST_BODY) from error
        return self.api.answer(
            Request(
                method=request.method,
                path=path,
                query=url.query if url.raw_query_string else {},
                body=body,
                content_type=headers.get("Content-Type", JSON),
                accept=headers.get("Accept", ""),
                user_agent=headers.get("User-Agent", ""),
            )
        )

    def _is_allowed(self, authorization: str) -> bool:
        return hmac.compare_digest(authorization.encode(errors="replace"), self._bearer)

    async def _stream(self, request: web.BaseRequest, watch: Watch) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache, private"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        event = asyncio.Event()
        waiting = self._waiting.setdefault(watch.resource.storage, set())
        waiting.add(event)
        try:
            for chunk in watch.begin():
                await response.write(chunk)
            await self._follow(response, watch, event)
            await response.write_eof()
        except ConnectionError:
            log.debug("a watcher is gone", resource=watch.resource.plural)
        finally:
            waiting.discard(event)
        return response

    async def _follow(self, response: web.StreamResponse, watch: Watch, event: asyncio.Event) -> None:
        """Tell what happens until the watch has lasted as long as it was asked to."""
        loop = asyncio.get_running_loop()
        seconds = watch.terms.seconds or LONGEST_WATCH
        end, bookmark_at = loop.time() + seconds, loop.time() + BOOKMARK_SECONDS
        alarm = loop.call_later(seconds, event.set)
        try:
            while not watch.is_over and loop.time() < end:
                event.clear()
                if data := watch.take():
                    await response.write(data)
                elif watch.terms.wants_bookmarks and loop.time() >= bookmark_at:
                    bookmark_at = loop.time() + BOOKMARK_SECONDS
                    await response.write(watch.bookmark())
                else:
                    await event.wait()
            if watch.terms.wants_bookmarks and not watch.is_over:
                await response.write(watch.take() + watch.bookmark())
        finally:
            alarm.cancel()


def _response(answer: Answer) -> web.Response:
    headers = {"Content-Type": answer.content_type, "Cache-Control": "no-cache, private"}
    if answer.retry_after is not None:
        headers["Retry-After"] = str(answer.retry_after)
    response = web.Response(body=answer.body, status=answer.status, headers=headers)
    for warning in answer.warnings:
        escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{escaped}"')
    return response


def _quiet_logger() -> logging.Logger:
    """What is not HTTP is answered 400; that some port scanner sent it is worth no traceback."""
    logger = logging.getLogger(f"{__name__}.http")
    logger.setLevel(logging.CRITICAL)
    return logger


def _request_factory() -> Callable[..., web.BaseRequest]:
    loop = asyncio.get_running_loop()

    def make(message: Any, payload: Any, protocol: RequestHandler, writer: Any, task: Any) -> web.BaseRequest:
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=LONGEST_BODY)

    return make
