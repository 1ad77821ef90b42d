"""Which proxy the environment means for a server, as Go reads it."""

import pytest

from moorage.common.errors import InputError
from moorage.kube.http.proxies import redacted, select_proxy

P = "http://p:3128"
ENVIRONMENTS: dict[str, tuple[str, dict[str, str], str]] = {
    "no proxy is set": ("https://10.0.0.1:6443", {}, ""),
    "a proxy for https": ("https://10.0.0.1:6443", {"HTTPS_PROXY": P}, P),
    "in lower case": ("https://10.0.0.1:6443", {"https_proxy": P}, P),
    "upper case wins": ("https://10.0.0.1:6443", {"https_proxy": "http://other", "HTTPS_PROXY": P}, P),
    "a proxy for http is not used for https": ("https://10.0.0.1:6443", {"HTTP_PROXY": P}, ""),
    "a proxy for http": ("http://10.0.0.1", {"HTTP_PROXY": P}, P),
    "without a scheme it is http": ("https://10.0.0.1", {"HTTPS_PROXY": "p:3128"}, P),
    "a SOCKS proxy": ("https://10.0.0.1", {"HTTPS_PROXY": "socks5://p:1080"}, "socks5://p:1080"),
    "never for this machine": ("https://localhost:6443", {"HTTPS_PROXY": P}, ""),
    "nor for its address": ("https://127.0.0.7:6443", {"HTTPS_PROXY": P}, ""),
    "nor for its other address": ("https://[::1]:6443", {"HTTPS_PROXY": P}, ""),
    "an excepted address": ("https://10.0.0.1", {"HTTPS_PROXY": P, "NO_PROXY": "9.9.9.9, 10.0.0.1"}, ""),
    "an excepted network": ("https://10.0.0.1", {"HTTPS_PROXY": P, "NO_PROXY": "10.0.0.0/8"}, ""),
    "another network": ("https://10.0.0.1", {"HTTPS_PROXY": P, "NO_PROXY": "172.16.0.0/12"}, P),
    "a network does not mean names": ("https://api.example", {"HTTPS_PROXY": P, "NO_PROXY": "0.0.0.0/0"}, P),
    "an excepted network of the new kind": ("https://[fd00::1]", {"HTTPS_PROXY": P, "NO_PROXY": "fd00::/8"}, ""),
    "an excepted address of the new kind": ("https://[fd00::1]", {"HTTPS_PROXY": P, "NO_PROXY": "[fd00::1]:443"}, ""),
    "an excepted name": ("https://API.example", {"HTTPS_PROXY": P, "NO_PROXY": "api.EXAMPLE"}, ""),
    "names below an excepted one": ("https://api.example", {"HTTPS_PROXY": P, "NO_PROXY": "example"}, ""),
    "only names that end at a dot": ("https://myexample", {"HTTPS_PROXY": P, "NO_PROXY": "example"}, P),
    "a dot means only those below": ("https://example.org", {"HTTPS_PROXY": P, "NO_PROXY": ".example.org"}, P),
    "a dot means those below": ("https://a.example.org", {"HTTPS_PROXY": P, "NO_PROXY": ".example.org"}, ""),
    "so does a star and a dot": ("https://a.example.org", {"HTTPS_PROXY": P, "NO_PROXY": "*.example.org"}, ""),
    "a star means everything": ("https://a.example.org", {"HTTPS_PROXY": P, "no_proxy": "*"}, ""),
    "the excepted port": ("https://api.example:6443", {"HTTPS_PROXY": P, "NO_PROXY": "api.example:6443"}, ""),
    "another port": ("https://api.example", {"HTTPS_PROXY": P, "NO_PROXY": "api.example:6443"}, P),
    "nonsense excepts nothing": ("https://api.example", {"HTTPS_PROXY": P, "NO_PROXY": ",/,:"}, P),
}


@pytest.mark.parametrize(("server", "environ", "want"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_the_environment(server: str, environ: dict[str, str], want: str) -> None:
    assert select_proxy(server, "", "test", environ) == want


def test_configured_proxy_wins_for_localhost() -> None:
    assert select_proxy("https://localhost", "http://written", "test", {"NO_PROXY": "*"}) == "http://written"


def test_a_proxy_of_the_environment_that_cannot_be_used() -> None:
    with pytest.raises(InputError, match=r"the proxy is 'gopher://p'\n  hint: write a URL"):
        select_proxy("https://10.0.0.1", "", "test", {"HTTPS_PROXY": "gopher://p"})


SHOWN = {
    "http://h": "http://h",
    "https://me:secret@h:8443/a/b": "https://h:8443/a/b",
    "https://secret@h/a": "https://h/a",
    "https://me:sec@ret@h/a": "https://h/a",
    "https://me:sec/ret@h/a": "https://h/a",
    "https://h/a?token=secret#secret": "https://h/a",
    "me:secret@h": "h",
    "socks5://me:secret@[::1]:1080": "socks5://[::1]:1080",
    "": "",
}


@pytest.mark.parametrize(("url", "output"), SHOWN.items())
def test_url_is_redacted(url: str, output: str) -> None:
    assert redacted(url) == output


@pytest.mark.parametrize(
    "proxy", ["ftp://me:secret@h", "http://me:secret@h:port", "http://me:secret@h:0", "http://me:secret@"]
)
def test_proxy_error_does_not_show_the_password(proxy: str) -> None:
    with pytest.raises(InputError) as raised:
        select_proxy("https://server", proxy, "test")
    assert "secret" not in str(raised.value)
