"""Who we say we are: fixed headers, token files that rotate, and programs that are asked for credentials."""

import asyncio
import base64
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from moorage.api.meta import parse_time
from moorage.client.certificates import load_client_certificate
from moorage.clock import Clock
from moorage.errors import InputError, Unauthorized

NEVER: Final = float("inf")
TOKEN_FILE_AGE: Final = 60.0
"""After so many seconds a token file is read again; the kubelet replaces it long before the old token expires."""

EXEC_VERSIONS: Final = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))


class Credentials(Protocol):
    """Where the ``Authorization`` header comes from; asked anew at ``expires_at``, or when the server refuses it."""

    expires_at: float

    async def renew(self) -> str:
        """Return the header, empty for none; InputError or Unauthorized says why there is none to be had."""
        ...


class FixedCredentials:
    """A header that never changes: a token, a password, or nothing at all (certificates are part of TLS)."""

    def __init__(self, header: str = "") -> None:
        self.expires_at = NEVER
        self._header = header

    async def renew(self) -> str:
        """Return the header."""
        return self._header


class TokenFile:
    """A token in a file that somebody else keeps up to date."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.expires_at = 0.0
        self._path = path
        self._clock = clock

    async def renew(self) -> str:
        """Read the file."""
        try:
            token = self._path.read_text().strip()
        except OSError as error:
            raise InputError(str(self._path), f"the token file cannot be read: {error.strerror}") from error
        if not token:
            raise InputError(str(self._path), "the token file is empty")
        self.expires_at = self._clock.now() + TOKEN_FILE_AGE
        return f"Bearer {token}"


class ExecPlugin(msgspec.Struct, frozen=True, rename="camel"):
    """A program that prints credentials, as a kubeconfig describes it."""

    command: str
    api_version: str = ""
    args: list[str] | None = None
    env: list[dict[str, str]] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False


class ExecStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What such a program hands out: a token, a client certificate, or both."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    """What such a program prints."""

    api_version: str = ""
    status: ExecStatus = ExecStatus()


class ExecCredentials:
    """Credentials from a program; a certificate goes into the TLS context, for the connections made from then on."""

    def __init__(
        self, plugin: ExecPlugin, folder: Path, tls: ssl.SSLContext | None, cluster: Mapping[str, Any], clock: Clock
    ) -> None:
        if plugin.api_version not in EXEC_VERSIONS:
            problem = f"this version of the protocol is not spoken here: {plugin.api_version!r}"
            raise InputError("users[].user.exec.apiVersion", problem, hint=f"write {' or '.join(EXEC_VERSIONS)}")
        self.expires_at = 0.0
        self._plugin = plugin
        self._folder = folder
        self._tls = tls
        self._cluster = cluster
        self._clock = clock

    async def renew(self) -> str:
        """Run the program and take what it prints."""
        status = self._parse(await self._output())
        if not status.token and not status.client_certificate_data:
            raise Unauthorized(f"{self._plugin.command}: printed neither a token nor a client certificate")
        if status.client_certificate_data and self._tls is not None:
            load_client_certificate(self._tls, status.client_certificate_data, status.client_key_data)
        until = status.expiration_timestamp
        self.expires_at = parse_time(until) if until else NEVER
        return f"Bearer {status.token}" if status.token else ""

    def _parse(self, output: bytes) -> ExecStatus:
        try:
            return msgspec.json.decode(output, type=ExecCredential).status
        except msgspec.MsgspecError as error:
            raise Unauthorized(f"{self._plugin.command}: what it printed is not an ExecCredential: {error}") from error

    async def _output(self) -> bytes:
        plugin = self._plugin
        # A path is relative to the kubeconfig; a bare name is looked up in PATH.
        command = str(self._folder / plugin.command) if "/" in plugin.command else plugin.command
        try:
            process = await asyncio.create_subprocess_exec(
                command,
                *(plugin.args or ()),
                env=self._environment(),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            problem = f"the program for credentials cannot be run: {error.strerror}"
            raise InputError(
                f"users[].user.exec.command: {plugin.command}", problem, hint=plugin.install_hint
            ) from error
        output, complaints = await process.communicate()
        if process.returncode != 0:
            told = complaints.decode(errors="replace").strip()
            raise Unauthorized(f"{plugin.command}: exited with code {process.returncode}: {told}")
        return output

    def _environment(self) -> dict[str, str]:
        spec: dict[str, Any] = {"interactive": False}
        if self._plugin.provide_cluster_info:
            spec["cluster"] = self._cluster
        info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        own = {entry["name"]: entry["value"] for entry in self._plugin.env or ()}
        return os.environ | own | {"KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}


def basic(username: str, password: str) -> str:
    """Return the header for a user name and a password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
