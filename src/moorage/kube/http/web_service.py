"""A client for web services, such as extenders and data sources of plugins."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit

import msgspec

from moorage.common.errors import InputError, ServiceError, Unreachable
from moorage.kube.http.messages import Response
from moorage.kube.http.pool import HttpPool, WriteGate
from moorage.kube.http.proxies import authorization, is_usable, redacted, select_proxy
from moorage.kube.http.tls import ClientTls

DEFAULT_SECONDS: Final = 5.0
MAX_QUOTED: Final = 200
"""Maximum length of an error response in a message."""


class WebService:
    """A service at a URL, with reused connections. The URL may have a path, a user and a password.

    ``headers`` are sent with every request. For ``https`` the system CAs verify the certificate, unless ``tls`` is
    given. HTTPS_PROXY, HTTP_PROXY and NO_PROXY are respected.
    """

    def __init__(
        self,
        url: str,
        *,
        seconds: float = DEFAULT_SECONDS,
        headers: Mapping[str, str] | None = None,
        tls: ClientTls | None = None,
        server_name: str = "",
        where: str = "",
        gate: WriteGate | None = None,
    ) -> None:
        address = web_address(url, where or "the URL of a service")
        self.url = redacted(url).rstrip("/")
        self.seconds = seconds
        self._path = address.path.rstrip("/")
        server = f"{address.scheme}://{address.netloc.rpartition('@')[2]}"
        self._pool = HttpPool(
            server,
            tls=(tls or ClientTls(self.url)) if address.scheme == "https" else None,
            server_name=server_name,
            proxy=select_proxy(server, "", self.url),
            source=where or self.url,
            gate=gate,
        )
        login = authorization(address)
        fixed = {"Host": self._pool.host_header} | ({"Authorization": login} if login else {}) | dict(headers or {})
        self._headers = "".join(f"{name}: {text}\r\n" for name, text in fixed.items())

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    async def send(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> Response:
        """Send a request and return the response with any status. Raise ServiceError on a timeout."""
        about = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n" if body else ""
        head = f"{method} {self._path}{path} HTTP/1.1\r\n{self._headers}{about}\r\n"
        try:
            async with asyncio.timeout(self.seconds):
                return await self._pool.send(head.encode() + body, self.seconds)
        except TimeoutError as error:
            raise ServiceError(f"no response within {self.seconds:g} s") from error
        except (Unreachable, InputError) as error:
            raise ServiceError(str(error)) from error

    async def get_json(self, path: str = "", query: Mapping[str, str] | None = None) -> Any:
        """Send a request and return the JSON response as plain data. Raise ServiceError if it fails or is not JSON."""
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            answer = await self.send("GET", target or "/")
        except ServiceError as error:
            raise ServiceError(f"{self.url}{path}: {error}") from error
        if answer.status != 200:
            excerpt = answer.body[:MAX_QUOTED].decode(errors="replace").strip()
            details = f": {excerpt}" if excerpt else ""
            raise ServiceError(f"{self.url}{path} returned status {answer.status}{details}")
        try:
            return msgspec.json.decode(answer.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ServiceError(f"{self.url}{path} returned invalid JSON: {error}") from error


def web_address(url: str, location: str, example: str = "http://service.example:8080/path") -> SplitResult:
    """Parse a URL. Raise InputError without a server. The message omits the URL, which may contain a password."""
    if not is_usable(url, ("http", "https")):
        raise InputError(location, "not a URL of a server", hint=f"write one such as {example}")
    return urlsplit(url)
