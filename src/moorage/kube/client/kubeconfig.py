"""The API server and its credentials: from kubeconfig files, from the pod of this process, or from ``--master``.

Client libraries for this import a complete client and lack features such as ``tls-server-name``, ``proxy-url``,
impersonation, and several files in ``KUBECONFIG``.
"""

import base64
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import structlog
from msgspec import Struct, field

from moorage.common.clock import Clock, SteadyClock
from moorage.common.errors import InputError, describe_decode_error
from moorage.common.user_files import read_file, read_text
from moorage.kube.client.credentials import (
    Credentials,
    ExecCredentials,
    ExecPlugin,
    FixedCredentials,
    TokenFile,
    basic,
    check_header,
)
from moorage.kube.http.proxies import authorization, is_usable, redacted, select_proxy
from moorage.kube.http.tls import ClientTls, from_base64

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOME_CONFIG: Final = "~/.kube/config"
EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
PATHS: Final = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
    "context": (),
}
"""Fields with paths relative to the kubeconfig."""
ONE: Final = "keep one of the two"

E = TypeVar("E")

_QUOTED: Final = re.compile(r"'.*'|`.*`", re.DOTALL)

log = structlog.get_logger(__name__)


class ClusterEntry(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A cluster of a kubeconfig."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[dict[str, Any]] | None = None

    def authority(self, source: str) -> bytes | Path | None:
        """Return the CA, or ``None`` for the system CAs."""
        if self.certificate_authority_data:
            return from_base64(f"{source}: certificate-authority-data", self.certificate_authority_data)
        return Path(self.certificate_authority) if self.certificate_authority else None

    def check(self, source: str) -> None:
        """Reject the contradictions that client-go rejects."""
        if self.certificate_authority and self.certificate_authority_data:
            raise InputError(source, "both certificate-authority and certificate-authority-data are set", hint=ONE)
        if self.insecure_skip_tls_verify and (self.certificate_authority or self.certificate_authority_data):
            problem = "insecure-skip-tls-verify contradicts a certificate-authority"
            raise InputError(source, problem, hint="remove insecure-skip-tls-verify to verify the server")

    def for_programs(self, authority: bytes | None) -> dict[str, Any]:
        """Return the cluster information for a credential plugin: the CA as data, and its own settings."""
        public_entry = msgspec.structs.replace(
            self,
            certificate_authority="",
            certificate_authority_data=base64.b64encode(authority).decode() if authority else "",
            extensions=None,
        )
        own = [entry.get("extension") for entry in self.extensions or () if entry.get("name") == EXEC_EXTENSION]
        content: dict[str, Any] = msgspec.to_builtins(public_entry)
        return content | ({"config": own[0]} if own else {})


class ContextEntry(msgspec.Struct, frozen=True):
    """A context of a kubeconfig: a cluster and a user."""

    cluster: str
    user: str | None = None
    namespace: str | None = None


class UserEntry(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A user of a kubeconfig."""

    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: ExecPlugin | None = None
    auth_provider: Any = None
    act_as: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}

    def certificate(self, source: str) -> tuple[bytes | Path | None, bytes | Path | None]:
        """Return our certificate and its key, if we have one."""
        if not self.client_certificate and not self.client_certificate_data:
            return None, None
        location = f"{source}: client-certificate-data or client-key-data"
        pairs = (self.client_certificate_data, self.client_certificate), (self.client_key_data, self.client_key)
        certificate, key = (from_base64(location, data) if data else Path(path) for data, path in pairs)
        return certificate, key

    def check(self, source: str) -> None:
        """Reject the contradictions that client-go rejects."""
        if self.auth_provider is not None:
            hint = "Kubernetes replaced auth-provider by exec: use the exec plugin of your provider"
            raise InputError(f"{source}: auth-provider", "auth-provider is no longer supported", hint=hint)
        if (self.token or self.token_file) and (self.username or self.password):
            raise InputError(source, "the user has both a token and a password", hint=ONE)
        for name in ("client_certificate", "client_key"):
            if getattr(self, name) and getattr(self, f"{name}_data"):
                field = name.replace("_", "-")
                raise InputError(source, f"both {field} and {field}-data are set", hint=ONE)
        if (self.client_certificate or self.client_certificate_data) and not (self.client_key or self.client_key_data):
            raise InputError(source, "the user has a client-certificate but no client-key", hint="add client-key-data")
        if (self.as_uid or self.as_groups or self.as_user_extra) and not self.act_as:
            problem = "as-uid, as-groups and as-user-extra require `as`"
            raise InputError(source, problem, hint="write the user to impersonate in `as`")
        extra = (word for words in self.as_user_extra.values() for word in words)
        check_header(source, (self.token, self.act_as, self.as_uid, *self.as_groups, *extra))

    @property
    def impersonation(self) -> tuple[tuple[str, str], ...]:
        """The impersonation headers."""
        if not self.act_as:
            return ()
        uid = [("Impersonate-Uid", self.as_uid)] if self.as_uid else []
        groups = [("Impersonate-Group", group) for group in self.as_groups]
        keys = {key: f"Impersonate-Extra-{quote(key, safe='')}" for key in self.as_user_extra}
        extra = [(keys[key], word) for key, words in self.as_user_extra.items() for word in words]
        return (("Impersonate-User", self.act_as), *uid, *groups, *extra)


class Connection(Struct, frozen=True):
    """The connection settings of an API server. ``source`` is their origin."""

    server: str
    source: str
    tls: ClientTls | None = None
    server_name: str = ""
    proxy: str = ""
    credentials: Credentials = field(default_factory=FixedCredentials)
    headers: Sequence[tuple[str, str]] = ()
    namespace: str = "default"


def load_connection(
    kubeconfig: str = "",
    master: str = "",
    *,
    context: str = "",
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    alternatives: str = "run in a pod",
) -> Connection:
    """Find the API server.

    ``kubeconfig`` is a file. ``master`` overrides its server, or is used alone. Without either: the service account of
    the pod, the files in ``KUBECONFIG``, or the default in the home directory. Raise InputError if it is invalid.
    ``alternatives`` is what the command offers besides a kubeconfig, for the hint of the error.
    """
    env = os.environ if environ is None else environ
    time = clock or SteadyClock()
    if kubeconfig:
        return _from_files([kubeconfig], context, master, env, time)
    if master:
        return _connection(ClusterEntry(server=master), UserEntry(), "--master", env, time)
    if env.get("KUBERNETES_SERVICE_HOST") and (SERVICE_ACCOUNT / "token").is_file():
        return in_cluster(SERVICE_ACCOUNT, env, time)
    configured = [name for name in env.get("KUBECONFIG", "").split(os.pathsep) if name]
    files = configured or [str(Path(HOME_CONFIG).expanduser())]
    # A directory that this user may not read, such as root's home in an image, is treated as missing.
    readable = [name for name in files if os.path.isfile(name)]
    if not readable:
        if configured:
            problem = "the file does not exist" if len(configured) == 1 else "none of these files exists"
            hint = f"set KUBECONFIG to an existing file, or {alternatives}; `moorage up` deletes its file when it stops"
            raise InputError(f"KUBECONFIG={os.pathsep.join(configured)}", problem, hint=hint)
        hint = f"set --kubeconfig or KUBECONFIG, or {alternatives}"
        raise InputError(", ".join(files), "no kubeconfig found, and no API server configured", hint=hint)
    return _from_files(readable, context, "", env, time)


def in_cluster(directory: Path, env: Mapping[str, str], clock: Clock) -> Connection:
    """Connect as the service account of the pod we run in. Its token rotates, and so may its authority."""
    host, port = env["KUBERNETES_SERVICE_HOST"], env.get("KUBERNETES_SERVICE_PORT", "443")
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    cluster = ClusterEntry(server=server, certificate_authority=str(directory / "ca.crt"))
    user = UserEntry(token_file=str(directory / "token"))
    namespace = directory / "namespace"
    own = read_text(namespace).strip() if namespace.is_file() else "default"
    return _connection(cluster, user, "service account of this pod", env, clock, own)


def _connection(
    cluster: ClusterEntry,
    user: UserEntry,
    source: str,
    env: Mapping[str, str],
    clock: Clock,
    namespace: str = "default",
) -> Connection:
    server = cluster.server.rstrip("/")
    if not is_usable(server, ("http", "https")):
        hint = "write its URL, such as https://10.0.0.1:6443"
        raise InputError(source, f"the server is {redacted(server)!r}", hint=hint)
    # A password in the URL is a credential, and must not be part of messages and snapshots.
    login = authorization(urlsplit(server))
    server = redacted(server) if login else server
    cluster = msgspec.structs.replace(cluster, server=server)
    cluster.check(source)
    user.check(source)
    tls = _client_tls(cluster, user, source)
    return Connection(
        server=server,
        source=source,
        tls=tls,
        server_name=cluster.tls_server_name,
        proxy=select_proxy(server, cluster.proxy_url, source, env),
        credentials=_credentials(user, cluster, tls, source, clock, login),
        headers=user.impersonation,
        namespace=namespace,
    )


def _from_files(
    files: Sequence[str], context_name: str, master: str, env: Mapping[str, str], clock: Clock
) -> Connection:
    """Use the context that is wanted, else the current one; in several files, the first to name something wins."""
    merged_entries: dict[str, dict[str, Any]] = {"cluster": {}, "user": {}, "context": {}}
    for name in files:
        content, directory = _read(name), Path(name).expanduser().parent
        for singular, entries in merged_entries.items():
            listed = content.get(f"{singular}s") or []
            if not isinstance(listed, list):
                raise InputError(
                    f"{name}: {singular}s", "not a list", hint=f"write a list of entries with a name and a {singular}"
                )
            for number, entry in enumerate(listed):
                if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                    location = f"{name}: {singular}s[{number}]"
                    raise InputError(location, f"an entry must have a name and a {singular}")
                entries.setdefault(entry["name"], _resolve(entry.get(singular) or {}, singular, directory))
        current = content.get("current-context") or ""
        if not isinstance(current, str):
            raise InputError(f"{name}: current-context", "not a string", hint="write the name of a context")
        context_name = context_name or current
    location, contexts = ", ".join(files), merged_entries["context"]
    hint = f"contexts: {', '.join(contexts)}" if contexts else "the file has no contexts; use another kubeconfig"
    if not context_name:
        raise InputError(location, "current-context is not set", hint=hint)
    if context_name not in contexts:
        raise InputError(location, f"there is no context {context_name!r}", hint=hint)
    source = f"{location}, context {context_name}"
    context = _entry(ContextEntry, contexts[context_name], source)
    try:
        cluster_entry = merged_entries["cluster"][context.cluster]
        user_entry = merged_entries["user"][context.user] if context.user else {}
    except KeyError as error:
        raise InputError(location, f"context {context_name!r} refers to {error}, which is not defined") from error
    cluster = _entry(ClusterEntry, cluster_entry, source)
    if master:
        # Another server has another name.
        cluster = msgspec.structs.replace(cluster, server=master, tls_server_name="")
    user = _entry(UserEntry, user_entry, source)
    return _connection(cluster, user, source, env, clock, context.namespace or "default")


def _resolve(entry: Any, kind: str, directory: Path) -> Any:
    """Return an entry with its paths made relative to the directory of the file it is written in."""
    if not isinstance(entry, dict):
        return entry
    path_names = [name for name in PATHS[kind] if isinstance(entry.get(name), str) and entry[name]]
    paths: dict[str, Any] = {name: str(directory / entry[name]) for name in path_names}
    plugin = entry.get("exec")
    if kind == "user" and isinstance(plugin, dict):
        command = plugin.get("command")
        # A bare name is looked up in PATH.
        if isinstance(command, str) and "/" in command:
            paths["exec"] = plugin | {"command": str(directory / command)}
    return entry | paths


def _read(name: str) -> dict[str, Any]:
    text = read_text(Path(name).expanduser(), where="--kubeconfig", hint="check the path, or set KUBECONFIG")
    content: Any = None
    if text.startswith("{"):
        # JSON needs no PyYAML, which takes as long to import as all of our client.
        with suppress(msgspec.DecodeError, RecursionError):
            content = msgspec.json.decode(text)
    if content is None:
        from moorage.kube.api.documents import read_documents

        try:
            content = next(read_documents(text, source=name), None)
        except InputError as error:
            # A token that begins with * or ! is quoted by the parser as an anchor or a tag.
            is_quoted = "did not find expected" not in error.problem
            problem = _QUOTED.sub("a value", error.problem) if is_quoted else error.problem
            raise InputError(error.where, problem, hint=error.hint) from None
    if not isinstance(content, dict):
        raise InputError(name, "not a kubeconfig", hint="it must have clusters, contexts and users")
    return content


def is_json(name: str) -> bool:
    """Return whether a file looks like JSON, which is read without PyYAML. The parser reports its errors."""
    try:
        return read_file(Path(name).expanduser())[:1] == b"{"
    except InputError:
        return False


def _entry(kind: type[E], content: Any, source: str) -> E:
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise InputError(source, describe_decode_error(error)) from error


def _client_tls(cluster: ClusterEntry, user: UserEntry, source: str) -> ClientTls | None:
    if not cluster.server.startswith("https:"):
        return None
    if cluster.insecure_skip_tls_verify:
        log.warning("the certificate of the API server is not verified", source=source)
    certificate, key = user.certificate(source)
    return ClientTls(
        source,
        authority=cluster.authority(source),
        certificate=certificate,
        key=key,
        verifies=not cluster.insecure_skip_tls_verify,
    )


def _credentials(
    user: UserEntry, cluster: ClusterEntry, tls: ClientTls | None, source: str, clock: Clock, login: str
) -> Credentials:
    """Return the source of the Authorization header. As in client-go, a credential plugin is the last choice."""
    if user.token_file:
        return TokenFile(Path(user.token_file), clock)
    if user.token:
        return FixedCredentials(f"Bearer {user.token}")
    if user.username or user.password:
        return FixedCredentials(basic(user.username, user.password))
    if user.exec is not None:
        user.exec.check(source)
        authority = cluster.authority(source)
        authority_data = read_file(authority, where=source) if isinstance(authority, Path) else authority
        return ExecCredentials(user.exec, tls, cluster.for_programs(authority_data), clock)
    return FixedCredentials(login)
