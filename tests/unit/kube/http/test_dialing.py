"""Ways to a server through proxies of every kind, on both event loops."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.support.api_over_tls import ApiOverTls
from tests.support.certificates import Authority
from tests.support.proxies import HttpProxy, SocksProxy
from tests.support.tcp import serving

from moorage.common.errors import InputError, Unreachable
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.http.tls import ClientTls

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def on_loop(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main)

    return on_loop


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.made_in(tmp_path / "ca")


async def through(authority: Authority, proxy: str, use: Callable[[ApiClient, ApiOverTls], Awaitable[None]]) -> None:
    """Talk to an HTTPS server by a name that only the proxy can look up."""
    async with ApiOverTls(authority).running() as server:
        url = server.url.replace("127.0.0.1", "api.example")
        tls = ClientTls("test", authority=authority.pem)
        async with ApiClient(Connection(url, "test", tls, proxy=proxy)) as client:
            await use(client, server)


async def ask_twice(client: ApiClient, server: ApiOverTls) -> None:
    assert await client.request("GET", "/one") == b"{}"
    assert await client.request("POST", "/two", b"body") == b"{}"
    assert [visit.connection for visit in server.visits] == [1, 1]


def test_later_connections_resume_the_session_of_the_first(run: Run, authority: Authority) -> None:
    async def main() -> None:
        async with ApiOverTls(authority).running() as server:
            tls = ClientTls("test", authority=authority.pem)
            async with ApiClient(Connection(server.url, "test", tls)) as client:
                await client.request("GET", "/first")
                await asyncio.gather(*(client.request("GET", f"/{number}") for number in range(3)))
                assert [visit.is_resumed for visit in server.visits if visit.connection > 1] == [True, True]
                # A new identity from now on proves that.
                certificate, key = authority.issue("somebody")
                tls.show(Path(certificate).read_text(), Path(key).read_text())
                await client.request("GET", "/as-somebody")
                assert (server.visits[-1].certificate, server.visits[-1].is_resumed) == ("somebody", False)

    run(main())


def test_a_tunnel(run: Run, authority: Authority) -> None:
    async def main() -> None:
        async with HttpProxy().running() as proxy:
            await through(authority, f"http://joe:s%40crt@127.0.0.1:{proxy.port}", ask_twice)
        (head,) = proxy.asked
        assert head.startswith("CONNECT api.example:")
        assert "Proxy-Authorization: Basic am9lOnNAY3J0\r\n" in head

    run(main())


def test_a_tunnel_in_a_tunnel(run: Run, authority: Authority) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("proxy", hosts=("127.0.0.1",)))

    async def main() -> None:
        async with HttpProxy(tls=context).running() as proxy:
            await through(authority, f"https://127.0.0.1:{proxy.port}", ask_twice)
        assert len(proxy.asked) == 1

    run(main())


def test_a_proxy_whose_certificate_is_not_trusted(run: Run, authority: Authority, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*Authority.made_in(tmp_path / "other").issue("proxy", hosts=("127.0.0.1",)))

    async def refused(client: ApiClient, _server: ApiOverTls) -> None:
        with pytest.raises(InputError, match="is not trusted"):
            await client.request("GET", "/")

    async def main() -> None:
        async with HttpProxy(tls=context).running() as proxy:
            await through(authority, f"https://127.0.0.1:{proxy.port}", refused)

    run(main())


@pytest.mark.parametrize("user", ["", "joe"])
def test_socks(run: Run, authority: Authority, user: str) -> None:
    async def main() -> None:
        async with SocksProxy(user=user, password="s@crt" if user else "").running() as proxy:
            login = "joe:s%40crt@" if user else ""
            await through(authority, f"socks5://{login}127.0.0.1:{proxy.port}", ask_twice)
        assert [head.partition(":")[0] for head in proxy.asked] == ["api.example"], "the proxy looks names up"

    run(main())


REFUSALS: dict[str, tuple[HttpProxy | SocksProxy, str, str]] = {
    "a proxy that requires a password": (
        HttpProxy("407 Proxy Authentication Required"),
        "http",
        "returned status 407",
    ),
    "a proxy that hangs up": (HttpProxy("hang up"), "http", "closed the connection"),
    "a SOCKS proxy that requires a password": (
        SocksProxy("joe", "pw"),
        "socks5",
        "the proxy socks5://127.0.0.1:.* refused",
    ),
    "a SOCKS proxy that refuses": (SocksProxy(refuses=True), "socks5", "the proxy socks5://127.0.0.1:.* refused"),
}


@pytest.mark.parametrize(("proxy", "scheme", "message"), REFUSALS.values(), ids=REFUSALS)
def test_a_proxy_that_refuses_is_named(
    authority: Authority, proxy: HttpProxy | SocksProxy, scheme: str, message: str
) -> None:
    async def refused(client: ApiClient, _server: ApiOverTls) -> None:
        with pytest.raises(Unreachable, match=message) as raised:
            await client.request("POST", "/", b"body")
        assert not raised.value.was_sent, "it is safe to try again"

    async def main() -> None:
        async with proxy.running():
            await through(authority, f"{scheme}://127.0.0.1:{proxy.port}", refused)

    asyncio.run(main())


def test_unreachable_proxy(authority: Authority) -> None:
    async def refused(client: ApiClient, _server: ApiOverTls) -> None:
        with pytest.raises(Unreachable, match="no connection"):
            await client.request("GET", "/")

    for scheme in ("http", "socks5"):
        asyncio.run(through(authority, f"{scheme}://127.0.0.1:1", refused))


def test_plain_http_is_forwarded(run: Run) -> None:
    lines: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            lines.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async def main() -> None:
        async with serving(serve) as port, HttpProxy().running() as proxy:
            server, by = f"http://plain.example:{port}", f"http://joe:pw@127.0.0.1:{proxy.port}"
            async with ApiClient(Connection(server, "test", proxy=by)) as client:
                assert await client.request("GET", "/one") == b"{}"
                async with client.stream("/two?watch=true") as answer:
                    assert [piece async for piece in answer] == [b"{}"]
            expected = [f"GET {server}/{path} HTTP/1.1".encode() for path in ("one", "two?watch=true")]
            assert lines == expected
            assert all("Proxy-Authorization: Basic am9lOnB3\r\n" in head for head in proxy.asked)

    run(main())
