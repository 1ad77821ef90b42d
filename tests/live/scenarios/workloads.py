"""Pods of workloads: controllers create them, and a scheduler binds them."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
import pytest

from moorage.common.errors import TooManyRequests
from tests.live.scenarios.scene import AT_ONCE, NODES, PODS, Data, Scene, pod_spec

DEPLOYMENTS: Final = "apps/v1/deployments"
JOBS: Final = "batch/v1/jobs"
APP: Final = {"app": "web"}


async def deployment_is_scaled(scene: Scene) -> None:
    await scene.nodes({"a": {}, "b": {}})
    await _workload(scene, DEPLOYMENTS, "web", replicas=3)
    await scene.until("three are there", _has(scene, DEPLOYMENTS, "web", availableReplicas=3))
    await scene.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5}}, subresource="scale")
    await scene.until("five are there", _has(scene, DEPLOYMENTS, "web", availableReplicas=5))
    assert {pod.node_name for pod in (await scene.pods()).values()} == {"a", "b"}
    await scene.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}}, subresource="scale")
    await scene.until("one is left", _has(scene, DEPLOYMENTS, "web", availableReplicas=1, replicas=1))


async def deployment_is_rolled_out(scene: Scene) -> None:
    await scene.node("a")
    await _workload(scene, DEPLOYMENTS, "web", replicas=2)
    await scene.until("two are there", _has(scene, DEPLOYMENTS, "web", availableReplicas=2))
    containers = pod_spec(container={"image": "app:2"})["containers"]
    await scene.patch(DEPLOYMENTS, "web", {"spec": {"template": {"spec": {"containers": containers}}}})

    async def renewed() -> bool:
        pods = (await scene.pods()).values()
        return {pod.spec.containers[0].image for pod in pods if not pod.is_terminating} == {"app:2"}

    await scene.until("all are new", renewed)
    await scene.until("two are there", _has(scene, DEPLOYMENTS, "web", availableReplicas=2, updatedReplicas=2))


async def job_runs_to_completion(scene: Scene) -> None:
    await scene.node("a")
    template = {
        "metadata": {"annotations": {**AT_ONCE, "moorage.io/run-for": "100ms"}},
        "spec": pod_spec(restartPolicy="Never"),
    }
    await scene.create(JOBS, "sum", spec={"completions": 3, "parallelism": 2, "template": template})

    async def complete() -> bool:
        conditions = (await scene.get(JOBS, "sum"))["status"].get("conditions") or ()
        return any((item["type"], item["status"]) == ("Complete", "True") for item in conditions)

    await scene.until("the job is complete", complete)
    assert (await scene.get(JOBS, "sum"))["status"]["succeeded"] == 3


async def stateful_set_starts_in_order(scene: Scene) -> None:
    await scene.nodes({"a": {}, "b": {}})
    await _workload(scene, "apps/v1/statefulsets", "db", replicas=2, serviceName="db")
    await scene.until("both are there", _has(scene, "apps/v1/statefulsets", "db", readyReplicas=2))
    assert set(await scene.pods()) == {"db-0", "db-1"}


async def daemon_set_runs_on_every_node(scene: Scene) -> None:
    """Its pods are bound by the scheduler, also to cordoned nodes; a new node also gets one."""
    await scene.node("a")
    await scene.node("b", spec={"unschedulable": True})
    await _workload(scene, "apps/v1/daemonsets", "log")
    await scene.until("two are there", _has(scene, "apps/v1/daemonsets", "log", numberAvailable=2))
    await scene.node("c")
    await scene.until("three are there", _has(scene, "apps/v1/daemonsets", "log", numberAvailable=3))
    pods = await scene.pods()
    assert {pod.node_name for pod in pods.values()} == {"a", "b", "c"}
    for name in pods:
        await scene.event("Scheduled", name)


async def eviction_respects_the_budget(scene: Scene) -> None:
    await scene.nodes({"a": {}, "b": {}})
    await _workload(scene, DEPLOYMENTS, "web", replicas=2)
    budgets = "policy/v1/poddisruptionbudgets"
    await scene.create(budgets, "keep", spec={"maxUnavailable": 0, "selector": {"matchLabels": APP}})
    await scene.until("two are there", _has(scene, DEPLOYMENTS, "web", availableReplicas=2))
    await scene.until("they are counted", _has(scene, budgets, "keep", currentHealthy=2, disruptionsAllowed=0))
    name = next(iter(await scene.pods()))
    with pytest.raises(TooManyRequests):
        await _evict(scene, name)
    await scene.patch(budgets, "keep", {"spec": {"maxUnavailable": 1}})
    await scene.until("one may go", _has(scene, budgets, "keep", disruptionsAllowed=1))
    await _evict(scene, name)
    await scene.gone(name)
    await scene.until("two are there", _has(scene, DEPLOYMENTS, "web", availableReplicas=2))


async def lost_replica_is_replaced(scene: Scene) -> None:
    await scene.node("a")
    await _workload(scene, DEPLOYMENTS, "web", replicas=1)
    await scene.until("it is there", _has(scene, DEPLOYMENTS, "web", availableReplicas=1))
    (lost,) = await scene.pods()
    await scene.node("b")
    await scene.patch(NODES, "a", {"spec": {"unschedulable": True}})
    await scene.delete(PODS, lost)
    await scene.gone(lost)

    async def replaced() -> str | None:
        return next((name for name in await scene.pods() if name != lost), None)

    result = await scene.until("there is another", replaced)
    assert await scene.node_of(result) == "b"


async def new_objects_have_an_initial_status(scene: Scene) -> None:
    """No object is stored, so no controller is involved."""
    template = {"metadata": {"labels": APP}, "spec": pod_spec()}
    workload = {"selector": {"matchLabels": APP}, "template": template}
    job = {"template": {"spec": pod_spec(restartPolicy="Never")}}
    daemons = ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady")
    budget = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
    fields: dict[str, tuple[Data, Data]] = {
        DEPLOYMENTS: (workload, {}),
        "apps/v1/replicasets": (workload, {"replicas": 0}),
        "apps/v1/statefulsets": (workload, {"availableReplicas": 0, "replicas": 0}),
        "apps/v1/daemonsets": (workload, dict.fromkeys(daemons, 0)),
        "v1/replicationcontrollers": (workload | {"selector": APP}, {"replicas": 0}),
        JOBS: (job, {}),
        "batch/v1/cronjobs": ({"schedule": "* * * * *", "jobTemplate": {"spec": job}}, {}),
        "policy/v1/poddisruptionbudgets": ({"minAvailable": 1}, dict.fromkeys(budget, 0)),
        "v1/services": ({"ports": [{"port": 80}]}, {"loadBalancer": {}}),
        "resource.k8s.io/v1/resourceclaims": ({}, {}),
    }
    for resource, (spec, status) in fields.items():
        body = msgspec.json.encode({"metadata": {"name": "new"}, "spec": spec})
        created = await scene.client.request("POST", f"{scene.path(resource)}?dryRun=All", body)
        assert msgspec.json.decode(created).get("status") == status, resource


async def _workload(scene: Scene, resource: str, name: str, **spec: Any) -> None:
    template = {"metadata": {"labels": APP, "annotations": AT_ONCE}, "spec": pod_spec({"cpu": "100m"})}
    await scene.create(resource, name, spec={"selector": {"matchLabels": APP}, "template": template, **spec})


def _has(scene: Scene, resource: str, name: str, **numbers: int) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        obj = await scene.get(resource, name)
        status: Data = obj.get("status", {})
        is_new = status.get("observedGeneration", 0) == obj["metadata"].get("generation", 0)
        return is_new and all(status.get(key, 0) == number for key, number in numbers.items())

    return look


async def _evict(scene: Scene, name: str) -> None:
    body = f'{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"{name}"}}}}'
    await scene.client.request("POST", scene.path(PODS, name) + "/eviction", body.encode())
