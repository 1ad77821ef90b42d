"""Users in the sense of Kubernetes, from a client certificate, a proxy's headers, or anonymous."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.scheduler.daemon.options import ProxyHeaders

if TYPE_CHECKING:
    from cryptography import x509

AUTHENTICATED: Final = "system:authenticated"
MASTERS: Final = "system:masters"


class User(Struct, frozen=True):
    """A user, and the groups they belong to."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def authenticated(self) -> "User":
        """Return the same user as a member of the authenticated group."""
        return self if AUTHENTICATED in self.groups else replace(self, groups=(*self.groups, AUTHENTICATED))


ANONYMOUS: Final = User("system:anonymous", groups=("system:unauthenticated",))


class Authorities:
    """A CA bundle."""

    def __init__(self, bundle: bytes = b"") -> None:
        self._certificates = _load_bundle(bundle) if bundle else []

    def issued(self, chain: "Sequence[x509.Certificate]") -> bool:
        """Return whether a CA of the bundle issued the certificate, or one above it in the chain verified by TLS."""
        return any(_issued(authority, certificate) for certificate in chain for authority in self._certificates)


def _load_bundle(bundle: bytes) -> "list[x509.Certificate]":
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(bundle)
    except ValueError as error:
        raise InputError("the CAs of clients", f"invalid certificate: {error}") from error


def _issued(authority: "x509.Certificate", certificate: "x509.Certificate") -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def certificate_user(certificate: "x509.Certificate") -> User:
    """Return the user of a client certificate: the common name, and each organization as a group."""
    from cryptography.x509.oid import NameOID

    organizations = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return User(_common_name(certificate), groups=tuple(str(part.value) for part in organizations))


def proxied_user(
    headers: Iterable[tuple[str, str]], certificate: "x509.Certificate", names: ProxyHeaders
) -> User | None:
    """Return the user that a proxy names; ``None`` without a name, or if the proxy is not trusted."""
    if names.allowed_names and _common_name(certificate) not in names.allowed_names:
        return None
    header_values: dict[str, list[str]] = {}
    for name, value in headers:
        header_values.setdefault(name.lower(), []).append(value)
    username = _first(header_values, names.username)
    if not username:
        return None
    groups = [group for header in names.group for group in header_values.get(header.lower(), ())]
    extra = {
        unquote(header.removeprefix(prefix.lower())): tuple(values)
        for prefix in names.extra_prefix
        for header, values in header_values.items()
        if header.startswith(prefix.lower())
    }
    return User(username, _first(header_values, names.uid), tuple(groups), tuple(sorted(extra.items())))


def _first(header_values: Mapping[str, list[str]], names: Sequence[str]) -> str:
    return next((header_values[name.lower()][0] for name in names if header_values.get(name.lower())), "")


def _common_name(certificate: "x509.Certificate") -> str:
    from cryptography.x509.oid import NameOID

    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""
