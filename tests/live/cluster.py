"""A cluster for live tests: nodes that are always ready, and pods that run once they are bound."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from moorage.common.errors import ApiError, NotFound
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.records import Event
from moorage.kube.client.informer import Informer
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiClient
from tests.live.witness import Witness

PATIENCE: Final = 180.0
"""Timeout in seconds for any step on a busy machine; tests do not wait for it to pass."""
AT_ONCE: Final = 32
NAMESPACE: Final = "default"
SCHEDULED: Final = "PodScheduled"
HOSTNAME: Final = "kubernetes.io/hostname"
RUNNING: Final = b'{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'


class LiveCluster:
    """Nodes and pods of one test, as an administrator sees them; ``witness`` records their history."""

    def __init__(self, client: ApiClient) -> None:
        self.client = client
        self.witness = Witness(client)
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def add_nodes(self, *names: str, cpu: str = "4", pods: int = 110, **spec: Any) -> None:
        """Create nodes."""
        status = {"cpu": cpu, "memory": "32Gi", "pods": str(pods)}
        body = {"spec": spec, "status": {"allocatable": status, "capacity": status}}
        await self._all(Node, [{"metadata": {"name": name, "labels": {HOSTNAME: name}}, **body} for name in names])

    async def add_pods(self, *names: str, cpu: str = "100m", **spec: Any) -> None:
        """Create pods that request CPU."""
        container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
        full = {"containers": [container], "terminationGracePeriodSeconds": 5, **spec}
        contents = [{"metadata": {"name": name, "namespace": NAMESPACE}, "spec": full} for name in names]
        await self._all(Pod, contents)

    async def create(self, path: str, content: dict[str, Any]) -> None:
        """Create an object of any kind; existing objects remain unchanged."""
        try:
            await self.client.request("POST", path, msgspec.json.encode(content))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    async def merge(self, path: str, content: dict[str, Any]) -> None:
        """Change an object of any kind."""
        await self.client.request("PATCH", path, msgspec.json.encode(content), MERGE_PATCH)

    async def service_account_token(self, name: str) -> str:
        """Create a service account, and return a token for it."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        await self.create(path, {"metadata": {"name": name}})
        answer = await self.client.request("POST", f"{path}/{name}/token", b'{"spec": {}}')
        token: str = msgspec.json.decode(answer)["status"]["token"]
        return token

    async def _all(self, kind: type[KubeObject], contents: Sequence[dict[str, Any]]) -> None:
        async def create(content: dict[str, Any]) -> None:
            namespace = content["metadata"].get("namespace", "")
            async with self._gate:
                await self.client.request("POST", BY_TYPE[kind].path(namespace=namespace), msgspec.json.encode(content))

        await asyncio.gather(*(create(content) for content in contents))

    async def pods(self) -> dict[str, Pod]:
        """Return all pods by name."""
        return {pod.name: pod for pod in await self.client.list(Pod, NAMESPACE)}

    async def events(self, reason: str, about: str) -> list[Event]:
        """Return the events of a reason about a pod."""
        events = await self.client.list(Event, NAMESPACE)
        return [event for event in events if event.reason == reason and event.regarding.name == about]

    async def event(self, reason: str, about: str, seconds: float = PATIENCE) -> Event:
        """Wait for an event with a reason about a pod."""
        deadline = time.monotonic() + seconds
        while not (result := await self.events(reason, about)):
            assert time.monotonic() < deadline, f"there is no {reason} event about {about}"
            await asyncio.sleep(0.2)
        return result[0]

    async def wait_for(
        self, description: str, holds: Callable[[dict[str, Pod]], bool], seconds: float = PATIENCE
    ) -> None:
        """Wait until a condition holds for the pods; fail with their states after a timeout."""
        deadline = time.monotonic() + seconds
        while True:
            began = time.monotonic()
            pods: dict[str, Pod] = {}
            try:
                pods = await self.pods()
            except ApiError:
                pass  # the server may be down, which some tests are about
            else:
                if holds(pods):
                    return
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"after {seconds} s it is still not so that {description}: {summary(pods.values())}"
                )
            # Listing thousands of pods takes a while: constant polling would overload the server.
            await asyncio.sleep(max(0.2, 2 * (time.monotonic() - began)))

    async def remove_all(self, path: str, seconds: float = PATIENCE) -> None:
        """Delete all objects of a kind and wait until they are deleted."""
        deadline = time.monotonic() + seconds
        while True:
            await self.client.request("DELETE", path)
            remaining = msgspec.json.decode(await self.client.request("GET", path))["items"]
            if not remaining:
                return
            assert time.monotonic() < deadline, (
                f"{len(remaining)} of {path} are not deleted: {remaining[0]['metadata']}"
            )
            await asyncio.sleep(0.3)

    async def clear(self) -> None:
        """Remove all pods, nodes and events."""
        await self.client.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0")
        await self.client.request("DELETE", "/api/v1/nodes")
        for namespace in (NAMESPACE, "kube-system"):  # events about leases
            await self.client.request("DELETE", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")


class Kubelets:
    """The kubelets of all nodes: pods run once they are bound, and disappear once they are deleted."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._informer: Informer[Pod] = Informer(client, BY_TYPE[Pod], self._see)
        self._work: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Run pods until cancelled."""
        await self._informer.run()

    def _see(self, _kind: Kind, changes: Sequence[Change[Pod]]) -> None:
        for change in changes:
            pod = change.after
            if pod is None or not pod.node_name:
                continue
            if pod.is_terminating:
                self._start(self._end(pod))
            elif pod.status.phase == "Pending" and (change.before is None or not change.before.node_name):
                self._start(self._begin(pod))

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _begin(self, pod: Pod) -> None:
        path = BY_TYPE[Pod].path(pod.name, pod.namespace, "status")
        try:
            await self._client.request("PATCH", path, RUNNING, STRATEGIC_MERGE_PATCH)
        except ApiError:
            return  # deleted, or the server is down: a pod that does not run is still bound

    async def _end(self, pod: Pod) -> None:
        path = BY_TYPE[Pod].path(pod.name, pod.namespace) + "?gracePeriodSeconds=0"
        while True:
            try:
                await self._client.request("DELETE", path)
            except NotFound:
                return
            except ApiError:
                await asyncio.sleep(0.5)
            else:
                return


async def patiently(ask: Callable[[], Awaitable[Any]], seconds: float = PATIENCE) -> Any:
    """Retry while the server is unavailable or not ready; raise rejections."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await ask()
        except ApiError as error:
            is_away = not error.status or error.status in (401, 403, 429) or error.status >= 500
            if not is_away or time.monotonic() > deadline:
                raise
        await asyncio.sleep(0.5)


def bound(pods: dict[str, Pod], names: Sequence[str] | None = None) -> bool:
    """Return whether all pods, or the named ones, have a node."""
    expected = pods if names is None else names
    return bool(expected) and all(name in pods and pods[name].node_name for name in expected)


def summary(pods: Any) -> str:
    """Count the pods by state, with the reasons of pending ones."""
    states = Counter("bound" if pod.node_name else "pending" for pod in pods)
    reasons = Counter(
        condition.message for pod in pods if not pod.node_name and (condition := pod.condition(SCHEDULED)) is not None
    )
    return f"{dict(states)}, waiting because of {dict(reasons.most_common(3))}"
