"""Certificate authorities and certificates for tests."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Authority:
    """A CA that issues certificates into a directory."""

    directory: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def create_in(cls, directory: Path, name: str = "ca") -> "Authority":
        """Create a CA."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = _builder(subject, subject, key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        directory.mkdir(exist_ok=True)
        return cls(directory, key, certificate.sign(key, hashes.SHA256()))

    def authority(self, directory: Path, name: str) -> "Authority":
        """Create an intermediate CA."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = _builder(subject, self.certificate.subject, key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        directory.mkdir(exist_ok=True)
        return Authority(directory, key, certificate.sign(self.key, hashes.SHA256()))

    @property
    def pem(self) -> bytes:
        """The certificate of the CA."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def file(self) -> Path:
        """The certificate of the CA, as a file."""
        path = self.directory / "ca.crt"
        path.write_bytes(self.pem)
        return path

    def issue(self, name: str, *groups: str, hosts: tuple[str, ...] = ()) -> tuple[Path, Path]:
        """Issue a certificate; return its file and that of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else parts)
        builder = _builder(subject, self.certificate.subject, key)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False
            )
        certificate = builder.sign(self.key, hashes.SHA256())
        paths = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return paths


def _name(host: str) -> x509.GeneralName:
    is_address = host.replace(".", "").isdigit()
    return x509.IPAddress(ipaddress.ip_address(host)) if is_address else x509.DNSName(host)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
    )
