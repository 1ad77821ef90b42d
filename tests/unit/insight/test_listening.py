"""Addresses beyond this machine need tokens and a certificate."""

import asyncio
import ssl
from pathlib import Path

import pytest

from moorage.common.errors import InputError
from moorage.insight.listening import ListenOptions
from moorage.kube.http.messages import HttpService, Reply
from moorage.kube.http.server import HttpServer
from moorage.scheduler.daemon.serving.tls import self_signed


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    certificate, key = self_signed()
    contents = {"token_file": b"one\n", "cert_file": certificate, "key_file": key}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return {name: tmp_path / name for name in contents}


INCOMPLETE = {
    "nothing": ((), "no --token-file and --tls-cert-file"),
    "tokens only": (("token_file",), "no --tls-cert-file"),
    "a certificate only": (("cert_file", "key_file"), "no --token-file"),
    "a certificate without its key": (("token_file", "cert_file"), "the certificate or its key is missing"),
}


@pytest.mark.parametrize(("names", "problem"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_public_address_needs_tokens_and_tls(files: dict[str, Path], names: tuple[str, ...], problem: str) -> None:
    given = {name: files[name] if name in names else None for name in files}
    with pytest.raises(InputError, match=problem):
        ListenOptions.read("0.0.0.0", 0, **given)


def test_service_with_a_certificate_uses_tls(files: dict[str, Path]) -> None:
    async def main() -> None:
        server = HttpServer(HttpService(lambda _: Reply(200, b"ok"), lambda status, _: Reply(status, b""), lambda _: 0))
        url = await ListenOptions.read("127.0.0.1", 0, **files).listen(server)
        assert url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=files["cert_file"])
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), ssl=context)
        writer.write(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()
        await server.stop(0)

    asyncio.run(main())
