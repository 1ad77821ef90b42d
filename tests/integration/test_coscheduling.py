"""Coscheduling on an embedded cluster: with the PodGroup of scheduler-plugins, and with annotations only."""

from pathlib import Path
from typing import Any

import pytest

from moorage.contrib.community.coscheduling.gangs import CoschedulingGroup
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.workloads import Job
from moorage.testing import Cluster, in_virtual_time
from tests.support.gangs import COSCHEDULING

DEFINITIONS = Path(__file__).parents[2] / "deploy/community/definitions.yaml"
CONFIG = COSCHEDULING.replace("{ARGS}", "{permitWaitingTimeSeconds: 10}")
GROUP: dict[str, Any] = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "PodGroup",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"minMember": 3, "scheduleTimeoutSeconds": 10, "minResources": {"cpu": "1500m"}},
}


def job(cpu: str, **metadata: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    metadata["annotations"] = {"moorage.io/run-for": "60s", **metadata.get("annotations", {})}
    template = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": 3, "completions": 3, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}


def pod(name: str, cpu: str) -> dict[str, Any]:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


@pytest.mark.release("1.37")
@in_virtual_time
async def test_job_with_a_pod_group_runs_from_its_first_to_its_last_pod() -> None:
    async with Cluster(nodes=1, shape="cpu=3", config=CONFIG, definitions=[DEFINITIONS]) as cluster:

        def phase() -> str:
            group = cluster.find(CoschedulingGroup, "train")
            return "" if group is None else group.status.phase

        await cluster.apply(GROUP)
        await cluster.wait_for(lambda: phase() == "Pending")
        await cluster.apply(pod("blocker", "1"))
        await cluster.wait_for(lambda: len(cluster.running()) == 1)
        await cluster.apply(job("1", labels={"scheduling.x-k8s.io/pod-group": "train"}))
        await cluster.wait_for(lambda: phase() == "Scheduling")
        assert len(cluster.running()) == 1, "two of three would fit"
        assert "minMember (3) cannot be satisfied" in cluster.why_pending(cluster.pods("job-name=train")[0].name)

        blocker = cluster.pod("blocker")
        assert blocker is not None
        await cluster.client.delete(blocker)
        await cluster.wait_for(lambda: phase() == "Running")
        assert len(cluster.running("job-name=train")) == 3
        await cluster.wait_for(lambda: phase() == "Finished")
        group = cluster.find(CoschedulingGroup, "train")
        assert group is not None
        assert (group.status.running, group.status.succeeded, group.status.failed) == (0, 3, 0)
        assert group.status.occupied_by == "default/train"


@pytest.mark.release("1.37")
@in_virtual_time
async def test_annotations_define_groups_without_a_custom_resource() -> None:
    async with Cluster(nodes=1, shape="cpu=2", config=CONFIG) as cluster:
        gang = {"moorage.io/gang": "train", "moorage.io/gang-size": "3"}
        await cluster.apply(job("1", annotations=gang))
        await cluster.sleep(30)
        assert cluster.running() == []
        assert "minMember (3) cannot be satisfied" in cluster.why_pending(cluster.pods()[0].name)
        await cluster.client.request("DELETE", f"{BY_TYPE[Job].path('train', 'default')}?propagationPolicy=Background")
        await cluster.wait_for(lambda: cluster.pods() == [])
        await cluster.apply(job("500m", annotations=gang))
        await cluster.wait_for(lambda: len(cluster.running()) == 3)


@pytest.mark.release("1.37")
@in_virtual_time
async def test_pods_that_finish_during_a_reload_are_counted() -> None:
    async with Cluster(nodes=1, shape="cpu=3", config=CONFIG, definitions=[DEFINITIONS]) as cluster:
        await cluster.apply(GROUP)
        await cluster.apply(job("1", labels={"scheduling.x-k8s.io/pod-group": "train"}))
        await cluster.wait_for(lambda: len(cluster.running("job-name=train")) == 3)
        for seconds in range(80):
            await cluster.reload(config=CONFIG.replace("10", str(seconds + 1)))
            await cluster.sleep(1.0)
        group = cluster.find(CoschedulingGroup, "train")
        assert group is not None
        assert (group.status.phase, group.status.succeeded) == ("Finished", 3)
