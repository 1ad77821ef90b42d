"""Namespaces: one that is deleted takes everything in it along, and goes when nothing is left."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from moorage.cluster.controllers.actions import ControllerAction, Create, EmptyNamespace, Patch, RequeueAfter
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import with_condition
from moorage.common.clock import Clock
from moorage.common.errors import NotFound
from moorage.kube.api.cluster import ConfigMap, Namespace, ServiceAccount
from moorage.kube.api.meta import KubeObject, format_time
from moorage.kube.api.struct import Data
from moorage.kube.client.rest import MERGE_PATCH, ApiClient

FINALIZER: Final = "kubernetes"
SAMPLE: Final = 100
"""How many objects of a kind are looked at for what holds them."""
PATIENCE: Final = 0.5
"""How long to wait for pods and finalizers before looking again what is left."""


class NamespaceController:
    """Empties namespaces that are being deleted."""

    name = "namespaces"
    kinds = (Namespace,)
    pause = PATIENCE

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Look at a namespace when it changes."""
        return (obj.key,)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Empty a namespace that is being deleted, and look again until it is gone."""
        namespace = cache[Namespace].get(key)
        return () if namespace is None else reconcile(namespace, self._clock.now())


def reconcile(namespace: Namespace, now: float) -> Iterator[ControllerAction]:
    """Decide what is to be done about one namespace."""
    if not namespace.is_terminating or FINALIZER not in namespace.spec.finalizers:
        return
    if namespace.status.get("phase") != "Terminating":
        yield Patch(namespace, {"status": {"phase": "Terminating"}}, "status")
    yield EmptyNamespace(namespace, now)
    yield RequeueAfter(PATIENCE)


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left of one resource in a namespace."""

    place: str
    resource: str
    count: int
    finalizers: Counter[str]


async def empty_namespace(client: ApiClient, namespace: KubeObject, now: float) -> None:
    """Delete all objects in a namespace, pods before everything else; if there were none, take off our finalizer."""
    left = [remains async for remains in _remains(client, namespace.name)]
    # What pods use, a secret or a claim, stays until they are gone.
    pods = [remains for remains in left if remains.resource == "pods."]
    for remains in pods or left:
        await client.request("DELETE", remains.place, b'{"apiVersion":"v1","kind":"DeleteOptions"}')
    if left:
        await _tell(client, namespace.name, left, format_time(now))
    else:
        await _let_go(client, namespace.name)


async def _remains(client: ApiClient, namespace: str) -> AsyncIterator[Remains]:
    for root, plural in await _namespaced(client):
        place = f"{root}/namespaces/{namespace}/{plural}"
        try:
            found = await _get(client, f"{place}?limit={SAMPLE}")
        except NotFound:
            # A custom resource that was taken away meanwhile.
            continue
        if items := found.get("items"):
            count = len(items) + int(found["metadata"].get("remainingItemCount") or 0)
            finalizers = Counter(name for item in items for name in item["metadata"].get("finalizers") or ())
            group = root.split("/")[2] if root.startswith("/apis/") else ""
            yield Remains(place, f"{plural}.{group}", count, finalizers)


async def _tell(client: ApiClient, name: str, left: list[Remains], moment: str) -> None:
    """Say in the status of a namespace what it waits for."""
    path = f"/api/v1/namespaces/{name}"
    known = ((await _get(client, path)).get("status") or {}).get("conditions") or []
    conditions = known
    for wanted in _conditions(left):
        conditions = with_condition(conditions, moment, **wanted)
    if conditions != known:
        body = msgspec.json.encode({"status": {"conditions": conditions}})
        await client.request("PATCH", f"{path}/status", body, MERGE_PATCH)


def _conditions(left: list[Remains]) -> Iterator[dict[str, str]]:
    yield _condition(
        "NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"
    )
    parsed = "All legacy kube types successfully parsed"
    yield _condition("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", parsed)
    deleted = "All content successfully deleted, may be waiting on finalization"
    yield _condition("NamespaceDeletionContentFailure", "ContentDeleted", deleted)
    counts = ", ".join(sorted(f"{remains.resource} has {remains.count} resource instances" for remains in left))
    message = f"Some resources are remaining: {counts}"
    yield _condition("NamespaceContentRemaining", "SomeResourcesRemain", message, status="True")
    finalizers = sum((remains.finalizers for remains in left), Counter[str]())
    if finalizers:
        held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
        message = f"Some content in the namespace has finalizers remaining: {held}"
        yield _condition("NamespaceFinalizersRemaining", "SomeFinalizersRemain", message, status="True")
    else:
        finished = "All content-preserving finalizers finished"
        yield _condition("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", finished)


def _condition(kind: str, reason: str, message: str, status: str = "False") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


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


DEFAULT: Final = "default"
AUTHORITY: Final = "kube-system/extension-apiserver-authentication"
"""Where the API server says which authority signed its certificate."""
ROOT: Final = "kube-root-ca.crt"
FILE: Final = "ca.crt"
ABOUT_ROOT: Final = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed "
    "across distributions of Kubernetes clusters."
}


class AccountController:
    """Makes the default service account of each namespace."""

    name = "service accounts"
    kinds = (Namespace, ServiceAccount)
    pause = 0.1

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Look at a namespace when it comes, or its account goes."""
        return (obj.name,) if isinstance(obj, Namespace) else (obj.namespace,)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Make the account if it is missing."""
        namespace = cache[Namespace].get(key)
        is_there = cache[ServiceAccount].get(f"{key}/{DEFAULT}") is not None
        if namespace is None or namespace.is_terminating or is_there:
            return ()
        return [Create(ServiceAccount, {"metadata": {"name": DEFAULT, "namespace": key}})]


class RootAuthorityController:
    """Publishes the authority of the API server into each namespace; a server without TLS has none."""

    name = "root authority"
    kinds = (Namespace, ConfigMap)
    pause = 0.1

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Look at a namespace when it comes, or its copy is touched; at all of them when there is a new authority."""
        if isinstance(obj, Namespace):
            return (obj.name,)
        if obj.key == AUTHORITY:
            return [namespace.name for namespace in cache[Namespace]]
        return (obj.namespace,) if obj.name == ROOT else ()

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Make the copy if it is missing, and mend it if it says something else."""
        namespace, source = cache[Namespace].get(key), cache[ConfigMap].get(AUTHORITY)
        authority = source.data.get("client-ca-file") if source is not None else None
        if namespace is None or namespace.is_terminating or not authority:
            return ()
        wanted, known = {FILE: authority}, cache[ConfigMap].get(f"{key}/{ROOT}")
        if known is None:
            metadata = {"name": ROOT, "namespace": key, "annotations": ABOUT_ROOT}
            return [Create(ConfigMap, {"metadata": metadata, "data": wanted})]
        if known.data == wanted:
            return ()
        surplus = dict.fromkeys(known.data.keys() - wanted.keys())
        return [Patch(known, {"data": {**wanted, **surplus}})]
