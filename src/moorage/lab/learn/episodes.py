"""Episodes: trials of the lab that stop at every choice."""

import asyncio
from collections.abc import Callable
from typing import Any

from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import VirtualRunner
from moorage.lab.learn.rewards import StepFacts
from moorage.lab.learn.stopping import ChoiceQuestion, StoppingScheduler
from moorage.lab.measuring import Measures
from moorage.lab.playing import Play
from moorage.lab.trial import Trial
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.wiring.policy import Policy


class WaitingMeasures(Measures):
    """Measures a trial, and adds up how long pods wait between two questions."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial)
        self.waited = 0.0
        self._since = 0.0

    def time_passes(self, until: float) -> None:
        """Add up what holds until then."""
        super().time_passes(until)
        self.waited += self.play.waiting * max(0.0, until - self._since)
        self._since = max(until, self._since)


class Episode:
    """One trial that is played from question to question; must be closed."""

    def __init__(self, trial: Trial, policy: Policy) -> None:
        self._clock = VirtualClock()
        self._runner = VirtualRunner(self._clock)
        self._watch = WaitingMeasures(trial)
        self._seen = 0.0
        self._runner.run(self._begin(trial, policy))

    async def _begin(self, trial: Trial, policy: Policy) -> None:
        self._play = self._watch.play = Play(trial, policy, self._clock, self._watch)
        self._stopping = StoppingScheduler(self._play.scheduler, self._play.drop)
        self._playing = asyncio.get_running_loop().create_task(self._play.run())

    @property
    def nodes(self) -> NodeTable:
        """All nodes, as the scheduler knows them."""
        return self._play.scheduler.cache.nodes

    @property
    def question(self) -> ChoiceQuestion | None:
        """The current question; ``None`` when the episode is over."""
        future = self._stopping.question
        return future.result() if future.done() else None

    @property
    def seconds(self) -> float:
        """How much time has passed in the cluster."""
        return self._play.now

    def answer(self, row: int) -> bool:
        """Place the pod on a row; return False if the row is infeasible."""
        return self._stopping.answer(row)

    def go_on(self) -> None:
        """Let things happen until there is another question, or nothing more to come."""
        self._runner.run(self._until_asked())

    async def _until_asked(self) -> None:
        either: set[asyncio.Future[Any]] = {self._playing, self._stopping.question}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self._playing.done():
            self._playing.result()

    def facts(self, resources: tuple[str, ...]) -> StepFacts:
        """Return the facts since the last question."""
        nodes = self.nodes
        totals = {name: int(nodes.allocatable[name].sum()) for name in resources}
        having = [name for name in resources if totals[name]]
        shares = [pod.requests.get(name, 0) / totals[name] for pod in self._stopping.placed for name in having]
        waited, self._watch.waited = self._watch.waited, 0.0
        seconds, self._seen = self.seconds - self._seen, self.seconds
        return StepFacts(sum(shares) / max(len(having), 1), waited, seconds)

    def measures(self) -> dict[str, float]:
        """Return the measures of a finished trial."""
        return dict(self._watch.result().trial.measures)

    def close(self) -> None:
        """End it, wherever it is."""
        self._runner.run(self._end())
        self._runner.close()

    async def _end(self) -> None:
        self._playing.cancel()
        await asyncio.wait({self._playing})
        await self._play.offline.close()


class EpisodeSource:
    """Where episodes come from: a trial for every seed, under one policy."""

    def __init__(self, trial_of: Callable[[int], Trial], policy: Policy, max_nodes: int) -> None:
        self._trial_of = trial_of
        self._policy = policy
        self.max_nodes = max_nodes

    def begin(self, seed: int) -> Episode:
        """Begin the episode of a seed."""
        return Episode(self._trial_of(seed), self._policy)
