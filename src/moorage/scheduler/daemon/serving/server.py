"""Start the server: access control, certificates and address."""

import asyncio
import os
from collections.abc import Coroutine, Mapping
from typing import Any, Final

import structlog

from moorage.common.background import keep_running
from moorage.common.clock import Clock, SteadyClock
from moorage.common.errors import InputError, MoorageError
from moorage.kube.client.kubeconfig import SERVICE_ACCOUNT, load_connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.http.messages import HttpRequest, HttpService, Reply, ReplyStream
from moorage.kube.http.server import HttpServer
from moorage.scheduler.daemon.options import AuthenticationOptions, AuthorizationOptions, ServingOptions
from moorage.scheduler.daemon.serving.access import AccessControl, TrustedClients, complete_settings, read_configured
from moorage.scheduler.daemon.serving.reviews import AccessReviewer, TokenReviewer
from moorage.scheduler.daemon.serving.routing import StreamingHandler, text_reply
from moorage.scheduler.daemon.serving.tls import ServingTls
from moorage.scheduler.framework.metering import SILENT_METER, Meter

SHUTDOWN_SECONDS: Final = 5.0
RELOAD_SECONDS: Final = 60.0
"""Seconds between two checks of certificates and client CAs, as in kube-scheduler."""
MAX_BODY: Final = 4096
"""The longest body that any page has a use for: the level of logs."""
MAX_CONNECTIONS: Final = 256

log = structlog.get_logger(__name__)


class Server:
    """Our HTTPS server, from start to stop. ``bodies`` are the limits of paths with longer bodies."""

    def __init__(
        self,
        options: ServingOptions,
        page: StreamingHandler,
        meter: Meter = SILENT_METER,
        bodies: Mapping[str, int] | None = None,
    ) -> None:
        self._options = options
        self._page = page
        self._meter = meter
        self._bodies = bodies or {}
        self._http: HttpServer | None = None
        self.certificates: Certificates
        self._reloading: asyncio.Task[None] | None = None
        self._clients: list[ApiClient] = []
        self.port = 0

    async def start(
        self, authentication: AuthenticationOptions, authorization: AuthorizationOptions, clock: Clock | None = None
    ) -> None:
        """Begin to serve; a port of 0 in the options means not to."""
        authentication_client = self._client(authentication.kubeconfig, "--authentication-kubeconfig")
        authorization_client = self._client(authorization.kubeconfig, "--authorization-kubeconfig")
        meter, clock = self._meter, clock or SteadyClock()
        access_control = AccessControl(
            always_allow=authorization.always_allow,
            tokens=None
            if authentication_client is None
            else TokenReviewer(authentication_client, meter, clock, authentication.cache_ttl),
            access=None
            if authorization_client is None
            else AccessReviewer(
                authorization_client, meter, clock, authorization.allowed_ttl, authorization.denied_ttl
            ),
            meter=meter,
        )
        self.certificates = certificates = Certificates(
            self._options, authentication, authentication_client, access_control
        )
        tls = await certificates.load()

        def answer(request: HttpRequest) -> Coroutine[Any, Any, Reply | ReplyStream]:
            return access_control.admit(request, self._page)

        def refuse(status: int, message: str) -> Reply:
            return text_reply(f"{message}\n", status)

        def check_head(request: HttpRequest) -> int:
            return self._bodies.get(request.path, MAX_BODY)

        self._http = HttpServer(HttpService(answer, refuse, check_head, access_control.check), MAX_CONNECTIONS)
        options = self._options
        try:
            self.port = await self._http.listen(
                None if options.address in ("0.0.0.0", "::") else options.address,
                options.port,
                tls=lambda: tls.context,
                reuse_port=options.share_port or None,
                reuse_address=options.share_address or None,
            )
        except OSError as error:
            location = f"--bind-address={options.address} --secure-port={options.port}"
            raise InputError(location, f"cannot listen: {error.strerror or error}") from error
        self._reloading = keep_running(certificates.keep_reloading, "certificates")
        log.info(f"Serving securely on {self._options.address}:{self.port}")

    async def stop(self) -> None:
        """Let running requests finish, and stop."""
        if self._reloading is not None:
            self._reloading.cancel()
        if self._http is not None:
            await self._http.stop(SHUTDOWN_SECONDS)
        for client in self._clients:
            client.close()

    def _client(self, kubeconfig: str, flag: str) -> ApiClient | None:
        is_in_pod = os.environ.get("KUBERNETES_SERVICE_HOST") and (SERVICE_ACCOUNT / "token").is_file()
        if not kubeconfig and not is_in_pod:
            log.warning("no API server for access checks; only the always-allowed paths are served", flag=flag)
            return None
        client = ApiClient(load_connection(kubeconfig))
        self._clients.append(client)
        return client


class Certificates:
    """The certificates to serve with and those to trust, read periodically from files and from the cluster."""

    def __init__(
        self,
        serving: ServingOptions,
        options: AuthenticationOptions,
        client: ApiClient | None,
        access_control: AccessControl,
    ) -> None:
        self._serving = serving
        self._options = options
        self._client = client
        self._access_control = access_control
        self._trusted = TrustedClients()
        self._tls: ServingTls | None = None

    async def load(self) -> ServingTls:
        """Read everything for the first time; InputError if something cannot be used."""
        configured = read_configured(self._options)
        try:
            self._trusted = await self._read_published(configured)
        except MoorageError as error:
            if not self._options.tolerate_lookup_failure:
                raise
            log.warning("cannot read client CAs; client certificates are not accepted", error=str(error))
            self._trusted = configured
        self._access_control.trust(self._trusted)
        self._tls = ServingTls(self._serving, self._trusted.bundles)
        return self._tls

    async def keep_reloading(self) -> None:
        """Reload once a minute until cancelled."""
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            await self.reload()

    async def reload(self) -> None:
        """Load all current files. If one is unusable because of a write in progress, keep the previous state."""
        try:
            trusted = await self._read_published(read_configured(self._options))
            is_new = self._tls is not None and self._tls.load(trusted.bundles)
            if trusted != self._trusted:
                self._access_control.trust(trusted)
        except MoorageError as error:
            log.warning("cannot reload certificates", error=str(error))
            return
        if is_new or trusted != self._trusted:
            self._trusted = trusted
            log.info("certificates reloaded")

    async def _read_published(self, configured: TrustedClients) -> TrustedClients:
        if self._client is None or self._options.skip_lookup:
            return configured
        return await complete_settings(self._client, configured)
