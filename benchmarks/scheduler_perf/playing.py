"""Plays the operations of a workload: objects are created over HTTP, and a watch counts the pods that are bound."""

import asyncio
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import yaml

from benchmarks.live.processes import SessionProcess
from benchmarks.scheduler_perf.go_templates import GoTemplate
from benchmarks.scheduler_perf.workloads import PerfWorkload
from moorage.common.durations import parse_duration
from moorage.common.errors import AlreadyExists, ApiError, MoorageError, NotFound
from moorage.kube.api.kinds import BY_NAME, BY_TYPE, Kind
from moorage.kube.api.pod import Pod
from moorage.kube.client.informer import Informer
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import ApiClient

AT_ONCE: Final = 30
SAMPLE_SECONDS: Final = 1.0
PATIENCE: Final = 60.0
"""Seconds without a bound pod until a workload is given up."""
SIZE: Final = {"pods": "110", "cpu": "4", "memory": "32Gi"}
RESOURCES: Final = {"cpu": "100m", "memory": "500Mi"}
CONTAINER: Final = {
    "name": "pause",
    "image": "registry.k8s.io/pause:3.10",
    "resources": {"requests": RESOURCES, "limits": RESOURCES},
}
BASE_POD: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "pod-"},
    "spec": {"containers": [CONTAINER]},
}
BASE_NODE: Final = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"generateName": "node-"},
    "status": {"capacity": SIZE, "conditions": [{"type": "Ready", "status": "True"}]},
}

Operation = Mapping[str, Any]
Make = Callable[[int], dict[str, Any]]


class SeenPods:
    """What a watch has seen of the pods: which exist, how many were ever bound, by namespace."""

    def __init__(self) -> None:
        self.existing: dict[str, Pod] = {}
        self.bound: Counter[str] = Counter()
        self.changed_at = _now()
        self.on_bound: Callable[[Pod], None] = lambda _pod: None

    def take(self, _kind: Kind, changes: Sequence[Change[Pod]]) -> None:
        """Apply an event of the informer."""
        for change in changes:
            before, after = change.before, change.after
            if after is None:
                if before is not None:
                    self.existing.pop(before.key, None)
                continue
            self.existing[after.key] = after
            if after.node_name and (before is None or not before.node_name):
                self.bound[after.namespace] += 1
                self.changed_at = _now()
                self.on_bound(after)

    def attempted(self, namespace: str) -> int:
        """Count the pods of a namespace that are bound, or have the condition of an attempt or a gate."""
        pods = (pod for pod in self.existing.values() if pod.namespace == namespace)
        return sum(bool(pod.node_name or pod.status.conditions) for pod in pods)


class Measurement:
    """The rate of a phase as scheduler_perf computes it, and the CPU of the scheduler in this time."""

    def __init__(self, seen: SeenPods, namespaces: Sequence[str], process: SessionProcess) -> None:
        self._seen, self._namespaces, self._process = seen, namespaces, process
        self._first, self._cpu, self._began = self._total(), process.cpu(), _now()
        self.rates: list[float] = []

    def _total(self) -> int:
        return sum(self._seen.bound[namespace] for namespace in self._namespaces)

    async def run(self) -> None:
        """Sample every second until cancelled. The first sample with pods, and time without any, do not count."""
        last: tuple[float, int] | None = None
        skipped = 0
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            now, count = _now(), self._total() - self._first
            if not count:
                continue
            if last is not None:
                if count == last[1]:
                    skipped += 1
                    continue
                self.rates += [(count - last[1]) / (now - last[0])] * (skipped + 1)
            last, skipped = (now, count), 0

    def result(self) -> dict[str, Any]:
        """Return the figures. Without samples the rate is that of the entire phase."""
        pods, seconds = self._total() - self._first, _now() - self._began
        rate = sum(self.rates) / len(self.rates) if self.rates else pods / seconds
        cpu = (self._process.cpu() - self._cpu) / max(1, pods) * 1000
        return {"pods": pods, "seconds": round(seconds, 2), "rate": round(rate, 1), "cpu_ms": round(cpu, 3)}


class Player:
    """Plays one workload with one scheduler."""

    def __init__(self, client: ApiClient, work: PerfWorkload, process: SessionProcess) -> None:
        self.results: list[dict[str, Any]] = []
        self._client, self._work, self._process = client, work, process
        self._seen = SeenPods()
        self._waiting_for: dict[str, int] = {}
        self._namespaces: set[str] = set()
        self._side_work: list[asyncio.Task[None]] = []
        self._measurement: tuple[Measurement, asyncio.Task[None]] | None = None
        self._templates: dict[str, GoTemplate] = {}
        self._numbers = itertools.count()

    async def play(self) -> None:
        """Play all operations. Raise TimeoutError if no pod is bound for too long."""
        following = asyncio.create_task(Informer(self._client, BY_TYPE[Pod], self._seen.take).run())
        try:
            for number, operation in enumerate(self._work.operations):
                method = getattr(self, f"_play_{_snake_case(operation['opcode'])}", None)
                if method is None:
                    raise NotImplementedError(f"{self._work.title}: operation {operation['opcode']} is not supported")
                await method({"namespace": f"namespace-{number}", **operation})
        finally:
            sampling = [self._measurement[1]] if self._measurement else []
            for task in (following, *self._side_work, *sampling):
                task.cancel()
            await asyncio.gather(following, *self._side_work, *sampling, return_exceptions=True)

    # ── operations ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _play_create_nodes(self, operation: Operation) -> None:
        count = self._work.count(operation)
        make = self._maker(operation.get("nodeTemplatePath", ""), operation, count, BASE_NODE)
        label = operation.get("labelNodePrepareStrategy", {})
        unique = operation.get("uniqueNodeLabelStrategy", {})
        volumes = operation.get("nodeAllocatableStrategy", {})

        def node(index: int) -> dict[str, Any]:
            obj = make(index)
            meta, status = obj["metadata"], obj.setdefault("status", {})
            meta["name"] = name = meta.get("name") or f"{meta['generateName']}{next(self._numbers)}"
            labels = meta.setdefault("labels", {})
            labels["kubernetes.io/hostname"] = name
            if label:
                labels[label["labelKey"]] = label["labelValues"][index % len(label["labelValues"])]
            if unique:
                labels[unique["labelKey"]] = str(uuid4())
            if volumes:
                allocatable = status.get("allocatable") or status["capacity"]
                status["allocatable"] = {**allocatable, **volumes.get("nodeAllocatable", {})}
            return obj

        await self._create_all(count, node)
        if volumes:
            names = [node["metadata"]["name"] for node in await self._list("/api/v1/nodes")]
            await self._create_all(len(names), lambda index: csi_node(names[index], volumes))

    async def _play_create_namespaces(self, operation: Operation) -> None:
        path = operation.get("namespaceTemplatePath", "")
        make = self._maker(path, operation, 0, {"apiVersion": "v1", "kind": "Namespace", "metadata": {}})
        for number in range(self._work.count(operation, 1)):
            await self._ensure_namespace(f"{operation['prefix']}-{number}", make(number))

    async def _play_create_pods(self, operation: Operation) -> None:
        count, namespace = self._work.count(operation), operation["namespace"]
        await self._ensure_namespace(namespace)
        if operation.get("collectMetrics"):
            self._begin_measurement([namespace])
        before = self._seen.bound[namespace]
        if self._work.value(operation.get("steadyStateParam", operation.get("steadyState", False))):
            await self._steadily(operation, count, namespace)
        else:
            await self._create_pods(operation, count, namespace)
            if operation.get("skipWaitToCompletion"):
                self._waiting_for[namespace] = self._waiting_for.get(namespace, 0) + count
            else:
                await self._until(lambda: self._seen.bound[namespace] - before >= count)
        if operation.get("collectMetrics"):
            await self._end_measurement()

    async def _play_create_pod_sets(self, operation: Operation) -> None:
        for number in range(self._work.count(operation)):
            namespace = f"{operation['namespacePrefix']}-{number}"
            await self._play_create_pods({**operation["createPodsOp"], "namespace": namespace})

    async def _play_create_any(self, operation: Operation) -> None:
        count = self._work.count(operation, 1)
        make = self._maker(operation["templatePath"], operation, count)
        namespace = "" if operation["namespace"].startswith("namespace-") else operation["namespace"]
        if namespace:
            await self._ensure_namespace(namespace)
        await self._create_all(count, make, namespace)

    _play_create_pod_groups = _play_create_any

    async def _play_alloc_resource_claims(self, operation: Operation) -> None:
        """Allocate a free device to each claim, on random nodes. All requests are for one device of any kind."""
        slices = (each["spec"] for each in await self._list("/apis/resource.k8s.io/v1/resourceslices"))
        free = [(spec, device["name"]) for spec in slices for device in spec["devices"]]
        random.Random(0).shuffle(free)
        path = f"/apis/resource.k8s.io/v1/namespaces/{operation['namespace']}/resourceclaims"
        for claim, (spec, device) in zip(await self._list(path), free, strict=False):
            status = {"status": {"allocation": allocation(spec, device)}}
            patch = json.dumps(status).encode()
            target = f"{path}/{claim['metadata']['name']}/status"
            await self._client.request("PATCH", target, patch, "application/merge-patch+json")

    async def _play_delete_pods(self, operation: Operation) -> None:
        namespace, rate = operation["namespace"], operation.get("deletePodsPerSecond", 0)
        path = BY_TYPE[Pod].path(namespace=namespace)
        names = [pod.name for pod in self._seen.existing.values() if pod.namespace == namespace]

        async def delete() -> None:
            if not rate:
                await self._client.request("DELETE", path)
                return
            async for name in paced(names, 1 / rate):
                with suppress(NotFound):
                    await self._client.request("DELETE", f"{path}/{name}")

        await self._start(delete(), waits=not operation.get("skipWaitToCompletion"))

    async def _play_churn(self, operation: Operation) -> None:
        namespace, number = operation["namespace"], operation.get("number", 0)
        await self._ensure_namespace(namespace)
        makers = [self._maker(path, operation, 1) for path in operation["templatePaths"]]
        recreates = operation["mode"] == "recreate"
        paths: dict[tuple[int, int], str] = {}

        async def churn() -> None:
            async for turn in paced(itertools.count(), operation.get("intervalMilliseconds", 500) / 1000):
                if number and not recreates and turn >= number:
                    return
                for position, make in enumerate(makers):
                    slot = (position, turn % number if number else turn)
                    with suppress(ApiError):
                        if recreates and (path := paths.pop(slot, "")):
                            await self._client.request("DELETE", path)
                        else:
                            paths[slot] = await self._create(make(turn), namespace)

        await self._start(churn(), waits=False)

    async def _play_barrier(self, operation: Operation) -> None:
        namespaces = operation.get("namespaces") or list(self._waiting_for)
        is_attempted = operation.get("stageRequirement") == "Attempted"
        count = self._seen.attempted if is_attempted else self._seen.bound.__getitem__
        for namespace in namespaces:
            wanted = self._waiting_for.get(namespace, 0)
            await self._until(lambda: count(namespace) >= wanted)  # noqa: B023 - awaited within the iteration
            if not is_attempted:
                self._waiting_for.pop(namespace, None)

    async def _play_sleep(self, operation: Operation) -> None:
        await asyncio.sleep(self._duration(operation))

    async def _play_start_collecting_metrics(self, operation: Operation) -> None:
        self._begin_measurement(operation["namespaces"])

    async def _play_stop_collecting_metrics(self, _operation: Operation) -> None:
        await self._end_measurement()

    # ── parts of operations ────────────────────────────────────────────────────────────────────────────────────

    def _maker(self, path: str, operation: Operation, count: int, base: dict[str, Any] | None = None) -> Make:
        """Return a function that makes an object from its index."""
        if not path:
            return lambda _index: json.loads(json.dumps(base))
        if path not in self._templates:
            self._templates[path] = GoTemplate(Path(self._work.directory, path).read_text())
        template = self._templates[path]
        params = {name: self._work.value(value) for name, value in operation.get("templateParams", {}).items()}
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return lambda index: yaml.load(template.render({**params, "Index": index, "Count": count}), loader)

    def _duration(self, operation: Operation) -> float:
        text = self._work.value(operation.get("durationParam", operation.get("duration")))
        return parse_duration(text, where=self._work.title)

    async def _create_pods(self, operation: Operation, count: int, namespace: str, first: int = 0) -> None:
        path = operation.get("podTemplatePath", self._work.pod_template)
        make = self._maker(path, operation, count, BASE_POD)
        batch = int(self._work.value(operation.get("signatureBatchSizeParam", 0))) or 1
        claim_path = operation.get("persistentVolumeClaimTemplatePath", "")

        def pod(index: int) -> dict[str, Any]:
            obj = make(first + index)
            if path:
                labels = obj["metadata"].setdefault("labels", {})
                labels["signature"] = f"signature-label-{(first + index) // batch}"
            if claim_path:
                source = {"claimName": f"pvc-{first + index}"}
                obj["spec"]["volumes"] = [{"name": "vol", "persistentVolumeClaim": source}]
            return obj

        if claim_path:
            await self._create_volumes(operation, count, namespace)
        await self._create_all(count, pod, namespace)

    async def _create_volumes(self, operation: Operation, count: int, namespace: str) -> None:
        claim = self._maker(operation["persistentVolumeClaimTemplatePath"], operation, count)
        volume = self._maker(operation["persistentVolumeTemplatePath"], operation, count)

        async def create(index: int) -> None:
            name, claim_name = f"{namespace}-vol-{index}", f"pvc-{index}"
            pvc, pv = claim(index), volume(index)
            pvc["metadata"]["name"], pvc["spec"]["volumeName"] = claim_name, name
            pv.setdefault("metadata", {})["name"] = name
            reference = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim_name}
            pv["spec"]["claimRef"] = {**reference, "apiVersion": "v1"}
            if "csi" in pv["spec"]:
                pv["spec"]["csi"]["volumeHandle"] = name
            elif "awsElasticBlockStore" in pv["spec"]:
                pv["spec"]["awsElasticBlockStore"]["volumeID"] = f"vol-{index}"
            for obj, place in ((pvc, namespace), (pv, "")):
                path = await self._create(obj, place)
                patch = b'{"status":{"phase":"Bound"}}'
                await self._client.request("PATCH", f"{path}/status", patch, "application/merge-patch+json")

        await in_parallel(count, create)

    async def _steadily(self, operation: Operation, count: int, namespace: str) -> None:
        """Delete each pod that is bound and create another one, for some time."""
        bound: asyncio.Queue[Pod] = asyncio.Queue()
        self._seen.on_bound = bound.put_nowait
        await self._create_pods(operation, count, namespace)
        created = count
        seconds = self._duration(operation)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    pod = await bound.get()
                    path = BY_TYPE[Pod].path(pod.name, namespace)
                    await self._client.request("DELETE", path, b'{"gracePeriodSeconds":0}')
                    await self._create_pods(operation, 1, namespace, created)
                    created += 1
        self._seen.on_bound = lambda _pod: None

    async def _create_all(self, count: int, make: Make, namespace: str = "") -> None:
        async def create(index: int) -> None:
            await self._create(make(index), namespace)

        await in_parallel(count, create)

    async def _create(self, obj: Mapping[str, Any], namespace: str = "") -> str:
        """Create an object and return its path."""
        kind = BY_NAME[obj["kind"]]
        version = obj["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        path = root + kind.path(namespace=namespace if kind.namespaced else "").removeprefix(kind.root)
        body = await self._client.request("POST", path, json.dumps(obj).encode())
        return f"{path}/{json.loads(body)['metadata']['name']}"

    async def _list(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(await self._client.request("GET", path))["items"]
        return items

    async def _ensure_namespace(self, name: str, obj: dict[str, Any] | None = None) -> None:
        if name in self._namespaces:
            return
        self._namespaces.add(name)
        namespace = obj or {"apiVersion": "v1", "kind": "Namespace"}
        with suppress(AlreadyExists):
            await self._create({**namespace, "metadata": {**namespace.get("metadata", {}), "name": name}})

    async def _until(self, is_reached: Callable[[], bool]) -> None:
        self._seen.changed_at = _now()
        while not is_reached():
            if not self._process.is_running:
                raise RuntimeError(f"the scheduler exited:\n{self._process.log_end}")
            if _now() - self._seen.changed_at > PATIENCE:
                raise TimeoutError(f"no pod was bound for {PATIENCE:g} s; bound so far: {dict(self._seen.bound)}")
            await asyncio.sleep(0.05)

    async def _start(self, work: Awaitable[None], *, waits: bool) -> None:
        task = asyncio.ensure_future(work)
        self._side_work.append(task)
        if waits:
            await task

    def _begin_measurement(self, namespaces: Sequence[str]) -> None:
        measurement = Measurement(self._seen, namespaces, self._process)
        self._measurement = measurement, asyncio.create_task(measurement.run())

    async def _end_measurement(self) -> None:
        assert self._measurement is not None
        measurement, sampling = self._measurement
        self._measurement = None
        sampling.cancel()
        self.results.append(measurement.result())


def _now() -> float:
    return asyncio.get_running_loop().time()


def _snake_case(name: str) -> str:
    return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name)


async def in_parallel(count: int, work: Callable[[int], Awaitable[None]]) -> None:
    """Do something for each index, a few at a time. Retry what fails for a while: a new kind may not be served yet."""
    indices = iter(range(count))

    async def worker() -> None:
        for index in indices:
            for pause in (0.2, 1.0, 5.0, None):
                try:
                    await work(index)
                    break
                except MoorageError:
                    if pause is None:
                        raise
                    await asyncio.sleep(pause)

    await asyncio.gather(*(worker() for _ in range(min(count, AT_ONCE))))


async def paced(items: Iterable[Any], seconds: float) -> AsyncIterator[Any]:
    """Yield items at a fixed rate, regardless of the duration of the work on them."""
    began = _now()
    for number, item in enumerate(items, 1):
        await asyncio.sleep(max(0.0, began + number * seconds - _now()))
        yield item


def csi_node(name: str, volumes: Mapping[str, Any]) -> dict[str, Any]:
    """Make the CSINode of a node: its drivers and their limits."""
    plugins = ",".join(volumes.get("migratedPlugins", ()))
    drivers = [
        {"name": driver, "nodeID": name, "allocatable": limits}
        for driver, limits in volumes.get("csiNodeAllocatable", {}).items()
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": plugins}
    meta = {"name": name, "annotations": annotations}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": meta, "spec": {"drivers": drivers}}


def allocation(spec: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Make the allocation of one device of a slice to the first request of a claim."""
    field = {"key": "metadata.name", "operator": "In", "values": [spec["nodeName"]]}
    result = {"request": "req-0", "driver": spec["driver"], "pool": spec["pool"]["name"], "device": device}
    return {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
