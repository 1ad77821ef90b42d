"""Plans of the sample clusters, carried out on the embedded cluster, end as predicted."""

import asyncio
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.cluster.apiserver.requests.request import ApiRequest
from moorage.cluster.controllers.kubelet import FAKE_LABEL
from moorage.cluster.in_process import InProcessClient
from moorage.common.errors import Forbidden, InputError
from moorage.common.virtual_time import VirtualLoop
from moorage.insight.plan.applying import PlanApplier
from moorage.insight.plan.consolidation import plan_consolidate
from moorage.insight.plan.draining import plan_drain
from moorage.insight.plan.making_room import plan_room
from moorage.insight.plan.mobility import Constraints
from moorage.insight.plan.plan_model import Plan, PlannedCluster
from moorage.insight.plan.rebalancing import plan_rebalance
from moorage.insight.snapshots.cluster_reader import read_cluster
from moorage.insight.whatif.session import Session
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.manifests import read_files, to_documents
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing.cluster import Cluster, in_virtual_time

SAMPLES = Path(__file__).parents[2] / "examples" / "clusters"
FORCED = Constraints(force=True)
Data = dict[str, Any]
Make = Callable[[Session], Plan]


def open_session(documents: Any) -> Session:
    return Session(documents, load_policy(collect_plugins()))


async def read(cluster: Cluster) -> Session:
    contents = (await read_cluster(cluster.client)).contents
    return open_session(to_documents(contents, source="the cluster"))


async def start(cluster: Cluster, name: str) -> None:
    """Create the objects of a sample; each running pod with a controller gets a ReplicaSet of its own."""
    contents = [deepcopy(dict(document.content)) for document in read_files([str(SAMPLES / f"{name}.yaml")])]
    for content in (content for content in contents if content["kind"] == "Node"):
        content["metadata"].setdefault("labels", {})[FAKE_LABEL] = ""
    pods = [content for content in contents if content["kind"] == "Pod"]
    namespaces = {content["metadata"].get("namespace", "default") for content in contents} - {"default"}
    await cluster.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces))
    await cluster.apply(*(content for content in contents if content["kind"] not in ("Pod", "Namespace")))
    for pod in pods:
        pod.pop("status", None)
        owners = pod["metadata"].pop("ownerReferences", ())
        if not pod["spec"].get("nodeName"):
            continue
        if owners and owners[0]["kind"] != "DaemonSet":
            labels = {**pod["metadata"].get("labels", {}), "sample": pod["metadata"]["name"]}
            template_spec = {key: item for key, item in pod["spec"].items() if key != "nodeName"}
            head = {key: pod["metadata"][key] for key in ("name", "namespace") if key in pod["metadata"]}
            spec = {
                "replicas": 0,
                "selector": {"matchLabels": {"sample": labels["sample"]}},
                "template": {"metadata": {"labels": labels}, "spec": template_spec},
            }
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": head, "spec": spec}
            (stored,) = await cluster.apply(owner)
            reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": head["name"], "controller": True}
            pod["metadata"] |= {
                "labels": labels,
                "ownerReferences": [{**reference, "uid": stored["metadata"]["uid"]}],
            }
            await cluster.apply(pod, {**owner, "spec": {**spec, "replicas": 1}})
        else:
            await cluster.apply(pod)
    await cluster.sleep(5)


def applier(cluster: Cluster, saved: list[Plan], **more: Any) -> PlanApplier:
    now = asyncio.get_running_loop().time
    return PlanApplier(cluster.client, open_session, now=now, save=saved.append, **more)


async def placements(cluster: Cluster) -> Counter[tuple[str, str]]:
    pods = [pod for pod in await cluster.client.list(Pod) if not pod.is_terminating and not pod.is_finished]
    return Counter((pod.labels.get("sample", pod.name), pod.node_name) for pod in pods)


async def expected_placements(cluster: Cluster, plan: Plan) -> Counter[tuple[str, str]]:
    expected = await placements(cluster)
    for item in (item for step in plan.steps for item in step.evict):
        expected[item.pod.partition("/")[2], item.source] -= 1
        if item.node:
            expected[item.pod.partition("/")[2], item.node] += 1
    return +expected


GOALS: dict[str, tuple[str, Make, bool]] = {
    "the old pool is drained": (
        "pool",
        lambda session: plan_drain(session, selector="pool=old", constraints=FORCED),
        True,
    ),
    "the old pool is upgraded": (
        "pool",
        lambda session: plan_drain(session, selector="pool=old", rolling=1, constraints=FORCED),
        True,
    ),
    "the pool is consolidated": ("pool", plan_consolidate, True),
    "the pool is rebalanced": ("pool", plan_rebalance, True),
    "GPUs are defragmented": ("fragmented", lambda session: plan_room(session, ["default/train"]), True),
    "GPU nodes are consolidated": ("fragmented", plan_consolidate, True),
    "a GPU node is drained": ("training", lambda session: plan_drain(session, ["gpu-1"]), False),
    "a database node is drained": ("web-shop", lambda session: plan_drain(session, ["db-a"]), True),
    "the tour is consolidated": ("tour", plan_consolidate, True),
}


@pytest.mark.parametrize(("sample", "make", "is_feasible"), GOALS.values(), ids=GOALS)
@in_virtual_time
async def test_samples_end_as_predicted(sample: str, make: Make, is_feasible: bool) -> None:
    async with Cluster(nodes=0) as cluster:
        await start(cluster, sample)
        if sample == "fragmented":
            contents = [dict(document.content) for document in read_files([str(SAMPLES / "fragmented.yaml")])]
            await cluster.apply(next(item for item in contents if item["metadata"]["name"] == "train"))
            await cluster.sleep(2)
        with await read(cluster) as session:
            plan = make(session)
        assert plan.feasible is is_feasible, plan.reason
        expected = await expected_placements(cluster, plan)
        saved: list[Plan] = []
        while plan.progress is None or plan.progress.done < len(plan.steps):
            result = await applier(cluster, saved).run_step(plan)
            assert result.is_done, result.lines
            plan = result.plan
            if not plan.steps:
                break
        await cluster.sleep(30)
        for item in plan.placed:
            expected -= Counter({(item.pod.partition("/")[2], ""): 1})
            expected[item.pod.partition("/")[2], item.node or ""] += 1
        assert await placements(cluster) == expected
        cordoned = {node.name for node in await cluster.client.list(Node) if node.spec.unschedulable}
        emptied = set(plan.summary.nodes_emptied)
        assert cordoned >= emptied if "rolling" not in plan.arguments else not cordoned


async def drain_plan(cluster: Cluster) -> Plan:
    await start(cluster, "pool")
    with await read(cluster) as session:
        return plan_drain(session, selector="pool=old", constraints=FORCED)


@in_virtual_time
async def test_nothing_is_written_without_a_step() -> None:
    async with Cluster(nodes=0) as cluster:
        plan = await drain_plan(cluster)
        before = await placements(cluster)
        result = await applier(cluster, []).describe(plan)
        assert result.is_done
        assert "next: step 1 of 3" in result.lines[0]
        assert await placements(cluster) == before
        assert not any(node.spec.unschedulable for node in await cluster.client.list(Node))


@in_virtual_time
async def test_a_changed_cluster_is_planned_again() -> None:
    async with Cluster(nodes=0) as cluster:
        plan = await drain_plan(cluster)
        await cluster.client.request("DELETE", "/api/v1/namespaces/default/pods/web-1")
        await cluster.sleep(5)
        saved: list[Plan] = []
        result = await applier(cluster, saved).run_step(plan)
        assert result.is_replanned
        assert result.lines[1] == "default/web-1 is gone"
        assert saved == [result.plan]
        result = await applier(cluster, saved).run_step(result.plan)
        assert result.is_done, result.lines


@in_virtual_time
async def test_an_interrupted_step_is_completed() -> None:
    class Interrupted(Exception):
        pass

    async def interrupt(_seconds: float) -> None:
        raise Interrupted

    async with Cluster(nodes=0) as cluster:
        plan = await drain_plan(cluster)
        expected = await expected_placements(cluster, plan)
        saved = [plan]
        with pytest.raises(Interrupted):
            await applier(cluster, saved, sleep=interrupt).run_step(plan)
        assert saved[-1].progress is not None
        assert saved[-1].progress.is_started
        while (progress := saved[-1].progress) is None or progress.done < len(plan.steps):
            result = await applier(cluster, saved).run_step(saved[-1])
            assert result.is_done, result.lines
        await cluster.sleep(5)
        assert await placements(cluster) == expected
        result = await applier(cluster, saved).run_step(saved[-1])
        assert result.lines == ("all steps of the plan are done",), "a completed plan can be repeated"


@in_virtual_time
async def test_plans_of_other_clusters_are_refused() -> None:
    async with Cluster(nodes=0) as cluster:
        plan = await drain_plan(cluster)
        other = msgspec.structs.replace(plan, cluster=PlannedCluster("0" * 16, plan.cluster.taken_at))
        with pytest.raises(InputError, match="another cluster"):
            await applier(cluster, []).run_step(other)


@pytest.mark.parametrize(
    ("method", "hint"),
    [("PATCH", 'verb "patch" on resource "nodes"'), ("POST", 'verb "create" on resource "pods/eviction"')],
)
@in_virtual_time
async def test_missing_permissions_are_named_before_anything_is_written(method: str, hint: str) -> None:
    async with Cluster(nodes=0) as cluster:
        plan = await drain_plan(cluster)
        before = await placements(cluster)

        async def forbid(request: ApiRequest) -> None:
            if request.method == method and ("/nodes/" in request.path or request.path.endswith("/eviction")):
                raise Forbidden("forbidden", status=403, reason="Forbidden")

        assert isinstance(cluster.client, InProcessClient)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        limited = InProcessClient(cluster.client._api, loop.clock, before=forbid)
        with pytest.raises(InputError) as refusal:
            await PlanApplier(limited, open_session, now=loop.time).run_step(plan)
        assert hint in str(refusal.value.hint)
        assert await placements(cluster) == before
        assert not any(node.spec.unschedulable for node in await cluster.client.list(Node))
