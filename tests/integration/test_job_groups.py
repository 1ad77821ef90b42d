"""A job on an embedded cluster with the gates on: its pods are a group, and everything goes when the job goes."""

from typing import Any

from moorage.api.kinds import BY_TYPE
from moorage.api.meta import KubeObject
from moorage.api.pod import Pod
from moorage.api.pod_groups import PodGroup, Workload
from moorage.api.workloads import Job
from moorage.testing import Cluster, in_virtual_time

GATES = "GenericWorkload=true,WorkloadWithJob=true"
JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {
        "parallelism": 3,
        "completions": 3,
        "scheduling": {"schedulingPolicy": {"gang": {}}},
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
    },
}


@in_virtual_time
async def test_a_job_is_a_gang_and_leaves_nothing_behind() -> None:
    async with Cluster(nodes=1, scheduler=False, feature_gates=GATES) as cluster:
        view = cluster.box.view

        def number(kind: type[KubeObject]) -> int:
            return len(view[kind])

        await cluster.apply(JOB)
        await cluster.wait_for(lambda: number(Pod) == 3)
        (group,) = view[PodGroup]
        (workload,) = view[Workload]
        assert group.min_count == 3
        assert group.spec.workload_ref is not None
        assert group.spec.workload_ref.workload_name == workload.name
        assert {pod.group_key for pod in view[Pod]} == {group.key}

        await cluster.client.patch(next(iter(view[Job])), {"spec": {"parallelism": 2}})
        await cluster.wait_for(lambda: {item.min_count for item in view[PodGroup]} == {2})

        path = BY_TYPE[Job].path("train", "default")
        await cluster.client.request("DELETE", f"{path}?propagationPolicy=Background")
        kinds: tuple[type[KubeObject], ...] = (Job, Pod, PodGroup, Workload)
        await cluster.wait_for(lambda: not any(map(number, kinds)))


@in_virtual_time
async def test_a_group_that_is_deleted_stays_while_it_has_pods() -> None:
    async with Cluster(nodes=1, scheduler=False, feature_gates=GATES) as cluster:
        view = cluster.box.view
        await cluster.apply(JOB)
        await cluster.wait_for(lambda: len(view[Pod]) == 3)
        (group,) = view[PodGroup]
        await cluster.client.request("DELETE", BY_TYPE[PodGroup].path(group.name, group.namespace))
        await cluster.wait_for(lambda: any(item.is_terminating for item in view[PodGroup]))
        await cluster.client.request("DELETE", BY_TYPE[Job].path("train", "default"))
        await cluster.wait_for(lambda: len(view[PodGroup]) == 0)
        assert len(view[Pod]) == 0
