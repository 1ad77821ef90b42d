"""TLS: trusted authorities, errors for untrusted servers, and client certificates."""

import asyncio
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import Authority
from tests.support.tcp import serving

from moorage.common.errors import InputError
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.http.tls import ClientTls


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Respond with the name in the client's certificate, if it has one."""
    while True:
        await reader.readuntil(b"\r\n\r\n")
        certificate = writer.get_extra_info("peercert") or {"subject": ()}
        name = "".join(value for part in certificate["subject"] for _, value in part).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(name), name))


def ask(authority: Path, tls: ClientTls, **options: Any) -> bytes:
    """Read from a server that requests a client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "cert.pem", authority / "key.pem")
    context.load_verify_locations(authority / "cert.pem")
    context.verify_mode = ssl.CERT_OPTIONAL

    async def main() -> bytes:
        async with serving(serve, ssl=context) as port:
            connection = Connection(f"https://127.0.0.1:{port}", "my.kubeconfig", tls, **options)
            async with ApiClient(connection) as client:
                return await client.request("GET", "/")

    return asyncio.run(main())


def trusting(authority: Path, **own: Path) -> ClientTls:
    return ClientTls("test", authority=authority / "cert.pem", **own)


def test_server_with_a_trusted_authority(authority: Path) -> None:
    assert ask(authority, trusting(authority)) == b""


def test_a_client_certificate_is_shown(authority: Path) -> None:
    tls = trusting(authority, certificate=authority / "cert.pem", key=authority / "key.pem")
    assert ask(authority, tls) == b"test"


def test_unknown_authority_is_a_user_error(authority: Path) -> None:
    with pytest.raises(InputError, match="is not trusted: self"):
        ask(authority, ClientTls("test"))


def test_a_certificate_for_another_name_is_rejected(authority: Path) -> None:
    with pytest.raises(InputError, match="not valid for 'elsewhere'"):
        ask(authority, trusting(authority), server_name="elsewhere")


def test_verification_can_be_switched_off(authority: Path) -> None:
    assert ask(authority, ClientTls("test", verifies=False), server_name="elsewhere") == b""


def test_keys_are_not_written_to_disk_if_possible(authority: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"certificate": authority / "cert.pem", "key": authority / "key.pem"}
    monkeypatch.delattr(os, "memfd_create", raising=False)
    assert ask(authority, trusting(authority, **own)) == b"test", "elsewhere a temporary file does"


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an invalid authority": ({"authority": b"hello"}, "the certificate authority cannot be used"),
    "an invalid certificate": ({"certificate": b"hello", "key": b"hello"}, "certificate and its key cannot"),
    "a missing file": ({"authority": Path("gone.pem")}, "gone.pem: the file does not exist"),
    "an empty file": ({"authority": Path("empty.pem")}, "is empty"),
}


@pytest.mark.parametrize(("pems", "message"), BAD.values(), ids=BAD)
def test_invalid_certificates_are_rejected(
    pems: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.pem").touch()
    with pytest.raises(InputError, match=message):
        ClientTls("test", **pems)


def make_client_context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


def asked(context: ssl.SSLContext, tls: ClientTls, **options: Any) -> bytes:
    async def main() -> bytes:
        async with serving(serve, ssl=context) as port:
            connection = Connection(f"https://127.0.0.1:{port}", "my.kubeconfig", tls, **options)
            async with ApiClient(connection) as client:
                return await client.request("GET", "/")

    return asyncio.run(main())


def test_no_identifier_of_the_authoritys_key_is_needed(tmp_path: Path) -> None:
    """Python 3.13 by default rejects such certificates; Go, and so client-go, takes them."""
    authority = Authority.create_in(tmp_path)
    context = make_client_context(authority.issue("server", hosts=("127.0.0.1",)))
    assert asked(context, ClientTls("test", authority=authority.pem)) == b""


def test_an_authority_need_not_be_a_root(tmp_path: Path) -> None:
    middle = Authority.create_in(tmp_path / "root", "root").authority(tmp_path / "middle", "middle")
    context = make_client_context(middle.issue("server", hosts=("127.0.0.1",)))
    assert asked(context, ClientTls("test", authority=middle.pem)) == b""


def test_server_certificate_is_accepted_as_its_authority(tmp_path: Path) -> None:
    files = Authority.create_in(tmp_path).issue("server", hosts=("127.0.0.1",))
    assert asked(make_client_context(files), ClientTls("test", authority=files[0])) == b""


def test_subject_common_name_is_ignored(tmp_path: Path) -> None:
    authority = Authority.create_in(tmp_path)
    context = make_client_context(authority.issue("api.example"))
    with pytest.raises(InputError, match="is not trusted"):
        asked(context, ClientTls("test", authority=authority.pem), server_name="api.example")


def test_authority_with_the_same_name_is_not_trusted(tmp_path: Path) -> None:
    trusted, untrusted = (Authority.create_in(tmp_path / name) for name in ("ours", "theirs"))
    context = make_client_context(untrusted.issue("server", hosts=("127.0.0.1",)))
    with pytest.raises(InputError, match="is not trusted"):
        asked(context, ClientTls("test", authority=trusted.pem))
