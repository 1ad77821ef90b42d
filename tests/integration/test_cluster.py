"""`moorage.testing.Cluster` in real time, over HTTP, and its error reports."""

import asyncio

import msgspec
import pytest

from moorage.kube.api.cluster import Namespace
from moorage.kube.api.pod import Pod
from moorage.kube.api.workloads import Deployment, ReplicaSet
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin
from moorage.testing import Cluster, in_virtual_time
from tests.integration.test_workloads import workload
from tests.support.custom_writes import Budget
from tests.support.ticketing import DEFINITION, Ticket, ticket


def test_cluster_runs_in_real_time() -> None:
    async def story() -> None:
        async with Cluster(nodes=2) as cluster:
            await cluster.apply(workload("Deployment", replicas=2))
            await cluster.wait_for(lambda: len(cluster.running("app=web")) == 2)
            assert cluster.kubeconfig["current-context"] == "moorage"

    asyncio.run(story())


@in_virtual_time
async def test_timeout_message_contains_the_state_of_the_pods() -> None:
    async with Cluster(nodes=1) as cluster:
        await cluster.apply(workload("Deployment", cpu="900", replicas=1))
        with pytest.raises(TimeoutError, match="Insufficient cpu"):
            await cluster.wait_for(lambda: bool(cluster.running()), seconds=30)


@in_virtual_time
async def test_pods_remain_pending_without_a_scheduler() -> None:
    async with Cluster(nodes=1, scheduler=False) as cluster:
        await cluster.apply(workload("Deployment", replicas=1))
        await cluster.wait_for(lambda: len(cluster.pods()) == 1)
        await cluster.sleep(60.0)
        assert [pod.node_name for pod in cluster.pods()] == [""]


@in_virtual_time
async def test_text_and_data_are_applied_like_files() -> None:
    async with Cluster(nodes=0) as cluster:
        template = "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n"
        text = "---\n".join((template % "a", template % "b"))
        stored = await cluster.apply(text, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c"}})
        assert [item["metadata"]["name"] for item in stored] == ["a", "b", "c"]


class Idle(FilterPlugin):
    """Accepts all nodes, and lists a kind that no controller watches."""

    def __init__(self, *, handle: Handle) -> None:
        self.tickets = handle.lister(Ticket)

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> None:
        return None


class Absent(Idle):
    """A plugin that is not enabled."""


@in_virtual_time
async def test_listed_objects_and_plugins_are_accessible() -> None:
    async with Cluster(nodes=1, plugins=[Idle], definitions=[DEFINITION]) as cluster:
        await cluster.apply(ticket("gold", approved=True))
        await cluster.wait_for(lambda: [resource.key for resource in cluster.objects(Ticket)] == ["default/gold"])
        obj = cluster.find(Ticket, "gold")
        assert obj is not None
        assert obj.spec.approved
        assert cluster.plugin(Idle).tickets.get("gold", "default") == obj
        with pytest.raises(LookupError, match="Absent is not enabled in default-scheduler; enabled plugins: "):
            cluster.plugin(Absent)
        with pytest.raises(
            LookupError, match=r"no controller or plugin watches budgets; use `await cluster.client.list\(Budget\)`"
        ):
            cluster.objects(Budget)


@in_virtual_time
async def test_terminating_namespace_deletes_pods_and_reports_conditions() -> None:
    spec = {"name": "web", "namespace": "shop", "finalizers": ["example.org/hold"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": spec, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    fields = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "used", "namespace": "shop"}}
    async with Cluster(nodes=1) as cluster:
        await cluster.apply(space, fields, pod)
        client = cluster.embedded.client
        await client.request("DELETE", "/api/v1/namespaces/shop")
        await cluster.sleep(3.0)
        response = msgspec.json.decode(await client.request("GET", "/api/v1/namespaces/shop"))["status"]
        conditions = {item["type"]: item["message"] for item in response["conditions"]}
        remaining = "Some resources are remaining: configmaps. has 1 resource instances"
        assert conditions["NamespaceContentRemaining"].startswith(remaining)
        held_by = "Some content in the namespace has finalizers remaining: example.org/hold in 1 resource instances"
        assert conditions["NamespaceFinalizersRemaining"] == held_by
        assert "NamespaceDeletionContentFailure" in conditions
        await client.request(
            "PATCH",
            "/api/v1/namespaces/shop/pods/web",
            b'{"metadata":{"finalizers":null}}',
            "application/merge-patch+json",
        )
        await cluster.wait_for(lambda: cluster.embedded.cache[Namespace].get("shop") is None)


def failures(cluster: Cluster, kind: type[ReplicaSet | Deployment]) -> list[str]:
    statuses = (obj.status for obj in cluster.embedded.cache[kind])
    return [
        item["reason"]
        for status in statuses
        for item in status.get("conditions") or ()
        if item["type"] == "ReplicaFailure"
    ]


@in_virtual_time
async def test_deployment_reports_pods_that_limits_make_invalid() -> None:
    limits = {"limits": [{"type": "Container", "default": {"cpu": "1m"}}]}
    limit_range = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": limits}
    async with Cluster(nodes=1) as cluster:
        await cluster.apply(limit_range, workload("Deployment", replicas=3))
        await cluster.wait_for(
            lambda: failures(cluster, Deployment) == failures(cluster, ReplicaSet) == ["FailedCreate"]
        )


@in_virtual_time
async def test_deployment_reports_an_exceeded_quota() -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    async with Cluster(nodes=1) as cluster:
        await cluster.apply(quota, workload("Deployment", replicas=3))
        await cluster.wait_for(
            lambda: failures(cluster, Deployment) == failures(cluster, ReplicaSet) == ["FailedCreate"]
        )
        assert len(cluster.pods()) == 1
        await cluster.embedded.client.request("DELETE", "/api/v1/namespaces/default/resourcequotas/few")
        await cluster.wait_for(lambda: len(cluster.running("app=web")) == 3)
        await cluster.wait_for(lambda: failures(cluster, Deployment) == failures(cluster, ReplicaSet) == [])
