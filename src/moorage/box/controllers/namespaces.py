"""Namespaces: one that is deleted takes everything in it along, and goes when nothing is left."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from moorage.api.cluster import Namespace
from moorage.api.meta import KubeObject
from moorage.api.struct import Data
from moorage.box.controllers.actions import After, ControllerAction, Patch, Sweep
from moorage.box.controllers.view import View
from moorage.client.rest import ApiClient
from moorage.errors import NotFound

FINALIZER: Final = "kubernetes"
PATIENCE: Final = 0.5
"""How long to wait for pods and finalizers before looking again what is left."""


class NamespaceController:
    """Empties namespaces that are being deleted."""

    name = "namespaces"
    kinds = (Namespace,)
    pause = 0.0

    def affected(self, thing: KubeObject, view: View) -> Iterable[str]:
        """Look at a namespace when it changes."""
        return (thing.key,)

    def reconcile(self, key: str, view: View) -> Iterable[ControllerAction]:
        """Empty a namespace that is being deleted, and look again until it is gone."""
        namespace = view[Namespace].get(key)
        return () if namespace is None else reconcile(namespace)


def reconcile(namespace: Namespace) -> Iterator[ControllerAction]:
    """Decide what is to be done about one namespace."""
    if not namespace.is_terminating or FINALIZER not in namespace.spec.finalizers:
        return
    if namespace.status.get("phase") != "Terminating":
        yield Patch(namespace, {"status": {"phase": "Terminating"}}, "status")
    yield Sweep(namespace)
    yield After(PATIENCE)


async def sweep(client: ApiClient, namespace: KubeObject) -> None:
    """Delete all objects in a namespace; if there were none, take off our finalizer."""
    places = [f"{root}/namespaces/{namespace.name}/{plural}" for root, plural in await _namespaced(client)]
    left = [place for place in places if await _has_any(client, place)]
    for place in left:
        await client.request("DELETE", place, b'{"apiVersion":"v1","kind":"DeleteOptions"}')
    if not left:
        await _let_go(client, namespace.name)


async def _namespaced(client: ApiClient) -> list[tuple[str, str]]:
    """Ask the server which resources live in namespaces and can be deleted together."""
    roots = ["/api/v1"]
    groups = await _get(client, "/apis")
    roots += [f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups.get("groups", ())]
    found = []
    for root in roots:
        for resource in (await _get(client, root)).get("resources", ()):
            if resource.get("namespaced") and {"deletecollection", "list"} <= set(resource.get("verbs", ())):
                found.append((root, resource["name"]))
    return found


async def _has_any(client: ApiClient, place: str) -> bool:
    try:
        return bool((await _get(client, f"{place}?limit=1")).get("items"))
    except NotFound:
        # A custom resource that was taken away meanwhile.
        return False


async def _let_go(client: ApiClient, name: str) -> None:
    path = f"/api/v1/namespaces/{name}"
    current = await _get(client, path)
    spec = current.get("spec") or {}
    kept = [finalizer for finalizer in spec.get("finalizers") or () if finalizer != FINALIZER]
    body = msgspec.json.encode({**current, "spec": {**spec, "finalizers": kept}})
    await client.request("PUT", f"{path}/finalize", body)


async def _get(client: ApiClient, path: str) -> Data:
    content: dict[str, Any] = msgspec.json.decode(await client.request("GET", path))
    return content
