"""An external agent chooses among the feasible nodes instead of the Score plugins."""

import asyncio

import pytest

from moorage.cluster import InstantApi, OfflineScheduler
from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.cycle.search_result import Choice, SeveralNodes
from moorage.scheduler.engine.effects import Effects
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Failed, Outcome, Placed
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.wiring.assembly import Tuning
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing import make_node, make_pod


class Agent(AttemptObserver):
    """Chooses a node by name, or fails the attempt if the name is empty."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.choices: list[list[str]] = []
        self.outcomes: list[Outcome] = []
        self.offline: OfflineScheduler[InstantApi]

    async def choose(self, result: SeveralNodes) -> Choice | Failed:
        scheduler = self.offline.scheduler
        assert scheduler.services.freeze.thawed is not None, "the cluster may not change while the agent chooses"
        await asyncio.sleep(1)
        nodes = [scheduler.cache.nodes[int(row)] for row in result.feasible.nonzero()[0]]
        self.choices.append(sorted(node.name for node in nodes))
        return next((Choice(node) for node in nodes if node.name == self.answer), Failed("no choice"))

    def on_attempt_end(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def schedule(agent: Agent, pod: Pod, nodes: int) -> str:
    """Return the node of the pod, or its queue; empty if it is in none."""
    clock = VirtualClock()

    async def run() -> str:
        api, tuning = InstantApi(), Tuning(effects=Effects(choose_node=agent.choose))
        policy = load_policy(collect_plugins(with_installed=False))
        agent.offline = OfflineScheduler(policy, api, clock, observers=(agent,), tuning=tuning)
        agent.offline.load((*(make_node(f"n{i}", allocatable={"cpu": i + 1, "pods": 9}) for i in range(nodes)), pod))
        await agent.offline.start()
        await agent.offline.settle()
        scheduler = agent.offline.scheduler
        stored = scheduler.objects[Pod].find(pod.key)
        await agent.offline.close()
        return (stored.node_name if stored is not None else "") or scheduler.queue.find_queue(pod.key) or ""

    return run_virtual(run(), clock)


@pytest.mark.parametrize("name", ["n0", "n1", "n2"])
def test_the_agent_chooses_among_several_feasible_nodes(name: str) -> None:
    agent = Agent(name)
    assert schedule(agent, make_pod("p", requests={"cpu": "1"}), 3) == name
    assert agent.choices == [["n0", "n1", "n2"]]
    assert agent.outcomes == [Placed(name)]


def test_an_attempt_without_a_choice_fails_and_the_pod_backs_off() -> None:
    agent = Agent("")
    assert schedule(agent, make_pod("p", requests={"cpu": "1"}), 2) == "backoff"
    assert agent.outcomes == [Failed("no choice")]


def test_the_agent_is_not_called_for_a_single_feasible_node() -> None:
    agent = Agent("n0")
    assert schedule(agent, make_pod("p", requests={"cpu": "3"}), 3) == "n2"
    assert agent.choices == []
