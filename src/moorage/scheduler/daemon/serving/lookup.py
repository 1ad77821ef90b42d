"""The trust settings that the cluster publishes for servers like ours: client CAs and trusted proxies."""

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from moorage.common.errors import InputError
from moorage.kube.api.codec import UNREADABLE
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.daemon.options import AuthenticationOptions
from moorage.scheduler.daemon.serving.users import ProxyHeaders

CONFIG_MAP: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class TrustedClients(Struct, frozen=True):
    """The CA bundles of clients and of proxies, and how proxies name users."""

    client_ca: bytes = b""
    proxy_ca: bytes = b""
    headers: ProxyHeaders = field(default_factory=ProxyHeaders)

    @property
    def bundles(self) -> list[bytes]:
        """The CAs of all whose certificates are worth a look."""
        return [bundle for bundle in (self.client_ca, self.proxy_ca) if bundle]


class TrustedConfigMap(Struct, frozen=True):
    """As much of the ConfigMap as we read."""

    data: dict[str, str] | None = None


def from_flags(options: AuthenticationOptions) -> TrustedClients:
    """Read the settings of the command line."""
    headers = options.headers
    return TrustedClients(
        client_ca=_read("--client-ca-file", options.client_ca_file),
        proxy_ca=_read("--requestheader-client-ca-file", headers.client_ca_file),
        headers=ProxyHeaders(headers.username, headers.uid, headers.group, headers.extra_prefix, headers.allowed_names),
    )


async def looked_up(client: ApiClient, given: TrustedClients) -> TrustedClients:
    """Add settings that the command line omits from those that the cluster publishes."""
    try:
        data = msgspec.json.decode(await client.request("GET", CONFIG_MAP), type=TrustedConfigMap).data or {}
    except UNREADABLE as error:
        raise InputError("extension-apiserver-authentication", f"not a ConfigMap: {error}") from error
    if given.proxy_ca:
        return TrustedClients(given.client_ca or _bundle(data, "client-ca-file"), given.proxy_ca, given.headers)
    headers = ProxyHeaders(
        username=_names(data, "requestheader-username-headers"),
        uid=_names(data, "requestheader-uid-headers"),
        group=_names(data, "requestheader-group-headers"),
        extra_prefix=_names(data, "requestheader-extra-headers-prefix"),
        allowed_names=_names(data, "requestheader-allowed-names"),
    )
    proxy_ca = _bundle(data, "requestheader-client-ca-file")
    return TrustedClients(given.client_ca or _bundle(data, "client-ca-file"), proxy_ca, headers)


def _bundle(data: dict[str, str], key: str) -> bytes:
    return data.get(key, "").encode()


def _names(data: dict[str, str], key: str) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(data.get(key) or "[]", type=tuple[str, ...])
    except UNREADABLE as error:
        raise InputError(f"extension-apiserver-authentication: {key}", f"not a list: {error}") from error


def _read(flag: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes() if path else b""
    except OSError as error:
        raise InputError(flag, f"{path} cannot be read: {error.strerror}") from error
