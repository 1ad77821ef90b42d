"""Applying of manifests, as ``kubectl apply`` does, for all kinds that the server serves."""

import asyncio
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from moorage.common.errors import ApiError, InputError, NotFound
from moorage.kube.api.documents import read_documents
from moorage.kube.client.rest import ApiClient

APPLY: Final = "application/apply-patch+yaml"
MANAGER: Final = "moorage"
DEFINITION: Final = "CustomResourceDefinition"
_FIRST: Final = (DEFINITION, "Namespace", "PriorityClass", "StorageClass", "DeviceClass")
"""Kinds that other objects need; they are applied first, independent of the order in a file."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object as plain data, and its source."""

    data: Mapping[str, Any]
    source: str

    @property
    def kind(self) -> tuple[str, str]:
        """The ``apiVersion`` and ``kind``."""
        return str(self.data["apiVersion"]), str(self.data["kind"])

    @property
    def is_definition(self) -> bool:
        """Whether it defines a custom resource."""
        return self.kind[1] == DEFINITION


def manifests_in(*files: str | Path) -> list[Manifest]:
    """Read manifests from YAML or JSON files (``-`` is standard input); raise InputError if a file is invalid."""
    manifests: list[Manifest] = []
    for file in files:
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise InputError(str(file), f"cannot be read: {why}") from error
        manifests += manifests_of(read_documents(text, source=str(file)), source=str(file))
    return manifests


def manifests_of(documents: Iterable[Any], *, source: str) -> list[Manifest]:
    """Return the manifests of documents; lists of objects are flattened."""
    manifests: list[Manifest] = []
    for number, document in enumerate(documents):
        where = f"{source}, document {number + 1}"
        if not isinstance(document, Mapping) or not {"apiVersion", "kind"} <= document.keys():
            raise InputError(where, "not a Kubernetes object", hint="every object needs apiVersion and kind")
        if isinstance(document.get("items"), list):
            manifests += manifests_of(document["items"], source=where)
        elif not isinstance(document.get("metadata"), Mapping) or not document["metadata"].get("name"):
            raise InputError(where, f"{document['kind']} without a name", hint="write metadata: {name: …}")
        else:
            manifests.append(Manifest(document, where))
    return manifests


class Applier:
    """Applies manifests through an API server; discovery results are cached."""

    def __init__(self, client: ApiClient, namespace: str = "default") -> None:
        self._client = client
        self._namespace = namespace
        self._places: dict[tuple[str, str], tuple[str, bool]] = {}

    async def apply(self, manifests: Iterable[Manifest]) -> list[dict[str, Any]]:
        """Create or update objects; return the stored objects in the order of the manifests."""
        items = list(manifests)
        stored: dict[int, dict[str, Any]] = {}
        for number in sorted(range(len(items)), key=lambda number: _rank(items[number])):
            stored[number] = await self._apply(items[number])
        return [stored[number] for number in range(len(items))]

    async def delete(self, manifests: Iterable[Manifest]) -> None:
        """Delete objects in reverse order; missing objects are ignored."""
        for manifest in reversed(list(manifests)):
            try:
                await self._client.request("DELETE", await self._path(manifest))
            except NotFound:
                continue

    async def _apply(self, manifest: Manifest) -> dict[str, Any]:
        path = await self._path(manifest)
        body = msgspec.json.encode(manifest.data)
        how = f"fieldManager={MANAGER}&force=true&fieldValidation=Strict"
        try:
            answer = await self._client.request("PATCH", f"{path}?{how}", body, APPLY)
        except ApiError as error:
            if error.status in (400, 403, 404, 415, 422):
                raise InputError(manifest.source, str(error)) from error
            raise
        stored: dict[str, Any] = msgspec.json.decode(answer)
        return stored

    async def _path(self, manifest: Manifest) -> str:
        root, namespaced = await self._place(manifest)
        metadata = manifest.data["metadata"]
        if not namespaced:
            return f"{root}/{metadata['name']}"
        group, _, plural = root.rpartition("/")
        return f"{group}/namespaces/{metadata.get('namespace') or self._namespace}/{plural}/{metadata['name']}"

    async def _place(self, manifest: Manifest) -> tuple[str, bool]:
        """Return the path of a kind; retry, because a new custom resource may not be served yet."""
        for pause in (0.0, 0.1, 0.5):
            if manifest.kind not in self._places:
                await asyncio.sleep(pause)
                await self._discover(manifest.kind[0])
        if manifest.kind not in self._places:
            version, kind = manifest.kind
            raise InputError(manifest.source, f"the cluster does not serve {kind} in {version}")
        return self._places[manifest.kind]

    async def _discover(self, version: str) -> None:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        try:
            served = msgspec.json.decode(await self._client.request("GET", root))
        except NotFound:
            return
        for resource in served.get("resources", ()):
            if "/" not in resource["name"]:
                self._places[version, resource["kind"]] = (f"{root}/{resource['name']}", bool(resource["namespaced"]))


def _rank(manifest: Manifest) -> int:
    kind = manifest.kind[1]
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)
