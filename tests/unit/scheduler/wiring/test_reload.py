"""Reloads: plugins of a standby replica, shared state, extenders, and the measured pauses."""

import asyncio
import json
from collections.abc import Iterable
from typing import ClassVar

import pytest
from tests.support.gangs import COSCHEDULING
from tests.support.ticketing import Ticket

from moorage.cluster.apiserver.api import Api
from moorage.cluster.embedded import RunningScheduler
from moorage.cluster.in_process import InProcessClient
from moorage.common.errors import ConfigError, MoorageError
from moorage.common.virtual_time import VirtualLoop
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.extender import Extender
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.metering import PluginMeter
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin, Plugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.wiring import reload as reload_module
from moorage.scheduler.wiring.assembly import ApiConnection, AssembledScheduler, Tuning, assemble
from moorage.scheduler.wiring.http_extender import HttpExtender
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy
from moorage.scheduler.wiring.reload import PauseTimes, reload
from moorage.testing import in_virtual_time

BOOK = StateKey[list[str]]("a book that plugins share")


class Shares(FilterPlugin):
    """Shares a list; the plugin that creates it lists tickets."""

    lives: ClassVar[list[str]] = []

    def __init__(self, *, handle: Handle) -> None:
        self.book = handle.shared(BOOK, lambda: [str(handle.lister(Ticket))])

    async def start(self) -> None:
        self.lives.append(f"{type(self).__name__} starts")

    async def close(self) -> None:
        self.lives.append(f"{type(self).__name__} closes")

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None


class SharesToo(Shares):
    """Another version."""


def policy_with(*plugins: type[Plugin]) -> Policy:
    return load_policy(collect_plugins(plugins), enabled=plugins)


def make_idle_scheduler(policy: Policy) -> RunningScheduler:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    api = Api(loop.clock)
    return RunningScheduler(lambda: InProcessClient(api, loop.clock), loop.clock, policy)


@in_virtual_time
async def test_a_standby_replica_starts_only_the_current_plugins() -> None:
    Shares.lives.clear()
    scheduling = make_idle_scheduler(policy_with(Shares))
    await scheduling.reload(policy_with(SharesToo))
    await asyncio.sleep(1.0)
    assert Shares.lives == [], "what never started is not closed"
    running = asyncio.create_task(scheduling.run())
    await asyncio.sleep(5.0)
    assert Shares.lives == ["SharesToo starts"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert Shares.lives == ["SharesToo starts", "SharesToo closes"]


@in_virtual_time
async def test_shared_state_is_kept_until_no_plugin_uses_it() -> None:
    scheduling = make_idle_scheduler(policy_with(Shares))
    services, objects = scheduling.scheduler.services, scheduling.scheduler.objects
    book = services.shared[BOOK][0]
    running = asyncio.create_task(scheduling.run())
    await asyncio.sleep(5.0)
    await scheduling.reload(policy_with(SharesToo))
    await asyncio.sleep(5.0)
    assert services.shared[BOOK][0] is book
    assert Ticket in objects.kinds(), "it is listed for those who share the book, whoever made it"
    await scheduling.reload(policy_with())
    await asyncio.sleep(5.0)
    assert (BOOK in services.shared, Ticket in objects.kinds()) == (False, False)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class CannotBeBuilt(Shares):
    """Fails in its constructor."""

    def __init__(self, *, handle: Handle) -> None:
        super().__init__(handle=handle)
        raise ValueError("no")


def policy_with_extenders(*ports: int, enabled: str = "", caches_nodes: bool = True) -> Policy:
    """Return a policy with an extender at each port."""
    registry = collect_plugins([CannotBeBuilt])
    plugins = {"multiPoint": {"enabled": [{"name": enabled}] if enabled else []}}
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins}],
        "extenders": [
            {"urlPrefix": f"http://127.0.0.1:{port}", "filterVerb": "filter", "nodeCacheCapable": caches_nodes}
            for port in ports
        ],
    }
    return load_policy(registry, json.dumps(content))


def assembled(policy: Policy, tuning: Tuning | None = None) -> AssembledScheduler[ApiConnection]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    api = Api(loop.clock)
    clients = (InProcessClient(api, loop.clock), InProcessClient(api, loop.clock))
    connection = ApiConnection(*clients, loop.clock, policy.config.client_connection)
    return assemble(policy, connection, loop.clock, tuning=tuning)


def list_extender_ports(extenders: Iterable[Extender]) -> list[str]:
    return [extender.name.rpartition(":")[2] for extender in extenders]


@in_virtual_time
async def test_extenders_are_replaced_and_unused_ones_closed() -> None:
    closed: list[HttpExtender] = []

    class ClosedExtender(HttpExtender):
        def close(self) -> None:
            closed.append(self)
            super().close()

    parts = assembled(policy_with_extenders(1, 2), Tuning(make_extender=ClosedExtender))
    await reload(parts, policy_with_extenders(2, 3))
    await asyncio.sleep(1.0)
    assert list_extender_ports(parts.extenders) == ["2", "3"]
    assert list_extender_ports(parts.scheduler.runners["default-scheduler"].extenders) == ["2", "3"]
    assert list_extender_ports(closed) == ["1", "2"], "those of the former policy"

    closed.clear()
    with pytest.raises(MoorageError, match="CannotBeBuilt"):
        await reload(parts, policy_with_extenders(4, 5, enabled="CannotBeBuilt"))
    assert sorted(list_extender_ports(closed)) == ["4", "5"], "those of the rejected policy"
    assert list_extender_ports(parts.extenders) == ["2", "3"]
    parts.close()


@in_virtual_time
async def test_kinds_of_removed_plugins_are_no_longer_watched() -> None:
    def watched() -> set[type[KubeObject]]:
        return {informer.kind.type for informer in parts.connection.informers.all}

    parts = assembled(policy_with(Shares))
    assert Ticket in watched()
    await reload(parts, policy_with())
    await asyncio.sleep(1.0)
    assert Ticket not in watched()
    assert {Node, Pod} <= watched()
    parts.close()


@in_virtual_time
async def test_reload_wakes_the_sleeping_loop() -> None:
    parts = assembled(policy_with(Shares))
    sleeping = asyncio.create_task(parts.loop.sleep(until=asyncio.get_running_loop().time() + 3600.0))
    await asyncio.sleep(1.0)
    await reload(parts, policy_with(SharesToo))
    await asyncio.sleep(1.0)
    assert sleeping.done(), "pending pods may be schedulable now"
    parts.close()


def test_pauses_are_measured_in_elapsed_and_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    observed: list[tuple[str, float, tuple[str, ...]]] = []

    class Recording(PluginMeter):
        def observe(self, name: str, value: float, *labels: str) -> None:
            observed.append((name, value, labels))

    elapsed, cpu = iter((10.0, 10.25)), iter((5.0, 5.125))
    monkeypatch.setattr(reload_module, "perf_counter", lambda: next(elapsed))
    monkeypatch.setattr(reload_module, "thread_time", lambda: next(cpu))
    pauses = PauseTimes(Recording())
    with pauses.timed("swap"):
        pass
    assert pauses.milliseconds == {"swap_ms": 250.0, "swap_cpu_ms": 125.0}
    assert observed == [("moorage_config_reload_hold_seconds", 0.25, ("swap",))]


@pytest.mark.release("1.37")
@in_virtual_time
async def test_settings_that_need_a_restart_are_rejected() -> None:
    plain = load_policy(collect_plugins())
    grouping = load_policy(collect_plugins(), COSCHEDULING.replace("{ARGS}", "{}"))
    parts = assembled(plain)
    profiles = parts.scheduler.profiles
    with pytest.raises(ConfigError, match="restart the scheduler with this configuration"):
        await reload(parts, grouping)
    with pytest.raises(ConfigError, match="nodeCacheCapable: true"):
        await reload(parts, policy_with_extenders(1, caches_nodes=False))
    assert parts.scheduler.profiles is profiles
    parts.close()

    parts = assembled(grouping)
    await reload(parts, grouping)
    assert parts.scheduler.profiles.config is grouping.config
    parts.close()


class CannotStart(Shares):
    """Fails when it starts."""

    async def start(self) -> None:
        await super().start()
        raise ValueError("no")


@in_virtual_time
async def test_failed_plugin_start_is_reverted() -> None:
    Shares.lives.clear()
    scheduling = make_idle_scheduler(policy_with())
    services, objects = scheduling.scheduler.services, scheduling.scheduler.objects
    running = asyncio.create_task(scheduling.run())
    await asyncio.sleep(5.0)
    profiles = scheduling.scheduler.profiles
    with pytest.raises(MoorageError, match="CannotStart"):
        await scheduling.reload(policy_with(CannotStart))
    assert scheduling.scheduler.profiles is profiles
    assert (BOOK in services.shared, Ticket in objects.kinds()) == (False, False)

    await scheduling.reload(policy_with(SharesToo))
    assert Shares.lives[-1] == "SharesToo starts", "before the first pod"
    assert (BOOK in services.shared, Ticket in objects.kinds()) == (True, True)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert Shares.lives[-1] == "SharesToo closes"
