"""The IP, CIDR and URL functions that Kubernetes adds to CEL.

An address is the map ``{"@ip": text}``, a network ``{"@cidr": text}`` and a URL ``{"@url": text}`` while an expression
runs. Results follow Go's net/netip and net/url, which differ from :mod:`ipaddress` and :mod:`urllib.parse` in details.
"""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, unquote_plus

Tagged = dict[str, str]
Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_PREFIX: Final = re.compile(r"0|[1-9][0-9]{0,2}").fullmatch
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL).fullmatch
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})").search
_BAD_IN_HOST: Final = re.compile(r"[ \\^`{|}%#?/]").search
_PLAIN_PATH: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/\[\]]|%[0-9A-Fa-f]{2})*").fullmatch
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]").search
_USER: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*").fullmatch


def parse_address(text: str) -> Address:
    """Parse an address. Raise ValueError for zones and IPv4-mapped IPv6 addresses as well."""
    if "%" in text:
        raise ValueError(f'IP address "{text}" with zone value is not allowed')
    try:
        address = ip_address(text)
    except ValueError as error:
        raise ValueError(f'IP Address "{text}" parse error during conversion from string: {error}') from None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def parse_prefix(text: str) -> tuple[Address, Network]:
    """Parse an address with a prefix length, and return the address and its network."""
    address_text, slash, length = text.rpartition("/")
    problem = "network address parse error during conversion from string"
    if not slash or not _PREFIX(length):
        raise ValueError(f"{problem}: {'bad bits after slash' if slash else 'no prefix length'}")
    try:
        address = parse_address(address_text)
        return address, ip_network((address, int(length)), strict=False)
    except ValueError as error:
        raise ValueError(f"{problem}: {error}") from None


def ip(text: str) -> Tagged:
    """Return the value of an address in expressions, in its canonical form."""
    return {"@ip": str(parse_address(text))}


def cidr(text: str) -> Tagged:
    """Return the value of a network in expressions: bits after the prefix are kept."""
    address, network = parse_prefix(text)
    return {"@cidr": f"{address}/{network.prefixlen}"}


def is_canonical(text: str) -> bool:
    """Return whether an address is written in its canonical form."""
    return str(parse_address(text)) == text


def read_address(value: Tagged) -> Address:
    """Return the address of a tagged value. Raise ValueError for another kind."""
    if "@ip" not in value:
        raise ValueError("no such overload")
    return ip_address(value["@ip"])


def read_prefix(value: Tagged) -> tuple[Address, Network]:
    """Return the address and network of a tagged value. Raise ValueError for another kind."""
    if "@cidr" not in value:
        raise ValueError("no such overload")
    return parse_prefix(value["@cidr"])


def is_global_unicast(address: Address) -> bool:
    """Return Go's definition: not an unspecified, loopback, multicast, link-local or broadcast address."""
    if isinstance(address, IPv4Address) and address == IPv4Address("255.255.255.255"):
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)


def is_link_local_multicast(address: Address) -> bool:
    """Return whether it is in 224.0.0.0/24 or ff02::/16, with any flags of the IPv6 address."""
    if isinstance(address, IPv4Address):
        return address in IPv4Network("224.0.0.0/24")
    packed = address.packed
    return packed[0] == 0xFF and packed[1] & 0x0F == 2


def contains_ip(value: Tagged, address_value: Tagged | str) -> bool:
    """Return whether a network contains an address."""
    address = parse_address(address_value) if isinstance(address_value, str) else read_address(address_value)
    network = read_prefix(value)[1]
    return address.version == network.version and address in network


def contains_cidr(value: Tagged, inner_value: Tagged | str) -> bool:
    """Return whether a network contains another one."""
    inner = parse_prefix(inner_value)[1] if isinstance(inner_value, str) else read_prefix(inner_value)[1]
    network = read_prefix(value)[1]
    return inner.version == network.version and network.prefixlen <= inner.prefixlen and inner.overlaps(network)


def masked(value: Tagged) -> Tagged:
    """Return a network without bits after its prefix."""
    return {"@cidr": str(read_prefix(value)[1])}


def is_mask(value: Tagged) -> bool:
    """Return whether no bit is set after the prefix (from 1.38)."""
    address, network = read_prefix(value)
    return address == network.network_address


class Url(NamedTuple):
    """The parts of a URL. ``host`` includes the port."""

    scheme: str
    host: str
    path: str
    query: str

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        host = self.host
        if host.startswith("["):
            return host[1 : host.rindex("]")]
        return host.rpartition(":")[0] if ":" in host else host

    @property
    def port(self) -> str:
        """The port as a string, or an empty string."""
        suffix = self.host.rpartition("]")[2]
        return suffix.rpartition(":")[2] if ":" in suffix else ""

    @property
    def escaped_path(self) -> str:
        """The original path, or the escaped path if escaping is necessary."""
        return self.path if _PLAIN_PATH(self.path) else quote(unquote(self.path), safe="$&+,/:;=@-_.~")

    @property
    def values(self) -> dict[str, list[str]]:
        """The values of the query by name. Invalid parts are dropped, as in Go."""
        values: dict[str, list[str]] = {}
        for part in self.query.split("&"):
            if part and ";" not in part and not _BAD_ESCAPE(part):
                key, _, value = part.partition("=")
                values.setdefault(unquote_plus(key), []).append(unquote_plus(value))
        return values


def parse_url(text: str) -> Url:
    """Parse an absolute URL or an absolute path. Raise ValueError for others."""
    problem = _find_problem(text)
    if problem:
        raise ValueError(f'URL parse error during conversion from string: parse "{text}": {problem}')
    remainder = text.partition("#")[0]
    match = _SCHEME(remainder)
    scheme, remainder = (match[1].lower(), match[2]) if match else ("", remainder)
    remainder, _, query = remainder.partition("?")
    if not remainder.startswith("/"):
        return Url(scheme, "", remainder if remainder == "*" and not scheme else "", query)
    if not scheme and (not remainder.startswith("//") or remainder.startswith("///")):
        return Url("", "", remainder, query)
    authority, host_and_path = remainder.startswith("//"), remainder.removeprefix("//")
    if not authority:
        return Url(scheme, "", remainder, query)
    host, slash, path = host_and_path.partition("/")
    return Url(scheme, unquote(host.rpartition("@")[2]), slash + path, query)


def _find_problem(text: str) -> str:
    if not text:
        return "empty url"
    if _CONTROL(text):
        return "net/url: invalid control character in URL"
    match = _SCHEME(text)
    remainder = match[2] if match else text
    if not match and ":" in text.partition("/")[0]:
        return (
            "first path segment in URL cannot contain colon" if not text.startswith(":") else "missing protocol scheme"
        )
    if not match and not remainder.startswith("/") and text != "*":
        return "invalid URI for request"
    if match and remainder.startswith("//"):
        authority, _, path = remainder[2:].partition("?")[0].partition("/")
        user, at, host = authority.rpartition("@")
        if at and not _USER(user):
            return "net/url: invalid userinfo"
        port = host.rpartition("]")[2] if host.startswith("[") else f":{host.partition(':')[2]}" if ":" in host else ""
        if host.startswith("[") and "]" not in host:
            return "missing ']' in host"
        if port and not re.fullmatch(r":[0-9]*", port):
            return f'invalid port "{port}" after host'
        if not host.startswith("[") and _BAD_IN_HOST(re.sub(r"%[89A-Fa-f][0-9A-Fa-f]", "", host)):
            return "invalid character in host name"
        remainder = path
    bad = _BAD_ESCAPE(remainder.partition("?")[0])
    return f'invalid URL escape "{remainder[bad.start() : bad.start() + 3]}"' if bad and remainder[:1] != "" else ""
