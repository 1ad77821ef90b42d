"""URLs of servers and proxies: proxy selection, credentials, and redaction."""

import base64
import os
import re
from collections.abc import Collection, Mapping
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from moorage.common.errors import InputError

SCHEMES: Final = ("http", "https", "socks5", "socks5h")
DEFAULT_PORTS: Final = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


def select_proxy(server: str, configured: str, source: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the configured proxy of a server, or that of the environment; InputError if it is invalid."""
    proxy = configured or environment_proxy(server, os.environ if environ is None else environ)
    if not proxy:
        return ""
    if not is_usable(proxy, SCHEMES):
        hint = f"write a URL such as http://proxy.example:3128; it may begin with {', '.join(SCHEMES[:3])}"
        raise InputError(source, f"the proxy is {redacted(proxy)!r}", hint=hint)
    return proxy


def is_usable(url: str, schemes: Collection[str]) -> bool:
    """Return whether a URL has one of the schemes, a host and a valid port."""
    try:
        address = urlsplit(url)
        return address.scheme in schemes and bool(address.hostname) and address.port != 0
    except ValueError:
        return False


def is_loopback(address: str) -> bool:
    """Return whether an address is reachable only from this machine."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def environment_proxy(server: str, environ: Mapping[str, str]) -> str:
    """Return HTTPS_PROXY or HTTP_PROXY, unless NO_PROXY covers the server or it is local."""
    address = urlsplit(server)
    proxy = _variable(environ, f"{address.scheme}_proxy")
    host = (address.hostname or "").lower()
    if not proxy or is_loopback(host):
        return ""
    port = str(effective_port(address))
    if any(excepts(rule.strip(), host, port) for rule in _variable(environ, "no_proxy").split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def excepts(rule: str, host: str, port: str) -> bool:
    """Return whether an entry of NO_PROXY matches a server: ``*``, an address, a network, a domain, or one with a port.

    ``example.org`` means the name and all below it, ``.example.org`` only those below it.
    """
    if rule == "*":
        return True
    if "/" in rule:
        try:
            return ip_address(host) in ip_network(rule, strict=False)
        except ValueError:
            return False
    name, wanted_port = _split_rule(rule.lower())
    if not name or wanted_port not in ("", port):
        return False
    if name.startswith("*."):
        name = name[1:]
    return host == name or host.endswith(name if name.startswith(".") else f".{name}")


def _split_rule(rule: str) -> tuple[str, str]:
    if rule.startswith("["):
        name, _, port = rule[1:].partition("]")
        return name, port.removeprefix(":")
    if rule.count(":") == 1:
        name, _, port = rule.partition(":")
        return name, port
    return rule, ""


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def effective_port(address: SplitResult) -> int:
    """Return the port of a URL, or the default of its scheme."""
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
    """Return the Authorization header for the user in a URL, or empty without one."""
    if address.username is None:
        return ""
    user = f"{unquote(address.username)}:{unquote(address.password or '')}"
    return f"Basic {base64.b64encode(user.encode()).decode()}"
