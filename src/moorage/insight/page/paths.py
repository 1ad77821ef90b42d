"""Paths and static files of the page, for servers that forward its requests."""

import mimetypes
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from moorage.kube.http.messages import Headers, Reply

ROOT: Final = "/ui/"
API: Final = "/ui/api/"
EVENTS: Final = "/ui/api/events"
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
