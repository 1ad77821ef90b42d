"""Which server to talk to and how: from a kubeconfig file, from the pod we run in, or from ``--master``.

The files are read here and not by a client library: those bring all of their client along, and leave out much of what
may be written, such as ``tls-server-name``, ``proxy-url``, impersonation, and several files in ``KUBECONFIG``.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import structlog
from msgspec import Struct, field

from moorage.common.clock import Clock, SteadyClock
from moorage.common.errors import InputError
from moorage.kube.client.credentials import Credentials, ExecCredentials, FixedCredentials, TokenFile, basic
from moorage.kube.client.kubeconfig_entries import ClusterEntry, ContextEntry, UserEntry, impersonation, resolved
from moorage.kube.http.proxies import proxy_for, redacted
from moorage.kube.http.tls import ClientTls

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOME_CONFIG: Final = "~/.kube/config"

log = structlog.get_logger(__name__)


class Connection(Struct, frozen=True):
    """The connection settings of one API server; ``source`` is their origin."""

    server: str
    source: str
    tls: ClientTls | None = None
    server_name: str = ""
    proxy: str = ""
    credentials: Credentials = field(default_factory=FixedCredentials)
    headers: Sequence[tuple[str, str]] = ()
    namespace: str = "default"


class _Chosen(Struct, frozen=True):
    """The resolved context of a kubeconfig."""

    source: str
    cluster: ClusterEntry
    user: UserEntry
    namespace: str | None


def load_connection(
    kubeconfig: str = "",
    master: str = "",
    *,
    context: str = "",
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> Connection:
    """Find the API server.

    ``kubeconfig`` is a file; ``master`` overrides its server, or is used alone. Without either: the service account of
    the pod, the files in ``KUBECONFIG``, or the one in the home folder. Raise InputError if it is invalid.
    """
    env = os.environ if environ is None else environ
    time = clock or SteadyClock()
    if kubeconfig:
        return _from_files([kubeconfig], context, master, env, time)
    if master:
        return _connection(ClusterEntry(server=master), UserEntry(), "--master", env, time)
    if env.get("KUBERNETES_SERVICE_HOST") and (SERVICE_ACCOUNT / "token").is_file():
        return in_cluster(SERVICE_ACCOUNT, env, time)
    files = [name for name in env.get("KUBECONFIG", "").split(os.pathsep) if name]
    files = files or [str(Path(HOME_CONFIG).expanduser())]
    if not any(Path(name).is_file() for name in files):
        hint = "set --kubeconfig or KUBECONFIG, or run in a pod with a service account"
        raise InputError(", ".join(files), "no kubeconfig found, and no API server configured", hint=hint)
    return _from_files([name for name in files if Path(name).is_file()], context, "", env, time)


def in_cluster(folder: Path, env: Mapping[str, str], clock: Clock) -> Connection:
    """Connect as the service account of the pod we run in; its token rotates, and so may its authority."""
    host, port = env["KUBERNETES_SERVICE_HOST"], env.get("KUBERNETES_SERVICE_PORT", "443")
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    cluster = ClusterEntry(server=server, certificate_authority=str(folder / "ca.crt"))
    user = UserEntry(token_file=str(folder / "token"))
    namespace = folder / "namespace"
    own = namespace.read_text().strip() if namespace.is_file() else "default"
    return _connection(cluster, user, "service account of this pod", env, clock, own)


def _from_files(files: Sequence[str], context: str, master: str, env: Mapping[str, str], clock: Clock) -> Connection:
    selection = _choose(files, context)
    cluster = selection.cluster
    if master:
        # Another server has another name.
        cluster = msgspec.structs.replace(cluster, server=master, tls_server_name="")
    return _connection(cluster, selection.user, selection.source, env, clock, selection.namespace or "default")


def _connection(
    cluster: ClusterEntry,
    user: UserEntry,
    source: str,
    env: Mapping[str, str],
    clock: Clock,
    namespace: str = "default",
) -> Connection:
    server = cluster.server.rstrip("/")
    try:
        address = urlsplit(server)
        is_usable = address.scheme in ("http", "https") and address.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        hint = "write its URL, such as https://10.0.0.1:6443"
        raise InputError(source, f"the server is {redacted(server)!r}", hint=hint)
    cluster = msgspec.structs.replace(cluster, server=server)
    cluster.check(source)
    user.check(source)
    tls = _tls_of(cluster, user, source)
    return Connection(
        server=server,
        source=source,
        tls=tls,
        server_name=cluster.tls_server_name,
        proxy=proxy_for(server, cluster.proxy_url, source, env),
        credentials=_credentials(user, cluster, tls, source, clock),
        headers=impersonation(user),
        namespace=namespace,
    )


def _choose(files: Sequence[str], context_name: str) -> "_Chosen":
    """Pick the context that is wanted, else the current one; in several files, the first to name something wins."""
    merged: dict[str, dict[str, Any]] = {"cluster": {}, "user": {}, "context": {}}
    for name in files:
        content = _read(name)
        for singular, entries in merged.items():
            _collect(entries, content, f"{singular}s", singular, name)
        context_name = context_name or content.get("current-context") or ""
    where, contexts = ", ".join(files), merged["context"]
    hint = f"contexts: {', '.join(contexts)}" if contexts else "the file defines no contexts"
    if not context_name:
        raise InputError(where, "current-context is not set", hint=hint)
    if context_name not in contexts:
        raise InputError(where, f"there is no context {context_name!r}", hint=hint)
    source = f"{where}, context {context_name}"
    context: ContextEntry = _entry(ContextEntry, contexts[context_name], source)
    try:
        cluster = merged["cluster"][context.cluster]
        user = merged["user"][context.user] if context.user else {}
    except KeyError as error:
        raise InputError(where, f"context {context_name!r} refers to {error}, which is not defined") from error
    return _Chosen(source, _entry(ClusterEntry, cluster, source), _entry(UserEntry, user, source), context.namespace)


def _read(name: str) -> dict[str, Any]:
    try:
        text = Path(name).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(name, f"cannot read the kubeconfig: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(name, "the kubeconfig is not UTF-8 text") from error
    content = _parsed(text, name)
    if not isinstance(content, dict):
        raise InputError(name, "not a kubeconfig", hint="it must have clusters, contexts and users")
    return content


def is_json(name: str) -> bool:
    """Return whether a file looks like JSON, which is read without PyYAML; the parser reports its errors."""
    try:
        with Path(name).expanduser().open("rb") as file:
            return file.read(1) == b"{"
    except OSError:
        return False


def _parsed(text: str, name: str) -> Any:
    if text.startswith("{"):
        # JSON needs no PyYAML, which takes as long to import as all of our client.
        with suppress(msgspec.DecodeError, RecursionError):
            return msgspec.json.decode(text)
    from moorage.kube.api.documents import read_documents

    return next(read_documents(text, source=name), None)


def _collect(into: dict[str, Any], content: Mapping[str, Any], plural: str, singular: str, name: str) -> None:
    for number, entry in enumerate(content.get(plural) or ()):
        if not isinstance(entry, dict) or "name" not in entry:
            raise InputError(f"{name}: {plural}[{number}]", f"an entry must have a name and a {singular}")
        into.setdefault(entry["name"], resolved(entry.get(singular) or {}, singular, Path(name).expanduser().parent))


def _entry(kind: type[Any], content: Any, source: str) -> Any:
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise InputError(source, str(error)) from error


def _tls_of(cluster: ClusterEntry, user: UserEntry, source: str) -> ClientTls | None:
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
    user: UserEntry, cluster: ClusterEntry, tls: ClientTls | None, source: str, clock: Clock
) -> Credentials:
    """Return the source of the Authorization header; as in client-go, a credential plugin is the last choice."""
    if user.token_file:
        return TokenFile(Path(user.token_file), clock)
    if user.token:
        return FixedCredentials(f"Bearer {user.token}")
    if user.username or user.password:
        return FixedCredentials(basic(user.username, user.password))
    if user.exec is not None:
        user.exec.check(source)
        authority = cluster.authority(source)
        authority_data = authority.read_bytes() if isinstance(authority, Path) else authority
        return ExecCredentials(user.exec, tls, cluster.for_programs(authority_data), clock)
    return FixedCredentials()
