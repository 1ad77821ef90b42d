"""Episodes: trials of the lab that pause at every choice of a node, their sources, and rewards."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from moorage.common.clock import VirtualClock
from moorage.common.errors import InputError, did_you_mean
from moorage.common.virtual_time import VirtualRunner
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.lab.cluster import LabCluster, make_lab_node
from moorage.lab.generating import generate
from moorage.lab.measuring import Measures
from moorage.lab.playing import Play
from moorage.lab.trace import Trace
from moorage.lab.trial import PolicyText, Trial
from moorage.scheduler.engine.cycle.search_result import Choice, SeveralNodes
from moorage.scheduler.engine.outcomes import Failed
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy

TrialOf = Callable[[int], Trial]
"""Returns the trial of a seed. Its policy is ignored."""
PENALTY: Final = -1.0
"""Penalty for an action that selects an infeasible node."""
SIZES: Final = ((8, 32), (16, 64), (32, 128))
"""Cores and GiB of generated nodes, in turn."""


class StepFacts(Struct, frozen=True):
    """Facts about the time between two questions."""

    placed: float
    """Requests of the pods that got a node, as a share of total capacity: the mean over the observed resources."""
    waiting: float
    """Waiting time in pod-seconds: two pods that wait for three seconds add 6."""
    seconds: float
    """Elapsed time in the cluster."""


Reward = Callable[[StepFacts], float]

REWARDS: Final[Mapping[str, Reward]] = MappingProxyType(
    {
        "placed": lambda facts: facts.placed,
        "waiting": lambda facts: -facts.waiting / 3600.0,
    }
)
"""``placed``: the placed share of the cluster over an episode. ``waiting``: hours of waiting, as a loss."""


def find_reward(reward: str | Reward) -> Reward:
    """Return the reward function of a name. Functions are returned unchanged."""
    if not isinstance(reward, str):
        return reward
    if reward not in REWARDS:
        hint = did_you_mean(reward, REWARDS) or f"one of {', '.join(REWARDS)}, or a function of StepFacts"
        raise InputError("reward", f"unknown reward {reward!r}", hint=hint)
    return REWARDS[reward]


class ChoiceQuestion(Struct, frozen=True):
    """A pod and its feasible nodes, as a mask over all rows. At least two nodes are feasible."""

    pod: Pod
    feasible: BoolArray


class EpisodeMeasures(Measures):
    """Measures a trial; also sums up the waiting time and the placed pods between two questions."""

    follows_ends = False

    def __init__(self, play: Play[Any]) -> None:
        super().__init__(play)
        self.waited = self._since = 0.0
        self.placed_pods: list[Pod] = []

    def time_passes(self, until: float) -> None:
        """Add the waiting time of pending pods."""
        super().time_passes(until)
        self.waited += self.play.waiting * max(0.0, until - self._since)
        self._since = max(until, self._since)

    def placed(self, pod: Pod) -> None:
        """Record a placed pod."""
        self.placed_pods.append(pod)


class Episode:
    """One trial in which an agent chooses among the feasible nodes; must be closed.

    Everything else is the regular scheduler: filters run before the choice; reserve, permit and bind after it.
    Pods without feasible nodes continue with preemption.
    """

    def __init__(self, trial: Trial, policy: Policy) -> None:
        self._clock = VirtualClock()
        self._runner = VirtualRunner(self._clock)
        self._answered_at = 0.0
        self.question: ChoiceQuestion | None = None
        """The current question; ``None`` when the episode is over."""
        self._runner.run(self._begin(trial, policy))

    async def _begin(self, trial: Trial, policy: Policy) -> None:
        self._is_requested = asyncio.Event()
        self._play = Play(trial, policy, self._clock, EpisodeMeasures, self._choose)
        self._watch = self._play.watch
        self._playing = asyncio.create_task(self._play.run())

    async def _choose(self, result: SeveralNodes) -> Choice | Failed:
        self.question = ChoiceQuestion(result.pod, result.feasible)
        self._answer: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._is_requested.set()
        row = await self._answer
        if row is not None:
            return Choice(self.nodes[row])
        # The pod is still in its cycle: remove it before the next one.
        self._play.offline.loop.deliver(lambda: self._play.drop(result.pod))
        return Failed("the agent chose an infeasible node", is_rejection=True)

    @property
    def nodes(self) -> NodeTable:
        """All nodes in the scheduler's cache."""
        return self._play.scheduler.cache.nodes

    @property
    def seconds(self) -> float:
        """Elapsed time in the cluster."""
        return self._play.now

    def answer(self, row: int) -> bool:
        """Place the pod on a row. Return False and drop the pod if the row is infeasible."""
        assert self.question is not None, "no decision is pending"
        feasible, self.question = self.question.feasible, None
        is_feasible = 0 <= row < len(feasible) and bool(feasible[row])
        self._watch.placed_pods.clear()
        self._is_requested.clear()
        self._answer.set_result(row if is_feasible else None)
        return is_feasible

    def advance(self) -> None:
        """Run until the next question, or to the end of the trial."""
        self._runner.run(self._advance())

    async def _advance(self) -> None:
        request = asyncio.create_task(self._is_requested.wait())
        await asyncio.wait({self._playing, request}, return_when=asyncio.FIRST_COMPLETED)
        request.cancel()
        if self._playing.done():
            self._playing.result()

    def facts(self, resources: tuple[str, ...]) -> StepFacts:
        """Return the facts since the last question."""
        nodes = self.nodes
        totals = {name: int(nodes.allocatable[name].sum()) for name in resources}
        present = [name for name in resources if totals[name]]
        shares = [pod.requests.get(name, 0) / totals[name] for pod in self._watch.placed_pods for name in present]
        waited, self._watch.waited = self._watch.waited, 0.0
        seconds, self._answered_at = self.seconds - self._answered_at, self.seconds
        return StepFacts(sum(shares) / max(len(present), 1), waited, seconds)

    def measures(self) -> dict[str, float]:
        """Return the measures of a finished trial."""
        return dict(self._watch.result().trial.measures)

    def close(self) -> None:
        """Stop the trial."""
        self._runner.run(self._end())
        self._runner.close()

    async def _end(self) -> None:
        self._playing.cancel()
        await asyncio.wait({self._playing})
        await self._play.offline.close()


class EpisodeSource:
    """Starts episodes: a trial for every seed, under the filters of a profile."""

    def __init__(self, make_trial: TrialOf, config: str | Path, plugins: Sequence[str]) -> None:
        self._trial_of = make_trial
        self._policy = load_policy(collect_plugins(paths=plugins), config or None)
        cluster = make_trial(0).cluster
        self.max_nodes = len(cluster.nodes) + sum(pool.scaling.at_most for pool in cluster.scaled)

    def begin(self, seed: int) -> Episode:
        """Begin the episode of a seed."""
        return Episode(self._trial_of(seed), self._policy)


def generate_trials(preset: str, nodes: int, pods: int, load: float) -> TrialOf:
    """Return trials of a preset on nodes of three sizes; the pods request ``load`` times the capacity."""
    if nodes < 2 or pods < 1 or load <= 0:
        problem = f"{nodes} nodes, {pods} pods and a load of {load:g} do not need a choice"
        raise InputError("trials", problem, hint="write at least two nodes, one pod, and a load such as 1.2")
    cluster = LabCluster("generated", tuple(_node(index) for index in range(nodes)))
    milli = sum(1000 * SIZES[index % len(SIZES)][0] for index in range(nodes))

    def make_trial(seed: int) -> Trial:
        return Trial(scale_load(generate(preset, seed, pods=pods), milli, load), cluster, PolicyText("learning"), seed)

    return make_trial


def _node(index: int) -> Node:
    cores, gib = SIZES[index % len(SIZES)]
    return make_lab_node(f"node-{index}", {"cpu": cores, "memory": f"{gib}Gi", "pods": 110}, labels={}, numbers={})


def scale_load(trace: Trace, milli: int, load: float) -> Trace:
    """Compress the arrivals of a trace until the pods request ``load`` times this CPU, in thousandths."""
    cpu_seconds = sum(pod.cpu_milli * (pod.runs or 0.0) for pod in trace.pods)
    last = max((pod.arrives for pod in trace.pods), default=0.0)
    if not cpu_seconds or not last:
        return trace
    factor = cpu_seconds / (milli * load) / last
    return replace(trace, pods=tuple(replace(pod, arrives=round(pod.arrives * factor, 3)) for pod in trace.pods))
