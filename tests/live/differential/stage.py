"""Objects on the real API server: creates and deletes the objects of a scene, and changes single ones."""

import asyncio
import time
from collections import Counter
from copy import deepcopy
from typing import Any, Final

import msgspec

from moorage.common.errors import ApiError, Conflict, Forbidden, NotFound
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.client.rest import MERGE_PATCH, ApiClient
from tests.conformance.generator import words
from tests.conformance.generator.storage import BIND_COMPLETED
from tests.conformance.generator.words import Object
from tests.live.differential.scene import ORDER, Scene

RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
#: Kinds with a status that is written after their creation. A controller writes that of volumes.
WITH_STATUS: Final = ("Pod", "ResourceClaim", "PodDisruptionBudget")
AT_ONCE: Final = 8
QUIET_SECONDS: Final = 0.6
PATIENCE: Final = 60.0
ATTEMPTS: Final = 3


def make_api_path(kind: str, name: str = "", namespace: str = "", subresource: str = "") -> str:
    """Return the path of an object, also for kinds that no scheduler reads."""
    if kind == "RuntimeClass":
        return f"{RUNTIME_CLASSES}/{name}".rstrip("/")
    return BY_NAME[kind].path(name, namespace, subresource)


class Stage:
    """The API server, and the uids of its objects."""

    def __init__(self, client: ApiClient) -> None:
        self.client = client
        self.refused: Counter[str] = Counter()
        self.leaving: set[str] = set()
        self._uids: dict[str, str] = {}
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def set_up(self, scene: Scene) -> None:
        """Create all objects of a scene except the nodes, and wait until the controllers are idle."""
        self._uids, self.leaving = {}, set()
        for name in words.NAMESPACES:
            await self._label_namespace(name, {})
        for kind in ORDER:
            if kind == "Node":
                continue
            # One at a time: objects of the same moment have no order, and the order decides ties.
            for obj in scene.of(kind):
                await self.add(obj)
        if claims := scene.of("PersistentVolumeClaim"):
            for claim in claims:
                await self._bind(claim)
            await self._settle()

    async def _bind(self, claim: Object) -> None:
        """Set the volume of a claim once it exists: the controller marks a claim without its volume as lost."""
        metadata, volume = claim["metadata"], claim["spec"].get("volumeName")
        if volume:
            change = {"metadata": {"annotations": metadata.get("annotations", {})}, "spec": {"volumeName": volume}}
            await self.patch("PersistentVolumeClaim", metadata["name"], self._namespace(claim), change)

    async def add(self, obj: Object) -> Object | None:
        """Create an object with its status and deletion; return None if the server rejects it."""
        kind, metadata = obj["kind"], obj["metadata"]
        if kind == "Namespace":
            await self._label_namespace(metadata["name"], metadata.get("labels", {}))
            return obj
        content = self._with_uids(deepcopy(obj))
        for key in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
            content["metadata"].pop(key, None)
        if kind == "PersistentVolumeClaim":
            _unbind(content)
        namespace = self._namespace(obj)
        try:
            created = await self._create(make_api_path(kind, namespace=namespace), content)
        except ApiError as error:
            self.refused[f"{kind}: {error}"] += 1
            return None
        if "uid" in metadata:
            self._uids[metadata["uid"]] = created["metadata"]["uid"]
        if kind in WITH_STATUS and "status" in content:
            await self._write_status(kind, metadata["name"], namespace, content["status"])
        if kind == "Pod" and "deletionTimestamp" in metadata:
            self.leaving.add(created["metadata"]["uid"])
            await self.client.request("DELETE", make_api_path(kind, metadata["name"], namespace))
        return created

    async def _create(self, path: str, content: Object) -> Object:
        """Create an object; retry, because admission observes new classes with a delay."""
        for _ in range(ATTEMPTS):
            try:
                return await self._send("POST", path, content)
            except Forbidden:
                await asyncio.sleep(QUIET_SECONDS)
        return await self._send("POST", path, content)

    async def _write_status(self, kind: str, name: str, namespace: str, status: Object) -> None:
        try:
            await self.patch(kind, name, namespace, {"status": status}, "status")
        except ApiError as error:
            self.refused[f"{kind} status: {error}"] += 1

    async def patch(self, kind: str, name: str, namespace: str, change: Object, subresource: str = "") -> None:
        """Patch an object."""
        body = msgspec.json.encode(self._with_uids(change))
        await self.client.request("PATCH", make_api_path(kind, name, namespace, subresource), body, MERGE_PATCH)

    async def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """Read an object; ``None`` if it does not exist."""
        try:
            return await self._send("GET", make_api_path(kind, name, namespace))
        except NotFound:
            return None

    async def all_of(self, kind: str) -> list[Object]:
        """Read all objects of a kind, as in a file."""
        items: list[Object] = (await self._send("GET", make_api_path(kind)))["items"]
        api = BY_NAME[kind].api_version if kind in BY_NAME else ""
        return [{"apiVersion": api, "kind": kind, **item} for item in items]

    async def events(self, obj: Object) -> list[Object]:
        """Read the events about an object, the oldest first."""
        uid, namespace = obj["metadata"]["uid"], obj["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.uid%3D{uid}"
        items: list[Object] = (await self._send("GET", path))["items"]
        return sorted(items, key=lambda event: (event.get("eventTime") or "", event["metadata"]["creationTimestamp"]))

    async def remove(self, kind: str, name: str, namespace: str = "") -> None:
        """Delete an object immediately, without its finalizers."""
        try:
            await self.client.request("DELETE", make_api_path(kind, name, namespace) + "?gracePeriodSeconds=0")
            remaining = await self.get(kind, name, namespace)
            if remaining is not None and remaining["metadata"].get("finalizers"):
                await self.patch(kind, name, namespace, {"metadata": {"finalizers": None}})
        except (NotFound, Conflict):
            return

    async def everything(self) -> list[Object]:
        """Read all objects of the kinds that a scheduler reads."""
        lists = await asyncio.gather(*(self.all_of(kind) for kind in ORDER if kind != "RuntimeClass"))
        return [obj for items in lists for obj in items]

    async def tear_down(self) -> None:
        """Delete all objects, owners and users of others first."""
        deadline = time.monotonic() + PATIENCE
        for kind in ("Pod", *reversed(ORDER)):
            if kind == "Namespace":
                continue
            while remaining := [item for item in await self.all_of(kind) if not _is_built_in(kind, item)]:
                assert time.monotonic() < deadline, f"these are not deleted: {remaining}"
                await asyncio.gather(*(self._remove(kind, item) for item in remaining))
        for namespace in words.NAMESPACES:
            await self.client.request("DELETE", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")

    async def _remove(self, kind: str, obj: Object) -> None:
        async with self._gate:
            await self.remove(kind, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))

    async def _settle(self) -> None:
        """Wait until claims and volumes have not changed for a while."""
        deadline = time.monotonic() + PATIENCE
        before: list[Object] | None = None
        while before != (now := await self._storage()):
            assert time.monotonic() < deadline, "the controllers did not finish claims and volumes"
            await asyncio.sleep(QUIET_SECONDS)
            before = now

    async def _storage(self) -> list[Object]:
        return [*await self.all_of("PersistentVolumeClaim"), *await self.all_of("PersistentVolume")]

    async def _label_namespace(self, name: str, labels: dict[str, str]) -> None:
        try:
            await self._send("POST", make_api_path("Namespace"), {"metadata": {"name": name}})
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        expected = {key: labels.get(key) for key in words.NAMESPACE_LABELS}
        await self.patch("Namespace", name, "", {"metadata": {"labels": expected}})

    def _namespace(self, obj: Object) -> str:
        existing = BY_NAME.get(obj["kind"])
        return obj["metadata"].get("namespace", "default") if existing is not None and existing.namespaced else ""

    def _with_uids(self, content: Any) -> Any:
        """Replace generated uids with real ones."""
        if isinstance(content, dict):
            return {key: self._with_uids(part) for key, part in content.items()}
        if isinstance(content, list):
            return [self._with_uids(part) for part in content]
        return self._uids.get(content, content) if isinstance(content, str) else content

    async def _send(self, method: str, path: str, content: Object | None = None) -> Object:
        body = msgspec.json.encode(content) if content is not None else b""
        answer: Object = msgspec.json.decode(await self.client.request(method, path, body))
        return answer


def _unbind(claim: Object) -> None:
    claim.pop("status", None)
    claim["spec"].pop("volumeName", None)
    claim["metadata"].get("annotations", {}).pop(BIND_COMPLETED, None)


def _is_built_in(kind: str, obj: Object) -> bool:
    name = obj["metadata"]["name"]
    return (kind, name) == ("Service", "kubernetes") or (kind == "PriorityClass" and name.startswith("system-"))
