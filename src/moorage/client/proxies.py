"""Which proxy, if any, stands between us and a server: the one written for it, or the environment's as Go reads it."""

import os
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from moorage.errors import InputError

SCHEMES: Final = ("http", "https", "socks5", "socks5h")
DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


def proxy_for(server: str, written: str, source: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the proxy written for a server, or the environment's, or nothing; InputError if it cannot be used."""
    proxy = written or environment_proxy(server, os.environ if environ is None else environ)
    if not proxy:
        return ""
    try:
        address = urlsplit(proxy)
        is_usable = address.scheme in SCHEMES and bool(address.hostname) and address.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        hint = f"write a URL such as http://proxy.example:3128; it may begin with {', '.join(SCHEMES[:3])}"
        raise InputError(source, f"the proxy is {proxy!r}", hint=hint)
    return proxy


def environment_proxy(server: str, environ: Mapping[str, str]) -> str:
    """Return what HTTPS_PROXY or HTTP_PROXY says, unless NO_PROXY excepts the server or it is on this machine."""
    address = urlsplit(server)
    proxy = _variable(environ, f"{address.scheme}_proxy")
    host = (address.hostname or "").lower()
    if not proxy or host == "localhost" or _is_loopback(host):
        return ""
    port = str(address.port or DEFAULT_PORTS[address.scheme])
    if any(excepts(rule.strip(), host, port) for rule in _variable(environ, "no_proxy").split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def excepts(rule: str, host: str, port: str) -> bool:
    """Tell whether an entry of NO_PROXY means a server: ``*``, an address, a network, or a domain, maybe with a port.

    ``example.org`` means the name and all below it, ``.example.org`` only those below it.
    """
    if rule == "*":
        return True
    if "/" in rule:
        return _is_in(host, rule)
    name, wanted_port = _split(rule.lower())
    if not name or wanted_port not in ("", port):
        return False
    if name.startswith("*."):
        name = name[1:]
    return host == name or host.endswith(name if name.startswith(".") else f".{name}")


def _split(rule: str) -> tuple[str, str]:
    if rule.startswith("["):
        name, _, port = rule[1:].partition("]")
        return name, port.removeprefix(":")
    if rule.count(":") == 1:
        name, _, port = rule.partition(":")
        return name, port
    return rule, ""


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_in(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False
