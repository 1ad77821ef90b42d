"""TLS of the server: certificates from files, by name (SNI) or generated; cipher suites by their Go names."""

import ssl
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, cast

from moorage.common.errors import InputError, did_you_mean
from moorage.common.user_files import private_file, read_file
from moorage.kube.http.tls import load_certificate, verify_as_go
from moorage.scheduler.daemon.flags.table import NamedCertificate
from moorage.scheduler.daemon.options import ServingOptions

PAIR_NAME: Final = "kube-scheduler"

_VERSIONS: Final = {
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
#: OpenSSL's names of the suites up to TLS 1.2. Those of TLS 1.3 are always enabled, as in Go.
_CIPHERS: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
}
_ALWAYS: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")


class ServingTls:
    """The TLS context of the server. :meth:`load` replaces it when files or client CAs have changed.

    Client certificates are optional.
    """

    def __init__(self, options: ServingOptions, client_cas: Sequence[bytes] = ()) -> None:
        self._options = options
        # Importing the library that generates certificates takes longer than the start: the first client waits instead.
        self._self_signed = cache(self_signed)
        self._loaded: tuple[object, ...] = ()
        self._context = self._make_context(client_cas)

    @property
    def context(self) -> ssl.SSLContext:
        """The context of the next connection."""
        return self._context

    def load(self, client_cas: Sequence[bytes]) -> bool:
        """Reload the files, and the client CAs. Return whether anything changed.

        Raise InputError if a file is invalid, for example while it is being written. The previous content is kept.
        """
        if self._state(client_cas) == self._loaded:
            return False
        self._context = self._make_context(client_cas)
        return True

    def _state(self, client_cas: Sequence[bytes]) -> tuple[object, ...]:
        options = self._options
        pairs = [(entry.cert_file, entry.key_file) for entry in options.named_certificates]
        if options.cert_file or options.cert_dir:
            pairs.append(_default_pair(options))
        return (tuple(client_cas), *(_content(path) for pair in pairs for path in pair))

    def _make_context(self, client_cas: Sequence[bytes]) -> ssl.SSLContext:
        options, before = self._options, self._state(client_cas)
        context = _context(options, client_cas)
        by_name = _named_contexts(options, client_cas)
        if options.cert_file or options.cert_dir:
            certificate, key = _default_pair(options)
            if not options.cert_file and not (Path(certificate).exists() and Path(key).exists()):
                _write_pair(Path(certificate), Path(key), self_signed())
            _load_files(context, certificate, key, "--tls-cert-file" if options.cert_file else "--cert-dir")
            if by_name:
                # A weak reference: a context that refers to itself would remain until the next garbage collection.
                context.sni_callback = _chooser(by_name, cast("Callable[[], ssl.SSLContext]", weakref.ref(context)))
        else:
            context.sni_callback = _chooser(by_name, cache(lambda: self._self_signed_context(client_cas)))
        self._loaded = before if options.cert_file or not options.cert_dir else self._state(client_cas)
        return context

    def _self_signed_context(self, client_cas: Sequence[bytes]) -> ssl.SSLContext:
        context = _context(self._options, client_cas)
        certificate, key = self._self_signed()
        load_certificate("--cert-dir", context, certificate, key)
        return context


def _context(options: ServingOptions, client_cas: Sequence[bytes]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[options.min_version or "VersionTLS12"]
    context.set_alpn_protocols(["http/1.1"])
    if options.cipher_suites:
        context.set_ciphers(":".join(_openssl_names(options.cipher_suites)) or "@SECLEVEL=0:ALL")
    verify_as_go(context)
    for bundle in client_cas:
        try:
            context.load_verify_locations(cadata=bundle.decode())
        except (OSError, ValueError) as error:
            raise InputError("--client-ca-file", f"invalid certificate: {error}") from error
        context.verify_mode = ssl.CERT_OPTIONAL
        # A client that resumes a session shows its certificate alone, without its verified chain.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    return context


def _openssl_names(suites: Sequence[str]) -> list[str]:
    unknown = [suite for suite in suites if suite not in _CIPHERS and suite not in _ALWAYS]
    if unknown:
        hint = did_you_mean(unknown[0], [*_CIPHERS, *_ALWAYS]) or f"known ones: {', '.join((*_ALWAYS, *_CIPHERS))}"
        raise InputError("--tls-cipher-suites", f"Cipher suite {unknown[0]} not supported or doesn't exist", hint=hint)
    return [_CIPHERS[suite] for suite in suites if suite in _CIPHERS]


def _default_pair(options: ServingOptions) -> tuple[str, str]:
    if options.cert_file:
        return options.cert_file, options.key_file
    return str(Path(options.cert_dir, f"{PAIR_NAME}.crt")), str(Path(options.cert_dir, f"{PAIR_NAME}.key"))


def _content(path: str) -> bytes:
    try:
        return read_file(path)
    except InputError:
        return b""


def _load_files(context: ssl.SSLContext, certificate: str, key: str, flag: str) -> None:
    location = f"{flag}: {certificate} and {key}"
    load_certificate(location, context, read_file(certificate, where=flag), read_file(key, where=flag))


def _write_pair(certificate: Path, key: Path, pair: tuple[bytes, bytes]) -> None:
    certificate.parent.mkdir(parents=True, exist_ok=True)
    for path, content, mode in ((certificate, pair[0], 0o644), (key, pair[1], 0o600)):
        with private_file(path, mode) as file:
            file.write(content)


def _named_contexts(options: ServingOptions, client_cas: Sequence[bytes]) -> dict[str, ssl.SSLContext]:
    by_name: dict[str, ssl.SSLContext] = {}
    for entry in reversed(options.named_certificates):
        context = _context(options, client_cas)
        _load_files(context, entry.cert_file, entry.key_file, "--tls-sni-cert-key")
        by_name.update(dict.fromkeys(entry.names or _read_names(entry), context))
    return by_name


def _chooser(
    by_name: Mapping[str, ssl.SSLContext], default: Callable[[], ssl.SSLContext]
) -> Callable[[ssl.SSLObject | ssl.SSLSocket, str | None, ssl.SSLContext], None]:
    """Choose the certificate by the server name of a client, if any: exact names first, then wildcards."""

    def choose(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        wildcard = f"*.{(name or '').partition('.')[2]}"
        connection.context = by_name.get(name or "") or by_name.get(wildcard) or default()

    return choose


def _read_names(entry: NamedCertificate) -> list[str]:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    content = read_file(entry.cert_file, where="--tls-sni-cert-key")
    try:
        certificate = x509.load_pem_x509_certificate(content)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return [str(name) for name in names.get_values_for_type(x509.DNSName)]
    except x509.ExtensionNotFound:
        return [str(part.value) for part in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    except ValueError as error:
        raise InputError("--tls-sni-cert-key", f"the names in {entry.cert_file} cannot be read: {error}") from error


def self_signed() -> tuple[bytes, bytes]:
    """Return a certificate for localhost, and its key, both as PEM."""
    # With configured certificates, the start does not wait for these imports.
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost@moorage")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private
