"""The guard of services for programs on this machine, or with a token."""

import hmac
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from moorage.common.errors import InputError
from moorage.common.user_files import read_file
from moorage.kube.http.messages import JSON, HttpRequest, Reply
from moorage.kube.http.proxies import is_loopback

BEARER: Final = "Bearer "
MAX_QUOTED: Final = 100
_HOST: Final = re.compile(r"(\[[^\[\]]+\]|[^:\[\]]*)(?::\d*)?", re.ASCII)


class RequestGuard:
    """Checks the head of each request: the token, and whether a web page of another site may have sent it.

    A browser sends requests of any web page to services on this machine. So a local service accepts only loopback names
    in ``Host`` (a site can have a DNS name that resolves to this machine), only its own ``Origin``, and only bodies
    declared as JSON, which a browser does not send to another origin without permission. ``public`` paths need no
    token.
    """

    def __init__(
        self,
        refuse: Callable[[int, str], Reply],
        *,
        is_local: bool,
        tokens: Collection[bytes] = (),
        public: Collection[str] = (),
    ) -> None:
        self._refuse = refuse
        self._is_local = is_local
        self._tokens = tokens
        self._public = public

    def check(self, request: HttpRequest) -> Reply | None:
        """Return a reply that rejects the request, or ``None``."""
        host, origin = request.header(b"host").strip(), request.header(b"origin")
        if self._is_local and not _is_local_name(host):
            problem = f"the Host header {host[:MAX_QUOTED]!r} is not a name of this machine"
            return self._refuse(403, f"{problem}: use 127.0.0.1 or localhost")
        if origin and (self._is_local or not self._tokens) and origin.partition("://")[2] != host:
            return self._refuse(403, f"requests of web pages from {origin[:MAX_QUOTED]!r} are not accepted")
        if request.method in ("POST", "PUT", "PATCH"):
            content_type = request.header(b"content-type").partition(";")[0].strip().lower()
            if content_type != JSON:
                return self._refuse(415, f"the content type is not JSON: send Content-Type: {JSON}")
        if self._tokens and request.path not in self._public and not self._has_token(request):
            return self._refuse(401, "missing or unknown token: send Authorization: Bearer TOKEN")
        return None

    def _has_token(self, request: HttpRequest) -> bool:
        header = request.header(b"authorization")
        credential = header.removeprefix(BEARER).encode() if header.startswith(BEARER) else b""
        return any(hmac.compare_digest(credential, token) for token in self._tokens)


def _is_local_name(host: str) -> bool:
    """Return whether a Host header is empty or a loopback name."""
    match = _HOST.fullmatch(host)
    return match is not None and (not match[1] or is_loopback(match[1].strip("[]")))


def read_tokens(file: Path | None) -> tuple[bytes, ...]:
    """Read the tokens of a file, one per line."""
    if file is None:
        return ()
    tokens = tuple(line.strip() for line in read_file(file, where="--token-file").split(b"\n") if line.strip())
    if not tokens:
        raise InputError("--token-file", f"no token in {file}", hint="write one token per line")
    return tokens
