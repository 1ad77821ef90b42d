"""The trust settings that the cluster publishes for servers like ours: client CAs and trusted proxies."""

from typing import Final

import msgspec
from msgspec import Struct

from moorage.common.errors import InputError
from moorage.common.user_files import read_file
from moorage.kube.api.codec import UNREADABLE
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.daemon.options import AuthenticationOptions, ProxyHeaders

CONFIG_MAP: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class TrustedClients(Struct, frozen=True):
    """The CA bundles of clients and of proxies, and how proxies name users."""

    client_ca: bytes = b""
    proxy_ca: bytes = b""
    headers: ProxyHeaders = ProxyHeaders()

    @property
    def bundles(self) -> list[bytes]:
        """The CA bundles that are not empty."""
        return [bundle for bundle in (self.client_ca, self.proxy_ca) if bundle]


class TrustedConfigMap(Struct, frozen=True):
    """The part of the ConfigMap that is used."""

    data: dict[str, str] | None = None


def read_configured(options: AuthenticationOptions) -> TrustedClients:
    """Read the files of the command line."""

    def read(flag: str, path: str) -> bytes:
        return read_file(path, where=flag) if path else b""

    return TrustedClients(
        client_ca=read("--client-ca-file", options.client_ca_file),
        proxy_ca=read("--requestheader-client-ca-file", options.proxy_ca_file),
        headers=options.proxy_headers,
    )


async def look_up(client: ApiClient, configured: TrustedClients) -> TrustedClients:
    """Complete the settings of the command line with the published ones."""
    try:
        data = msgspec.json.decode(await client.request("GET", CONFIG_MAP), type=TrustedConfigMap).data or {}
    except UNREADABLE as error:
        raise InputError("extension-apiserver-authentication", f"not a ConfigMap: {error}") from error

    def names(key: str) -> tuple[str, ...]:
        try:
            return msgspec.json.decode(data.get(key) or "[]", type=tuple[str, ...])
        except UNREADABLE as error:
            raise InputError(f"extension-apiserver-authentication: {key}", f"not a list: {error}") from error

    client_ca = configured.client_ca or data.get("client-ca-file", "").encode()
    if configured.proxy_ca:
        return TrustedClients(client_ca, configured.proxy_ca, configured.headers)
    headers = ProxyHeaders(
        username=names("requestheader-username-headers"),
        uid=names("requestheader-uid-headers"),
        group=names("requestheader-group-headers"),
        extra_prefix=names("requestheader-extra-headers-prefix"),
        allowed_names=names("requestheader-allowed-names"),
    )
    return TrustedClients(client_ca, data.get("requestheader-client-ca-file", "").encode(), headers)
