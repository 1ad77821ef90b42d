"""The API on a loopback port: HTTP around :class:`~moorage.cluster.apiserver.api.Api`, and nothing else."""

import asyncio
import base64
import hmac
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from moorage.cluster.apiserver.api import HEALTH, Api
from moorage.cluster.apiserver.certificates import loopback_certificate
from moorage.cluster.apiserver.reading.streaming import Watchers
from moorage.cluster.apiserver.reading.watching import Watch
from moorage.cluster.apiserver.requests.request import JSON, ApiRequest, ApiResponse
from moorage.cluster.apiserver.storage.expiry import forget_old_events
from moorage.cluster.apiserver.storage.journal import Journal
from moorage.cluster.apiserver.storage.store import Store
from moorage.common.clock import Clock, SystemClock
from moorage.common.errors import ApiError, InputError
from moorage.kube.features import FeatureGates
from moorage.kube.http.messages import AnyReply, HttpRequest, HttpService, Reply
from moorage.kube.http.server import HttpServer
from moorage.kube.status_errors import error_status, unauthorized

LOOPBACK: Final = "127.0.0.1"
MAX_BODY: Final = 3 * 1024 * 1024
TICK_SECONDS: Final = 5.0
AUTHORITY: Final = "extension-apiserver-authentication"
PROXY_HEADERS: Final = {
    "allowed-names": "[]",
    "extra-headers-prefix": '["X-Remote-Extra-"]',
    "group-headers": '["X-Remote-Group"]',
    "username-headers": '["X-Remote-User"]',
}
OPEN_TO_ALL: Final = (*HEALTH, "/version")
REASONS: Final = {
    408: "Timeout",
    413: "RequestEntityTooLarge",
    431: "RequestEntityTooLarge",
    500: "InternalError",
}
GRACE_SECONDS: Final = 0.1


class ApiServer:
    """Serves an API until it is stopped. Use it as an async context manager.

    Requests need the ``token``, which allows everything; only this machine can connect. ``url`` uses TLS, as kubectl
    requires; with ``plain``, ``plain_url`` is served without TLS for fast clients. With a ``data_dir``, acknowledged
    writes survive a restart, even after a crash. ``features`` select the served kinds and fields.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        token: str = "",
        port: int = 0,
        plain: bool = False,
        data_dir: Path | None = None,
        features: FeatureGates | None = None,
    ) -> None:
        self.token = token or secrets.token_urlsafe(24)
        self._journal = Journal(data_dir) if data_dir is not None else None
        store = self._journal.store if self._journal is not None else Store()
        self.api = Api(clock or SystemClock(), store, features=features, knows_token=self._knows)
        self._bearer = f"Bearer {self.token}".encode()
        self._port = port
        self._plain_port = 0
        self._is_plain = plain
        self._certificate = loopback_certificate(LOOPBACK)
        self._http = HttpServer(HttpService(self._respond, _refuse, MAX_BODY, self._check_head))
        self._watchers = Watchers(self.api.store)
        self._ticking: asyncio.TimerHandle | None = None

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
        self._port = await self._listen()
        if self._is_plain:
            self._plain_port = await self._http.listen(LOOPBACK, 0)
        self._publish_authority()
        self._tick()

    async def _listen(self) -> int:
        try:
            return await self._http.listen(LOOPBACK, self._port, tls=lambda: self._certificate.context)
        except OSError as error:
            hint = "give another port, or 0 for one that is free"
            raise InputError(f"port {self._port}", f"cannot listen: {error.strerror}", hint=hint) from error

    def _publish_authority(self) -> None:
        """Publish the CA certificate where components with their own port look for it."""
        path = "/api/v1/namespaces/kube-system/configmaps"
        authority = self._certificate.pem.decode()
        content = {"client-ca-file": authority, "requestheader-client-ca-file": authority}
        content |= {f"requestheader-{name}": text for name, text in PROXY_HEADERS.items()}
        body = msgspec.json.encode({"metadata": {"name": AUTHORITY}, "data": content})
        # The certificate is new at every start, the map may be there from the last one.
        self.api.answer(ApiRequest("DELETE", f"{path}/{AUTHORITY}"))
        self.api.answer(ApiRequest("POST", path, body=body))

    async def stop(self) -> None:
        """End all watches and stop listening."""
        if self._ticking is not None:
            self._ticking.cancel()
        await self._http.stop(GRACE_SECONDS)
        if self._journal is not None:
            await self._journal.close()

    def _tick(self) -> None:
        """Check the timeouts of all watches with one timer, and remove expired events."""
        self._watchers.tick()
        forget_old_events(self.api.store, self.api.clock.now())
        self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _respond(self, request: HttpRequest) -> AnyReply:
        path = request.path
        if not self._is_allowed(request.headers.get(b"authorization", b"")) and path not in OPEN_TO_ALL:
            return _refusal(unauthorized())
        answer = self.api.answer(
            ApiRequest(
                method=request.method,
                path=path,
                query=request.query,
                body=request.body,
                content_type=request.header(b"content-type", JSON),
                accept=request.header(b"accept"),
                user_agent=request.header(b"user-agent"),
            )
        )
        if isinstance(answer, Watch):
            return self._watchers.stream(answer)
        if self._journal is not None and request.method != "GET":
            return self._settled(self._journal, self.api.store.version, _reply(answer))
        return _reply(answer)

    async def _settled(self, journal: Journal, version: int, reply: Reply) -> Reply:
        """Send the response after the write is on disk."""
        try:
            await journal.settle(version)
        except ApiError as error:
            return _refusal(error)
        return reply

    def _check_head(self, headers: Mapping[bytes, bytes]) -> Reply | None:
        """Accept a body only from clients with the token."""
        return None if self._is_allowed(headers.get(b"authorization", b"")) else _refusal(unauthorized())

    def _is_allowed(self, authorization: bytes) -> bool:
        return hmac.compare_digest(authorization, self._bearer)


def _reply(answer: ApiResponse) -> Reply:
    headers: list[tuple[str, str]] = []
    if answer.retry_after is not None:
        headers.append(("Retry-After", str(answer.retry_after)))
    for warning in answer.warnings:
        escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
        headers.append(("Warning", f'299 - "{escaped}"'))
    return Reply(answer.status, answer.body, answer.content_type, tuple(headers))


def _refusal(error: ApiError) -> Reply:
    return Reply(error.status or 500, msgspec.json.encode(error_status(error)))


def _refuse(status: int, message: str) -> Reply:
    """Return a Status for a malformed HTTP request."""
    return _refusal(ApiError(message, status=status, reason=REASONS.get(status, "BadRequest")))
