"""The addresses of services for users: on this machine, or beyond it with tokens and TLS."""

import ssl
from collections.abc import Callable, Collection
from pathlib import Path
from time import monotonic
from typing import Final

import structlog
from msgspec import Struct

from moorage.common.errors import InputError
from moorage.kube.http.guard import RequestGuard, read_tokens
from moorage.kube.http.messages import Reply
from moorage.kube.http.proxies import is_loopback
from moorage.kube.http.server import HttpServer, Tls
from moorage.scheduler.daemon.options import ServingOptions
from moorage.scheduler.daemon.serving.tls import ServingTls

RELOAD_SECONDS: Final = 60.0

log = structlog.get_logger(__name__)


class ListenOptions(Struct, frozen=True):
    """The address, tokens and certificate of a service."""

    address: str = "127.0.0.1"
    port: int = 0
    tokens: tuple[bytes, ...] = ()
    cert_file: str = ""
    key_file: str = ""

    @classmethod
    def read(
        cls, address: str, port: int, token_file: Path | None, cert_file: Path | None, key_file: Path | None
    ) -> "ListenOptions":
        """Read the flags of a command. Raise InputError if other machines could connect without a token or TLS."""
        if (cert_file is None) != (key_file is None):
            raise InputError("--tls-cert-file", "the certificate or its key is missing", hint="set both or neither")
        tokens = read_tokens(token_file)
        if not is_loopback(address) and not (tokens and cert_file):
            missing_flags = " and ".join(
                flag for flag, value in (("--token-file", tokens), ("--tls-cert-file", cert_file)) if not value
            )
            problem = f"{address} is not a loopback address, and there is no {missing_flags}"
            hint = "set --token-file, --tls-cert-file and --tls-private-key-file, or listen on 127.0.0.1"
            raise InputError("--address", problem, hint=hint)
        return cls(address, port, tokens, str(cert_file or ""), str(key_file or ""))

    def guard(self, refuse: Callable[[int, str], Reply], public: Collection[str]) -> RequestGuard:
        """Return the guard of the service."""
        return RequestGuard(refuse, is_local=is_loopback(self.address), tokens=self.tokens, public=public)

    async def listen(self, server: HttpServer) -> str:
        """Start to listen. Return the URL, or raise InputError if the address is not available."""
        tls = self._tls() if self.cert_file else None
        try:
            port = await server.listen(self.address, self.port, tls=tls)
        except OSError as error:
            location = f"--address {self.address} --port {self.port}"
            hint = "--port 0 picks a free port"
            raise InputError(location, f"cannot listen: {error.strerror or error}", hint=hint) from error
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{'http' if tls is None else 'https'}://{host}:{port}"

    def _tls(self) -> Tls:
        """Return the TLS context of the next connection. Once a minute, changed files are loaded."""
        serving = ServingTls(ServingOptions(self.address, self.port, cert_file=self.cert_file, key_file=self.key_file))
        checked_at = monotonic()

        def current() -> ssl.SSLContext:
            nonlocal checked_at
            if monotonic() - checked_at > RELOAD_SECONDS:
                checked_at = monotonic()
                try:
                    serving.load([])
                except InputError as error:
                    log.warning("cannot reload certificates", error=str(error))
            return serving.context

        return current
