"""An HTTPS server on loopback that requests client certificates and records clients and requests."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tests.support.certificates import Authority
from tests.support.tcp import serving

LOOPBACK = ("127.0.0.1", "api.example")


@dataclass
class Visit:
    """One request: its line and headers, the name in the client certificate, the connection's number.

    ``is_resumed`` is True if the connection resumes the TLS session of an earlier one.
    """

    line: str
    headers: list[tuple[str, str]]
    certificate: str
    connection: int
    is_resumed: bool = False

    def all(self, name: str) -> list[str]:
        return [text for header, text in self.headers if header == name]

    @property
    def authorization(self) -> str:
        return "".join(self.all("Authorization"))


@dataclass
class ApiOverTls:
    """Returns an empty object, unless ``refuses`` rejects the client."""

    authority: Authority
    refuses: Callable[[Visit], bool] = lambda _visit: False
    visits: list[Visit] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    url: str = ""
    _connections: int = 0
    _context: ssl.SSLContext | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator["ApiOverTls"]:
        self._context = context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.use_certificate_of(self.authority)
        context.load_verify_locations(self.authority.file)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        async with serving(self._serve, ssl=context) as port:
            self.url = f"https://127.0.0.1:{port}"
            yield self

    def use_certificate_of(self, authority: Authority) -> None:
        """Present a certificate of this CA on new connections."""
        assert self._context is not None
        self._context.load_cert_chain(*authority.issue("server", hosts=LOOPBACK))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        number, output = self._connections, writer.get_extra_info("peercert") or {"subject": ()}
        is_resumed = bool(writer.get_extra_info("ssl_object").session_reused)
        subject = dict(pair for part in output["subject"] for pair in part)
        while True:
            line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            headers = [(name, text) for name, _, text in (header.partition(": ") for header in lines)]
            visit = Visit(line, headers, subject.get("commonName", ""), number, is_resumed)
            self.visits.append(visit)
            status = "401 Unauthorized" if self.refuses(visit) else "200 OK"
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}".encode())


def write_kubeconfig(directory: Path, *, cluster: Any, user: Any = None, name: str = "config", **top: Any) -> Path:
    """Write a kubeconfig with one cluster and one user."""
    content = {
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user or {}}],
    } | top
    path = directory / name
    path.write_text(yaml.safe_dump(content))
    return path


def data(content: bytes | Path) -> str:
    """Encode content for a field with a name that ends in ``-data``."""
    return base64.b64encode(content.read_bytes() if isinstance(content, Path) else content).decode()
