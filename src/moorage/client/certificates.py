"""TLS contexts from certificates in files or in memory."""

import base64
import binascii
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from moorage.errors import InputError


def verifying_context(
    where: str, *, ca_file: str | PathLike[str] | None = None, ca_data: bytes | None = None
) -> ssl.SSLContext:
    """Return a context that trusts one authority, or those of the machine."""
    try:
        if ca_data is not None:
            return ssl.create_default_context(cadata=ca_data.decode())
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(where, f"the certificate authority cannot be used: {error}") from error


def trusting_context() -> ssl.SSLContext:
    """Return a context that verifies nothing, for those who asked for it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def load_client_certificate(context: ssl.SSLContext, certificate: str | bytes, key: str | bytes) -> None:
    """Put a client certificate that is in memory into a context, which only reads files."""
    with TemporaryDirectory(prefix="moorage-tls-") as folder:
        cert_file, key_file = Path(folder, "cert.pem"), Path(folder, "key.pem")
        cert_file.write_bytes(certificate if isinstance(certificate, bytes) else certificate.encode())
        key_file.touch(mode=0o600)
        key_file.write_bytes(key if isinstance(key, bytes) else key.encode())
        with told("client certificate"):
            context.load_cert_chain(cert_file, key_file)


def load_client_certificate_files(
    context: ssl.SSLContext, certificate: str | PathLike[str], key: str | PathLike[str]
) -> None:
    """Put a client certificate that is in files into a context."""
    with told(f"client certificate {certificate}"):
        context.load_cert_chain(certificate, key)


@contextmanager
def told(where: str) -> Iterator[None]:
    """Turn what OpenSSL has to say into a message for whoever wrote the configuration."""
    try:
        yield
    except (OSError, ssl.SSLError) as error:
        raise InputError(where, f"the certificate and its key cannot be used: {error}") from error


def from_base64(where: str, text: str) -> bytes:
    """Decode what stands in a field whose name ends in ``-data``."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise InputError(where, f"this is not base64: {error}") from error
