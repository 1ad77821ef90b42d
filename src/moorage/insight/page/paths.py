"""Paths and static files of the page, for servers that forward its requests."""

import mimetypes
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final
from urllib.parse import unquote

import msgspec

from moorage.kube.http.messages import Headers, HttpRequest, Reply

ROOT: Final = "/ui/"
API: Final = "/ui/api/"
EVENTS: Final = "/ui/api/events"
TRY: Final = "/ui/api/try"
MAX_BODY: Final = 512 << 10
"""The longest body there is a use for: manifests to drop in."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFETY: Final[Headers] = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def assets() -> Mapping[str, tuple[bytes, str]]:
    """Return the files of the page, by name, with their types."""
    by_name: dict[str, tuple[bytes, str]] = {}
    for item in files("moorage.insight.page").joinpath("assets").iterdir():
        if item.is_file():
            kind = _TYPES.get(f".{item.name.rpartition('.')[2]}") or mimetypes.guess_type(item.name)[0]
            by_name[item.name] = (item.read_bytes(), kind or "application/octet-stream")
    return by_name


def public_paths() -> tuple[str, ...]:
    """List the paths that hold no data, only the page itself."""
    return ("/ui", ROOT, *(f"{ROOT}{name}" for name in sorted(assets())))


def problem(status: int, text: str) -> Reply:
    """Return an error reply."""
    return Reply(status, msgspec.json.encode({"error": text}), headers=SAFETY)


def serve_file(request: HttpRequest) -> Reply:
    """Return a file of the page."""
    path = unquote(request.path)
    if request.method not in ("GET", "HEAD"):
        return problem(405, "only GET is supported")
    if path == "/ui" or not path.startswith(ROOT):
        return Reply(302, b"", "text/plain", (("Location", ROOT), *SAFETY))
    asset = assets().get(path.removeprefix(ROOT) or "index.html")
    return problem(404, f"not found: {path[:200]}") if asset is None else Reply(200, *asset, SAFETY)
