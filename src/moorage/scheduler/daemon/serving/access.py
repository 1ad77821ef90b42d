"""Access control: authentication and authorization, both delegated to the API server that publishes the CAs."""

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import msgspec
import structlog
from msgspec import Struct, field

from moorage.common.errors import InputError, MoorageError, TooManyRequests
from moorage.common.text import shortened
from moorage.common.user_files import read_file
from moorage.kube.api.codec import UNREADABLE
from moorage.kube.client.rest import ApiClient
from moorage.kube.http.messages import HttpRequest, Reply, ReplyStream
from moorage.kube.http.tls import verified_chain
from moorage.scheduler.daemon.options import AuthenticationOptions, ProxyHeaders
from moorage.scheduler.daemon.serving.reviews import (
    ANONYMOUS,
    MASTERS,
    AccessReviewer,
    Authorities,
    TokenReviewer,
    User,
    certificate_user,
    proxied_user,
)
from moorage.scheduler.daemon.serving.routing import StreamingHandler
from moorage.scheduler.framework.metering import SILENT_METER, Meter

CONFIG_MAP: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class TrustedClients(Struct, frozen=True):
    """The CA bundles of clients and of proxies, and how proxies name users."""

    client_ca: bytes = b""
    proxy_ca: bytes = b""
    headers: ProxyHeaders = ProxyHeaders()

    @property
    def bundles(self) -> list[bytes]:
        """The CA bundles that are not empty."""
        return [bundle for bundle in (self.client_ca, self.proxy_ca) if bundle]


class TrustedConfigMap(Struct, frozen=True):
    """The part of the ConfigMap that is used."""

    data: dict[str, str] | None = None


def read_configured(options: AuthenticationOptions) -> TrustedClients:
    """Read the files of the command line."""

    def read(flag: str, path: str) -> bytes:
        return read_file(path, where=flag) if path else b""

    return TrustedClients(
        client_ca=read("--client-ca-file", options.client_ca_file),
        proxy_ca=read("--requestheader-client-ca-file", options.proxy_ca_file),
        headers=options.proxy_headers,
    )


async def complete_settings(client: ApiClient, configured: TrustedClients) -> TrustedClients:
    """Complete the settings of the command line with the published ones."""
    try:
        data = msgspec.json.decode(await client.request("GET", CONFIG_MAP), type=TrustedConfigMap).data or {}
    except UNREADABLE as error:
        raise InputError("extension-apiserver-authentication", f"not a ConfigMap: {error}") from error

    def names(key: str) -> tuple[str, ...]:
        try:
            return msgspec.json.decode(data.get(key) or "[]", type=tuple[str, ...])
        except UNREADABLE as error:
            raise InputError(f"extension-apiserver-authentication: {key}", f"not a list: {error}") from error

    client_ca = configured.client_ca or data.get("client-ca-file", "").encode()
    if configured.proxy_ca:
        return TrustedClients(client_ca, configured.proxy_ca, configured.headers)
    headers = ProxyHeaders(
        username=names("requestheader-username-headers"),
        uid=names("requestheader-uid-headers"),
        group=names("requestheader-group-headers"),
        extra_prefix=names("requestheader-extra-headers-prefix"),
        allowed_names=names("requestheader-allowed-names"),
    )
    return TrustedClients(client_ca, data.get("requestheader-client-ca-file", "").encode(), headers)


AUTHENTICATION: Final = ("authentication_attempts", "authentication_duration_seconds")
AUTHORIZATION: Final = ("authorization_attempts_total", "authorization_duration_seconds")
NAMED_USERS: Final = ("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default")
"""Users that metrics name. Other names could be too many."""

if TYPE_CHECKING:
    from cryptography import x509

log = structlog.get_logger(__name__)


class AccessControl(Struct):
    """Accepts or rejects requests. Without reviewers, no token is valid and nothing is allowed."""

    always_allow: Sequence[str]
    tokens: TokenReviewer | None = None
    access: AccessReviewer | None = None
    client_authorities: Authorities = field(default_factory=Authorities)
    proxy_authorities: Authorities = field(default_factory=Authorities)
    proxy_headers: ProxyHeaders = ProxyHeaders()
    meter: Meter = SILENT_METER

    def trust(self, clients: TrustedClients) -> None:
        """Accept the certificates of these clients and proxies from now on."""
        authorities, proxies = (Authorities(bundle) for bundle in (clients.client_ca, clients.proxy_ca))
        self.client_authorities, self.proxy_authorities, self.proxy_headers = authorities, proxies, clients.headers

    async def admit(self, request: HttpRequest, page: StreamingHandler) -> Reply | ReplyStream:
        """Return a page for a request, or reject it."""
        return await self.check(request) or await page(request)

    async def check(self, request: HttpRequest) -> Reply | None:
        """Return a reply that rejects a request, or ``None`` if its user may send it."""
        try:
            user = await self._authenticate(request)
            if user is None:
                return refusal(401, "Unauthorized", "Unauthorized")
            verb, path, began = request.method.lower(), unquote(request.path), perf_counter()
            is_allowed = await self.allows(user, verb, path)
        except TooManyRequests as error:
            return refusal(429, "TooManyRequests", str(error))._replace(headers=(("Retry-After", "1"),))
        self._count(AUTHORIZATION, "allowed" if is_allowed else "denied", began)
        if not is_allowed:
            return refusal(403, "Forbidden", f'forbidden: User "{user.name}" cannot {verb} path "{path}"')
        return None

    async def _authenticate(self, request: HttpRequest) -> User | None:
        began, result, user = perf_counter(), "failure", None
        try:
            user = await self.identify(request)
        except TooManyRequests:
            raise
        except (MoorageError, ValueError) as error:
            log.warning("unable to authenticate a request", error=str(error))
            result = "error"
        if user is not None:
            result = "success"
            self.meter.count("authenticated_user_requests", _label_user(user.name))
        self._count(AUTHENTICATION, result, began)
        return user

    def _count(self, metrics: tuple[str, str], result: str, began: float) -> None:
        attempts, seconds = metrics
        self.meter.count(attempts, result)
        self.meter.observe(seconds, perf_counter() - began, result)

    async def identify(self, request: HttpRequest) -> User | None:
        """Return the user of a proxy, certificate or token, or the anonymous user, or ``None`` for an invalid token."""
        chain = peer_chain(request)
        if chain:
            user = self._find_certified_user(request, chain)
            if user is not None:
                return user.authenticated()
        scheme, _, token = request.header(b"authorization").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        user = None if self.tokens is None else await self.tokens.find_user(token.strip())
        return None if user is None else user.authenticated()

    def _find_certified_user(self, request: HttpRequest, chain: "Sequence[x509.Certificate]") -> User | None:
        certificate = chain[0]
        if self.proxy_authorities.issued(chain):
            headers = ((name.decode("latin-1"), text.decode("latin-1")) for name, text in request.all_headers)
            user = proxied_user(headers, certificate, self.proxy_headers)
            if user is not None:
                return user
        return certificate_user(certificate) if self.client_authorities.issued(chain) else None

    async def allows(self, user: User, verb: str, path: str) -> bool:
        """Decide whether a user may use a verb on a path."""
        if MASTERS in user.groups or any(
            path == pattern or (pattern.endswith("*") and path.startswith(pattern[:-1]))
            for pattern in self.always_allow
        ):
            return True
        if self.access is None:
            return False
        try:
            return (await self.access.decide(user, verb, path)).allowed
        except TooManyRequests:
            raise
        except MoorageError as error:
            log.warning("unable to authorize a request", user=user.name, path=path, error=str(error))
            return False


def _label_user(name: str) -> str:
    if name in NAMED_USERS:
        return name
    return "email_id" if "@" in name else "other"


def peer_chain(request: HttpRequest) -> "list[x509.Certificate]":
    """Return the verified chain of the client certificate, or empty without one."""
    connection = None if request.transport is None else request.transport.get_extra_info("ssl_object")
    chain = verified_chain(connection) if connection is not None else []
    if not chain:
        return []
    from cryptography import x509

    return [x509.load_der_x509_certificate(encoded) for encoded in chain]


def refusal(code: int, reason: str, message: str) -> Reply:
    """Return an error as Kubernetes servers do."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return Reply(code, msgspec.json.encode({**status, "message": shortened(message), "reason": reason, "code": code}))
