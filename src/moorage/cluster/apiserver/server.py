"""The API on a loopback port: HTTP around :class:`~moorage.cluster.apiserver.api.Api`."""

import asyncio
import base64
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
from moorage.cluster.apiserver.storage.journal import Journal
from moorage.cluster.apiserver.storage.store import Store
from moorage.cluster.apiserver.users import ANONYMOUS, ApiUser, Tokens, impersonated
from moorage.common.clock import SystemClock
from moorage.common.errors import ApiError, InputError
from moorage.kube.api.meta import parse_time
from moorage.kube.features import FeatureGates
from moorage.kube.http.messages import AnyReply, HttpRequest, HttpService, Reply
from moorage.kube.http.server import HttpServer
from moorage.kube.plain_data import find
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
EVENT_SECONDS: Final = 3600.0


class ApiServer:
    """Serves an API until it is stopped. Use it as an async context manager.

    Requests need the ``token``, which allows everything. Only this machine can connect. ``url`` uses TLS, as kubectl
    requires. With ``plain``, ``plain_url`` is served without TLS for fast clients. With a ``data_dir``, acknowledged
    writes survive a restart, even after a crash. ``features`` select the served kinds and fields.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        plain: bool = False,
        data_dir: Path | None = None,
        features: FeatureGates | None = None,
    ) -> None:
        self.token = secrets.token_urlsafe(24)
        self._journal = Journal(data_dir) if data_dir is not None else None
        store = self._journal.store if self._journal is not None else Store()
        self._tokens = Tokens(self.token)
        self.api = Api(SystemClock(), store, features=features, tokens=self._tokens)
        self._port = port
        self._plain_port = 0
        self._is_plain = plain
        self._certificate = loopback_certificate(LOOPBACK)
        self._http = HttpServer(HttpService(self._respond, _refuse, self._check_head))
        self._watchers = Watchers(self.api.store)
        self._ticking: asyncio.TimerHandle | None = None

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"https://{LOOPBACK}:{self._port}"

    @property
    def plain_url(self) -> str:
        """The URL without TLS, if it is served."""
        return f"http://{LOOPBACK}:{self._plain_port}"

    def kubeconfig(self) -> dict[str, Any]:
        """Return a kubeconfig for this server."""
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
        """Listen. Port 0 selects a free port."""
        if self._journal is not None:
            self._journal.start()
        try:
            self._port = await self._http.listen(LOOPBACK, self._port, tls=lambda: self._certificate.context)
        except OSError as error:
            hint = "give another port, or 0 for one that is free"
            raise InputError(f"port {self._port}", f"cannot listen: {error.strerror}", hint=hint) from error
        if self._is_plain:
            self._plain_port = await self._http.listen(LOOPBACK, 0)
        self._publish_authority()
        self._tick()

    def _publish_authority(self) -> None:
        """Publish the CA certificate in the ConfigMap that components with their own port read."""
        path = "/api/v1/namespaces/kube-system/configmaps"
        authority = self._certificate.pem.decode()
        content = {"client-ca-file": authority, "requestheader-client-ca-file": authority}
        content |= {f"requestheader-{name}": text for name, text in PROXY_HEADERS.items()}
        body = msgspec.json.encode({"metadata": {"name": AUTHORITY}, "data": content})
        # The certificate is new at every start. The ConfigMap may exist from the previous run.
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
        user = self._user(request.headers)
        if user is None and request.path not in OPEN_TO_ALL:
            return _refusal(unauthorized())
        answer = self.api.answer(
            ApiRequest(
                method=request.method,
                path=request.path,
                query=request.query,
                body=request.body,
                content_type=request.header(b"content-type", JSON),
                accept=request.header(b"accept"),
                user_agent=request.header(b"user-agent"),
                user=impersonated(request.all_headers) if b"impersonate-user" in request.headers else user or ANONYMOUS,
            )
        )
        if isinstance(answer, Watch):
            return self._watchers.stream(answer)
        if self._journal is not None and request.method != "GET":
            return self._settle(self._journal, self.api.store.version, _reply(answer))
        return _reply(answer)

    async def _settle(self, journal: Journal, version: int, reply: Reply) -> Reply:
        """Send the response after the write is on disk."""
        try:
            await journal.settle(version)
        except ApiError as error:
            return _refusal(error)
        return reply

    def _check_head(self, request: HttpRequest) -> int | Reply:
        """Reject clients without the token before their body is read."""
        return MAX_BODY if self._user(request.headers) is not None else _refusal(unauthorized())

    def _user(self, headers: Mapping[bytes, bytes]) -> ApiUser | None:
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        return self._tokens.authenticate(token, self.api.clock.now()) if scheme == b"Bearer" else None


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


def forget_old_events(store: Store, now: float) -> int:
    """Delete the events that were last observed more than an hour ago. Return their number.

    Events are stored in order of creation, so the search stops at the first recent one.
    """

    def parse(text: Any) -> float:
        try:
            return parse_time(text) if text else 0.0
        except ValueError:
            return 0.0

    count = 0
    for entry in store.list("events"):
        data = entry.data
        created = parse(data["metadata"].get("creationTimestamp"))
        if created > now - EVENT_SECONDS:
            break
        # Both formats of event series are supported.
        observed = (data.get("lastTimestamp"), data.get("eventTime"), find(data, "series.lastObservedTime"))
        if max(created, *map(parse, observed)) <= now - EVENT_SECONDS:
            store.remove("events", entry.key)
            count += 1
    return count


def _refuse(status: int, message: str) -> Reply:
    return _refusal(ApiError(message, status=status, reason=REASONS.get(status, "BadRequest")))
