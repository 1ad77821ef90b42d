"""TLS: whom we trust, what we say of whom we do not, and who we are by certificate."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.support.tcp import serving

from moorage.client.certificates import load_client_certificate_files, trusting_context, verifying_context
from moorage.client.kubeconfig import Connection
from moorage.client.rest import ApiClient
from moorage.errors import InputError


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with the name in the client's certificate, if it shows one."""
    while True:
        await reader.readuntil(b"\r\n\r\n")
        certificate = writer.get_extra_info("peercert") or {"subject": ()}
        name = "".join(value for part in certificate["subject"] for _, value in part).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(name), name))


def ask(authority: Path, tls: ssl.SSLContext, **options: Any) -> bytes:
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


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.transport.abort()


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_tls_goes_through_a_proxy(authority: Path, loop_factory: Any) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "cert.pem", authority / "key.pem")

    async def main() -> bytes:
        async with serving(serve, ssl=context) as port:

            async def connect_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
                finally:
                    far_writer.transport.abort()

            async with serving(connect_on) as proxy_port:
                proxy = f"http://127.0.0.1:{proxy_port}"
                connection = Connection(f"https://127.0.0.1:{port}", "test", trusting(authority), proxy=proxy)
                async with ApiClient(connection) as client:
                    await client.request("GET", "/")
                    return await client.request("GET", "/again")

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(main()) == b""


def trusting(authority: Path) -> ssl.SSLContext:
    return verifying_context("test", ca_file=authority / "cert.pem")


def test_a_server_whose_authority_we_know(authority: Path) -> None:
    assert ask(authority, trusting(authority)) == b""


def test_a_client_certificate_is_shown(authority: Path) -> None:
    tls = trusting(authority)
    load_client_certificate_files(tls, authority / "cert.pem", authority / "key.pem")
    assert ask(authority, tls) == b"test"


def test_an_unknown_authority_is_for_the_user_to_mend(authority: Path) -> None:
    with pytest.raises(InputError, match="is not trusted: self"):
        ask(authority, verifying_context("test"))


def test_a_certificate_for_another_name_is_refused(authority: Path) -> None:
    with pytest.raises(InputError, match="not valid for 'elsewhere'"):
        ask(authority, trusting(authority), server_name="elsewhere")


def test_verification_can_be_switched_off(authority: Path) -> None:
    assert ask(authority, trusting_context(), server_name="elsewhere") == b""
