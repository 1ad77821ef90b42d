"""A job on an embedded cluster with the gates enabled: its pods are a group, and it is deleted with all its objects."""

import re
from typing import Any

import msgspec

from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import PodGroup, Workload
from moorage.kube.api.workloads import Job
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
async def test_gang_of_a_job_is_deleted_with_the_job() -> None:
    async with Cluster(nodes=1, scheduler=False, feature_gates=GATES) as cluster:
        cache = cluster.embedded.cache

        def number(kind: type[KubeObject]) -> int:
            return len(cache[kind])

        await cluster.apply(JOB)
        await cluster.wait_for(lambda: number(Pod) == 3)
        (group,) = cache[PodGroup]
        (workload,) = cache[Workload]
        assert group.min_count == 3
        assert group.spec.workload_ref is not None
        assert group.spec.workload_ref.workload_name == workload.name
        assert {pod.group_key for pod in cache[Pod]} == {group.key}

        await cluster.client.patch(next(iter(cache[Job])), {"spec": {"parallelism": 2}})
        await cluster.wait_for(lambda: {item.min_count for item in cache[PodGroup]} == {2})

        path = BY_TYPE[Job].path("train", "default")
        await cluster.client.request("DELETE", f"{path}?propagationPolicy=Background")
        kinds: tuple[type[KubeObject], ...] = (Job, Pod, PodGroup, Workload)
        await cluster.wait_for(lambda: not any(map(number, kinds)))


async def told(cluster: Cluster) -> list[tuple[str, str, str]]:
    """Return type, reason and message of the events of jobs, in order, with x for generated names."""
    body = await cluster.client.request("GET", "/api/v1/namespaces/default/events")
    events = [item for item in msgspec.json.decode(body)["items"] if item["involvedObject"]["kind"] == "Job"]
    assert {item["source"]["component"] for item in events} <= {"job-controller"}
    events.sort(key=lambda item: int(item["metadata"]["name"].rpartition(".")[2], 16))
    return [(item["type"], item["reason"], re.sub(r"(pod: \w+)-\w+", r"\1-x", item["message"])) for item in events]


@in_virtual_time
async def test_events_report_the_groups_of_a_job() -> None:
    """The events of kube-controller-manager 1.37 for the same jobs."""
    async with Cluster(nodes=1, feature_gates=GATES) as cluster:
        cache = cluster.embedded.cache
        await cluster.apply(JOB)
        await cluster.wait_for(lambda: len(cluster.running()) == 3)
        (group,), (workload,) = cache[PodGroup], cache[Workload]
        assert await told(cluster) == [
            ("Normal", "WorkloadCreated", f"Created Workload {workload.name} for Job train"),
            ("Normal", "PodGroupCreated", f"Created PodGroup {group.name} for Job train"),
            *[("Normal", "SuccessfulCreate", "Created pod: train-x")] * 3,
        ]
        (job,) = cache[Job]
        await cluster.client.patch(job, {"spec": {"suspend": True}})
        await cluster.wait_for(lambda: not cache[Pod])
        await cluster.client.patch(job, {"spec": {"suspend": False}})
        await cluster.wait_for(lambda: len(cluster.running()) == 3)
        await cluster.client.patch(job, {"spec": {"activeDeadlineSeconds": 1}})
        await cluster.wait_for(lambda: not cache[Pod])
        await cluster.sleep(1)
        more = (await told(cluster))[5:]
        assert sorted(more) == sorted(
            [
                *[("Normal", "SuccessfulDelete", "Deleted pod: train-x")] * 6,
                ("Normal", "Suspended", "Job suspended"),
                ("Normal", "Resumed", "Job resumed"),
                *[("Normal", "SuccessfulCreate", "Created pod: train-x")] * 3,
                ("Warning", "DeadlineExceeded", "Job was active longer than specified deadline"),
            ]
        )


@in_virtual_time
async def test_event_reports_a_complete_job() -> None:
    async with Cluster(nodes=1, feature_gates=GATES) as cluster:
        template = {"metadata": {"annotations": {"moorage.io/run-for": "1s"}}, **JOB["spec"]["template"]}
        await cluster.apply({**JOB, "spec": {**JOB["spec"], "template": template}})
        await cluster.sleep(30)
        assert (await told(cluster))[-1] == ("Normal", "Completed", "Job completed")


@in_virtual_time
async def test_deleted_group_remains_while_it_has_pods() -> None:
    async with Cluster(nodes=1, scheduler=False, feature_gates=GATES) as cluster:
        cache = cluster.embedded.cache
        await cluster.apply(JOB)
        await cluster.wait_for(lambda: len(cache[Pod]) == 3)
        (group,) = cache[PodGroup]
        await cluster.client.request("DELETE", BY_TYPE[PodGroup].path(group.name, group.namespace))
        await cluster.wait_for(lambda: any(item.is_terminating for item in cache[PodGroup]))
        await cluster.client.request("DELETE", BY_TYPE[Job].path("train", "default"))
        await cluster.wait_for(lambda: len(cache[PodGroup]) == 0)
        assert len(cache[Pod]) == 0
