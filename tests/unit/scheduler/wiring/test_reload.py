"""Reloads of a standby replica, and the state that former plugins shared."""

import asyncio
from typing import ClassVar

from tests.support.ticketing import Ticket

from moorage.cluster.apiserver.api import Api
from moorage.cluster.in_process import InProcessClient
from moorage.cluster.scheduling import RunningScheduler
from moorage.common.virtual_time import VirtualLoop
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin, Plugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.wiring.policy import Policy, collect_plugins, keep_fixed_fields, load_policy
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


def standing_by(policy: Policy) -> RunningScheduler:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    api = Api(loop.clock)
    return RunningScheduler(lambda: InProcessClient(api, loop.clock), loop.clock, policy)


@in_virtual_time
async def test_a_standby_replica_starts_only_the_current_plugins() -> None:
    Shares.lives.clear()
    scheduling = standing_by(policy_with(Shares))
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
    scheduling = standing_by(policy_with(Shares))
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


def test_fixed_fields_keep_their_running_values() -> None:
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    running = load_policy(collect_plugins(), text + "clientConnection: {qps: 7}\n").config
    new = load_policy(collect_plugins(), text + "leaderElection: {leaderElect: false}\npercentageOfNodesToScore: 9\n")
    policy, differing = keep_fixed_fields(new, running)
    assert differing == ["leaderElection", "clientConnection"]
    assert policy.config.client_connection.qps == 7
    assert policy.config.leader_election.leader_elect
    assert policy.config.percentage_of_nodes_to_score == 9
