"""TLS: whom we trust, what we say of whom we do not, and who we are by certificate."""

import asyncio
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.support.tcp import serving

from moorage.client.kubeconfig import Connection
from moorage.client.rest import ApiClient
from moorage.errors import InputError
from moorage.http.tls import ClientTls


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with the name in the client's certificate, if it shows one."""
    while True:
        await reader.readuntil(b"\r\n\r\n")
        certificate = writer.get_extra_info("peercert") or {"subject": ()}
        name = "".join(value for part in certificate["subject"] for _, value in part).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(name), name))


def ask(authority: Path, tls: ClientTls, **options: Any) -> bytes:
    """Read from a server that asks for a client certificate."""
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


def test_a_server_whose_authority_we_know(authority: Path) -> None:
    assert ask(authority, trusting(authority)) == b""


def test_a_client_certificate_is_shown(authority: Path) -> None:
    tls = trusting(authority, certificate=authority / "cert.pem", key=authority / "key.pem")
    assert ask(authority, tls) == b"test"


def test_an_unknown_authority_is_for_the_user_to_mend(authority: Path) -> None:
    with pytest.raises(InputError, match="is not trusted: self"):
        ask(authority, ClientTls("test"))


def test_a_certificate_for_another_name_is_refused(authority: Path) -> None:
    with pytest.raises(InputError, match="not valid for 'elsewhere'"):
        ask(authority, trusting(authority), server_name="elsewhere")


def test_verification_can_be_switched_off(authority: Path) -> None:
    assert ask(authority, ClientTls("test", verifies=False), server_name="elsewhere") == b""


def test_keys_are_kept_off_the_disk_where_that_is_possible(authority: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"certificate": authority / "cert.pem", "key": authority / "key.pem"}
    monkeypatch.delattr(os, "memfd_create", raising=False)
    assert ask(authority, trusting(authority, **own)) == b"test", "elsewhere a temporary file does"


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an authority that is none": ({"authority": b"hello"}, "the certificate authority cannot be used"),
    "a certificate that is none": ({"certificate": b"hello", "key": b"hello"}, "certificate and its key cannot"),
    "a file that is not there": ({"authority": Path("gone.pem")}, "gone.pem cannot be read: No such file"),
    "a file with nothing in it": ({"authority": Path(os.devnull)}, "is empty"),
}


@pytest.mark.parametrize(("pems", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_used(pems: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ClientTls("test", **pems)
