"""Which page is served under which path."""

from collections.abc import Callable, Coroutine
from typing import Any, Final
from urllib.parse import unquote

from moorage.kube.http.messages import HttpRequest, Reply, ReplyStream

PLAIN: Final = "text/plain; charset=utf-8"
PageHandler = Callable[[HttpRequest], Coroutine[Any, Any, Reply]]
StreamingHandler = Callable[[HttpRequest], Coroutine[Any, Any, Reply | ReplyStream]]


def text_reply(text: str, status: int = 200) -> Reply:
    """Return a plain text response."""
    return Reply(status, text.encode(), PLAIN)


class Router:
    """Finds the page for a request. A path that ends in a slash also matches everything right below it."""

    def __init__(self) -> None:
        self._pages: dict[str, dict[str, PageHandler]] = {}

    def add(self, method: str, path: str, page: PageHandler) -> None:
        """Serve a page; GET also allows HEAD."""
        pages = self._pages.setdefault(path, {})
        pages[method] = page
        if method == "GET":
            pages["HEAD"] = page

    @property
    def paths(self) -> list[str]:
        """The served paths, in order."""
        return sorted(self._pages)

    def has(self, path: str) -> bool:
        """Return whether something is served there."""
        return self._at(unquote(path)) is not None

    def _at(self, path: str) -> dict[str, PageHandler] | None:
        return self._pages.get(path) or self._pages.get(f"{path.rpartition('/')[0]}/")

    async def answer(self, request: HttpRequest) -> Reply:
        """Handle a request: 404 for an unknown path, 405 for an unsupported method."""
        pages = self._at(unquote(request.path))
        if pages is None:
            return text_reply("404 page not found\n", 404)
        page = pages.get(request.method)
        if page is None:
            methods = ", ".join(sorted(pages))
            return text_reply("405 method not allowed\n", 405)._replace(headers=(("Allow", methods),))
        return await page(request)
