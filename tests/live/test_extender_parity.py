"""The requests to an extender are the same from kube-scheduler and Moorage, field for field."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.common.errors import ApiError
from moorage.kube.api.pod import Pod
from tests.live.cluster import NAMESPACE, SCHEDULED, LiveCluster, bound
from tests.live.scheduler import scheduler
from tests.live.test_extender import configuration
from tests.support.control_plane import ControlPlane, free_ports
from tests.support.extender_service import ExtenderService

Live = Callable[[Callable[[LiveCluster], Awaitable[None]]], None]
Told = dict[str, Any]

VERBS = {"filterVerb": "filter", "prioritizeVerb": "rate", "preemptVerb": "preempt", "bindVerb": "bind"}
VOLATILE = {"uid", "resourceVersion", "creationTimestamp", "lastTransitionTime", "lastProbeTime", "generation"}
RICH_NODE: dict[str, Any] = {
    "metadata": {"annotations": {"example.org/rack": "<7> & \u00fc"}},
    "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"], "providerID": "fake://node"},
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}],
        "images": [{"names": ["app:1", "app@sha256:0"], "sizeBytes": 23_000_000}],
        "nodeInfo": dict.fromkeys(("machineID", "systemUUID", "bootID", "kernelVersion", "osImage"), "x")
        | dict.fromkeys(("containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion"), "y")
        | {"operatingSystem": "linux", "architecture": "amd64"},
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    },
}
RICH_POD: dict[str, Any] = {
    "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "info", "downwardAPI": {}}],
    "containers": [
        {
            "name": "main",
            "image": "app:1",
            "command": ["sh", "-c", "echo '<&>'"],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            ],
            "resources": {"requests": {"cpu": "1.5"}, "limits": {"memory": "1Gi"}},
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            "readinessProbe": {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 7},
            "ports": [{"name": "web", "containerPort": 80}],
        }
    ],
    "hostAliases": [{"ip": "10.0.0.9", "hostnames": ["nine"]}],
    "securityContext": {"runAsUser": 7, "sysctls": [{"name": "a.b", "value": "c"}]},
    "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 3, "effect": "NoExecute"}],
}


@contextmanager
def kube_scheduler(plane: ControlPlane, config: Path) -> Iterator[None]:
    """Run kube-scheduler."""
    (port,) = free_ports(1)
    process: subprocess.Popen[bytes] = plane.spawn(
        "kube-scheduler",
        f"--config={config}",
        f"--secure-port={port}",
        f"--cert-dir={plane.directory / 'scheduler-certs'}",
        "--authentication-skip-lookup=true",
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def moorage(plane: ControlPlane, config: Path) -> Iterator[None]:
    """Run Moorage."""
    with scheduler(plane.kubeconfig(), f"--config={config}"):
        yield


class Recorder(ExtenderService):
    """An extender that accepts everything, binds pods itself, and records its requests."""

    def __init__(self, cluster: LiveCluster) -> None:
        super().__init__(filter=self._filter, rate=lambda _: [], preempt=self._preempt, bind=self._bind)
        self._cluster = cluster
        self._tasks: set[asyncio.Task[None]] = set()

    @staticmethod
    def _filter(request: Told) -> Told:
        return {"Nodes": request["Nodes"], "NodeNames": request["NodeNames"]}

    @staticmethod
    def _preempt(request: Told) -> Told:
        if (meta := request["NodeNameToMetaVictims"]) is not None:
            return {"NodeNameToMetaVictims": meta}
        victims = request["NodeNameToVictims"].items()
        by_uid = {
            node: {**report, "Pods": [{"UID": pod["metadata"]["uid"]} for pod in report["Pods"]]}
            for node, report in victims
        }
        return {"NodeNameToMetaVictims": by_uid}

    def _bind(self, request: Told) -> Told:
        task = asyncio.create_task(self._carry_out(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return {"Error": ""}

    async def _carry_out(self, request: Told) -> None:
        path = f"/api/v1/namespaces/{request['PodNamespace']}/pods/{request['PodName']}/binding"
        target = {"kind": "Node", "name": request["Node"]}
        body = {"metadata": {"name": request["PodName"], "uid": request["PodUID"]}, "target": target}
        with suppress(ApiError):  # it may already be bound if the scheduler called twice
            await self._cluster.client.request("POST", path, msgspec.json.encode(body))

    def told(self) -> dict[str, Told]:
        """Return the first request by verb and pod, without fields that differ between runs."""
        first: dict[str, Told] = {}
        for verb, request in self.requests:
            pod = request["Pod"]["metadata"]["name"] if "Pod" in request else request["PodName"]
            first.setdefault(f"{verb} {pod}", stable(request))
        return first


def stable(content: Any) -> Any:
    """Remove uids, versions and times, and sort nodes."""
    if isinstance(content, dict):
        retained = {
            key: "(some)" if key in VOLATILE or key in ("UID", "PodUID") else stable(item)
            for key, item in content.items()
        }
        if "items" in retained:
            retained["items"] = sorted(retained["items"], key=lambda node: node["metadata"]["name"])
        if retained.get("NodeNames"):
            retained["NodeNames"] = sorted(retained["NodeNames"])
        return retained
    return [stable(item) for item in content] if isinstance(content, list) else content


def differences(upstream: Any, actual: Any, path: str = "") -> Iterator[str]:
    """Return the paths at which two requests differ."""
    if isinstance(upstream, dict) and isinstance(actual, dict):
        for key in upstream.keys() | actual.keys():
            yield from differences(upstream.get(key, "(absent)"), actual.get(key, "(absent)"), f"{path}.{key}")
    elif isinstance(upstream, list) and isinstance(actual, list) and len(upstream) == len(actual):
        for number, pair in enumerate(zip(upstream, actual, strict=True)):
            yield from differences(*pair, f"{path}[{number}]")
    elif upstream != actual:
        yield f"{path}: kube-scheduler tells {upstream!r}, we tell {actual!r}"


async def history(cluster: LiveCluster) -> None:
    """Bind a pod with many fields, then preempt it."""
    await add_pod(cluster, "rich", annotations={"a": "b"}, spec=RICH_POD)
    await cluster.wait_for("the first pod is bound", bound)
    important = {"containers": [{"name": "m", "image": "app:1", "resources": {"requests": {"cpu": "3"}}}]}
    await add_pod(cluster, "important", spec={**important, "priorityClassName": "system-node-critical"})
    await cluster.wait_for(
        "the important pod has taken its place",
        lambda pods: "rich" not in pods and bool(pods["important"].node_name),
        seconds=120.0,
    )


async def add_pod(cluster: LiveCluster, name: str, *, spec: Told, annotations: dict[str, str] | None = None) -> None:
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": annotations or {}, "labels": {"app": name}}
    body = {"metadata": metadata, "spec": {**spec, "terminationGracePeriodSeconds": 0}}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    await cluster.client.request("POST", path, msgspec.json.encode(body))


async def add_rich_node(cluster: LiveCluster) -> None:
    amounts = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    status = {**RICH_NODE["status"], "allocatable": amounts, "capacity": amounts}
    metadata = {**RICH_NODE["metadata"], "name": "node-0", "labels": {"zone": "a"}}
    await cluster.create("/api/v1/nodes", {"metadata": metadata, "spec": RICH_NODE["spec"], "status": status})


@pytest.mark.parametrize("capable", [False, True], ids=["whole nodes", "names only"])
def test_both_schedulers_send_the_same_requests(plane: ControlPlane, live: Live, capable: bool) -> None:
    async def story(cluster: LiveCluster) -> None:
        await add_rich_node(cluster)
        recorded = []
        for run in (kube_scheduler, moorage):
            recorder = Recorder(cluster)
            async with recorder.running():
                verbs = {**VERBS, "nodeCacheCapable": capable}
                config = configuration(plane.directory, plane.kubeconfig(), recorder.url, **verbs)
                with run(plane, config):
                    await history(cluster)
                recorded.append(recorder.told())
            await cluster.remove_all(f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0")
        upstream, actual = recorded
        assert {verb.split(" ")[0] for verb in upstream} >= {"filter", "preempt", "bind"}
        assert list(differences(upstream, actual)) == []

    live(story)


ANSWERS: dict[str, Any] = {
    "status": 500,
    "rubbish": b"<html>",
    "empty": b"",
    "null": None,
    "wrong-type": {"NodeNames": {"a": 1}},
    "error": {"Error": "I am tired"},
    "unknown-node": {"NodeNames": ["node-0", "elsewhere"]},
    "nothing": {},
    "refused": {"NodeNames": [], "FailedNodes": {"node-0": "too slow"}},
    "unresolvable": {"NodeNames": [], "FailedAndUnresolvableNodes": {"node-0": "never"}},
}
OWN_WORDS = ("rubbish", "empty", "wrong-type")
"""The messages of JSON decoders for invalid data differ."""


def answer_by_name(request: Told) -> Any:
    answer = ANSWERS[request["Pod"]["metadata"]["name"]]
    return b"null" if answer is None else answer


@pytest.mark.parametrize("ignorable", [False, True], ids=["asked in earnest", "ignorable"])
def test_both_schedulers_report_invalid_responses_equally(plane: ControlPlane, live: Live, ignorable: bool) -> None:
    async def story(cluster: LiveCluster) -> None:
        await add_rich_node(cluster)
        recorded = []
        for run in (kube_scheduler, moorage):
            async with ExtenderService(filter=answer_by_name).running() as service:
                verbs = {"filterVerb": "filter", "nodeCacheCapable": True, "ignorable": ignorable}
                config = configuration(plane.directory, plane.kubeconfig(), service.url, **verbs)
                with run(plane, config):
                    await cluster.add_pods(*ANSWERS)
                    await cluster.wait_for("all pods are bound or reported", all_told, seconds=120.0)
                recorded.append(await words(cluster, service.url))
            await cluster.remove_all(f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0")
        upstream, actual = recorded
        assert list(differences(upstream, actual)) == []
        assert (upstream["status"][0] == "node-0") == ignorable

    live(story)


def all_told(pods: dict[str, Pod]) -> bool:
    return all(pod.condition(SCHEDULED) is not None for pod in pods.values())


async def words(cluster: LiveCluster, url: str) -> dict[str, tuple[str, str, str]]:
    """Return the node of each pod, and the message of each pending pod."""
    results = {}
    for name, pod in (await cluster.pods()).items():
        condition = pod.condition(SCHEDULED)
        assert condition is not None
        message = "(some)" if name in OWN_WORDS else condition.message.replace(url.rstrip("/"), "URL")
        results[name] = (pod.node_name, condition.reason, message if not pod.node_name else "")
    return results


def test_both_schedulers_handle_managed_resources_and_weights_equally(plane: ControlPlane, live: Live) -> None:
    """The pod requests a resource that no node has: the scheduler ignores it, and the extender manages it."""

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("node-0", "node-1", "node-2")
        recorded = []
        for run in (kube_scheduler, moorage):
            async with ExtenderService(rate=prefer_the_last).running() as service:
                managed = [{"name": "example.org/foo", "ignoredByScheduler": True}]
                verbs = {"prioritizeVerb": "rate", "nodeCacheCapable": True, "managedResources": managed}
                config = configuration(plane.directory, plane.kubeconfig(), service.url, **verbs)
                with run(plane, config):
                    amounts = {"requests": {"example.org/foo": "1"}, "limits": {"example.org/foo": "1"}}
                    await add_pod(
                        cluster, "asks", spec={"containers": [{"name": "m", "image": "a", "resources": amounts}]}
                    )
                    await cluster.add_pods("does-not")
                    await cluster.wait_for("both pods are bound", bound)
                query = {request["Pod"]["metadata"]["name"] for _, request in service.requests}
                recorded.append((query, (await cluster.pods())["asks"].node_name))
            await cluster.remove_all(f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0")
        assert recorded == [({"asks"}, "node-2")] * 2

    live(story)


def prefer_the_last(request: Told) -> list[Told]:
    return [{"Host": name, "Score": 10 * (name == "node-2")} for name in request["NodeNames"]]
