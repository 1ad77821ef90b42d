"""Who may come in: authentication and authorization, both delegated to the API server."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from cryptography import x509

from moorage.app.serving.reviews import AccessReviewer, TokenReviewer
from moorage.app.serving.users import (
    ANONYMOUS,
    MASTERS,
    Authorities,
    ProxyHeaders,
    User,
    certificate_user,
    proxied_user,
)
from moorage.errors import MoorageError

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Gatekeeper:
    """Lets requests in or turns them away. Without reviewers, tokens are nobody's and nothing is allowed."""

    always_allow: Sequence[str]
    tokens: TokenReviewer | None = None
    access: AccessReviewer | None = None
    client_authorities: Authorities = field(default_factory=Authorities)
    proxy_authorities: Authorities = field(default_factory=Authorities)
    proxy_headers: ProxyHeaders = field(default_factory=ProxyHeaders)

    def middleware(self) -> Any:
        """Return the layer that stands before all pages."""

        @web.middleware
        async def keep_gate(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                user = await self.identify(request)
            except MoorageError as error:
                log.warning("unable to authenticate a request", error=str(error))
                user = None
            if user is None:
                return refusal(401, "Unauthorized", "Unauthorized")
            verb = request.method.lower()
            if not await self.allows(user, verb, request.path):
                text = f'forbidden: User "{user.name}" cannot {verb} path "{request.path}"'
                return refusal(403, "Forbidden", text)
            return await handler(request)

        return keep_gate

    async def identify(self, request: web.Request) -> User | None:
        """Find out who asks: a proxy's user, a certificate's, a token's, or nobody; ``None`` for a false token."""
        certificate = peer_certificate(request)
        if certificate is not None:
            user = self._certified(request, certificate)
            if user is not None:
                return user.authenticated()
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        user = None if self.tokens is None else await self.tokens.user_of(token.strip())
        return None if user is None else user.authenticated()

    def _certified(self, request: web.Request, certificate: x509.Certificate) -> User | None:
        if self.proxy_authorities.issued(certificate):
            user = proxied_user(request.headers.items(), certificate, self.proxy_headers)
            if user is not None:
                return user
        return certificate_user(certificate) if self.client_authorities.issued(certificate) else None

    async def allows(self, user: User, verb: str, path: str) -> bool:
        """Decide whether somebody may do something to a path."""
        if any(path == allowed or _covers(allowed, path) for allowed in self.always_allow) or MASTERS in user.groups:
            return True
        if self.access is None:
            return False
        try:
            return (await self.access.decide(user, verb, path)).allowed
        except MoorageError as error:
            log.warning("unable to authorize a request", user=user.name, path=path, error=str(error))
            return False


def _covers(allowed: str, path: str) -> bool:
    return allowed.endswith("*") and path.startswith(allowed[:-1])


def peer_certificate(request: web.Request) -> x509.Certificate | None:
    """Return the certificate a client showed, if it showed one that TLS could verify."""
    connection = request.transport.get_extra_info("ssl_object") if request.transport is not None else None
    encoded = connection.getpeercert(binary_form=True) if connection is not None else None
    return x509.load_der_x509_certificate(encoded) if encoded else None


def refusal(code: int, reason: str, message: str) -> web.Response:
    """Turn a request away as Kubernetes servers do."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return web.json_response({**status, "message": message, "reason": reason, "code": code}, status=code)
