"""The environment of a scenario: a separate namespace and nodes on any API server, as seen by any client.

It is independent of server and scheduler. All objects of a scenario are deleted when its scene ends.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Self, TypeVar

import msgspec

from moorage.cluster.controllers.fake_nodes import NodeShape, fake_node
from moorage.cluster.controllers.kubelet import START_DELAY, STOP_DELAY
from moorage.common.errors import NotFound
from moorage.common.version import RELEASE
from moorage.kube.api.node import HOSTNAME_LABEL
from moorage.kube.api.pod import DEFAULT_SCHEDULER_NAME, Pod
from moorage.kube.api.records import Event
from moorage.kube.client.rest import MERGE_PATCH, ApiClient

Data = dict[str, Any]
T = TypeVar("T")

PATIENCE: Final = 90.0
"""Timeout in seconds for steps that take a moment on an idle machine."""
GLANCE: Final = 0.03
SCHEDULED: Final = "PodScheduled"
NO_NODES: Final = "no nodes available to schedule pods"
PODS: Final = "v1/pods"
NODES: Final = "v1/nodes"
CLUSTER_WIDE: Final = frozenset(
    {
        "csidrivers",
        "csinodes",
        "deviceclasses",
        "namespaces",
        "nodes",
        "persistentvolumes",
        "priorityclasses",
        "resourceslices",
        "runtimeclasses",
        "storageclasses",
    }
)
NAMESPACE: Final = re.compile("/api/v1/namespaces/[^/]+")
MAKERS: Final = ("/apis/apps/", "/apis/batch/")
"""Kinds of owners that would recreate their pods."""
IN_THE_FOREGROUND: Final = b'{"propagationPolicy":"Foreground"}'


class Scene:
    """One scenario's part of a cluster. Use it as an async context manager."""

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        schedulers: Sequence[str] = (DEFAULT_SCHEDULER_NAME,),
        *,
        release: str = RELEASE,
    ) -> None:
        self.client = client
        self.release = release
        self.namespace = namespace
        self._schedulers = schedulers
        self._created: list[str] = []

    async def __aenter__(self) -> Self:
        await self.create("v1/namespaces", self.namespace)
        for scheduler in self._schedulers:
            await self._await_emptiness(scheduler)
        return self

    async def _await_emptiness(self, scheduler: str) -> None:
        """Wait until a scheduler has seen the deletion of earlier nodes, or it might still bind pods to them."""
        report, number = "", 0
        while report != NO_NODES:
            name, number = f"{scheduler}-waits-{number}", number + 1
            await self.pod(name, schedulerName=scheduler, nodeSelector={"nodes": "none"})
            report = await self.rejection(name)
            await self.delete(PODS, name)

    async def __aexit__(self, *_: object) -> None:
        await self._clear()

    def path(self, resource: str, name: str = "", namespace: str = "") -> str:
        """Return the collection path of a resource such as ``apps/v1/deployments``."""
        version, _, plural = resource.rpartition("/")
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if plural not in CLUSTER_WIDE:
            root += f"/namespaces/{namespace or self.namespace}"
        return f"{root}/{plural}" + (f"/{name}" if name else "")

    async def create(self, resource: str, name: str, *, namespace: str = "", **content: Any) -> Data:
        """Create an object; ``metadata`` may contain more than its name."""
        metadata = {**content.pop("metadata", {}), "name": name}
        path = self.path(resource, namespace=namespace)
        body = await self.client.request("POST", path, msgspec.json.encode({"metadata": metadata, **content}))
        self._created.append(f"{path}/{name}")
        created: Data = msgspec.json.decode(body)
        return created

    async def node(self, name: str, *, spec: Data | None = None, metadata: Data | None = None, **status: Any) -> None:
        """Register a node of a fake kubelet: ``metadata`` has additional labels, ``resources`` its capacity."""
        resources = {"cpu": "4", "memory": "8Gi", "pods": "110", **status.pop("resources", {})}
        content = fake_node(name, 0, NodeShape(resources, zones=0), time.time())
        content["metadata"]["labels"] |= (metadata or {}).get("labels", {})
        content["status"] |= status
        await self.create(NODES, name, **{**content, "spec": spec or {}})

    async def nodes(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        """Register nodes that differ by their labels."""
        for name, own in labels.items():
            await self.node(name, metadata={"labels": dict(own)})

    async def pod(
        self,
        name: str,
        *,
        requests: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        container: Data | None = None,
        annotations: Mapping[str, str] | None = None,
        namespace: str = "",
        **spec: Any,
    ) -> None:
        """Create a pod with one container that starts and stops immediately unless its annotations differ."""
        metadata = {"labels": dict(labels or {}), "annotations": AT_ONCE | dict(annotations or {})}
        content = {"metadata": metadata, "spec": pod_spec(requests, container, **spec)}
        await self.create(PODS, name, namespace=namespace, **content)

    async def get(self, resource: str, name: str) -> Data:
        """Read an object."""
        response: Data = msgspec.json.decode(await self.client.request("GET", self.path(resource, name)))
        return response

    async def all(self, resource: str) -> Sequence[Data]:
        """Read all objects of a resource."""
        response: list[Data] = msgspec.json.decode(await self.client.request("GET", self.path(resource)))["items"]
        return response

    async def patch(self, resource: str, name: str, patch: Data, *, subresource: str = "") -> None:
        """Merge a patch into an object."""
        path = self.path(resource, name) + (f"/{subresource}" if subresource else "")
        await self.client.request("PATCH", path, msgspec.json.encode(patch), MERGE_PATCH)

    async def delete(self, resource: str, name: str) -> None:
        """Request the deletion of an object."""
        await self.client.request("DELETE", self.path(resource, name))

    async def pods(self) -> dict[str, Pod]:
        """Return the pods of the scene by name."""
        return {pod.name: pod for pod in await self.client.list(Pod, self.namespace)}

    async def node_of(self, name: str, namespace: str = "") -> str:
        """Wait until a pod is bound; return its node."""

        async def bound() -> Pod | None:
            pod = await self.client.get(Pod, name, namespace or self.namespace)
            return pod if pod.node_name else None

        pod = await self.until(f"{name} is bound", bound)
        condition = pod.condition(SCHEDULED)
        assert condition is not None
        assert condition.status == "True"
        return pod.node_name

    async def nodes_of(self, *names: str) -> list[str]:
        """Wait until pods are bound; return their nodes."""
        return [await self.node_of(name) for name in names]

    async def running(self, *names: str) -> None:
        """Wait until pods run."""
        for name in names:
            await self.until(f"{name} runs", lambda name=name: self._is_running(name))  # type: ignore[misc]

    async def _is_running(self, name: str) -> bool:
        return (await self.client.get(Pod, name, self.namespace)).status.phase == "Running"

    async def seen(self, *nodes: str) -> None:
        """Wait until the scheduler has all nodes; an unconstrained pod remains on each."""
        for name in nodes:
            await self.pod(f"on-{name}", nodeSelector={HOSTNAME_LABEL: name}, tolerations=[{"operator": "Exists"}])
        for name in nodes:
            await self.node_of(f"on-{name}")

    async def rejection(self, name: str, saying: str = "", reason: str = "Unschedulable") -> str:
        """Wait until a pod is reported as unschedulable; return the message.

        A scheduler that has not received all objects may report another message before the expected one (``saying``).
        """

        async def told() -> str | None:
            pod = await self.client.get(Pod, name, self.namespace)
            assert not pod.node_name, f"{name} was bound to {pod.node_name}"
            condition = pod.condition(SCHEDULED)
            if condition is None or (condition.status, condition.reason) != ("False", reason):
                return None
            return condition.message if saying in condition.message else None

        return await self.until(f"{name} is told {saying or 'something'!r}", told)

    async def event(self, reason: str, about: str) -> Event:
        """Wait for an event with a reason about an object of the scene."""

        async def seen() -> Event | None:
            events = await self.client.list(Event, self.namespace)
            selected = [event for event in events if event.reason == reason and event.regarding.name == about]
            return selected[0] if selected else None

        return await self.until(f"there is a {reason} event about {about}", seen)

    async def gone(self, name: str, resource: str = PODS) -> None:
        """Wait until an object is deleted."""
        await self.until(f"{name} no longer exists", lambda: self._is_gone(self.path(resource, name)))

    async def _is_gone(self, path: str) -> bool:
        try:
            await self.client.request("GET", path)
        except NotFound:
            return True
        return False

    async def until(self, description: str, look: Callable[[], Awaitable[T | None]]) -> T:
        """Wait until a lookup returns a value; fail with the state of the pods after a timeout."""
        deadline = time.monotonic() + PATIENCE
        while not (result := await look()):
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"after {PATIENCE:.0f} s it is still not so that {description}: {await self._story()}"
                )
            await asyncio.sleep(GLANCE)
        return result

    async def _story(self) -> str:
        """Describe the pods of the scene: their nodes and messages."""
        lines = []
        for pod in (await self.pods()).values():
            condition = pod.condition(SCHEDULED)
            message = condition.message if condition is not None else "nothing"
            lines.append(f"{pod.name} ({pod.status.phase}) on {pod.node_name!r}, told {message!r}")
        return "; ".join(lines)

    async def _clear(self) -> None:
        """Delete all created objects except namespaces; nodes last, because a pod needs its kubelet to terminate."""
        makers = [path for path in self._created if path.startswith(MAKERS)]
        remainder = [path for path in reversed(self._created) if not NAMESPACE.fullmatch(path) and path not in makers]
        for path in makers:
            await self._remove(path)
        for path in makers:
            await self._await_end(path)
        for namespace in filter(NAMESPACE.fullmatch, self._created):
            await self.client.request("DELETE", f"{namespace}/pods?gracePeriodSeconds=0")
        for path in remainder:
            await self._remove(path)
        for path in remainder:
            await self._await_end(path)

    async def _remove(self, path: str) -> None:
        try:
            await self.client.request("DELETE", path, IN_THE_FOREGROUND)
        except NotFound:
            return

    async def _await_end(self, path: str) -> None:
        await self.until(f"{path} is gone", lambda: self._is_gone(path))


AT_ONCE: Final = {START_DELAY: "0s", STOP_DELAY: "0s"}


def pod_spec(requests: Mapping[str, str] | None = None, container: Data | None = None, **spec: Any) -> Data:
    """Describe a pod of one container with requests."""
    main: Data = {"name": "main", "image": "app:1", **(container or {})}
    if requests:
        main["resources"] = {"requests": dict(requests)} | main.get("resources", {})
    return {"containers": [main], "terminationGracePeriodSeconds": 5, **spec}
