"""The part of an API server that reviews tokens and access, and publishes the trusted CA."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web


class ReviewServer:
    """Has some tokens and their permissions; counts the reviews."""

    def __init__(self) -> None:
        self.users: dict[str, dict[str, Any]] = {}
        self.allowed: set[tuple[str, str, str]] = set()
        self.published: Mapping[str, str] | None = None
        self.is_broken = False
        self.token_reviews = 0
        self.access_reviews: list[dict[str, Any]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    @asynccontextmanager
    async def running(self, directory: Path) -> AsyncIterator[str]:
        """Serve on a free port; the block gets the path of a kubeconfig."""
        app = web.Application()
        app.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", self._review_token)
        app.router.add_post("/apis/authorization.k8s.io/v1/subjectaccessreviews", self._review_access)
        app.router.add_get(
            "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", self._config_map
        )
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield kubeconfig(directory, f"http://127.0.0.1:{runner.addresses[0][1]}")
        finally:
            await runner.cleanup()

    async def _review_token(self, request: web.Request) -> web.Response:
        self.token_reviews += 1
        await self.gate.wait()
        if self.is_broken:
            return web.Response(status=500, text="broken")
        user = self.users.get((await request.json())["spec"]["token"])
        status = {"authenticated": user is not None, **({"user": user} if user else {})}
        return web.json_response({"kind": "TokenReview", "status": status}, status=201)

    async def _review_access(self, request: web.Request) -> web.Response:
        spec = (await request.json())["spec"]
        self.access_reviews.append(spec)
        if self.is_broken:
            return web.Response(status=500, text="broken")
        query = spec["nonResourceAttributes"]
        allowed = (spec["user"], query["verb"], query["path"]) in self.allowed
        return web.json_response({"kind": "SubjectAccessReview", "status": {"allowed": allowed}}, status=201)

    async def _config_map(self, _: web.Request) -> web.Response:
        if self.published is None:
            return web.json_response({"kind": "Status", "message": "not found", "code": 404}, status=404)
        return web.json_response({"kind": "ConfigMap", "data": dict(self.published)})


def kubeconfig(directory: Path, server: str) -> str:
    """Write a kubeconfig without credentials."""
    path = directory / "reviews.kubeconfig"
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)
