"""A scheduler with plugins and a configuration that change at runtime: no pending pod and no binding is lost."""

import asyncio
from typing import Any, ClassVar

import pytest

from moorage.common.errors import ConfigError, MoorageError, PluginError
from moorage.contrib.community.coscheduling.gangs import GANG, GANG_SIZE
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin, PermitPlugin, PreBindPlugin, PreEnqueuePlugin, Wait
from moorage.scheduler.framework.status import Status
from moorage.testing import Cluster, in_virtual_time
from tests.support.gangs import COSCHEDULING
from tests.support.ticketing import DEFINITION, Ticket, ticket

TWO_PROFILES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: other
"""


def pod(name: str, scheduler: str = "default-scheduler", **labels: str) -> dict[str, Any]:
    spec = {"schedulerName": scheduler, "containers": [{"name": "main", "image": "app:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def node_of(cluster: Cluster, name: str) -> str:
    stored = cluster.pod(name)
    return "" if stored is None else stored.node_name


def get_scheduler(cluster: Cluster) -> Scheduler:
    assert cluster.embedded.scheduling is not None
    return cluster.embedded.scheduling.scheduler


def get_node_name(cluster: Cluster, name: str) -> str | None:
    stored = cluster.pod(name)
    assert stored is not None
    get_scheduler(cluster).queue.check_invariants()
    return get_scheduler(cluster).queue.where(stored)


class Diary:
    """The actions of plugins of all generations, in order."""

    lines: ClassVar[list[str]] = []


@pytest.fixture(autouse=True)
def empty_diary() -> None:
    Diary.lines.clear()


class Alive(PermitPlugin):
    """Holds a pod named ``held`` for an hour, and records its lifecycle."""

    name = "Holding"
    title: ClassVar[str] = "first"

    def __init__(self, *, handle: Handle) -> None:
        self.handle = handle

    async def start(self) -> None:
        Diary.lines.append(f"{self.title} starts")

    async def close(self) -> None:
        Diary.lines.append(f"{self.title} closes")

    def permit(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | Wait | None:
        return Wait(3600.0) if pod.name == "held" else None


class Successor(Alive):
    """Releases pods that its predecessor holds."""

    name = "Holding"
    title = "second"

    def permit(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | Wait | None:
        for waiting in self.handle.waiting_pods():
            waiting.allow(self.name)
        return None


@in_virtual_time
async def test_pod_waiting_in_permit_remains_and_its_plugins_are_closed_later() -> None:
    async with Cluster(nodes=2, plugins=[Alive]) as cluster:
        await cluster.apply(pod("held"))
        await cluster.wait_for(lambda: bool(get_scheduler(cluster).services.waiting.all()))
        (waiting,) = get_scheduler(cluster).services.waiting.all()
        await cluster.reload()
        await cluster.sleep(60.0)
        assert get_scheduler(cluster).services.waiting.all() == (waiting,)
        assert Diary.lines == ["first starts"], "it still has a pod to bind"
        await cluster.apply(pod("meanwhile"))
        await cluster.wait_for(lambda: bool(node_of(cluster, "meanwhile")))

        waiting.allow("Holding")
        await cluster.wait_for(lambda: node_of(cluster, "held") == waiting.pod.node_name)
        await cluster.wait_for(lambda: Diary.lines == ["first starts", "first closes"])


@in_virtual_time
async def test_next_generation_of_a_plugin_releases_held_pods() -> None:
    async with Cluster(nodes=2, plugins=[Alive]) as cluster:
        await cluster.apply(pod("held"))
        await cluster.wait_for(lambda: bool(get_scheduler(cluster).services.waiting.all()))
        await cluster.reload(plugins=[Successor])
        assert Diary.lines == ["first starts", "second starts"], "it is started before its first call"
        await cluster.apply(pod("second"))
        await cluster.wait_for(lambda: bool(node_of(cluster, "held") and node_of(cluster, "second")))
        await cluster.wait_for(lambda: Diary.lines[2:] == ["first closes"])
    assert Diary.lines[3:] == ["second closes"]


@in_virtual_time
async def test_plugins_that_still_bind_are_closed_with_the_scheduler() -> None:
    async with Cluster(nodes=2, plugins=[Alive]) as cluster:
        await cluster.apply(pod("held"))
        await cluster.wait_for(lambda: bool(get_scheduler(cluster).services.waiting.all()))
        await cluster.reload(plugins=[Successor])
    assert Diary.lines == ["first starts", "second starts", "first closes", "second closes"]


class SlowToBind(PreBindPlugin):
    """Takes a minute before each bind."""

    call_timeout = 120.0
    title: ClassVar[str] = "old"

    def pre_bind_pre_flight(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    async def pre_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        await asyncio.sleep(60.0)
        Diary.lines.append(f"{self.title} prepared {pod.name}")
        return Status.error("it cannot be prepared") if pod.name == "broken" and self.title == "old" else None

    async def close(self) -> None:
        Diary.lines.append(f"{self.title} closes")


class SlowAsWell(SlowToBind):
    """The next version."""

    name = "SlowToBind"
    title = "new"


@in_virtual_time
async def test_binding_in_progress_ends_with_its_plugins() -> None:
    async with Cluster(nodes=2, plugins=[SlowToBind]) as cluster:
        await cluster.apply(pod("bound"), pod("broken"))
        await cluster.wait_for(lambda: get_scheduler(cluster).binder.in_flight == 2)
        await cluster.reload(plugins=[SlowAsWell])
        await cluster.wait_for(lambda: bool(node_of(cluster, "bound")), seconds=120)
        assert {"old prepared bound", "old prepared broken", "old closes"} == set(Diary.lines[:3])
        await cluster.wait_for(lambda: bool(node_of(cluster, "broken")), seconds=180)
        assert Diary.lines[3:] == ["new prepared broken"], "the second attempt uses the new plugins"


class Refuses(FilterPlugin):
    """Rejects pods with a label."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable("not now") if pod.labels.get("refused") else None


@in_virtual_time
async def test_rejected_pod_is_retried_after_a_reload() -> None:
    async with Cluster(nodes=1, plugins=[Refuses]) as cluster:
        await cluster.apply(pod("p", refused="yes"))
        await cluster.wait_for(lambda: "not now" in cluster.why_pending("p"))
        assert get_node_name(cluster, "p") == "unschedulable"
        await cluster.reload()
        await cluster.wait_for(lambda: bool(node_of(cluster, "p")), seconds=3)


@in_virtual_time
async def test_pod_in_backoff_keeps_its_backoff() -> None:
    config = TWO_PROFILES + "podInitialBackoffSeconds: 30\npodMaxBackoffSeconds: 30\n"
    async with Cluster(nodes=1, plugins=[Breaks], config=config.replace("- schedulerName: other", BREAKS)) as cluster:
        await cluster.apply(pod("p"))
        await cluster.wait_for(lambda: "it broke" in cluster.why_pending("p"))
        assert get_node_name(cluster, "p") == "backoff"
        await cluster.reload(config=config)
        assert get_node_name(cluster, "p") == "backoff"
        await cluster.sleep(20.0)
        assert not node_of(cluster, "p"), "its backoff has not expired"
        await cluster.wait_for(lambda: bool(node_of(cluster, "p")), seconds=15)


class Breaks(FilterPlugin):
    """Fails."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        raise ValueError("it broke")


BREAKS = "  plugins: {multiPoint: {enabled: [{name: Breaks}]}}"


class Gate(PreEnqueuePlugin):
    """Gates all pods."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return Status.unresolvable("the gate is closed")


class OtherGate(Gate):
    """The next version."""


@in_virtual_time
async def test_gated_pod_is_checked_by_the_new_plugins() -> None:
    async with Cluster(nodes=1, plugins=[Gate]) as cluster:
        await cluster.apply(pod("p"))
        await cluster.wait_for(lambda: get_node_name(cluster, "p") == "gated")
        await cluster.reload(plugins=[OtherGate])
        assert get_node_name(cluster, "p") == "gated"
        (queued,) = get_scheduler(cluster).queue
        assert queued.gating_plugin == "OtherGate"
        await cluster.reload()
        await cluster.wait_for(lambda: bool(node_of(cluster, "p")))


@in_virtual_time
async def test_profiles_are_added_and_removed_with_their_pods() -> None:
    async with Cluster(nodes=1) as cluster:
        await cluster.apply(pod("early", "other"))
        await cluster.sleep(5.0)
        assert not len(get_scheduler(cluster).queue)
        await cluster.reload(config=TWO_PROFILES)
        await cluster.wait_for(lambda: bool(node_of(cluster, "early")))

        await cluster.reload(plugins=[Gate], config=TWO_PROFILES + "  plugins: {preEnqueue: {enabled: [{name: Gate}]}}")
        await cluster.apply(pod("late", "other"))
        await cluster.wait_for(lambda: get_node_name(cluster, "late") == "gated")
        await cluster.reload()
        assert get_node_name(cluster, "late") is None, "it belongs to another scheduler now"
        assert [*get_scheduler(cluster).runners] == ["default-scheduler"]


@in_virtual_time
async def test_pod_of_a_removed_profile_is_dropped_after_a_failed_binding() -> None:
    config = TWO_PROFILES + "  plugins: {preBind: {enabled: [{name: SlowToBind}]}}\n"
    async with Cluster(nodes=2, plugins=[SlowToBind], config=config) as cluster:
        await cluster.apply(pod("broken", "other"))
        await cluster.wait_for(lambda: get_scheduler(cluster).binder.in_flight == 1)
        await cluster.reload()
        await cluster.wait_for(lambda: "old closes" in Diary.lines, seconds=120)
        scheduler = get_scheduler(cluster)
        assert (len(scheduler.queue), scheduler.cache.assumed_count, scheduler.queue.in_flight()) == (0, 0, ())


class WantsTicket(FilterPlugin):
    """Rejects pods without a ticket of their name: a kind that was not listed before."""

    def __init__(self, *, handle: Handle) -> None:
        self._tickets = handle.lister(Ticket)

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None if self._tickets.get(pod.name, pod.namespace) else Status.unresolvable("a ticket is missing")


@in_virtual_time
async def test_new_kind_is_listed_before_the_new_plugins_run() -> None:
    async with Cluster(nodes=1, definitions=[DEFINITION]) as cluster:
        await cluster.apply(ticket("known", approved=True))
        await cluster.reload(plugins=[WantsTicket])
        await cluster.apply(pod("known"), pod("unknown"))
        await cluster.wait_for(lambda: bool(node_of(cluster, "known")))
        await cluster.wait_for(lambda: "a ticket is missing" in cluster.why_pending("unknown"))
        await cluster.apply(ticket("unknown", approved=True))
        await cluster.wait_for(lambda: bool(node_of(cluster, "unknown")))
        await cluster.reload()
        await cluster.wait_for(lambda: Ticket not in get_scheduler(cluster).objects.kinds(), seconds=5)


class FailsToStart(FilterPlugin):
    """Fails to start."""

    async def start(self) -> None:
        raise OSError("its service is away")

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable("it must never be asked")

    async def close(self) -> None:
        Diary.lines.append("it was closed")


class FailsToBuild(FilterPlugin):
    """Fails at construction."""

    def __init__(self, *, handle: Handle) -> None:
        handle.lister(Ticket)
        raise ValueError("no such thing")

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None


REFUSED = {
    "a plugin that fails at construction": ([FailsToBuild], "", PluginError, "no such thing"),
    "a plugin that fails to start": ([FailsToStart], "", PluginError, "its service is away"),
    "an invalid configuration": ([], "kind: Nonsense\n", MoorageError, "apiVersion"),
    "an unknown plugin": (
        [],
        TWO_PROFILES + "  plugins: {filter: {enabled: [{name: Gone}]}}",
        MoorageError,
        "Gone",
    ),
    "added groups": ([], COSCHEDULING.replace("{ARGS}", "{}"), ConfigError, "restart the scheduler"),
    "an extender that receives complete nodes": (
        [],
        TWO_PROFILES + 'extenders: [{urlPrefix: "http://127.0.0.1:9", filterVerb: filter}]',
        ConfigError,
        "complete nodes and pods",
    ),
}


@pytest.mark.release("1.37")
@pytest.mark.parametrize(("plugins", "config", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_invalid_change_is_rejected_without_effect(
    plugins: list[Any], config: str, error: type[Exception], text: str
) -> None:
    @in_virtual_time
    async def story() -> None:
        async with Cluster(nodes=1, plugins=[Refuses]) as cluster:
            await cluster.apply(pod("p", refused="yes"))
            await cluster.wait_for(lambda: "not now" in cluster.why_pending("p"))
            before = get_scheduler(cluster).profiles
            with pytest.raises(error, match=text):
                await cluster.reload(plugins=plugins, config=config)
            assert get_scheduler(cluster).profiles is before
            assert Ticket not in get_scheduler(cluster).objects.kinds()
            assert get_node_name(cluster, "p") == "unschedulable"
            await cluster.apply(pod("q"))
            await cluster.wait_for(lambda: bool(node_of(cluster, "q")))
            assert Diary.lines == (["it was closed"] if FailsToStart in plugins else [])

    story()


@in_virtual_time
async def test_pending_gangs_are_placed_by_the_next_generation() -> None:
    config = COSCHEDULING.replace("{ARGS}", "{permitWaitingTimeSeconds: 10}")
    annotations = {GANG: "g", GANG_SIZE: "3"}

    def member(name: str) -> dict[str, Any]:
        content = pod(name)
        content["metadata"]["annotations"] = annotations
        return content

    async with Cluster(nodes=3, config=config) as cluster:
        await cluster.apply(member("a"), member("b"))
        await cluster.sleep(5.0)
        await cluster.reload(config=config.replace("10", "20"))
        get_node_name(cluster, "a")
        assert not node_of(cluster, "a")
        await cluster.apply(member("c"))
        await cluster.wait_for(lambda: all(node_of(cluster, name) for name in "abc"))


@in_virtual_time
async def test_gangs_of_a_removed_plugin_become_single_pods() -> None:
    config = COSCHEDULING.replace("{ARGS}", "{permitWaitingTimeSeconds: 10}")
    content = pod("a")
    content["metadata"]["annotations"] = {GANG: "g", GANG_SIZE: "3"}
    async with Cluster(nodes=3, config=config) as cluster:
        await cluster.apply(content)
        await cluster.sleep(5.0)
        assert not node_of(cluster, "a")
        await cluster.reload()
        await cluster.wait_for(lambda: bool(node_of(cluster, "a")))
        get_node_name(cluster, "a")
        await cluster.reload(config=config)
        await cluster.apply({**content, "metadata": {**content["metadata"], "name": "b"}})
        await cluster.sleep(5.0)
        assert not node_of(cluster, "b"), "two of three"


@in_virtual_time
async def test_recently_failed_gang_is_retried_after_a_change() -> None:
    args = "{permitWaitingTimeSeconds: 10, podGroupBackoffSeconds: 30}"
    config, content = COSCHEDULING.replace("{ARGS}", args), pod("a")
    content["metadata"]["annotations"] = {GANG: "g", GANG_SIZE: "1"}
    content["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
    blocker = {**content, "metadata": {"name": "blocker"}}
    async with Cluster(nodes=1, shape="cpu=4", config=config) as cluster:
        await cluster.apply(blocker)
        await cluster.wait_for(lambda: bool(node_of(cluster, "blocker")))
        await cluster.apply(content)
        await cluster.wait_for(lambda: "Insufficient cpu" in cluster.why_pending("a"))
        stored = cluster.pod("blocker")
        assert stored is not None
        await cluster.client.delete(stored)
        await cluster.reload(config=config.replace("10", "20"))
        await cluster.sleep(5.0)
        assert not node_of(cluster, "a"), "its delay is half a minute"
        await cluster.wait_for(lambda: bool(node_of(cluster, "a")), seconds=40)
