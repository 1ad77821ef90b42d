"""TLS contexts: trusted CAs and client certificates, from files or memory."""

import base64
import binascii
import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import structlog

from moorage.common.errors import InputError
from moorage.common.user_files import read_file

Pem: TypeAlias = bytes | Path
"""A certificate or a key: its content or its file."""

log = structlog.get_logger(__name__)

_DER: Final = 2
"""The constant for DER in the private API of older Pythons."""


class ResumingContext(ssl.SSLContext):
    """Resumes the TLS session of an earlier connection to the same host, which saves the full handshake.

    A scheduler opens a connection per watched kind, and full handshakes are most of the cost of TLS on both sides.
    Sessions belong to the context, so they end when the CA or the client certificate changes.
    """

    def __init__(self, _protocol: int) -> None:
        self._sessions: dict[str, ssl.SSLSession] = {}

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Start a connection and resume a stored session."""
        cached_session = session or self._sessions.get(str(server_hostname))
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, cached_session)

    def keep_session(self, connection: ssl.SSLObject) -> None:
        """Store the session of a connection that received a response. The server sends no ticket before that."""
        session = connection.session
        if session is not None and session.has_ticket:
            self._sessions[str(connection.server_hostname)] = session

    def forget_sessions(self) -> None:
        """Start a new session: some servers reject a resumed session instead of falling back."""
        self._sessions.clear()


class ClientTls:
    """The trusted CA and the client certificate for one server.

    :meth:`refresh` reloads the files, because rotation replaces them. A file that is invalid at the moment, because
    it is being written, has no effect.
    """

    def __init__(
        self,
        location: str,
        *,
        authority: Pem | None = None,
        certificate: Pem | None = None,
        key: Pem | None = None,
        verifies: bool = True,
    ) -> None:
        """Trust one authority, or those of the machine; InputError if anything cannot be used."""
        self._location = location
        self._pems = (authority, certificate, key)
        self._verifies = verifies
        self._loaded_pair: tuple[bytes, bytes] | None = None
        self._listeners: list[Callable[[], None]] = []
        self._read = tuple(map(self._content, self._pems))
        self._context = self._build_context()

    @property
    def context(self) -> ssl.SSLContext:
        """The context of the next connection."""
        return self._context

    def on_change(self, listener: Callable[[], None]) -> None:
        """Register a callback for changes that require new connections."""
        self._listeners.append(listener)

    def refresh(self) -> None:
        """Reload the files and apply changes."""
        if not any(isinstance(pem, Path) for pem in self._pems):
            return
        before = self._read
        try:
            self._read = tuple(map(self._content, self._pems))
            if self._read == before:
                return
            self._context = self._build_context()
        except InputError as error:
            self._read = before
            log.warning("cannot use the rotated certificates yet", error=str(error))
            return
        log.info("certificates rotated; reconnecting", source=self._location)
        self._notify()

    def show(self, certificate: str, key: str) -> None:
        """Use this client certificate from now on. Raise InputError if it is invalid."""
        pair = certificate.encode(), key.encode()
        if pair == self._loaded_pair:
            return
        before, self._loaded_pair = self._loaded_pair, pair
        try:
            self._context = self._build_context()
        except InputError:
            self._loaded_pair = before
            raise
        self._notify()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

    def _content(self, pem: Pem | None) -> bytes | None:
        if not isinstance(pem, Path):
            return pem
        content = read_file(pem, where=self._location)
        if not content.strip():
            raise InputError(self._location, f"{pem} is empty", hint="it must have a certificate or a key in PEM")
        return content

    def _build_context(self) -> ssl.SSLContext:
        authority, certificate, key = self._read
        try:
            text = None if authority is None else authority.decode()
            context = client_context(text) if self._verifies else trusting_context()
        except (OSError, ValueError) as error:
            raise InputError(self._location, f"the certificate authority cannot be used: {error}") from error
        if self._loaded_pair is not None:
            certificate, key = self._loaded_pair
        if certificate is not None and key is not None:
            load_certificate(self._location, context, certificate, key)
        return context


def client_context(authority: str | None = None) -> ssl.SSLContext:
    """Return a context that trusts an authority, or those of the machine, exactly as strictly as client-go.

    Python 3.13 by default rejects certificates without identifiers of their keys, and earlier ones any authority that
    is not a root; Go does neither. Go, and not OpenSSL, ignores the common name where a host name is looked for.
    """
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    if authority is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cadata=authority)
    verify_as_go(context)
    context.hostname_checks_common_name = False
    return context


def verify_as_go(context: ssl.SSLContext) -> None:
    """Trust all listed authorities, including intermediate ones, and require only a valid chain."""
    context.verify_flags = context.verify_flags & ~ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN


def trusting_context() -> ssl.SSLContext:
    """Return a context without verification, for ``insecure-skip-tls-verify``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def verified_chain(connection: ssl.SSLObject) -> list[bytes]:
    """Return the verified chain of the peer, its own certificate first, or empty without a certificate.

    A resumed session has only the certificate of the peer.
    """
    if hasattr(connection, "get_verified_chain"):
        chain: list[bytes] = connection.get_verified_chain()
    else:
        # Python has had this since 3.10, and made it public in 3.13.
        certificates = connection._sslobj.get_verified_chain()  # type: ignore[attr-defined]
        chain = [certificate.public_bytes(_DER) for certificate in certificates or ()]
    own = connection.getpeercert(binary_form=True)
    return chain or ([own] if own else [])


def load_certificate(location: str, context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load our certificate into a context, which accepts only files."""
    try:
        with readable(certificate) as certificate_file, readable(key) as key_file:
            context.load_cert_chain(certificate_file, key_file)
    except (OSError, ssl.SSLError) as error:
        raise InputError(location, f"the certificate and its key cannot be used: {error}") from error


@contextmanager
def readable(content: bytes) -> Iterator[str]:
    """Provide the name of a file with this content, in memory if the system supports it.

    A key should not be written to disk, and a container may have a read-only file system.
    """
    if not hasattr(os, "memfd_create"):
        from tempfile import NamedTemporaryFile

        with NamedTemporaryFile(prefix="moorage-tls-") as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("moorage-tls")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def from_base64(location: str, text: str) -> bytes:
    """Decode a field with the suffix ``-data``."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise InputError(location, f"this is not base64: {error}") from error
