"""Starting the server: who may come in, with which certificates, on which address."""

import os
import ssl
from collections.abc import Coroutine
from typing import Any

import structlog

from moorage.app.options import AuthenticationOptions, AuthorizationOptions, ServingOptions
from moorage.app.serving.gatekeeper import Gatekeeper
from moorage.app.serving.lookup import TrustedClients, from_flags, looked_up
from moorage.app.serving.reviews import AccessReviewer, TokenReviewer
from moorage.app.serving.routing import Page, text_reply
from moorage.app.serving.tls import server_context
from moorage.app.serving.users import Authorities
from moorage.client.kubeconfig import SERVICE_ACCOUNT, Connection, load_connection
from moorage.client.rest import ApiClient
from moorage.clock import Clock, SteadyClock
from moorage.errors import InputError, MoorageError
from moorage.framework.metering import SILENT_METER, Meter
from moorage.http.messages import HttpRequest, Reply, Service
from moorage.http.server import HttpServer

SHUTDOWN_SECONDS = 5.0

log = structlog.get_logger(__name__)


class Server:
    """Our HTTPS server, from start to stop."""

    def __init__(self, options: ServingOptions, page: Page, meter: Meter = SILENT_METER) -> None:
        self._options = options
        self._page = page
        self._meter = meter
        self._http: HttpServer | None = None
        self._clients: list[ApiClient] = []
        self.port = 0

    async def start(
        self, authentication: AuthenticationOptions, authorization: AuthorizationOptions, clock: Clock | None = None
    ) -> None:
        """Begin to serve; a port of 0 in the options means not to."""
        gatekeeper, trusted = await self._gatekeeper(authentication, authorization, clock or SteadyClock())
        context = server_context(self._options, [bundle for bundle in (trusted.client_ca, trusted.proxy_ca) if bundle])

        def answer(request: HttpRequest) -> Coroutine[Any, Any, Reply]:
            return gatekeeper.admit(request, self._page)

        self._http = HttpServer(Service(answer, _refuse))
        self.port = await self._listen(self._http, context)
        log.info("serving securely", address=self._options.address, port=self.port)

    async def _listen(self, server: HttpServer, context: ssl.SSLContext) -> int:
        options = self._options
        try:
            return await server.listen(
                None if options.address in ("0.0.0.0", "::") else options.address,
                options.port,
                tls=context,
                reuse_port=options.share_port or None,
                reuse_address=options.share_address or None,
            )
        except OSError as error:
            where = f"--bind-address={options.address} --secure-port={options.port}"
            raise InputError(where, f"cannot listen there: {error.strerror or error}") from error

    async def stop(self) -> None:
        """Let requests under way finish, and end."""
        if self._http is not None:
            await self._http.stop(SHUTDOWN_SECONDS)
        for client in self._clients:
            client.close()

    async def _gatekeeper(
        self, authentication: AuthenticationOptions, authorization: AuthorizationOptions, clock: Clock
    ) -> tuple[Gatekeeper, TrustedClients]:
        meter = self._meter
        asks_who = self._client(authentication.kubeconfig, "--authentication-kubeconfig")
        asks_may = self._client(authorization.kubeconfig, "--authorization-kubeconfig")
        trusted = await self._trusted(authentication, asks_who)
        gatekeeper = Gatekeeper(
            always_allow=authorization.always_allow,
            tokens=None if asks_who is None else TokenReviewer(asks_who, meter, clock, authentication.cache_ttl),
            access=None
            if asks_may is None
            else AccessReviewer(asks_may, meter, clock, authorization.allowed_ttl, authorization.denied_ttl),
            client_authorities=Authorities(trusted.client_ca) if trusted.client_ca else Authorities(),
            proxy_authorities=Authorities(trusted.proxy_ca) if trusted.proxy_ca else Authorities(),
            proxy_headers=trusted.headers,
            meter=meter,
        )
        return gatekeeper, trusted

    def _client(self, kubeconfig: str, flag: str) -> ApiClient | None:
        connection = load_connection(kubeconfig) if kubeconfig else _in_cluster()
        if connection is None:
            log.warning("not delegated to an API server, only paths that are always allowed are served", flag=flag)
            return None
        client = ApiClient(connection)
        self._clients.append(client)
        return client

    @staticmethod
    async def _trusted(options: AuthenticationOptions, client: ApiClient | None) -> TrustedClients:
        given = from_flags(options)
        if client is None or options.skip_lookup:
            return given
        try:
            return await looked_up(client, given)
        except MoorageError as error:
            if not options.tolerate_lookup_failure:
                raise
            log.warning("client CAs could not be looked up; certificates will not be believed", error=str(error))
            return given


def _in_cluster() -> Connection | None:
    is_in_pod = os.environ.get("KUBERNETES_SERVICE_HOST") and (SERVICE_ACCOUNT / "token").is_file()
    return load_connection() if is_in_pod else None


def _refuse(status: int, message: str) -> Reply:
    return text_reply(f"{message}\n", status)
