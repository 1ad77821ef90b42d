"""Users in the sense of Kubernetes, from a client certificate, a proxy's headers, or anonymous."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import InputError

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


class ProxyHeaders(Struct, frozen=True):
    """In which headers proxies name users, and which proxies are believed: all with a certificate, unless named."""

    username: Sequence[str] = ("x-remote-user",)
    uid: Sequence[str] = ()
    group: Sequence[str] = ("x-remote-group",)
    extra_prefix: Sequence[str] = ("x-remote-extra-",)
    allowed_names: Sequence[str] = ()


class Authorities:
    """A CA bundle that knows whether it issued a certificate."""

    def __init__(self, bundle: bytes = b"") -> None:
        self._certificates = _certificates_in(bundle) if bundle else []

    def issued(self, chain: "Sequence[x509.Certificate]") -> bool:
        """Return whether a certificate is one of ours: it, or one above it in the chain that TLS has verified."""
        return any(_issued(authority, certificate) for certificate in chain for authority in self._certificates)


def _certificates_in(bundle: bytes) -> "list[x509.Certificate]":
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

    return User(_common_name(certificate), groups=tuple(_all(certificate.subject, NameOID.ORGANIZATION_NAME)))


def proxied_user(
    headers: Iterable[tuple[str, str]], certificate: "x509.Certificate", names: ProxyHeaders
) -> User | None:
    """Return the user that a proxy names; ``None`` without a name, or if the proxy is not trusted."""
    proxy = _common_name(certificate)
    if names.allowed_names and proxy not in names.allowed_names:
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

    return next(iter(_all(certificate.subject, NameOID.COMMON_NAME)), "")


def _all(subject: "x509.Name", oid: "x509.ObjectIdentifier") -> list[str]:
    return [str(part.value) for part in subject.get_attributes_for_oid(oid)]
