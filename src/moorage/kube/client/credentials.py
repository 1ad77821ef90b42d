"""Credentials: fixed headers, token files that rotate, and credential plugins."""

import asyncio
import base64
import errno
import os
import re
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import structlog

from moorage.common.clock import Clock
from moorage.common.errors import InputError, Unauthorized
from moorage.common.user_files import read_text
from moorage.kube.api.codec import UNREADABLE
from moorage.kube.api.meta import parse_time
from moorage.kube.http.tls import ClientTls

NEVER: Final = float("inf")
TOKEN_FILE_AGE: Final = 60.0
"""Seconds after which a token file is reloaded. The kubelet replaces it long before the token expires."""

EXEC_SECONDS: Final = 60.0
"""Timeout of a credential plugin; one that waits for an interactive login would block everything."""
KILL_SECONDS: Final = 1.0
MAX_OUTPUT: Final = 1 << 20
MAX_COMPLAINT: Final = 2000
MAX_SHOWN: Final = 100

EXEC_VERSIONS: Final = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

log = structlog.get_logger(__name__)


class Credentials(Protocol):
    """The source of the ``Authorization`` header; called at ``expires_at``, or when the server rejects it."""

    expires_at: float

    async def renew(self) -> str:
        """Return the header, or an empty string. Raise InputError or Unauthorized if it is unavailable."""
        ...


class FixedCredentials:
    """A header that never changes: a token, a password, or nothing (certificates are part of TLS)."""

    def __init__(self, header: str = "") -> None:
        self.expires_at = NEVER
        self._header = header

    async def renew(self) -> str:
        """Return the header."""
        return self._header


class TokenFile:
    """A token in a file that another process keeps up to date.

    If the file is temporarily unreadable, the previous token is used.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self.expires_at = 0.0
        self._path = path
        self._clock = clock
        self._token = ""

    async def renew(self) -> str:
        """Read the file."""
        try:
            self._token = self._read()
        except InputError as error:
            if not self._token:
                raise
            log.warning("cannot read the rotated token", error=str(error))
        self.expires_at = self._clock.now() + TOKEN_FILE_AGE
        return f"Bearer {self._token}"

    def _read(self) -> str:
        token = read_text(self._path, where="token file").strip()
        if not token:
            raise InputError(str(self._path), "the token file is empty")
        check_header(str(self._path), (token,))
        return token


class ExecVariable(msgspec.Struct, frozen=True):
    """An environment variable of a credential plugin."""

    name: str
    value: str = ""


class ExecPlugin(msgspec.Struct, frozen=True, rename="camel"):
    """A program that prints credentials, as a kubeconfig describes it."""

    command: str
    api_version: str = ""
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    install_hint: str = ""
    interactive_mode: str = ""
    provide_cluster_info: bool = False

    def check(self, source: str) -> None:
        """Reject configurations that client-go rejects, and interactive plugins."""
        location = f"{source}: exec"
        if not self.command:
            raise InputError(f"{location}.command", "the command is missing")
        if self.api_version not in EXEC_VERSIONS:
            problem = f"this version of the protocol is not supported: {self.api_version!r}"
            raise InputError(f"{location}.apiVersion", problem, hint=f"write {' or '.join(EXEC_VERSIONS)}")
        # v1 requires the field, v1beta1 has a default.
        mode = self.interactive_mode or ("" if self.api_version.endswith("/v1") else "IfAvailable")
        if mode not in ("Never", "IfAvailable"):
            problem = f"the scheduler cannot log in interactively, and the plugin requires {self.interactive_mode!r}"
            raise InputError(f"{location}.interactiveMode", problem, hint="write Never or IfAvailable")


class ExecStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The credentials of a plugin: a token, a client certificate, or both."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    """The output of a credential plugin."""

    kind: str = ""
    api_version: str = ""
    status: ExecStatus | None = None


class ExecCredentials:
    """Credentials from a program. Its certificate is used for new connections."""

    def __init__(self, plugin: ExecPlugin, tls: ClientTls | None, cluster: Mapping[str, Any], clock: Clock) -> None:
        self.expires_at = 0.0
        self._plugin = plugin
        self._tls = tls
        self._cluster = cluster
        self._clock = clock

    async def renew(self) -> str:
        """Run the program and parse its output."""
        status = self._parse(await self._output())
        if status.client_certificate_data and self._tls is not None:
            self._tls.show(status.client_certificate_data, status.client_key_data)
        self.expires_at = self._expiry(status.expiration_timestamp)
        return f"Bearer {status.token}" if status.token else ""

    def _expiry(self, text: str | None) -> float:
        if not text:
            return NEVER
        clock = self._clock
        try:
            # The wall clock may change, so only the remaining time is kept.
            return clock.now() + parse_time(text) - clock.wall()
        except (ValueError, OverflowError) as error:
            problem = f"printed an invalid expirationTimestamp: {text[:MAX_SHOWN]!r}"
            raise Unauthorized(f"{self._plugin.command}: {problem}") from error

    def _parse(self, output: bytes) -> ExecStatus:
        plugin = self._plugin
        try:
            printed = msgspec.json.decode(output, type=ExecCredential)
        except UNREADABLE as error:
            raise Unauthorized(f"{plugin.command}: output is not an ExecCredential: {error}") from error
        if (printed.kind, printed.api_version) != ("ExecCredential", plugin.api_version):
            printed_kind = f"{printed.api_version or 'nothing'} {printed.kind}".strip()
            raise Unauthorized(
                f"{plugin.command}: printed {printed_kind}, not an ExecCredential of {plugin.api_version}"
            )
        status = printed.status or ExecStatus()
        if not status.token and not status.client_certificate_data and not status.client_key_data:
            raise Unauthorized(f"{plugin.command}: printed neither a token nor a client certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise Unauthorized(f"{plugin.command}: printed only a client certificate or only a key")
        check_header(plugin.command, (status.token,))
        return status

    async def _output(self) -> bytes:
        from moorage.kube.client.credential_program import guarded_command  # only programs need it

        plugin, environment = self._plugin, self._environment()
        try:
            require_program(plugin.command, environment)
            starting = asyncio.ensure_future(
                asyncio.get_running_loop().subprocess_exec(
                    ProgramRun,
                    *guarded_command(os.getpid(), [plugin.command, *(plugin.args or ())]),
                    env=environment,
                    stdin=asyncio.subprocess.DEVNULL,
                    start_new_session=True,
                )
            )
            try:
                transport, run = await asyncio.shield(starting)
            except asyncio.CancelledError:
                # asyncio may wait forever if a start itself is cancelled.
                transport, _ = await starting
                with suppress(ProcessLookupError):
                    os.killpg(transport.get_pid(), signal.SIGKILL)
                transport.close()
                raise
        except (OSError, ValueError) as error:
            problem = f"the program for credentials cannot be run: {getattr(error, 'strerror', None) or error}"
            raise InputError(
                f"users[].user.exec.command: {plugin.command}", problem, hint=plugin.install_hint
            ) from error
        try:
            async with asyncio.timeout(EXEC_SECONDS):
                await run.ended
        except TimeoutError as error:
            raise Unauthorized(f"{plugin.command}: did not end within {EXEC_SECONDS:g} s and was killed") from error
        finally:
            if not run.has_ended:
                # Kill the entire process group: it timed out, or its caller was cancelled.
                with suppress(ProcessLookupError):
                    os.killpg(transport.get_pid(), signal.SIGKILL)
                await asyncio.wait((run.exited,), timeout=KILL_SECONDS)
            transport.close()
        if code := transport.get_returncode():
            complaint = run.complaints.decode(errors="replace").strip()[:MAX_COMPLAINT]
            raise Unauthorized(f"{plugin.command}: exited with code {code}: {complaint}")
        return bytes(run.output)

    def _environment(self) -> dict[str, str]:
        spec: dict[str, Any] = {"interactive": False}
        if self._plugin.provide_cluster_info:
            spec["cluster"] = self._cluster
        info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        own = {variable.name: variable.value for variable in self._plugin.env or ()}
        return os.environ | own | {"KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}


class ProgramRun(asyncio.SubprocessProtocol):
    """One run of a program: its output up to a limit. Further output is discarded."""

    def __init__(self) -> None:
        self.output = bytearray()
        self.complaints = bytearray()
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()

    @property
    def has_ended(self) -> bool:
        """Whether the process ended and its output is closed."""
        return self.ended.done() and not self.ended.cancelled()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Store the output."""
        buffer = self.output if fd == 1 else self.complaints
        buffer += data[: MAX_OUTPUT - len(buffer)]

    def process_exited(self) -> None:
        """Record the end of the process. Its children may still hold its output open."""
        self.exited.set_result(None)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Wake the waiting caller."""
        if not self.ended.done():
            self.ended.set_result(None)


def require_program(command: str, environment: Mapping[str, str]) -> None:
    """Raise OSError if a program does not exist or is not executable."""
    import shutil

    if shutil.which(command, path=os.pathsep.join(os.get_exec_path(environment))) is None:
        is_present = os.path.dirname(command) and os.path.exists(command)
        number = errno.EACCES if is_present else errno.ENOENT
        raise OSError(number, os.strerror(number))


def basic(username: str, password: str) -> str:
    """Return the header for a user name and a password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def check_header(source: str, words: Iterable[str]) -> None:
    """Reject texts that would break out of a header. The message does not quote them."""
    if any(_CONTROL.search(word) for word in words):
        raise InputError(source, "a token or name contains a line break or control character")
