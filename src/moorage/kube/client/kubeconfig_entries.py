"""The clusters and users of a kubeconfig: fields and contradictions."""

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from moorage.common.errors import InputError
from moorage.kube.client.credentials import ExecPlugin, check_header
from moorage.kube.http.tls import from_base64

EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
PATHS: Final = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
    "context": (),
}
"""Fields with paths relative to the kubeconfig."""
ONE: Final = "keep one of the two"


class NamedExtension(msgspec.Struct, frozen=True):
    """An extension in a kubeconfig."""

    name: str = ""
    extension: Any = None


class ClusterEntry(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A cluster of a kubeconfig."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[NamedExtension] | None = None

    def authority(self, source: str) -> bytes | Path | None:
        """Return the CA; ``None`` for the system CAs."""
        if self.certificate_authority_data:
            return from_base64(f"{source}: certificate-authority-data", self.certificate_authority_data)
        return Path(self.certificate_authority) if self.certificate_authority else None

    def check(self, source: str) -> None:
        """Refuse what client-go refuses."""
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
        own = [entry.extension for entry in self.extensions or () if entry.name == EXEC_EXTENSION]
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
        return (
            _data_or_file(self.client_certificate_data, self.client_certificate, source),
            _data_or_file(self.client_key_data, self.client_key, source),
        )

    def check(self, source: str) -> None:
        """Refuse what client-go refuses."""
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
        check_header(source, (self.token, self.act_as, self.as_uid, *self.as_groups, *_words(self.as_user_extra)))


def resolved(entry: Any, kind: str, folder: Path) -> Any:
    """Return an entry with its paths made relative to the folder of the file it is written in."""
    if not isinstance(entry, dict):
        return entry
    path_names = [name for name in PATHS[kind] if isinstance(entry.get(name), str) and entry[name]]
    paths: dict[str, Any] = {name: str(folder / entry[name]) for name in path_names}
    plugin = entry.get("exec")
    # A bare name is looked up in PATH.
    if kind == "user" and isinstance(plugin, dict) and "/" in str(plugin.get("command", "")):
        paths["exec"] = plugin | {"command": str(folder / plugin["command"])}
    return entry | paths


def impersonation(user: UserEntry) -> tuple[tuple[str, str], ...]:
    """Return the impersonation headers."""
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


def _words(extra: Mapping[str, list[str]]) -> Iterable[str]:
    return (word for words in extra.values() for word in words)


def _data_or_file(data: str, path: str, source: str) -> bytes | Path:
    return from_base64(f"{source}: client-certificate-data or client-key-data", data) if data else Path(path)
