"""The guard of local services: web pages of other sites and callers without a token are rejected."""

from pathlib import Path

import pytest

from moorage.common.errors import InputError
from moorage.kube.http.guard import RequestGuard, read_tokens
from moorage.kube.http.messages import HttpRequest, Reply

JSON = {"content-type": "application/json"}
LOCAL = {"host": "127.0.0.1:8089"}


def refuse(status: int, message: str) -> Reply:
    return Reply(status, message.encode())


def status(guard: RequestGuard, method: str, headers: dict[str, str], path: str = "/ask") -> int:
    pairs = [(name.encode(), text.encode()) for name, text in headers.items()]
    reply = guard.check(HttpRequest(method, path.encode(), pairs, b""))
    return 200 if reply is None else reply.status


REQUESTS: dict[str, tuple[str, dict[str, str], int]] = {
    "a program on this machine": ("POST", LOCAL | JSON, 200),
    "the name localhost": ("POST", {"host": "localhost:1"} | JSON, 200),
    "an IPv6 address": ("POST", {"host": "[::1]:8089"} | JSON, 200),
    "no Host header": ("GET", {}, 200),
    "a name that resolves to this machine": ("POST", {"host": "evil.example:8089"} | JSON, 403),
    "a name that begins like an address": ("GET", {"host": "127.0.0.1.evil.example"}, 403),
    "a name after a port": ("GET", {"host": "localhost:80@evil.example"}, 403),
    "a name after an address": ("GET", {"host": "[::1]evil.example"}, 403),
    "the page of the service itself": ("POST", LOCAL | JSON | {"origin": "http://127.0.0.1:8089"}, 200),
    "a page of another site": ("POST", LOCAL | JSON | {"origin": "https://evil.example"}, 403),
    "a page on another port": ("GET", LOCAL | {"origin": "http://127.0.0.1:1"}, 403),
    "a page without an origin": ("GET", LOCAL | {"origin": "null"}, 403),
    "a form": ("POST", LOCAL | {"content-type": "application/x-www-form-urlencoded"}, 415),
    "plain text": ("POST", LOCAL | {"content-type": "text/plain"}, 415),
    "no content type": ("PUT", LOCAL, 415),
    "JSON with parameters": ("POST", LOCAL | {"content-type": "Application/JSON; charset=utf-8"}, 200),
}


@pytest.mark.parametrize(("method", "headers", "expected"), REQUESTS.values(), ids=REQUESTS)
def test_local_service_rejects_pages_of_other_sites(method: str, headers: dict[str, str], expected: int) -> None:
    assert status(RequestGuard(refuse, is_local=True), method, headers) == expected


def test_token_is_required_except_on_public_paths() -> None:
    guard = RequestGuard(refuse, is_local=False, tokens=(b"one", b"two"), public=("/page",))
    outside = {"host": "moorage.example"}
    assert status(guard, "GET", outside) == 401
    assert status(guard, "GET", outside | {"authorization": "Bearer three"}) == 401
    assert status(guard, "GET", outside | {"authorization": "Basic one"}) == 401
    assert status(guard, "GET", outside | {"authorization": "Bearer two"}) == 200
    assert status(guard, "GET", outside, "/page") == 200


def test_token_file_without_tokens_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("one\n\n two \n")
    assert read_tokens(file) == (b"one", b"two")
    file.write_text("\n")
    with pytest.raises(InputError, match="no token in"):
        read_tokens(file)
