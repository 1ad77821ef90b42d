"""A certificate for this machine's loopback address: kubectl sends its token over TLS only."""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

VALID_DAYS: Final = 365
_EARLY: Final = datetime.timedelta(hours=1)
"""Clocks of containers may differ slightly."""


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """A self-signed certificate and its TLS context."""

    pem: bytes
    context: ssl.SSLContext


def loopback_certificate(address: str) -> ServerCertificate:
    """Create a key and a certificate for an address, in memory only."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "moorage")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.IPAddress(ipaddress.ip_address(address)), x509.DNSName("localhost")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return ServerCertificate(pem, _context(pem + secret))


def _context(chain: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as directory:
        file = Path(directory) / "chain.pem"
        file.touch(mode=0o600)
        file.write_bytes(chain)
        context.load_cert_chain(file)
    return context
