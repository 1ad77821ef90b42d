"""The pages of a scheduler under test, read as by an operator."""

import ssl
import urllib.error
import urllib.request
from typing import Final

_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def page(port: int, path: str, token: str = "") -> str:
    """Read a page; return the status of a rejected request."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=60) as answer:
            text: str = answer.read().decode()
            return text
    except urllib.error.HTTPError as refused:
        return str(refused.code)


def answered(url: str) -> int:
    """Return the status of a page served without TLS; 0 without a response."""
    try:
        with _OPENER.open(url, timeout=60) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return 0


def fetch_text(url: str) -> str:
    """Return the text of a page served without TLS."""
    with _OPENER.open(url, timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def metric(port: int, name: str, token: str) -> dict[str, float]:
    """Read a metric: its values by their labels."""
    lines = [line for line in page(port, "/metrics", token).splitlines() if line.startswith(f"{name}{{")]
    pairs = (line.removeprefix(f"{name}{{").rpartition("} ") for line in lines)
    return {labels: float(number) for labels, _, number in pairs}
