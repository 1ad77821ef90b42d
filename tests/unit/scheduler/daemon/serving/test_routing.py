"""Pages by path and method."""

import asyncio

import pytest

from moorage.kube.http.messages import HttpRequest, Reply
from moorage.scheduler.daemon.serving.routing import Router, text_reply


async def show_path(request: HttpRequest) -> Reply:
    return text_reply(request.path)


def route(method: str, path: str) -> Reply:
    router = Router()
    for registered in ("/metrics", "/healthz", "/healthz/"):
        router.add("GET", registered, show_path)
    router.add("DELETE", "/metrics", show_path)
    return asyncio.run(router.answer(HttpRequest(method, path.encode(), [], b"", asyncio.BaseTransport())))


ROUTES = {
    "a page": ("GET", "/metrics", 200),
    "the head of a page": ("HEAD", "/metrics", 200),
    "another method of the same page": ("DELETE", "/metrics", 200),
    "a quoted path": ("GET", "/metric%73", 200),
    "a path below a directory": ("GET", "/healthz/ping", 200),
    "a path two levels below a directory": ("GET", "/healthz/ping/now", 404),
    "an unknown path": ("GET", "/metric", 404),
    "a page without this method": ("POST", "/metrics", 405),
}


@pytest.mark.parametrize(("method", "path", "status"), ROUTES.values(), ids=ROUTES)
def test_requests_reach_the_page_of_their_path_and_method(method: str, path: str, status: int) -> None:
    assert route(method, path).status == status


def test_response_to_a_rejected_method_lists_the_allowed_methods() -> None:
    assert route("POST", "/metrics").headers == (("Allow", "DELETE, GET, HEAD"),)


def test_paths_are_listed_in_order() -> None:
    router = Router()
    for path in ("/version", "/configz"):
        router.add("GET", path, show_path)
    assert router.paths == ["/configz", "/version"]
    assert router.has("/version")
    assert not router.has("/versions")
