"""Tokens for services that people start for themselves: in a file, one a line; without one, for this machine only."""

import hmac
from pathlib import Path
from typing import Final

from moorage.common.errors import InputError
from moorage.kube.http.messages import HttpRequest
from moorage.kube.http.server import is_loopback

BEARER: Final = "Bearer "


class BearerTokens:
    """Callers with one of the tokens, or all local callers if there are no tokens."""

    def __init__(self, tokens: tuple[bytes, ...] = ()) -> None:
        self._tokens = tokens

    @classmethod
    def for_address(cls, file: Path | None, address: str) -> "BearerTokens":
        """Read the tokens; raise InputError without tokens if the address is reachable from outside."""
        tokens = () if file is None else _read(file)
        if not tokens and not is_loopback(address):
            problem = f"{address} is not a loopback address, and no tokens are configured"
            raise InputError("--address", problem, hint="set --token-file, or listen on 127.0.0.1")
        return cls(tokens)

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def admit(self, request: HttpRequest) -> bool:
        """Return whether a request is authorized."""
        header = request.header(b"authorization")
        credential = header.removeprefix(BEARER).encode() if header.startswith(BEARER) else b""
        return not self._tokens or any(hmac.compare_digest(credential, token) for token in self._tokens)


def _read(path: Path) -> tuple[bytes, ...]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError("--token-file", f"{path} cannot be read: {error.strerror}") from error
    tokens = tuple(line.strip() for line in lines if line.strip())
    if not tokens:
        raise InputError("--token-file", f"no token in {path}", hint="write one token per line")
    return tokens
