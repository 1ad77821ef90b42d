"""Reloads: added and removed profiles, and random histories compared with a start under the last configuration."""

import asyncio
import random
from typing import Any

import msgspec
import pytest

from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.framework.plugin import Plugin, PreEnqueuePlugin, QueuedPod, QueueSortPlugin
from moorage.scheduler.framework.status import Status
from moorage.testing import Cluster, in_virtual_time

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class HoldsRed(PreEnqueuePlugin):
    """Gates pods with a label."""

    label = "red"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return Status.unresolvable("not now") if self.label in pod.labels else None


class HoldsBlue(HoldsRed):
    """Gates pods with another label."""

    label = "blue"


class LastFirst(QueueSortPlugin):
    """Reverses the order of the queue."""

    def sort_key(self, queued: QueuedPod) -> Any:
        return -queued.timestamp


PLUGINS: tuple[type[Plugin], ...] = (HoldsRed, HoldsBlue, LastFirst)
SETS = {
    "plain": "",
    "red": "preEnqueue: {enabled: [{name: HoldsRed}]}",
    "blue": "preEnqueue: {enabled: [{name: HoldsBlue}]}",
    "both, in another order": "preEnqueue: {enabled: [{name: HoldsBlue}, {name: HoldsRed}]}, ORDER",
    "another order": "ORDER",
}
ORDER = "queueSort: {enabled: [{name: LastFirst}], disabled: [{name: PrioritySort}]}"


def config(plugins: str, *names: str) -> str:
    output = SETS[plugins].replace("ORDER", ORDER)
    profiles = "".join(f"- schedulerName: {name}\n  plugins: {{{output}}}\n" for name in names)
    return f"{HEADER}profiles:\n{profiles}"


def pod(name: str, scheduler: str = "default-scheduler", **labels: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"schedulerName": scheduler, "containers": [{"name": "main", "image": "app:1"}]}
    if labels.get("size") == "huge":
        spec["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def get_scheduler(cluster: Cluster) -> Scheduler:
    assert cluster.embedded.scheduling is not None
    return cluster.embedded.scheduling.scheduler


TWO = ("default-scheduler", "other")


@in_virtual_time
async def test_pods_of_a_removed_profile_leave_the_queue() -> None:
    async with Cluster(nodes=1, plugins=PLUGINS, config=config("red", *TWO)) as cluster:
        await cluster.apply(*(pod(name, "other", red="yes") for name in ("gated", "bound-elsewhere")))
        await cluster.apply(pod("rejected", "other", size="huge"), pod("stays", size="huge"))
        await cluster.sleep(5.0)
        scheduler = get_scheduler(cluster)
        assert len(scheduler.queue) == 4
        await cluster.reload(plugins=PLUGINS, config=config("plain", "default-scheduler"))
        scheduler.queue.check_invariants()
        assert [info.pod.name for info in scheduler.queue] == ["stays"]
        target = {"target": {"kind": "Node", "name": cluster.nodes()[0].name}}
        path = "/api/v1/namespaces/default/pods/bound-elsewhere/binding"
        await cluster.client.request("POST", path, msgspec.json.encode(target))
        await cluster.sleep(400.0)
        assert bound_pods(cluster) == {"bound-elsewhere"}


@in_virtual_time
async def test_pods_of_a_new_profile_enter_the_queue_once() -> None:
    async with Cluster(nodes=1, plugins=PLUGINS, config=config("plain", "default-scheduler")) as cluster:
        await cluster.apply(pod("early", "other"), pod("gated", "other", red="yes"), pod("huge", "other", size="huge"))
        await cluster.sleep(5.0)
        scheduler = get_scheduler(cluster)
        assert [*scheduler.queue] == []
        await cluster.reload(plugins=PLUGINS, config=config("red", *TWO))
        await cluster.apply(pod("late", "other"))
        await cluster.sleep(5.0)
        scheduler.queue.check_invariants()
        assert bound_pods(cluster) == {"early", "late"}
        assert {info.pod.name: scheduler.queue.where(info.pod) for info in scheduler.queue} == {
            "gated": "gated",
            "huge": "unschedulable",
        }


@pytest.mark.parametrize("seed", range(8))
def test_random_reloads_end_like_a_start_with_the_last_configuration(seed: int) -> None:
    run_history(random.Random(seed))


@in_virtual_time
async def run_history(chance: random.Random) -> None:
    last = config("plain", *TWO)
    async with Cluster(nodes=3, plugins=PLUGINS, config=last, cross_check=False) as cluster:
        contents: list[dict[str, Any]] = []
        bound: dict[str, str] = {}
        for number in range(12):
            more = [random_pod(chance, f"p-{number}-{at}") for at in range(chance.randrange(12))]
            contents += more
            loading = asyncio.create_task(cluster.apply(*more))
            if chance.random() < 0.8:
                last = config(chance.choice([*SETS]), *chance.choice([TWO, TWO[:1], TWO[1:]]))
                await cluster.reload(plugins=PLUGINS, config=last)
            await loading
            await cluster.sleep(chance.choice([0.0, 0.01, 1.0, 20.0]))
            note_bound(cluster, bound)
            get_scheduler(cluster).queue.check_invariants()
        await cluster.reload(plugins=PLUGINS, config=last)
        await cluster.sleep(60.0)
        note_bound(cluster, bound)
        finished = places(cluster)
    async with Cluster(nodes=3, plugins=PLUGINS, config=last, cross_check=False) as fresh:
        await fresh.apply(*contents)
        await fresh.sleep(60.0)
        expected = places(fresh)
    assert {name for name, location in expected.items() if location == "bound"} <= bound.keys()
    assert {**expected, **dict.fromkeys(bound, "bound")} == finished


def bound_pods(cluster: Cluster) -> set[str]:
    return {pod.name for pod in cluster.pods() if pod.node_name}


def random_pod(chance: random.Random, name: str) -> dict[str, Any]:
    labels = {"red": "yes"} if chance.random() < 0.3 else {"blue": "yes"} if chance.random() < 0.3 else {}
    if chance.random() < 0.2:
        labels["size"] = "huge"
    return pod(name, chance.choice(TWO), **labels)


def note_bound(cluster: Cluster, bound: dict[str, str]) -> None:
    for scheduled_pod in cluster.pods():
        if scheduled_pod.node_name:
            assert bound.setdefault(scheduled_pod.name, scheduled_pod.node_name) == scheduled_pod.node_name, (
                "it was bound once"
            )


def places(cluster: Cluster) -> dict[str, str | None]:
    """Return for each pod whether it is bound, or its queue and its rejectors."""
    scheduler = get_scheduler(cluster)
    assert scheduler.unexpected is None
    waits = {info.pod.name: info.gating_plugin for info in scheduler.queue}
    return {
        scheduled_pod.name: "bound"
        if scheduled_pod.node_name
        else waits.get(scheduled_pod.name) or scheduler.queue.where(scheduled_pod)
        for scheduled_pod in cluster.pods()
    }
