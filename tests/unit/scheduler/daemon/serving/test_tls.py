"""Certificates, protocol versions and cipher suites."""

import asyncio
import socket
import ssl
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from msgspec.structs import replace
from tests.support.certificates import Authority
from tests.support.serving import ON_LOOPBACK, Visitor, served

from moorage.common.errors import InputError
from moorage.scheduler.daemon.flags.table import NamedCertificate
from moorage.scheduler.daemon.options import AuthenticationOptions, AuthorizationOptions, ServingOptions
from moorage.scheduler.daemon.serving import server


def handshake(options: ServingOptions, name: str = "", **versions: ssl.TLSVersion) -> tuple[str, str, list[str]]:
    """Connect with a server name; return the protocol, the cipher and the names in the certificate."""

    async def work() -> tuple[str, str, list[str]]:
        async with served(options=options) as visitor:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            for key, version in versions.items():
                setattr(context, key, version)
            port = int(visitor.base.rpartition(":")[2])
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name or "x")
            connection = writer.get_extra_info("ssl_object")
            certificate = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True))
            writer.transport.abort()
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            return connection.version(), connection.cipher()[0], names.get_values_for_type(x509.DNSName)

    return asyncio.run(work())


def test_without_files_a_certificate_is_made_in_memory() -> None:
    assert handshake(ON_LOOPBACK)[2] == ["localhost"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_connecting_by_address_gets_the_certificate(version: ssl.TLSVersion) -> None:
    assert handshake(ON_LOOPBACK, "127.0.0.1", maximum_version=version)[2] == ["localhost"]


def test_self_signed_certificate_is_created_once() -> None:
    async def work() -> None:
        async with served(options=ON_LOOPBACK) as visitor:
            address = ("127.0.0.1", int(visitor.base.rpartition(":")[2]))
            first, second = [await asyncio.to_thread(ssl.get_server_certificate, address) for _ in range(2)]
            assert first == second

    asyncio.run(work())


def test_a_certificate_is_kept_in_its_directory(tmp_path: Path) -> None:
    options = replace(ON_LOOPBACK, cert_dir=str(tmp_path / "certs"))
    handshake(options)
    key = tmp_path / "certs" / "kube-scheduler.key"
    assert key.stat().st_mode & 0o077 == 0
    before = key.read_bytes()
    handshake(options)
    assert key.read_bytes() == before


def test_certificates_are_chosen_by_name(tmp_path: Path) -> None:
    authority = Authority.create_in(tmp_path)
    default, exact, wild, own = (
        authority.issue(name, hosts=(name,)) for name in ("default.test", "a.foo.test", "wild.test", "own.test")
    )
    options = replace(
        ON_LOOPBACK,
        cert_file=str(default[0]),
        key_file=str(default[1]),
        named_certificates=(
            NamedCertificate(str(exact[0]), str(exact[1]), ("a.foo.test",)),
            NamedCertificate(str(wild[0]), str(wild[1]), ("*.foo.test",)),
            NamedCertificate(str(own[0]), str(own[1])),
        ),
    )
    certificate_names = {
        name: handshake(options, name)[2][0] for name in ("a.foo.test", "b.foo.test", "own.test", "other.test")
    }
    assert certificate_names == {
        "a.foo.test": "a.foo.test",
        "b.foo.test": "wild.test",
        "own.test": "own.test",
        "other.test": "default.test",
    }


async def names_served(visitor: Visitor) -> list[str]:
    """Return the names in the certificate that is served now."""
    address = ("127.0.0.1", int(visitor.base.rpartition(":")[2]))
    pem = await asyncio.to_thread(ssl.get_server_certificate, address)
    names = x509.load_pem_x509_certificate(pem.encode()).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return names.value.get_values_for_type(x509.DNSName)


def test_a_certificate_is_reloaded_when_its_files_change(tmp_path: Path) -> None:
    authority = Authority.create_in(tmp_path)
    certificate, key = authority.issue("served", hosts=("first.test",))
    options = replace(ON_LOOPBACK, cert_file=str(certificate), key_file=str(key))

    async def work() -> None:
        async with served(options=options) as visitor:
            assert await names_served(visitor) == ["first.test"]
            authority.issue("served", hosts=("second.test",))
            assert await names_served(visitor) == ["first.test"]
            await visitor.server.certificates.reload()
            assert await names_served(visitor) == ["second.test"]
            before = key.read_bytes()
            key.write_text("half of a k")
            await visitor.server.certificates.reload()
            assert await names_served(visitor) == ["second.test"], "what cannot be used is not"
            key.write_bytes(before)
            authority.issue("served", hosts=("third.test",))
            await visitor.server.certificates.reload()
            assert await names_served(visitor) == ["third.test"]

    asyncio.run(work())


def test_certificates_are_checked_every_minute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(server, "RELOAD_SECONDS", 0.01)
    authority = Authority.create_in(tmp_path)
    certificate, key = authority.issue("served", hosts=("first.test",))
    options = replace(ON_LOOPBACK, cert_file=str(certificate), key_file=str(key))

    async def work() -> None:
        async with served(options=options) as visitor, asyncio.timeout(30):
            authority.issue("served", hosts=("second.test",))
            while await names_served(visitor) != ["second.test"]:
                pass

    asyncio.run(work())


def test_client_cas_are_reloaded_when_their_file_changes(tmp_path: Path) -> None:
    old, new = (Authority.create_in(tmp_path / name, name) for name in ("old", "new"))
    bundle = tmp_path / "clients.crt"
    bundle.write_bytes(old.pem)
    masters = {authority: authority.issue("admin", "system:masters") for authority in (old, new)}

    async def work() -> None:
        options = AuthenticationOptions(client_ca_file=str(bundle))
        async with served(authentication=options, authorization=AuthorizationOptions()) as visitor:

            async def admitted() -> list[bool]:
                return [await is_admitted(visitor, masters[authority]) for authority in (old, new)]

            assert await admitted() == [True, False]
            bundle.write_bytes(new.pem)
            await visitor.server.certificates.reload()
            assert await admitted() == [False, True]
            bundle.write_bytes(b"-----BEGIN CERTIFICATE-----\nhalf")
            await visitor.server.certificates.reload()
            assert await admitted() == [False, True]

    asyncio.run(work())


async def is_admitted(visitor: Visitor, certificate: tuple[Path, Path]) -> bool:
    try:
        return (await visitor.ask("/metrics", certificate=certificate)).status == 200
    except (aiohttp.ClientError, OSError):
        return False  # TLS itself rejects a certificate of a CA it does not know


def test_an_authority_need_not_be_a_root(tmp_path: Path) -> None:
    """As in Go: a listed client CA is trusted, independent of its issuer."""
    root = Authority.create_in(tmp_path / "root", "root")
    middle = root.authority(tmp_path / "middle", "middle")
    options = AuthenticationOptions(client_ca_file=str(middle.file))

    async def work() -> None:
        async with served(authentication=options, authorization=AuthorizationOptions()) as visitor:
            assert await is_admitted(visitor, middle.issue("admin", "system:masters"))

    asyncio.run(work())


def test_the_lowest_version_is_kept() -> None:
    options = replace(ON_LOOPBACK, min_version="VersionTLS13")
    assert handshake(options)[0] == "TLSv1.3"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        handshake(options, maximum_version=ssl.TLSVersion.TLSv1_2)


def test_only_configured_cipher_suites_are_used() -> None:
    options = replace(ON_LOOPBACK, cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",))
    connection = handshake(options, maximum_version=ssl.TLSVersion.TLSv1_2)
    assert connection[1] == "ECDHE-ECDSA-AES256-GCM-SHA384"


REFUSED = {
    "an unknown suite": (replace(ON_LOOPBACK, cipher_suites=("TLS_NONE",)), "not supported or doesn't exist"),
    "a missing file": (replace(ON_LOOPBACK, cert_file="/nowhere", key_file="/nowhere"), "does not exist"),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_rejections(options: ServingOptions, message: str) -> None:
    with pytest.raises(InputError) as raised:
        handshake(options)
    assert message in str(raised.value)


def test_a_port_that_is_taken() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with pytest.raises(InputError, match="cannot listen"):
            handshake(replace(ON_LOOPBACK, port=listener.getsockname()[1]))
