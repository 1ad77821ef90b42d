"""Plans for all clusters of ``examples/clusters``, to carry out on the embedded cluster and on a real control plane."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from moorage.cluster.controllers.kubelet import FAKE_LABEL
from moorage.common.errors import ApiError
from moorage.insight.plan.applying import PlanApplier
from moorage.insight.plan.consolidation import plan_consolidate
from moorage.insight.plan.draining import plan_drain
from moorage.insight.plan.making_room import plan_room
from moorage.insight.plan.mobility import Constraints
from moorage.insight.plan.plan_model import Plan
from moorage.insight.plan.rebalancing import plan_rebalance
from moorage.insight.snapshots.cluster_reader import read_cluster
from moorage.insight.whatif.session import Session
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.pod import Pod
from moorage.kube.client.rest import ApiClient
from moorage.kube.manifests import read_files, to_documents
from moorage.scheduler.wiring.policy import collect_plugins, load_policy

SAMPLES: Final = Path(__file__).parents[2] / "examples" / "clusters"
FORCED: Final = Constraints(force=True)
LABEL: Final = "sample"
QUIET_READS: Final = 6
Data = dict[str, Any]
Sleep = Callable[[float], Awaitable[None]]


class SampleGoal(NamedTuple):
    """A plan for a sample cluster; ``waiting`` names pods that no controller owns and that stay pending at first."""

    sample: str
    make: Callable[[Session], Plan]
    is_feasible: bool = True
    waiting: tuple[str, ...] = ()


GOALS: Final[dict[str, SampleGoal]] = {
    "the old pool is drained": SampleGoal(
        "pool", lambda session: plan_drain(session, selector="pool=old", constraints=FORCED)
    ),
    "the old pool is upgraded": SampleGoal(
        "pool", lambda session: plan_drain(session, selector="pool=old", rolling=1, constraints=FORCED)
    ),
    "the pool is consolidated": SampleGoal("pool", plan_consolidate),
    "the pool is rebalanced": SampleGoal("pool", plan_rebalance),
    "GPUs are defragmented": SampleGoal(
        "fragmented", lambda session: plan_room(session, ["default/train"]), waiting=("train",)
    ),
    "GPU nodes are consolidated": SampleGoal("fragmented", plan_consolidate, waiting=("train",)),
    "a node with jobs is drained": SampleGoal(
        "queue",
        lambda session: plan_drain(session, ["gpu-2"], constraints=FORCED),
        waiting=("first", "my-job", "too-large"),
    ),
    "a full GPU node is drained": SampleGoal("training", lambda session: plan_drain(session, ["gpu-1"]), False),
    "a node of the shop is drained": SampleGoal(
        "web-shop", lambda session: plan_drain(session, ["web-a2"], constraints=FORCED)
    ),
    "the shop is consolidated": SampleGoal("web-shop", plan_consolidate),
    "the largest node of the tour is drained": SampleGoal("tour", lambda session: plan_drain(session, ["big"])),
}


def open_session(documents: Any) -> Session:
    """Open a session with the default configuration."""
    return Session(documents, load_policy(collect_plugins()))


async def read_session(client: ApiClient) -> Session:
    """Open a session on a running cluster."""
    return open_session(to_documents((await read_cluster(client)).contents, source="the cluster"))


def load_sample(name: str) -> list[Data]:
    """Return the objects of a sample; all are in the namespace ``default``, and pods run until they are evicted."""
    contents = [deepcopy(dict(document.content)) for document in read_files([str(SAMPLES / f"{name}.yaml")])]
    for content in contents:
        content["metadata"].pop("namespace", None)
        if content["kind"] == "Node":
            content["metadata"].setdefault("labels", {})[FAKE_LABEL] = ""
        if content["kind"] == "Pod":
            content["spec"].pop("activeDeadlineSeconds", None)
            content["spec"]["restartPolicy"] = "Always"
    return [content for content in contents if content["kind"] != "Namespace"]


async def create_sample(client: ApiClient, goal: SampleGoal, sleep: Sleep) -> None:
    """Create the objects of a sample, and wait until all pods are scheduled.

    Each pod that is pending, or that has a controller, gets a separate ReplicaSet, which adopts or creates it.
    """
    contents = load_sample(goal.sample)
    for content in (content for content in contents if content["kind"] != "Pod"):
        await create(client, content)
    for pod in _without_waiting(contents, goal):
        owners = pod["metadata"].pop("ownerReferences", ())
        pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), LABEL: pod["metadata"]["name"]}
        if pod["spec"].get("nodeName"):
            await create(client, pod)
        if owners or not pod["spec"].get("nodeName"):
            await create(client, _replica_set(pod))
    await _settle(client, sleep)


def _without_waiting(contents: list[Data], goal: SampleGoal) -> Iterator[Data]:
    for content in contents:
        if content["kind"] == "Pod" and content["metadata"]["name"] not in goal.waiting:
            content.pop("status", None)
            yield content


def _replica_set(pod: Data) -> Data:
    labels = pod["metadata"]["labels"]
    template = {
        "metadata": {"labels": labels},
        "spec": {key: item for key, item in pod["spec"].items() if key != "nodeName"},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {LABEL: labels[LABEL]}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": labels[LABEL]}, "spec": spec}


async def create_waiting(client: ApiClient, goal: SampleGoal, sleep: Sleep) -> None:
    """Create the pods that are created last and have no controller."""
    for content in load_sample(goal.sample):
        if content["kind"] == "Pod" and content["metadata"]["name"] in goal.waiting:
            await create(client, content)
    await _settle(client, sleep)


async def create(client: ApiClient, content: Data) -> None:
    """Create an object; retry while the server is not ready for it, for example because a default is not known yet."""
    kind = BY_NAME[content["kind"]]
    path = kind.path(namespace="default" if kind.namespaced else "")
    for _ in range(20):
        try:
            await client.request("POST", path, msgspec.json.encode(content))
        except ApiError as error:
            if error.status != 403:
                raise
            await asyncio.sleep(0.5)
        else:
            return
    raise AssertionError(f"{content['metadata']['name']} cannot be created")


async def _settle(client: ApiClient, sleep: Sleep) -> None:
    """Wait until no pod changes: each has a node and runs, or was rejected."""
    last, unchanged = None, 0
    while unchanged < QUIET_READS:
        await sleep(0.5)
        pods = [pod for pod in await client.list(Pod) if not pod.is_finished]
        current = sorted((pod.uid, pod.node_name, pod.status.phase, pod.is_terminating) for pod in pods)
        is_settled = all(_is_settled(pod) for pod in pods)
        unchanged = unchanged + 1 if is_settled and current == last else 0
        last = current


def _is_settled(pod: Pod) -> bool:
    if pod.node_name:
        return pod.status.phase == "Running" and not pod.is_terminating
    return bool(pod.spec.scheduling_gates) or pod.condition("PodScheduled") is not None


async def placements(client: ApiClient) -> Counter[tuple[str, str]]:
    """Return the pods by sample name and node."""
    pods = [pod for pod in await client.list(Pod) if not pod.is_terminating and not pod.is_finished]
    return Counter((pod.labels.get(LABEL, pod.name), pod.node_name) for pod in pods)


async def predict_placements(client: ApiClient, plan: Plan) -> Counter[tuple[str, str]]:
    """Return the placements that a plan predicts."""
    names = {pod.key: pod.labels.get(LABEL, pod.name) for pod in await client.list(Pod)}
    expected = await placements(client)
    for item in (item for step in plan.steps for item in step.evict):
        expected[names[item.pod], item.source] -= 1
        if item.recreated:
            expected[names[item.pod], item.node] += 1
    for placed in plan.placed:
        expected[names[placed.pod], ""] -= 1
        expected[names[placed.pod], placed.node or ""] += 1
    return +expected


async def carry_out(client: ApiClient, plan: Plan, now: Callable[[], float], seconds: float = 300.0) -> bool:
    """Carry out all steps of a plan; fail if one does not end as predicted.

    Return whether each pod is on the predicted node; otherwise the scheduler chose nodes with equal scores.
    """
    is_exact = True
    while plan.progress is None or plan.progress.done < len(plan.steps):
        result = await PlanApplier(client, open_session, now=now, seconds=seconds).run_step(plan)
        assert result.is_done or (result.is_replanned and not is_exact), result.lines
        is_exact = is_exact and len(result.lines) == 1
        plan = result.plan
        if not plan.steps:
            break
    return is_exact


async def check_goal(client: ApiClient, goal: SampleGoal, now: Callable[[], float], sleep: Sleep) -> None:
    """Create a sample, carry its plan out, and compare the nodes of all pods with the prediction.

    If the scheduler chose other nodes with equal scores, only pods with and without a node are compared.
    """
    await create_sample(client, goal, sleep)
    await create_waiting(client, goal, sleep)
    with await read_session(client) as session:
        plan = goal.make(session)
    assert plan.feasible is goal.is_feasible, plan.reason
    expected = await predict_placements(client, plan)
    is_exact = await carry_out(client, plan, now)
    await _settle(client, sleep)
    actual = await placements(client)
    if is_exact:
        assert actual == expected
    else:
        assert Counter((name, bool(node)) for name, node in actual.elements()) == Counter(
            (name, bool(node)) for name, node in expected.elements()
        )
