"""Shared GPUs on an embedded cluster: no device is allocated twice, and allocations are recorded."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from moorage.contrib.gpu.devices import read_gpus
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_DEVICES, GPU_MILLI
from moorage.kube.api.pod import Pod
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.instruments import read_scheduler
from moorage.testing import Cluster, in_virtual_time
from moorage.testing.rig import Rig
from tests.support.exposing import exposing

POLICIES = ("FGD", "GpuBestFit", "GpuClustering", "GpuDotProd", "GpuPacking", "GpuRandom")
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: GpuShare}, {name: POLICY, weight: 1000}]}
"""


def shape(gpus: int) -> str:
    return f"cpu=64,memory=256Gi,{GPU_COUNT}={gpus},{GPU_MILLI}={1000 * gpus}"


def pod(name: str, gpus: int, milli: int | str, priority: str = "") -> dict[str, Any]:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {GPU_COUNT: str(gpus), GPU_MILLI: str(milli)},
        },
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, "priorityClassName": priority},
    }


def taken(pods: list[Pod]) -> Counter[tuple[str, str]]:
    """Add up the allocated shares of each device from the annotations."""
    results: Counter[tuple[str, str]] = Counter()
    for placed in pods:
        annotations = placed.metadata.annotations
        devices = annotations[GPU_DEVICES].split(",")
        assert len(devices) == int(annotations[GPU_COUNT]), placed.name
        results.update({(placed.node_name, device): int(annotations[GPU_MILLI]) for device in devices})
    return results


@pytest.mark.parametrize("policy", POLICIES)
@in_virtual_time
async def test_devices_are_not_overcommitted(policy: str) -> None:
    chance = Random(policy)
    async with Cluster(nodes=3, shape=shape(4), config=CONFIG.replace("POLICY", policy)) as cluster:
        for number in range(40):
            gpus = chance.choice((1, 1, 1, 1, 2))
            milli = 1000 if gpus > 1 else chance.choice((110, 320, 470, 810, 1000))
            await cluster.apply(pod(f"p{number}", gpus, milli))
            await cluster.sleep(1)
            if number % 5 == 4 and (running := cluster.running()):
                deleted = chance.choice(running)
                await cluster.delete(pod(deleted.name, 1, 1000))
        await cluster.sleep(60)
        placed = cluster.running()
        assert len(placed) >= 12
        assert max(taken(placed).values()) <= 1000

        # A new scheduler reads all allocations from the API.
        rebuilt = Rig(*cluster.nodes(), *placed)
        for info in rebuilt.nodes:
            existing = [1000 - taken(placed)[info.name, str(device)] for device in range(len(read_gpus(info).free))]
            assert list(read_gpus(info).free) == existing


@in_virtual_time
async def test_pending_pod_gets_a_released_share() -> None:
    async with Cluster(nodes=1, shape=shape(1), config=CONFIG.replace("POLICY", "FGD")) as cluster:
        await cluster.apply(pod("first", 1, 700))
        await cluster.wait_for(lambda: len(cluster.running()) == 1)
        await cluster.apply(pod("second", 1, 400))
        await cluster.apply(pod("broken", 1, "half"))
        await cluster.sleep(5)
        assert "node(s) had no GPU with enough left to share" in cluster.why_pending("second")
        assert 'annotation moorage.io/gpu-milli is "half": write thousandths' in cluster.why_pending("broken")
        await cluster.delete(pod("first", 1, 700))
        await cluster.wait_for(lambda: [placed.name for placed in cluster.running()] == ["second"])


@in_virtual_time
async def test_preemptor_gets_the_devices_of_its_victims() -> None:
    async with Cluster(nodes=1, shape=shape(2), config=CONFIG.replace("POLICY", "GpuPacking")) as cluster:
        for number in range(2):
            await cluster.apply(pod(f"small-{number}", 1, 600))
        await cluster.wait_for(lambda: len(cluster.running()) == 2)
        important = {"kind": "PriorityClass", "metadata": {"name": "important"}, "value": 10}
        await cluster.apply({"apiVersion": "scheduling.k8s.io/v1", **important})
        await cluster.apply(pod("large", 2, 1000, priority="important"))
        await cluster.wait_for(lambda: "large" in {placed.name for placed in cluster.running()})
        assert taken([placed for placed in cluster.running() if placed.name == "large"]) == {
            ("node-1", "0"): 1000,
            ("node-1", "1"): 1000,
        }


@in_virtual_time
async def test_metrics_report_fragmentation_and_the_largest_job() -> None:
    async with Cluster(nodes=1, shape=shape(4), config=CONFIG.replace("POLICY", "FGD")) as cluster:
        await cluster.apply(pod("half", 1, 600), pod("whole", 1, 1000))
        await cluster.wait_for(lambda: len(cluster.running()) == 2)
        cells, scheduling = CellRegistry(), cluster.embedded.scheduling
        assert scheduling is not None
        read_scheduler(cells, scheduling.scheduler)
        result = exposing(cells)
        assert result.get_sample_value("moorage_largest_job_gpus", {"pool": "all"}) == 2
        wasted = result.get_sample_value("moorage_fragmentation_ratio", {"pool": "all", "shape": "cpu=1000m,gpu=1x600"})
        assert wasted == pytest.approx(0.1), "400 of 4000 thousandths are too little for another one"
