"""Running pods with a deferred resize: only pods on their node are evicted for them.

O numbers are rows of the reference.
"""

from typing import Any

import pytest

from moorage.kube.api.node import Node
from moorage.kube.api.records import Event
from moorage.testing import Cluster, in_virtual_time

GATE = "InPlacePodVerticalScalingSchedulerPreemption=true"
HIGH = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 100,
}
MEEK = {**HIGH, "metadata": {"name": "meek"}, "preemptionPolicy": "Never"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "no room"}


def pod(name: str, cpu: str, *, node: str = "node-1", priority: str = "", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    content = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    if priority:
        content["priorityClassName"] = priority
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": content}


async def put_off(cluster: Cluster, *conditions: dict[str, Any]) -> None:
    """Report from the kubelet that a pod's resize is deferred, or no longer deferred."""
    stored = cluster.pod("grow")
    assert stored is not None
    await cluster.client.patch(stored, {"status": {"conditions": list(conditions)}}, subresource="status")


def names(cluster: Cluster) -> list[str]:
    return [item.name for item in cluster.pods() if not item.is_terminating]


def is_queued(cluster: Cluster) -> bool:
    assert cluster.embedded.scheduling is not None
    return any(item.pod.name == "grow" for item in cluster.embedded.scheduling.scheduler.queue)


async def started(cluster: Cluster, *pods: dict[str, Any]) -> None:
    await cluster.apply(HIGH, MEEK, *pods)
    await cluster.wait_for(lambda: len(cluster.running()) == len(pods))


def four_cpus(**how: Any) -> Cluster:
    return Cluster(nodes=2, shape="cpu=4,memory=8Gi,pods=10", feature_gates=GATE, **how)


GROW = pod("grow", "2", priority="high")


@pytest.mark.release("1.37")
@in_virtual_time
async def test_pod_of_lower_priority_is_evicted_and_the_others_remain() -> None:
    async with four_cpus() as cluster:
        await started(cluster, GROW, pod("low-1", "1"), pod("low-2", "2"), pod("far", "3", node="node-2"))
        await put_off(cluster, DEFERRED)
        await cluster.wait_for(lambda: len(names(cluster)) == 3)
        await cluster.sleep(120)
        assert names(cluster) == ["far", "grow", "low-1"]
        stored = cluster.pod("grow")
        assert stored is not None
        scheduled = stored.condition("PodScheduled")
        assert scheduled is not None
        assert (stored.nominated_node_name, scheduled.status) == ("", "True"), "no condition is written"
        assert is_queued(cluster), "retried until the kubelet has resized the pod"
        await put_off(cluster)
        await cluster.wait_for(lambda: not is_queued(cluster))


@in_virtual_time
async def test_necessary_number_of_pods_is_evicted() -> None:
    async with four_cpus() as cluster:
        big = pod("grow", "4", priority="high")
        await started(cluster, big, pod("low-1", "1"), pod("low-2", "1"))
        await put_off(cluster, DEFERRED)
        await cluster.wait_for(lambda: names(cluster) == ["grow"])


@in_virtual_time
async def test_unnecessary_resize_evicts_no_pod() -> None:
    async with four_cpus() as cluster:
        await started(cluster, GROW, pod("low-1", "2"))
        await put_off(cluster, DEFERRED)
        await cluster.sleep(60)
        assert names(cluster) == ["grow", "low-1"]
    async with four_cpus() as cluster:
        await started(cluster, pod("grow", "5", priority="high"), pod("far", "1", node="node-2"))
        await put_off(cluster, DEFERRED)
        await cluster.sleep(60)
        assert names(cluster) == ["far", "grow"]
    async with four_cpus() as cluster:
        await started(cluster, pod("grow", "2", priority="meek"), pod("low-1", "3"))
        await put_off(cluster, DEFERRED)
        await cluster.sleep(60)
        assert names(cluster) == ["grow", "low-1"]


@in_virtual_time
async def test_node_can_forbid_the_resize_temporarily() -> None:
    async with four_cpus() as cluster:
        node = cluster.find(Node, "node-1")
        assert node is not None
        policy = {"disableResizePreemption": ["example.org/careful"]}
        await cluster.client.patch(node, {"spec": {"podPreemptionPolicy": policy}})
        await started(cluster, GROW, pod("low-1", "3"))
        await put_off(cluster, DEFERRED)
        await cluster.sleep(60)
        assert names(cluster) == ["grow", "low-1"]
        await cluster.client.patch(node, {"spec": {"podPreemptionPolicy": None}})
        await cluster.wait_for(lambda: names(cluster) == ["grow"])


@in_virtual_time
async def test_resize_is_retried_when_its_node_has_space() -> None:
    async with four_cpus() as cluster:
        await started(cluster, pod("grow", "2", priority="meek"), pod("low-1", "3"), pod("far", "1", node="node-2"))
        await put_off(cluster, DEFERRED)
        await cluster.sleep(30)
        (before,) = attempts(cluster)
        await cluster.delete(pod("far", "1", node="node-2"))
        await cluster.sleep(30)
        assert attempts(cluster) == [before], "events of other nodes do not matter"
        await cluster.delete(pod("low-1", "3"))
        await cluster.wait_for(lambda: attempts(cluster)[0] > before)


def attempts(cluster: Cluster) -> list[int]:
    assert cluster.embedded.scheduling is not None
    return [item.attempts for item in cluster.embedded.scheduling.scheduler.queue if item.pod.name == "grow"]


@in_virtual_time
async def test_fitting_resize_backs_off_without_events() -> None:
    async with four_cpus() as cluster:
        await started(cluster, GROW)
        before = len(await cluster.client.list(Event, "default"))
        await put_off(cluster, DEFERRED)
        await cluster.sleep(10)
        (early,) = attempts(cluster)
        await cluster.sleep(60)
        (late,) = attempts(cluster)
        assert early == 4, "after 0, 1, 3 and 7 seconds"
        assert 5 <= late - early <= 6, "then every ten seconds, at the next flush of the queue"
        assert len(await cluster.client.list(Event, "default")) == before


@in_virtual_time
async def test_single_member_of_a_gang_is_resized() -> None:
    gates = f"{GATE},GenericWorkload=true"
    async with Cluster(nodes=1, shape="cpu=4,memory=8Gi,pods=10", feature_gates=gates) as cluster:
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "high"}
        gang = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "spec": spec}
        await cluster.apply(HIGH, gang | {"metadata": {"name": "g", "namespace": "default"}})
        grow = pod("grow", "2", priority="high", schedulingGroup={"podGroupName": "g"})
        # The gang has one member, and could not be tried as a unit.
        await started(cluster, grow, pod("low-1", "3"))
        await put_off(cluster, DEFERRED)
        await cluster.wait_for(lambda: names(cluster) == ["grow"])
        assert is_queued(cluster)


@pytest.mark.release("1.37")
@in_virtual_time
async def test_disabled_gate_ignores_deferred_resizes() -> None:
    async with Cluster(nodes=1, shape="cpu=4,memory=8Gi,pods=10") as cluster:
        await started(cluster, GROW, pod("low-1", "3"))
        await put_off(cluster, DEFERRED)
        await cluster.sleep(60)
        assert names(cluster) == ["grow", "low-1"]
        assert not is_queued(cluster)
