"""Applying of manifests, as ``kubectl apply`` does, for all kinds that the server serves."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from moorage.common.errors import ApiError, InputError, NotFound
from moorage.kube.client.rest import ApiClient
from moorage.kube.manifests import Document, read_files

APPLY: Final = "application/apply-patch+yaml"
MANAGER: Final = "moorage"
_FIRST: Final = ("CustomResourceDefinition", "Namespace", "PriorityClass", "StorageClass", "DeviceClass")
"""Kinds that other objects need. They are applied first, independent of the order in a file."""


def read_manifests(*files: str | Path) -> list[Document]:
    """Read manifests from YAML or JSON files (``-`` is standard input). Raise InputError if one is invalid."""
    return check_manifests(read_files([str(file) for file in files]))


def check_manifests(documents: Iterable[Document]) -> list[Document]:
    """Return documents that can be applied. Raise InputError for an object without kind or name."""
    manifests = list(documents)
    for document in manifests:
        if not document.kind or not document.api_version:
            raise InputError(document.source, "not a Kubernetes object", hint="every object needs apiVersion and kind")
        metadata = document.content.get("metadata")
        if not isinstance(metadata, Mapping) or not metadata.get("name"):
            raise InputError(document.source, f"{document.kind} without a name", hint="write metadata: {name: …}")
    return manifests


class Applier:
    """Applies manifests through an API server. Discovery results are cached."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}
        """The path of each kind, and whether it is namespaced."""

    async def apply(self, manifests: Iterable[Document]) -> list[dict[str, Any]]:
        """Create or update objects. Return the stored objects in the order of the manifests."""
        items = list(manifests)
        stored_objects: dict[int, dict[str, Any]] = {}
        ranks = [_FIRST.index(item.kind) if item.kind in _FIRST else len(_FIRST) for item in items]
        for number in sorted(range(len(items)), key=ranks.__getitem__):
            stored_objects[number] = await self._apply(items[number])
        return [stored_objects[number] for number in range(len(items))]

    async def delete(self, manifests: Iterable[Document]) -> None:
        """Delete objects in reverse order. Missing objects are ignored."""
        for manifest in reversed(list(manifests)):
            try:
                await self._client.request("DELETE", await self._path(manifest))
            except NotFound:
                continue

    async def _apply(self, manifest: Document) -> dict[str, Any]:
        path = await self._path(manifest)
        body = msgspec.json.encode(manifest.content)
        query = f"fieldManager={MANAGER}&force=true&fieldValidation=Strict"
        try:
            answer = await self._client.request("PATCH", f"{path}?{query}", body, APPLY)
        except ApiError as error:
            if error.status in (400, 403, 404, 415, 422):
                raise InputError(manifest.source, str(error)) from error
            raise
        stored_object: dict[str, Any] = msgspec.json.decode(answer)
        return stored_object

    async def _path(self, manifest: Document) -> str:
        key = (manifest.api_version, manifest.kind)
        # Retry, because a new custom resource may not be served yet.
        for pause in (0.0, 0.1, 0.5):
            if key not in self._resources:
                await asyncio.sleep(pause)
                await self._discover(manifest.api_version)
        if key not in self._resources:
            problem = f"the cluster does not serve {manifest.kind} in {manifest.api_version}"
            raise InputError(manifest.source, problem)
        root, namespaced = self._resources[key]
        metadata = manifest.content["metadata"]
        if not namespaced:
            return f"{root}/{metadata['name']}"
        group, _, plural = root.rpartition("/")
        return f"{group}/namespaces/{metadata.get('namespace') or 'default'}/{plural}/{metadata['name']}"

    async def _discover(self, version: str) -> None:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        try:
            served = msgspec.json.decode(await self._client.request("GET", root))
        except NotFound:
            return
        for resource in served.get("resources", ()):
            if "/" not in resource["name"]:
                self._resources[version, resource["kind"]] = (
                    f"{root}/{resource['name']}",
                    bool(resource["namespaced"]),
                )
