"""Which server to talk to and how: from a kubeconfig file, from the pod we run in, or from ``--master``.

lightkube reads the files and picks the context. What its structs leave out is added here: ``tls-server-name``,
``proxy-url``, impersonation, exec plugins of version v1, and several files in ``KUBECONFIG``.
"""

import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

import msgspec
import structlog

from moorage.client.certificates import (
    from_base64,
    load_client_certificate,
    load_client_certificate_files,
    trusting_context,
    verifying_context,
)
from moorage.client.credentials import Credentials, ExecCredentials, ExecPlugin, FixedCredentials, TokenFile, basic
from moorage.client.proxies import proxy_for
from moorage.clock import Clock, SystemClock
from moorage.errors import InputError

if TYPE_CHECKING:
    from lightkube.config.kubeconfig import SingleConfig

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOME_CONFIG: Final = "~/.kube/config"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Connection:
    """Everything a client needs to talk to one API server; ``source`` says where it was found."""

    server: str
    source: str
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    proxy: str = ""
    credentials: Credentials = field(default_factory=FixedCredentials)
    headers: Sequence[tuple[str, str]] = ()
    namespace: str = "default"


class ClusterEntry(msgspec.Struct, rename="kebab", omit_defaults=True):
    """A cluster of a kubeconfig."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class UserEntry(msgspec.Struct, rename="kebab", omit_defaults=True):
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


def load_connection(
    kubeconfig: str = "",
    master: str = "",
    *,
    context: str = "",
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> Connection:
    """Find out which server to talk to.

    ``kubeconfig`` is a file; ``master`` replaces its server, or stands alone. Without either: the service account of
    the pod we run in, else the files in ``KUBECONFIG``, else the one in the home folder. InputError says what is wrong.
    """
    env = os.environ if environ is None else environ
    time = clock or SystemClock()
    if kubeconfig:
        return _from_files([kubeconfig], context, master, time)
    if master:
        return Connection(master.rstrip("/"), "--master", _tls_of(ClusterEntry(server=master), Path(), "--master"))
    if env.get("KUBERNETES_SERVICE_HOST") and (SERVICE_ACCOUNT / "token").is_file():
        return in_cluster(SERVICE_ACCOUNT, env, time)
    files = [name for name in env.get("KUBECONFIG", "").split(os.pathsep) if name]
    files = files or [str(Path(HOME_CONFIG).expanduser())]
    if not any(Path(name).is_file() for name in files):
        hint = "write --kubeconfig=FILE or --master=URL, or run in a pod that has a service account"
        raise InputError(", ".join(files), "there is no kubeconfig here, and no other word of an API server", hint=hint)
    return _from_files([name for name in files if Path(name).is_file()], context, "", time)


def in_cluster(folder: Path, env: Mapping[str, str], clock: Clock) -> Connection:
    """Connect as the service account of the pod we run in; its token rotates."""
    host, port = env["KUBERNETES_SERVICE_HOST"], env.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = folder / "namespace"
    return Connection(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        source="service account of this pod",
        tls=verifying_context("service account", ca_file=folder / "ca.crt"),
        credentials=TokenFile(folder / "token", clock),
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
    )


def _from_files(files: Sequence[str], context: str, master: str, clock: Clock) -> Connection:
    chosen = _choose(files, context)
    source = f"{chosen.fname}, context {chosen.context_name}"
    cluster, user = _entry(ClusterEntry, chosen.cluster, source), _entry(UserEntry, chosen.user or {}, source)
    server = (master or cluster.server).rstrip("/")
    if urlsplit(server).scheme not in ("http", "https"):
        raise InputError(source, f"the server is {server!r}", hint="write its URL, such as https://10.0.0.1:6443")
    folder = Path(chosen.fname or ".").parent
    tls = _tls_of(msgspec.structs.replace(cluster, server=server), folder, source)
    if tls is not None:
        _load_own_certificate(tls, user, folder, source)
    return Connection(
        server=server,
        source=source,
        tls=tls,
        server_name=cluster.tls_server_name,
        proxy=proxy_for(server, cluster.proxy_url, source),
        credentials=_credentials(user, folder, tls, cluster, clock),
        headers=impersonation(user),
        namespace=chosen.context.namespace or "default",
    )


def _choose(files: Sequence[str], context: str) -> "SingleConfig":
    """Have lightkube pick the context; in several files, the first to name something wins."""
    import lightkube.config.kubeconfig as loader
    from lightkube.config.models import Context
    from lightkube.core.exceptions import ConfigError as LoaderError

    clusters: dict[str, Any] = {}
    users: dict[str, Any] = {}
    contexts: dict[str, Any] = {}
    current = context
    for name in files:
        content = _read(name)
        _collect(clusters, content, "clusters", "cluster", name)
        _collect(users, content, "users", "user", name)
        _collect(contexts, content, "contexts", "context", name)
        current = current or content.get("current-context") or ""
    try:
        config = loader.KubeConfig(
            clusters=clusters,
            contexts={key: msgspec.convert(entry, Context) for key, entry in contexts.items()},
            users=users,
            current_context=current or None,
            fname=files[0],
        )
        chosen = config.get()
    except (LoaderError, msgspec.ValidationError) as error:
        raise InputError(", ".join(files), str(error), hint=f"contexts are: {', '.join(contexts) or 'none'}") from error
    except KeyError as error:
        raise InputError(", ".join(files), f"the context names {error}, which the file does not have") from error
    assert chosen is not None
    return chosen


def _read(name: str) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(Path(name).expanduser().read_text())
    except OSError as error:
        raise InputError(name, f"the kubeconfig cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise InputError(name, f"the kubeconfig is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise InputError(name, "this is not a kubeconfig", hint="it must have clusters, contexts and users")
    return content


def _collect(into: dict[str, Any], content: Mapping[str, Any], plural: str, singular: str, name: str) -> None:
    for number, entry in enumerate(content.get(plural) or ()):
        if not isinstance(entry, dict) or "name" not in entry:
            raise InputError(f"{name}: {plural}[{number}]", f"an entry must have a name and a {singular}")
        into.setdefault(entry["name"], entry.get(singular) or {})


def _entry(kind: type[Any], content: Any, source: str) -> Any:
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise InputError(source, str(error)) from error


def _tls_of(cluster: ClusterEntry, folder: Path, source: str) -> ssl.SSLContext | None:
    if not cluster.server.startswith("https:"):
        return None
    if cluster.insecure_skip_tls_verify:
        log.warning("the API server's certificate is not verified", source=source)
        return trusting_context()
    if cluster.certificate_authority_data:
        data = from_base64(f"{source}: certificate-authority-data", cluster.certificate_authority_data)
        return verifying_context(source, ca_data=data)
    if cluster.certificate_authority:
        return verifying_context(source, ca_file=folder / cluster.certificate_authority)
    return verifying_context(source)


def _load_own_certificate(tls: ssl.SSLContext, user: UserEntry, folder: Path, source: str) -> None:
    if not user.client_certificate and not user.client_certificate_data:
        return
    if not user.client_key and not user.client_key_data:
        raise InputError(source, "the user has a client-certificate but no client-key", hint="add client-key-data")
    if user.client_certificate_data or user.client_key_data:
        load_client_certificate(
            tls,
            _data_or_file(user.client_certificate_data, folder / user.client_certificate, source),
            _data_or_file(user.client_key_data, folder / user.client_key, source),
        )
    else:
        load_client_certificate_files(tls, folder / user.client_certificate, folder / user.client_key)


def _data_or_file(data: str, path: Path, source: str) -> bytes:
    return from_base64(f"{source}: client-certificate-data or client-key-data", data) if data else path.read_bytes()


def _credentials(
    user: UserEntry, folder: Path, tls: ssl.SSLContext | None, cluster: ClusterEntry, clock: Clock
) -> Credentials:
    if user.token_file:
        return TokenFile(folder / user.token_file, clock)
    if user.token:
        return FixedCredentials(f"Bearer {user.token}")
    if user.exec is not None:
        return ExecCredentials(user.exec, folder, tls, msgspec.to_builtins(cluster), clock)
    if user.username:
        return FixedCredentials(basic(user.username, user.password))
    if user.auth_provider is not None:
        hint = "Kubernetes dropped auth-provider for exec: ask your provider for its exec plugin"
        raise InputError("users[].user.auth-provider", "this way to log in is no longer supported", hint=hint)
    return FixedCredentials()


def impersonation(user: UserEntry) -> tuple[tuple[str, str], ...]:
    """Return the headers by which we act as somebody else."""
    if not user.act_as:
        return ()
    extra = [
        (f"Impersonate-Extra-{quote(key, safe='')}", word)
        for key, words in user.as_user_extra.items()
        for word in words
    ]
    groups = [("Impersonate-Group", group) for group in user.as_groups]
    uid = [("Impersonate-Uid", user.as_uid)] if user.as_uid else []
    return (("Impersonate-User", user.act_as), *uid, *groups, *extra)
