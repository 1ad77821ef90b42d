"""Plans of the sample clusters, carried out on the embedded cluster, end as predicted."""

import asyncio
import json
import stat
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.cluster.absent_objects import create_absent
from moorage.cluster.apiserver.requests.request import ApiRequest
from moorage.cluster.applying import read_manifests
from moorage.cluster.controllers.kubelet import FAKE_LABEL
from moorage.cluster.in_process import InProcessClient
from moorage.common.errors import Forbidden, InputError
from moorage.common.virtual_time import VirtualLoop
from moorage.insight.plan.applying import PlanApplier, apply_plan_step
from moorage.insight.plan.draining import plan_drain
from moorage.insight.plan.mobility import Constraints
from moorage.insight.plan.plan_model import Plan, PlannedCluster, PlanProgress
from moorage.insight.whatif.sources import ClusterSource, load_cluster
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing.cluster import Cluster, in_virtual_time
from tests.hostile.campaign import serving
from tests.hostile.classes import Hostile, problem_of
from tests.support.api import NODES, PODS, node, pod
from tests.support.plan_samples import (
    GOALS,
    SAMPLES,
    SampleGoal,
    carry_out,
    check_goal,
    create,
    create_sample,
    open_session,
    placements,
    predict_placements,
    read_session,
)

OLD_POOL = GOALS["the old pool is drained"]


def applier(cluster: Cluster, saved: list[Plan], **more: Any) -> PlanApplier:
    now = asyncio.get_running_loop().time
    return PlanApplier(cluster.client, open_session, now=now, save=saved.append, **more)


@pytest.mark.parametrize("goal", GOALS.values(), ids=GOALS)
@in_virtual_time
async def test_samples_end_as_predicted(goal: SampleGoal) -> None:
    async with Cluster(nodes=0) as cluster:
        await check_goal(cluster.client, goal, asyncio.get_running_loop().time, cluster.sleep)


@pytest.mark.parametrize("sample", sorted(path.stem for path in SAMPLES.glob("*.yaml")))
@in_virtual_time
async def test_samples_keep_their_pods_on_the_embedded_cluster(sample: str) -> None:
    # Pending pods would preempt others.
    manifests = [
        item
        for item in read_manifests(SAMPLES / f"{sample}.yaml")
        if item.kind != "Pod" or item.content["spec"].get("nodeName")
    ]
    manifests += create_absent(manifests)
    contents = [item.content for item in manifests if item.kind == "Pod"]
    async with Cluster(nodes=0) as cluster:
        cluster.embedded.keep_dependents(manifests)
        await cluster.embedded.apply(manifests)
        await cluster.sleep(30)
        nodes = {pod.key: pod.node_name for pod in await cluster.client.list(Pod)}
    for content in contents:
        key = f"{content['metadata'].get('namespace', 'default')}/{content['metadata']['name']}"
        assert nodes.get(key) == content["spec"]["nodeName"], key


@in_virtual_time
async def test_a_drain_of_a_sample_file_ends_as_predicted_on_the_embedded_cluster() -> None:
    manifests = read_manifests(SAMPLES / "pool.yaml")
    manifests += create_absent(manifests)
    async with Cluster(nodes=0) as cluster:
        cluster.embedded.keep_dependents(manifests)
        await cluster.embedded.apply(manifests)
        await cluster.sleep(10)
        with await read_session(cluster.client) as session:
            plan = plan_drain(session, ["old-1", "old-2"], constraints=Constraints(force=True))
        assert plan.feasible
        expected = Counter(pod.node_name for pod in await cluster.client.list(Pod))
        for item in (item for step in plan.steps for item in step.evict):
            expected[item.source] -= 1
            expected[item.node or ""] += item.recreated
        assert await carry_out(cluster.client, plan, asyncio.get_running_loop().time)
        await cluster.sleep(10)
        assert Counter(pod.node_name for pod in await cluster.client.list(Pod)) == +expected


def test_each_sample_has_a_plan() -> None:
    assert {goal.sample for goal in GOALS.values()} == {path.stem for path in SAMPLES.glob("*.yaml")}


@in_virtual_time
async def test_rolling_drains_return_all_nodes() -> None:
    async with Cluster(nodes=0) as cluster:
        await check_goal(
            cluster.client, GOALS["the old pool is upgraded"], asyncio.get_running_loop().time, cluster.sleep
        )
        assert not any(node.spec.unschedulable for node in await cluster.client.list(Node))


async def drain_plan(cluster: Cluster) -> Plan:
    await create_sample(cluster.client, OLD_POOL, cluster.sleep)
    with await read_session(cluster.client) as session:
        return OLD_POOL.make(session)


@in_virtual_time
async def test_nothing_is_written_without_a_step() -> None:
    async with Cluster(nodes=0) as cluster:
        plan = await drain_plan(cluster)
        before = await placements(cluster.client)
        result = await applier(cluster, []).describe(plan)
        assert result.is_done
        assert f"next: step 1 of {len(plan.steps)}" in result.lines[0]
        assert await placements(cluster.client) == before
        assert not any(node.spec.unschedulable for node in await cluster.client.list(Node))


@in_virtual_time
async def test_a_changed_cluster_gets_a_new_plan() -> None:
    async with Cluster(nodes=0) as cluster:
        plan = await drain_plan(cluster)
        first = plan.steps[0].evict[0].pod
        namespace, _, name = first.partition("/")
        await cluster.client.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}")
        await cluster.sleep(5)
        saved: list[Plan] = []
        result = await applier(cluster, saved).run_step(plan)
        assert result.is_replanned
        assert result.lines[1] == f"{first} no longer exists"
        assert saved == [result.plan]
        result = await applier(cluster, saved).run_step(result.plan)
        assert result.is_done, result.lines


def test_saved_plans_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    file, kubeconfig, policy = tmp_path / "plan.json", tmp_path / "kubeconfig", load_policy(collect_plugins())
    with serving([]) as server:
        send = partial(problem_of, server.plain_url, server.token)
        for path, obj in ((NODES, node("n2")), *((PODS, pod(name, nodeName="n1")) for name in ("a", "b"))):
            assert not send(Hostile("POST", path, json.dumps(obj).encode(), statuses=(201,)))
        kubeconfig.write_text(json.dumps(server.kubeconfig()))
        source = ClusterSource(kubeconfig=str(kubeconfig))
        with closing(load_cluster(source).session(policy)) as session:
            plan = plan_drain(session, ["n1"], constraints=Constraints(force=True))
        file.write_bytes(msgspec.json.encode(plan.as_data()))
        file.chmod(0o644)
        assert not send(Hostile("DELETE", f"{PODS}/a", b"", statuses=(200,)))
        assert apply_plan_step(str(file), plan, source, policy, is_dry_run=False).is_replanned
    for saved in (file, tmp_path / "plan.json.previous"):
        assert stat.S_IMODE(saved.stat().st_mode) == 0o600


@in_virtual_time
async def test_an_interrupted_step_is_completed() -> None:
    class Interrupted(Exception):
        pass

    async def interrupt(_seconds: float) -> None:
        raise Interrupted

    async with Cluster(nodes=0) as cluster:
        plan = await drain_plan(cluster)
        expected = await predict_placements(cluster.client, plan)
        saved = [plan]
        with pytest.raises(Interrupted):
            await applier(cluster, saved, sleep=interrupt).run_step(plan)
        assert saved[-1].progress is not None
        assert saved[-1].progress.is_started
        while (progress := saved[-1].progress) is None or progress.done < len(plan.steps):
            result = await applier(cluster, saved).run_step(saved[-1])
            assert result.is_done, result.lines
        await cluster.sleep(5)
        assert await placements(cluster.client) == expected
        result = await applier(cluster, saved).run_step(saved[-1])
        assert result.lines == ("all steps of the plan are done",), "a completed plan can be repeated"


@in_virtual_time
async def test_plans_of_other_clusters_are_rejected() -> None:
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
        before = await placements(cluster.client)

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
        assert await placements(cluster.client) == before
        assert not any(node.spec.unschedulable for node in await cluster.client.list(Node))


def sample_node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {FAKE_LABEL: ""}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


async def plan_with_equal_nodes(cluster: Cluster, *names: str) -> Plan:
    """Plan a drain of the node with one pod of each name; the nodes a, b and c have equal scores for the first pod."""
    await create(cluster.client, sample_node("old"))
    for name in names:
        container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
        content = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}
        await create(cluster.client, content)
    await cluster.sleep(5)
    for name in ("a", "b", "c"):
        await create(cluster.client, sample_node(name))
    await cluster.sleep(5)
    with await read_session(cluster.client) as session:
        return plan_drain(session, ["old"])


def with_nodes(plan: Plan, *nodes: str) -> Plan:
    """Return a plan with all evictions in one step, to other nodes."""
    step = msgspec.structs.replace(plan.steps[0], evict=tuple(item for step in plan.steps for item in step.evict))
    evict = tuple(msgspec.structs.replace(item, to=node) for item, node in zip(step.evict, nodes, strict=True))
    return msgspec.structs.replace(plan, steps=(msgspec.structs.replace(step, evict=evict),))


@in_virtual_time
async def test_nodes_with_equal_scores_are_accepted() -> None:
    async with Cluster(nodes=0) as cluster:
        plan = await plan_with_equal_nodes(cluster, "web")
        predicted = plan.steps[0].evict[0]
        other_node = next(name for name in ("a", "b", "c") if name != predicted.node)
        saved: list[Plan] = []
        result = await applier(cluster, saved).run_step(with_nodes(plan, other_node))
        assert result.is_done
        name = f"the replacement of {predicted.pod}"
        assert result.lines[1:] == (f"{name} is on {predicted.node}, which had the same score as {other_node}",)
        assert saved[0].progress is not None
        assert set(saved[0].progress.tied[predicted.pod]) == {"a", "b", "c"}, "an interrupted step knows them too"


@pytest.mark.parametrize("are_equal", [True, False])
@in_virtual_time
async def test_choice_between_equal_nodes_affects_other_pods_of_the_step(are_equal: bool) -> None:
    async with Cluster(nodes=0) as cluster:
        plan = await plan_with_equal_nodes(cluster, "web", "api")
        assert [len(step.evict) for step in plan.steps] == [1, 1], "the first replacement changes the second"
        first, second = (item for step in plan.steps for item in step.evict)
        rest = next(name for name in ("a", "b", "c") if name not in (first.node, second.node))
        existing = tuple(pod.uid for pod in await cluster.client.list(Pod))
        tied = {first.pod: ("a", "b", "c")} if are_equal else {}
        started = PlanProgress(is_started=True, existing=existing, tied=tied)
        plan = msgspec.structs.replace(with_nodes(plan, rest, first.node), progress=started)
        result = await applier(cluster, []).run_step(plan)
        assert result.is_done is are_equal
        assert result.lines[-1] == f"the replacement of {second.pod} is on {second.node}, not on {first.node}"
