"""URLs of servers and proxies: proxy selection, credentials, and redaction."""

import base64
import os
import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from moorage.common.errors import InputError

SCHEMES: Final = ("http", "https", "socks5", "socks5h")
DEFAULT_PORTS: Final = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


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
        raise InputError(source, f"the proxy is {redacted(proxy)!r}", hint=hint)
    return proxy


def environment_proxy(server: str, environ: Mapping[str, str]) -> str:
    """Return HTTPS_PROXY or HTTP_PROXY, unless NO_PROXY covers the server or it is local."""
    address = urlsplit(server)
    proxy = _variable(environ, f"{address.scheme}_proxy")
    host = (address.hostname or "").lower()
    if not proxy or host == "localhost" or _is_loopback(host):
        return ""
    port = str(port_of(address))
    if any(excepts(rule.strip(), host, port) for rule in _variable(environ, "no_proxy").split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def excepts(rule: str, host: str, port: str) -> bool:
    """Return whether an entry of NO_PROXY means a server: ``*``, an address, a network, or a domain, maybe with a port.

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


def port_of(address: SplitResult) -> int:
    """Return the port of a URL, written or not."""
    return address.port or DEFAULT_PORTS[address.scheme]


def redacted(url: str) -> str:
    """Return a URL for logs: without user, password and anything that is not part of the address.

    >>> redacted("https://me:secret@example.org:8443/filter?token=x")
    'https://example.org:8443/filter'
    """
    scheme, separator, remainder = url.partition("://")
    if not separator:
        # Not a URL: the text before an @ may be a password.
        return url.rpartition("@")[2]
    address, slash, path = remainder.partition("/")
    # A password may have a slash in it that should have been escaped.
    if "@" in path and "@" not in address:
        address, slash, path = path.rpartition("@")[2].partition("/")
    visible = re.split(r"[?#]", f"{address.rpartition('@')[2]}{slash}{path}", maxsplit=1)[0]
    return f"{scheme}://{visible}"


def authorization(address: SplitResult) -> str:
    """Return the Authorization header for the user in a URL; empty without one."""
    if address.username is None:
        return ""
    user = f"{unquote(address.username)}:{unquote(address.password or '')}"
    return f"Basic {base64.b64encode(user.encode()).decode()}"
