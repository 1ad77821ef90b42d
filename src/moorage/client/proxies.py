"""Which proxy, if any, stands between us and a server."""

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from moorage.errors import InputError


def proxy_for(server: str, written: str, source: str) -> str:
    """Return the proxy written for a cluster, or the environment's; found once, not for every request."""
    address = urlsplit(server)
    # As in Go, what runs on this machine is never asked for through a proxy of the environment's.
    is_near = (address.hostname or "").startswith("127.") or address.hostname in ("localhost", "::1")
    proxy = written or ("" if is_near or proxy_bypass(address.netloc) else getproxies().get(address.scheme, ""))
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise InputError(source, f"the proxy is {proxy!r}", hint="only http and https proxies can be used")
    return proxy
