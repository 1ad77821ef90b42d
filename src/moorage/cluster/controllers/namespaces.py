"""Namespaces: their content is deleted before them, and each has a default account and the root CA."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from moorage.cluster.controllers.actions import ControllerAction, Create, EmptyNamespace, Patch, RequeueAfter
from moorage.cluster.controllers.base import BaseController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import with_condition
from moorage.common.errors import NotFound
from moorage.kube.api.cluster import ConfigMap, Namespace, ServiceAccount
from moorage.kube.api.meta import KubeObject, format_time
from moorage.kube.api.struct import Data
from moorage.kube.client.rest import MERGE_PATCH, ApiClient

FINALIZER: Final = "kubernetes"
SAMPLE: Final = 100
"""The maximum number of objects of a kind to examine for finalizers."""
PATIENCE: Final = 0.5
"""Delay before rechecking remaining pods and finalizers."""


class NamespaceController(BaseController):
    """Empties namespaces that are being deleted."""

    name = "namespaces"
    kinds = (Namespace,)
    pause = PATIENCE

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Empty a namespace that is being deleted, and recheck until it is deleted."""
        namespace = cache[Namespace].get(key)
        if namespace is None or not namespace.is_terminating or FINALIZER not in namespace.spec.finalizers:
            return
        if namespace.status.get("phase") != "Terminating":
            yield Patch(namespace, {"status": {"phase": "Terminating"}}, "status")
        yield EmptyNamespace(namespace, self._clock.now())
        yield RequeueAfter(PATIENCE)


@dataclass(frozen=True, slots=True)
class Remains:
    """The remaining objects of a resource in a namespace."""

    path: str
    resource: str
    count: int
    finalizers: Counter[str]


async def empty_namespace(client: ApiClient, namespace: KubeObject, now: float) -> None:
    """Delete all objects in a namespace, pods first. If it is empty, remove the finalizer."""
    remaining_objects = [remains async for remains in _remains(client, namespace.name)]
    # Secrets and claims in use remain until the pods are deleted.
    pods = [remains for remains in remaining_objects if remains.resource == "pods."]
    for remains in pods or remaining_objects:
        await client.request("DELETE", remains.path, b'{"apiVersion":"v1","kind":"DeleteOptions"}')
    path = f"/api/v1/namespaces/{namespace.name}"
    current = await _get(client, path)
    if remaining_objects:
        # The status reports what blocks the deletion.
        before = conditions = (current.get("status") or {}).get("conditions") or []
        for condition in _conditions(remaining_objects):
            conditions = with_condition(conditions, format_time(now), **condition)
        if conditions != before:
            body = msgspec.json.encode({"status": {"conditions": conditions}})
            await client.request("PATCH", f"{path}/status", body, MERGE_PATCH)
    else:
        spec = current.get("spec") or {}
        finalizers = [finalizer for finalizer in spec.get("finalizers") or () if finalizer != FINALIZER]
        body = msgspec.json.encode({**current, "spec": {**spec, "finalizers": finalizers}})
        await client.request("PUT", f"{path}/finalize", body)


async def _remains(client: ApiClient, namespace: str) -> AsyncIterator[Remains]:
    for root, plural in await _list_namespaced(client):
        path = f"{root}/namespaces/{namespace}/{plural}"
        try:
            page = await _get(client, f"{path}?limit={SAMPLE}")
        except NotFound:
            # The custom resource was deleted concurrently.
            continue
        if items := page.get("items"):
            count = len(items) + int(page["metadata"].get("remainingItemCount") or 0)
            finalizers = Counter(name for item in items for name in item["metadata"].get("finalizers") or ())
            group = root.split("/")[2] if root.startswith("/apis/") else ""
            yield Remains(path, f"{plural}.{group}", count, finalizers)


def _conditions(remaining_objects: list[Remains]) -> Iterator[dict[str, str]]:
    yield _condition(
        "NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"
    )
    parsed = "All legacy kube types successfully parsed"
    yield _condition("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", parsed)
    deleted = "All content successfully deleted, may be waiting on finalization"
    yield _condition("NamespaceDeletionContentFailure", "ContentDeleted", deleted)
    counts = ", ".join(
        sorted(f"{remains.resource} has {remains.count} resource instances" for remains in remaining_objects)
    )
    message = f"Some resources are remaining: {counts}"
    yield _condition("NamespaceContentRemaining", "SomeResourcesRemain", message, status="True")
    finalizers = sum((remains.finalizers for remains in remaining_objects), Counter[str]())
    if finalizers:
        summary = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
        message = f"Some content in the namespace has finalizers remaining: {summary}"
        yield _condition("NamespaceFinalizersRemaining", "SomeFinalizersRemain", message, status="True")
    else:
        finished = "All content-preserving finalizers finished"
        yield _condition("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", finished)


def _condition(kind: str, reason: str, message: str, status: str = "False") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


async def _list_namespaced(client: ApiClient) -> list[tuple[str, str]]:
    """Return the namespaced resources that support deletecollection."""
    roots = ["/api/v1"]
    groups = await _get(client, "/apis")
    roots += [f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups.get("groups", ())]
    resources = []
    for root in roots:
        for resource in (await _get(client, root)).get("resources", ()):
            if resource.get("namespaced") and {"deletecollection", "list"} <= set(resource.get("verbs", ())):
                resources.append((root, resource["name"]))
    return resources


async def _get(client: ApiClient, path: str) -> Data:
    content: dict[str, Any] = msgspec.json.decode(await client.request("GET", path))
    return content


DEFAULT: Final = "default"
AUTHORITY: Final = "kube-system/extension-apiserver-authentication"
"""The API server publishes the CA of its certificate here."""
ROOT: Final = "kube-root-ca.crt"
FILE: Final = "ca.crt"
ABOUT_ROOT: Final = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed "
    "across distributions of Kubernetes clusters."
}


class AccountController(BaseController):
    """Creates the default service account of each namespace."""

    name = "service accounts"
    kinds = (Namespace, ServiceAccount)
    pause = 0.1

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        return (obj.name,) if isinstance(obj, Namespace) else (obj.namespace,)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Create the account if it is missing."""
        namespace = cache[Namespace].get(key)
        is_there = cache[ServiceAccount].get(f"{key}/{DEFAULT}") is not None
        if namespace is None or namespace.is_terminating or is_there:
            return ()
        return [Create(ServiceAccount, {"metadata": {"name": DEFAULT, "namespace": key}})]


class RootAuthorityController(BaseController):
    """Publishes the CA of the API server in each namespace, if the server uses TLS."""

    name = "root authority"
    kinds = (Namespace, ConfigMap)
    pause = 0.1

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if isinstance(obj, Namespace):
            return (obj.name,)
        if obj.key == AUTHORITY:
            return [namespace.name for namespace in cache[Namespace]]
        return (obj.namespace,) if obj.name == ROOT else ()

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Create the config map if it is missing, and restore its content if it differs."""
        namespace, source = cache[Namespace].get(key), cache[ConfigMap].get(AUTHORITY)
        authority = source.data.get("client-ca-file") if source is not None else None
        if namespace is None or namespace.is_terminating or not authority:
            return ()
        data, config_map = {FILE: authority}, cache[ConfigMap].get(f"{key}/{ROOT}")
        if config_map is None:
            metadata = {"name": ROOT, "namespace": key, "annotations": ABOUT_ROOT}
            return [Create(ConfigMap, {"metadata": metadata, "data": data})]
        if config_map.data == data:
            return ()
        surplus = dict.fromkeys(config_map.data.keys() - data.keys())
        return [Patch(config_map, {"data": {**data, **surplus}})]
