"""Client identity on a real TLS server: all credential types of a kubeconfig, and their rotation."""

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.api_over_tls import ApiOverTls, data, write_kubeconfig
from tests.support.certificates import Authority

from moorage.common.clock import VirtualClock
from moorage.common.errors import InputError, Unauthorized
from moorage.kube.client import credentials
from moorage.kube.client.kubeconfig import Connection, in_cluster, load_connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.http import pool as pools

V1 = "client.authentication.k8s.io/v1"
User = Callable[[Path, Authority], dict[str, Any]]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create_in(tmp_path / "ca")


def serve(server: ApiOverTls, use: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with server.running():
            await use()

    asyncio.run(main())


def connected(directory: Path, server: ApiOverTls, user: Any = None, clock: VirtualClock | None = None) -> Connection:
    cluster = {"server": server.url, "certificate-authority": str(server.authority.file)}
    path = write_kubeconfig(directory, cluster=cluster, user=user)
    return load_connection(str(path), environ={}, clock=clock or VirtualClock())


def inline(_directory: Path, authority: Authority) -> dict[str, Any]:
    certificate, key = authority.issue("joe")
    return {"client-certificate-data": data(certificate), "client-key-data": data(key)}


def beside(directory: Path, authority: Authority) -> dict[str, Any]:
    for file, name in zip(authority.issue("joe"), ("joe.crt", "joe.key"), strict=True):
        shutil.copy(file, directory / name)
    return {"client-certificate": "joe.crt", "client-key": "joe.key"}


def half_inline(directory: Path, authority: Authority) -> dict[str, Any]:
    beside(directory, authority)
    return {"client-certificate": "joe.crt", "client-key-data": data(directory / "joe.key")}


def token_file(directory: Path, _authority: Authority) -> dict[str, Any]:
    (directory / "token").write_text("from-file\n")
    return {"token": "unused", "tokenFile": "token"}


def program(
    directory: Path, status: str, *, kind: str = "ExecCredential", version: str = V1, **more: Any
) -> dict[str, Any]:
    """Have a program print a status, whose number of runs is in the file ``runs``."""
    path = directory / "login"
    body = f'{{"apiVersion":"{version}","kind":"{kind}","status":{status}}}'
    path.write_text(f"#!/bin/sh\ncd {directory}\necho >> runs\nN=$(wc -l < runs)\ncat <<END\n{body}\nEND\n")
    path.chmod(0o755)
    return {"exec": {"apiVersion": V1, "command": "./login", "interactiveMode": "Never", **more}}


def runs(directory: Path) -> int:
    return len((directory / "runs").read_text().splitlines())


def program_with_certificate(directory: Path, authority: Authority) -> dict[str, Any]:
    certificate, key = (path.read_text().replace("\n", "\\n") for path in authority.issue("exec-joe"))
    return program(directory, f'{{"clientCertificateData":"{certificate}","clientKeyData":"{key}"}}')


KINDS: dict[str, tuple[User, str, str]] = {
    "no credentials": (lambda _directory, _ca: {}, "", ""),
    "a certificate in the file": (inline, "", "joe"),
    "a certificate in a neighboring file": (beside, "", "joe"),
    "a certificate in a neighboring file with an inline key": (half_inline, "", "joe"),
    "a token": (lambda _directory, _ca: {"token": "t"}, "Bearer t", ""),
    "a token in a file, which wins": (token_file, "Bearer from-file", ""),
    "a password": (lambda _directory, _ca: {"username": "joe", "password": "pw"}, "Basic am9lOnB3", ""),
    "a program's token": (lambda directory, _ca: program(directory, '{"token":"t$N"}'), "Bearer t1", ""),
    "a program's certificate": (program_with_certificate, "", "exec-joe"),
    "a token, though there is a program": (
        lambda directory, _ca: {"token": "t", **program(directory, '{"token":"unused"}')},
        "Bearer t",
        "",
    ),
}


@pytest.mark.parametrize(("user", "header", "certificate"), KINDS.values(), ids=KINDS)
def test_every_kind(tmp_path: Path, authority: Authority, user: User, header: str, certificate: str) -> None:
    server = ApiOverTls(authority)

    async def use() -> None:
        async with ApiClient(connected(tmp_path, server, user(tmp_path, authority))) as client:
            assert await client.request("GET", "/api") == b"{}"

    serve(server, use)
    assert [(visit.authorization, visit.certificate) for visit in server.visits] == [(header, certificate)]


def test_impersonation(tmp_path: Path, authority: Authority) -> None:
    server = ApiOverTls(authority)
    user = {"token": "t", "as": "joe", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"ex/ample": ["x"]}}

    async def use() -> None:
        async with ApiClient(connected(tmp_path, server, user)) as client:
            await client.request("GET", "/api")

    serve(server, use)
    (visit,) = server.visits
    assert visit.authorization == "Bearer t"
    assert [header for header in visit.headers if header[0].startswith("Impersonate")] == [
        ("Impersonate-User", "joe"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-ex%2Fample", "x"),
    ]


def test_tls_server_name_is_sent_and_verified(tmp_path: Path, authority: Authority) -> None:
    server = ApiOverTls(authority)

    async def use() -> None:
        cluster = {"server": server.url, "certificate-authority-data": data(authority.pem)}
        for name in ("api.example", "elsewhere.example"):
            path = write_kubeconfig(tmp_path, cluster={**cluster, "tls-server-name": name})
            async with ApiClient(load_connection(str(path), environ={})) as client:
                if name == "api.example":
                    await client.request("GET", "/api")
                else:
                    with pytest.raises(InputError, match=r"not valid for 'elsewhere\.example'"):
                        await client.request("GET", "/api")

    serve(server, use)
    assert server.names == ["api.example", "elsewhere.example"]


def test_unknown_authority_is_rejected_unless_verification_is_off(tmp_path: Path, authority: Authority) -> None:
    server = ApiOverTls(authority)

    async def use() -> None:
        for insecure in (False, True):
            path = write_kubeconfig(tmp_path, cluster={"server": server.url, "insecure-skip-tls-verify": insecure})
            async with ApiClient(load_connection(str(path), environ={})) as client:
                if insecure:
                    await client.request("GET", "/api")
                else:
                    with pytest.raises(InputError, match="is not trusted"):
                        await client.request("GET", "/api")

    serve(server, use)
    assert len(server.visits) == 1


def test_credential_program_is_rerun_when_its_token_expires(tmp_path: Path, authority: Authority) -> None:
    server, clock = ApiOverTls(authority), VirtualClock()
    user = program(tmp_path, '{"token":"t$N","expirationTimestamp":"2026-01-01T01:00:00Z"}')

    async def use() -> None:
        async with ApiClient(connected(tmp_path, server, user, clock), clock=clock) as client:
            for _ in range(2):
                await client.request("GET", "/api")
            clock.advance(3600)
            await client.request("GET", "/api")

    serve(server, use)
    assert [visit.authorization for visit in server.visits[:3]] == ["Bearer t1", "Bearer t1", "Bearer t2"]


def test_a_rejected_token_is_replaced_once(tmp_path: Path, authority: Authority) -> None:
    server = ApiOverTls(authority, refuses=lambda visit: visit.authorization == "Bearer t1")
    user = program(tmp_path, '{"token":"t$N"}')

    async def use() -> None:
        async with ApiClient(connected(tmp_path, server, user)) as client:
            await client.request("GET", "/api")

    serve(server, use)
    assert [visit.authorization for visit in server.visits] == ["Bearer t1", "Bearer t2"]
    assert runs(tmp_path) == 2


def test_second_rejection_of_credentials_is_an_error(tmp_path: Path, authority: Authority) -> None:
    server = ApiOverTls(authority, refuses=lambda _visit: True)
    user = program(tmp_path, '{"token":"t$N"}')

    async def use() -> None:
        async with ApiClient(connected(tmp_path, server, user)) as client:
            with pytest.raises(Unauthorized, match="rejected the credentials"):
                await client.request("GET", "/api")

    serve(server, use)
    assert len(server.visits) == 2


def test_a_rejected_certificate_of_a_program_is_replaced_on_a_new_connection(
    tmp_path: Path, authority: Authority
) -> None:
    server = ApiOverTls(authority)
    user = program_with_certificate(tmp_path, authority)

    async def use() -> None:
        async with ApiClient(connected(tmp_path, server, user)) as client:
            await client.request("GET", "/api")
            server.refuses = lambda visit: visit.certificate == "exec-joe"
            certificate, key = (path.read_text().replace("\n", "\\n") for path in authority.issue("jane"))
            program(tmp_path, f'{{"clientCertificateData":"{certificate}","clientKeyData":"{key}"}}')
            await client.request("GET", "/api")

    serve(server, use)
    assert [(visit.certificate, visit.connection) for visit in server.visits] == [
        ("exec-joe", 1),
        ("exec-joe", 1),
        ("jane", 2),
    ]


def test_a_token_file_that_rotates_is_reloaded(tmp_path: Path, authority: Authority) -> None:
    server, clock = ApiOverTls(authority), VirtualClock()

    async def use() -> None:
        user = token_file(tmp_path, authority)
        async with ApiClient(connected(tmp_path, server, user, clock), clock=clock) as client:
            await client.request("GET", "/api")
            (tmp_path / "token").write_text("rotated")
            await client.request("GET", "/api")
            clock.advance(61)
            await client.request("GET", "/api")
            (tmp_path / "token").unlink()
            clock.advance(61)
            await client.request("GET", "/api")

    serve(server, use)
    tokens = [visit.authorization.removeprefix("Bearer ") for visit in server.visits]
    assert tokens == ["from-file", "from-file", "rotated", "rotated"], "a file that is gone leaves the last token"


def test_a_certificate_that_rotates_is_shown_on_new_connections(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "SWEEP_SECONDS", 0.01)
    monkeypatch.setattr(pools, "REFRESH_SECONDS", 0.0)
    server = ApiOverTls(authority)

    async def use() -> None:
        user = beside(tmp_path, authority)
        async with ApiClient(connected(tmp_path, server, user)) as client:
            await client.request("GET", "/api")
            (tmp_path / "joe.crt").write_text("half of a certi")
            await asked_until(client, lambda: len(server.visits) >= 3)
            rotated = authority.issue("jane")
            shutil.copy(rotated[1], tmp_path / "joe.key")
            shutil.copy(rotated[0], tmp_path / "joe.crt")
            await asked_until(client, lambda: server.visits[-1].certificate == "jane")

    serve(server, use)
    before = [visit for visit in server.visits if visit.certificate == "joe"]
    assert {visit.connection for visit in before} == {1}, "what cannot be used yet changes nothing"
    assert server.visits[-1].connection == 2


async def asked_until(client: ApiClient, is_enough: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_enough():
            await client.request("GET", "/api")
            await asyncio.sleep(0.01)


def test_in_a_pod_token_and_authority_rotate(tmp_path: Path, authority: Authority) -> None:
    server, clock, next_authority = ApiOverTls(authority), VirtualClock(), Authority.create_in(tmp_path / "next")
    (tmp_path / "token").write_text("first")
    (tmp_path / "ca.crt").write_bytes(authority.pem)

    async def use() -> None:
        port = server.url.rpartition(":")[2]
        env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
        connection = in_cluster(tmp_path, env, clock)
        async with ApiClient(connection, clock=clock) as client, ApiClient(connection, clock=clock) as second_client:
            await client.request("GET", "/api")
            server.use_certificate_of(next_authority)
            (tmp_path / "ca.crt").write_bytes(next_authority.pem)
            (tmp_path / "token").write_text("second")
            clock.advance(61)
            await second_client.request("GET", "/api")
            await client.request("GET", "/api")

    serve(server, use)
    assert [(visit.authorization, visit.connection) for visit in server.visits] == [
        ("Bearer first", 1),
        ("Bearer second", 2),
        ("Bearer second", 3),
    ], "whom we trust has changed, so the first connection is not used again"


def test_files_of_several_directories_resolve_relative_paths(tmp_path: Path, authority: Authority) -> None:
    server = ApiOverTls(authority)

    async def use() -> None:
        clusters, users = tmp_path / "clusters", tmp_path / "users"
        clusters.mkdir()
        users.mkdir()
        shutil.copy(authority.file, clusters / "ca.pem")
        cluster = {"server": server.url, "certificate-authority": "ca.pem"}
        first = write_kubeconfig(clusters, cluster=cluster, users=[], contexts=[])
        second = write_kubeconfig(users, cluster={"server": "https://never"}, user=beside(users, authority))
        files = os.pathsep.join((str(tmp_path / "missing"), str(first), str(second)))
        async with ApiClient(load_connection(environ={"KUBECONFIG": files})) as client:
            await client.request("GET", "/api")

    serve(server, use)
    assert [visit.certificate for visit in server.visits] == ["joe"]


def test_credential_program_of_the_wrong_version_is_reported(tmp_path: Path, authority: Authority) -> None:
    server = ApiOverTls(authority)

    async def use() -> None:
        user = program(tmp_path, '{"token":"t"}', version="client.authentication.k8s.io/v1beta1")
        async with ApiClient(connected(tmp_path, server, user)) as client:
            with pytest.raises(Unauthorized, match=f"not an ExecCredential of {V1}"):
                await client.request("GET", "/api")

    serve(server, use)


def script(directory: Path, text: str) -> dict[str, Any]:
    path = directory / "login"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return {"exec": {"apiVersion": V1, "command": "./login", "interactiveMode": "Never"}}


def refusal(directory: Path, authority: Authority, user: dict[str, Any]) -> str:
    """Return the error message for the credentials of a program."""
    server = ApiOverTls(authority)
    messages: list[str] = []

    async def use() -> None:
        async with ApiClient(connected(directory, server, user)) as client:
            with pytest.raises(Unauthorized) as raised:
                await client.request("GET", "/api")
            messages.append(str(raised.value))

    serve(server, use)
    assert server.visits == []
    return messages[0]


EXPIRIES = (
    "soon",
    "2026-13-01T00:00:00Z",
    "2026-01-01",
    "9" * 5000,
    "0000-00-00T00:00:00Z",
    "2026-01-01T00:00:00+99:99",
)


@pytest.mark.parametrize("text", EXPIRIES, ids=lambda text: text[:20])
def test_invalid_expiry_is_one_clear_error(tmp_path: Path, authority: Authority, text: str) -> None:
    user = program(tmp_path, f'{{"token":"t","expirationTimestamp":"{text}"}}')
    message = refusal(tmp_path, authority, user)
    assert "login: printed an invalid expirationTimestamp" in message
    assert len(message) < 500


def states_of_group(group: int) -> list[str]:
    states = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of = stat.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group:
                states.append(state)
    return states


SLOW = {
    "one that sleeps": "sleep 600",
    "one that prints and sleeps": "echo '{}'; sleep 600",
    "one with a child that holds the pipe": "(sleep 600) & echo '{}'",
    "one that never stops to print": "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done",
}


@pytest.mark.parametrize("text", SLOW.values(), ids=SLOW)
def test_slow_program_is_killed(
    tmp_path: Path, authority: Authority, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "EXEC_SECONDS", 1.0)
    message = refusal(tmp_path, authority, script(tmp_path, f"echo $$ > {tmp_path}/pid\n{text}"))
    assert "did not end within 1 s and was killed" in message
    group = int((tmp_path / "pid").read_text())
    # SIGKILL has been sent, but the kernel needs a moment to end processes on another core.
    patience = time.monotonic() + 300
    while (states := states_of_group(group)) and set(states) != {"Z"} and time.monotonic() < patience:
        time.sleep(0.01)
    assert set(states) <= {"Z"}, "nothing that it started runs on"


def test_long_error_output_is_truncated(tmp_path: Path, authority: Authority) -> None:
    message = refusal(tmp_path, authority, script(tmp_path, "head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 3"))
    assert "exited with code 3: xxx" in message
    assert len(message) < 3000
