"""Server address and identity: all credential types, and errors for invalid files."""

import asyncio
import base64
import json
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.common.clock import VirtualClock
from moorage.common.errors import InputError, Unauthorized
from moorage.kube.client.credentials import ExecCredentials, TokenFile
from moorage.kube.client.kubeconfig import Connection, in_cluster, is_json, load_connection


def write(directory: Path, *, cluster: Any = None, user: Any = None, name: str = "config", **top: Any) -> Path:
    content = {
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    } | top
    path = directory / name
    path.write_text(yaml.safe_dump(content))
    return path


def load(path: Path, **options: Any) -> Connection:
    return load_connection(str(path), environ={}, clock=VirtualClock(), **options)


def header(connection: Connection) -> str:
    return asyncio.run(connection.credentials.renew())


def test_a_context_names_server_and_user(tmp_path: Path) -> None:
    connection = load(write(tmp_path, user={"token": "t1"}))
    assert (connection.server, connection.namespace) == ("https://10.0.0.1:6443", "shop")
    assert header(connection) == "Bearer t1"
    assert connection.tls is not None
    assert connection.tls.context.verify_mode == ssl.CERT_REQUIRED
    assert connection.tls.context.check_hostname


def test_master_replaces_the_server(tmp_path: Path) -> None:
    assert load(write(tmp_path), master="https://other:1/").server == "https://other:1"


def test_tls_server_name_is_dropped_for_another_server(tmp_path: Path) -> None:
    path = write(tmp_path, cluster={"tls-server-name": "real.name"})
    assert load(path, master="https://other:1").server_name == ""


def test_master_address_needs_no_file() -> None:
    connection = load_connection(master="http://127.0.0.1:8080", environ={})
    assert (connection.server, connection.tls) == ("http://127.0.0.1:8080", None)


def test_verification_can_be_disabled(tmp_path: Path) -> None:
    connection = load(write(tmp_path, cluster={"insecure-skip-tls-verify": True}))
    assert connection.tls is not None
    assert connection.tls.context.verify_mode == ssl.CERT_NONE


def test_certificates_inline_or_in_files(tmp_path: Path, authority: Path) -> None:
    def data(name: str) -> str:
        return base64.b64encode((authority / name).read_bytes()).decode()

    inside = write(
        tmp_path,
        name="inside",
        cluster={"certificate-authority-data": data("cert.pem"), "tls-server-name": "real.name"},
        user={"client-certificate-data": data("cert.pem"), "client-key-data": data("key.pem")},
    )
    beside = write(
        authority,
        cluster={"certificate-authority": "cert.pem"},
        user={"client-certificate": "cert.pem", "client-key": "key.pem"},
    )
    for path in (inside, beside):
        tls = load(path).tls
        assert tls is not None
        assert [dict(part[0] for part in certificate["subject"]) for certificate in tls.context.get_ca_certs()] == [
            {"commonName": "test"}
        ]
    assert load(inside).server_name == "real.name"


def test_a_token_file_is_reloaded_after_a_minute(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    connection = load(write(tmp_path, user={"tokenFile": "token"}))
    clock = VirtualClock()
    assert header(connection) == "Bearer first"
    assert connection.credentials.expires_at == clock.now() + 60
    (tmp_path / "token").write_text("second\n")
    assert header(connection) == "Bearer second"


def test_service_account_is_used_in_a_pod(tmp_path: Path, authority: Path) -> None:
    for name, text in (("token", "sa"), ("namespace", "kube-system"), ("ca.crt", (authority / "cert.pem").read_text())):
        (tmp_path / name).write_text(text)
    env = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    connection = in_cluster(tmp_path, env, VirtualClock())
    assert (connection.server, connection.namespace) == ("https://[fd00::1]:443", "kube-system")
    assert isinstance(connection.credentials, TokenFile)
    assert header(connection) == "Bearer sa"


def test_a_user_name_and_a_password(tmp_path: Path) -> None:
    assert header(load(write(tmp_path, user={"username": "joe", "password": "pw"}))) == "Basic am9lOnB3"


def test_impersonation_becomes_headers(tmp_path: Path) -> None:
    user = {"as": "joe", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"ex/ample": ["x", "z"]}}
    assert load(write(tmp_path, user=user)).headers == (
        ("Impersonate-User", "joe"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-ex%2Fample", "x"),
        ("Impersonate-Extra-ex%2Fample", "z"),
    )


def test_a_proxy_is_the_clusters_or_the_environments(tmp_path: Path) -> None:
    def proxy(cluster: dict[str, str], **environ: str) -> str:
        return load_connection(str(write(tmp_path, cluster=cluster)), environ=environ).proxy

    assert proxy({}) == ""
    assert proxy({"proxy-url": "http://p:3128"}, HTTPS_PROXY="http://env:8080", NO_PROXY="*") == "http://p:3128"
    assert proxy({}, HTTPS_PROXY="http://env:8080") == "http://env:8080"
    assert load_connection(master="https://10.0.0.1", environ={"HTTPS_PROXY": "http://env:1"}).proxy == "http://env:1"


def test_several_files_are_merged_and_the_first_value_wins(tmp_path: Path) -> None:
    first = write(tmp_path, name="first", users=[], clusters=[{"name": "c", "cluster": {"server": "https://first"}}])
    second = write(tmp_path, name="second", user={"token": "from-second"})
    files = os.pathsep.join((str(tmp_path / "missing"), str(first), str(second)))
    connection = load_connection(environ={"KUBECONFIG": files})
    assert connection.server == "https://first"
    assert header(connection) == "Bearer from-second"


def plugin(directory: Path, script: str) -> None:
    path = directory / "login"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def exec_user(**more: Any) -> dict[str, Any]:
    defaults = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login", "interactiveMode": "Never"}
    return {"exec": defaults | more}


def test_credential_program_gets_cluster_info_and_returns_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credential = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":'
    status = '{"token":"\'$1-$WHO\'","expirationTimestamp":"2026-01-01T01:00:00Z"}}'
    plugin(tmp_path, f"echo \"$KUBERNETES_EXEC_INFO\" > info\necho '{credential}{status}'")
    user = exec_user(args=["arg"], env=[{"name": "WHO", "value": "me"}], provideClusterInfo=True)
    own = {"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}}
    connection = load(write(tmp_path, user=user, cluster={"extensions": [own]}))
    assert isinstance(connection.credentials, ExecCredentials)
    monkeypatch.chdir(tmp_path)
    assert header(connection) == "Bearer arg-me"
    assert connection.credentials.expires_at == VirtualClock().now() + 3600
    info = yaml.safe_load((tmp_path / "info").read_text())
    assert info["spec"] == {"interactive": False, "cluster": {"server": "https://10.0.0.1:6443", "config": {"a": 1}}}


def printing(status: str) -> str:
    return f'echo \'{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}\''


BAD_PLUGINS = {
    "a program that fails": ("echo oops >&2; exit 3", Unauthorized, "exited with code 3: oops"),
    "a program that prints rubbish": ("echo hello", Unauthorized, "not an ExecCredential"),
    "a program that prints something else": ('echo \'{"kind":"Pod"}\'', Unauthorized, "printed nothing Pod, not an"),
    "a program that prints nothing useful": (printing("{}"), Unauthorized, "neither a token nor"),
    "a program that prints no status": (printing("null"), Unauthorized, "neither a token nor"),
    "a certificate without its key": (printing('{"clientCertificateData":"x"}'), Unauthorized, "only a client cert"),
    "a token of two lines": (printing('{"token":"a\\\\nb"}'), InputError, "line break"),
    "an invalid certificate": (
        printing('{"clientCertificateData":"x","clientKeyData":"y"}'),
        InputError,
        "certificate and its key cannot be used",
    ),
}


@pytest.mark.parametrize(("script", "error", "message"), BAD_PLUGINS.values(), ids=BAD_PLUGINS)
def test_bad_programs(tmp_path: Path, script: str, error: type[Exception], message: str) -> None:
    plugin(tmp_path, script)
    with pytest.raises(error, match=message):
        header(load(write(tmp_path, user=exec_user())))


def test_missing_credential_program_reports_its_install_hint(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file") as raised:
        header(load(write(tmp_path, user=exec_user(installHint="brew install login"))))
    assert raised.value.hint == "brew install login"


BAD_FILES: dict[str, tuple[dict[str, Any], str]] = {
    "a context that is not there": (
        {"current-context": "prod"},
        "there is no context 'prod'\n  hint: contexts: dev",
    ),
    "no context": ({"current-context": ""}, "current-context is not set"),
    "a cluster that is not there": ({"clusters": []}, "context 'dev' refers to 'c'"),
    "an entry without a name": ({"users": [{"user": {}}]}, r"users\[0\]: an entry must have a name"),
    "a name that is not a string": (
        {"users": [{"name": {"a": "b"}, "user": {}}]},
        r"users\[0\]: an entry must have a name",
    ),
    "entries that are not a list": ({"clusters": 7}, "clusters: not a list"),
    "a current context that is not a string": ({"current-context": ["dev"]}, "current-context: not a string"),
    "a program that is not a string": (
        {"user": exec_user(command=["./login"])},
        "command: expected a string, found a list",
    ),
    "a server that is not a URL": ({"cluster": {"server": "10.0.0.1:6443"}}, "write its URL"),
    "a field of the wrong kind": ({"user": {"token": 7}}, "token: expected a string, found an integer"),
    "data that is not base64": ({"cluster": {"certificate-authority-data": "%%%"}}, "not base64"),
    "an invalid authority": ({"cluster": {"certificate-authority-data": "aGVsbG8="}}, "cannot be used"),
    "an authority that is missing": ({"cluster": {"certificate-authority": "gone.pem"}}, "does not exist"),
    "a certificate without a key": ({"user": {"client-certificate": "c.pem"}}, "no client-key"),
    "a way to log in that Kubernetes dropped": ({"user": {"auth-provider": {"name": "gcp"}}}, "exec plugin"),
    "an unsupported protocol": ({"user": exec_user(apiVersion="v9")}, "write client.authentication.k8s.io/v1"),
    "a protocol of no version": ({"user": exec_user(apiVersion="")}, "write client.authentication.k8s.io/v1"),
    "a program without a name": ({"user": exec_user(command="")}, "the command is missing"),
    "an interactive program": ({"user": exec_user(interactiveMode="Always")}, "write Never or IfAvailable"),
    "a program without an interactive mode": ({"user": exec_user(interactiveMode="")}, "write Never or IfAvailable"),
    "a proxy we cannot use": ({"cluster": {"proxy-url": "ftp://p"}}, "http, https, socks5"),
    "a proxy without a host": ({"cluster": {"proxy-url": "http://"}}, "write a URL such as"),
    "a proxy with an invalid port": ({"cluster": {"proxy-url": "http://p:many"}}, "write a URL such as"),
    "an authority twice": (
        {"cluster": {"certificate-authority": "c", "certificate-authority-data": "d"}},
        "are set\n  hint: keep one",
    ),
    "an authority that is not looked at": (
        {"cluster": {"certificate-authority-data": "d", "insecure-skip-tls-verify": True}},
        "remove insecure-skip-tls-verify",
    ),
    "a token and a password": ({"user": {"token": "t", "username": "joe"}}, "a token and a password"),
    "a certificate twice": (
        {"user": {"client-certificate": "c", "client-certificate-data": "d"}},
        "client-certificate and client-certificate-data are set",
    ),
    "impersonation without a user": ({"user": {"as-groups": ["system:masters"]}}, "the user to impersonate in `as`"),
    "a token of two lines": ({"user": {"token": "a\r\nX-Header: b"}}, "line break or control character"),
}


@pytest.mark.parametrize(("content", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files(tmp_path: Path, content: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(write(tmp_path, **content))


def test_json_file_is_equivalent(tmp_path: Path) -> None:
    file = write(tmp_path, cluster={"server": "https://api:6443", "insecure-skip-tls-verify": True})
    copy = tmp_path / "copy.json"
    copy.write_text(json.dumps(yaml.safe_load(file.read_text())))
    assert (is_json(str(file)), is_json(str(copy)), is_json(str(tmp_path / "none"))) == (False, True, False)
    assert load(copy).server == load(file).server
    assert load(copy).namespace == load(file).namespace == "shop"


NO_FILES = {
    "a missing file": (None, "--kubeconfig .*: the file does not exist\n  hint: check the path"),
    "a file that is not YAML": ("{", "invalid YAML"),
    "another file": ("hello", "not a kubeconfig"),
}


@pytest.mark.parametrize(("text", "message"), NO_FILES.values(), ids=NO_FILES)
def test_unreadable_files(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "config").write_text(text)
    with pytest.raises(InputError, match=message):
        load(tmp_path / "config")


def test_missing_server_reports_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(
        InputError,
        match=r"no kubeconfig found, .*\n  hint: set --kubeconfig or KUBECONFIG, or read files",
    ):
        load_connection(environ={}, alternatives="read files")


def test_missing_file_of_the_environment_is_reported(tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"^KUBECONFIG=.*: the file does not exist\n.*`moorage up` deletes its file"):
        load_connection(environ={"KUBECONFIG": missing})
    with pytest.raises(InputError, match="none of these files exists"):
        load_connection(environ={"KUBECONFIG": f"{missing}:{missing}"})


def test_a_kubeconfig_in_an_unreadable_directory_is_treated_as_missing(tmp_path: Path) -> None:
    # A file instead of a directory fails like a directory without permission, also for root.
    (tmp_path / "home").write_text("")
    with pytest.raises(InputError, match="the file does not exist"):
        load_connection("", environ={"KUBECONFIG": str(tmp_path / "home" / "config")})


SECRETS = ("*s3cr3t", "!s3cr3t", "!!int s3cr3t", "!!python/object:s3cr3t x", "[s3cr3t]", "{s3cr3t: 1}", "'s3cr3t")


@pytest.mark.parametrize("token", SECRETS)
def test_invalid_token_is_not_part_of_the_message(tmp_path: Path, token: str) -> None:
    file = tmp_path / "kubeconfig"
    context = "contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a"
    clusters = "clusters: [{name: a, cluster: {server: 'https://api.example'}}]"
    file.write_text(f"{context}\n{clusters}\nusers:\n- name: a\n  user:\n    token: {token}\n")
    with pytest.raises(InputError) as raised:
        load_connection(str(file))
    assert "s3cr3t" not in str(raised.value)


def test_password_in_the_url_of_the_server_is_a_credential(tmp_path: Path) -> None:
    connection = load_connection("", "https://me:s3cr3t@api.example:6443/path")
    assert connection.server == "https://api.example:6443/path"
    assert "s3cr3t" not in repr(connection)
    assert asyncio.run(connection.credentials.renew()) == "Basic bWU6czNjcjN0"
