"""A scheduler that stops between filter and score: somebody else says which of the nodes that will do a pod gets.

Everything else is the scheduler's own. The search has been made when the question is asked; the attempt then goes on
with what was found and with the node that was named, from reserve to bind, or to preemption if no node will do.
"""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from moorage.common.errors import MoorageError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import Choice, SearchResult, SeveralNodes
from moorage.scheduler.engine.outcomes import Dropped, Outcome, Placed
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.framework.status import BoolArray
from moorage.scheduler.queue.entities import QueuedPodInfo


class ChoiceQuestion(Struct, frozen=True):
    """A pod, and the nodes that will do, as a mask over all rows: at least two, or there is nothing to ask."""

    pod: Pod
    feasible: BoolArray


class StoppingScheduler:
    """Has the pods of a scheduler tried one by one, and asks before each choice; ``drop`` takes a pod away for good."""

    def __init__(self, scheduler: Scheduler, drop: Callable[[Pod], None]) -> None:
        self._scheduler = scheduler
        self._drop = drop
        self._try_pod = scheduler.try_pod
        # The queue's next pod goes through here; the scheduler itself knows no difference.
        scheduler.try_pod = self.try_pod  # type: ignore[method-assign, assignment]
        self._loop = asyncio.get_running_loop()
        self.question: asyncio.Future[ChoiceQuestion] = self._loop.create_future()
        self._answer: asyncio.Future[int | None] | None = None
        self.placed: list[Pod] = []
        """Who got a node since the last question."""

    def answer(self, row: int) -> bool:
        """Say which row the pod gets, and return whether that will do: if not, the pod is given up."""
        assert self._answer is not None, "nothing was asked"
        question = self.question.result()
        will_do = 0 <= row < len(question.feasible) and bool(question.feasible[row])
        self.placed.clear()
        self.question = self._loop.create_future()
        future, self._answer = self._answer, None
        future.set_result(row if will_do else None)
        return will_do

    async def try_pod(self, queued: QueuedPodInfo) -> Outcome:
        """Try one pod: find the nodes that will do, ask, and have the attempt go on from there."""
        outcome = await self._stopped(queued)
        if isinstance(outcome, Placed):
            self.placed.append(queued.pod)
        return outcome

    async def _stopped(self, queued: QueuedPodInfo) -> Outcome:
        pod, scheduler = queued.pod, self._scheduler
        is_plain = not (pod.is_terminating or pod.has_deferred_resize or scheduler.cache.is_assumed(pod))
        runner = scheduler.runners[pod.scheduler_name]
        if not is_plain or not len(scheduler.cache.nodes) or runner.extenders:
            return await self._try_pod(queued)
        try:
            result = runner.find(pod)
        except MoorageError:
            return await self._try_pod(queued)  # it meets the same error, and deals with it
        if not isinstance(result, SeveralNodes):
            return await self._go_on(queued, runner, result, None)
        row = await self._asked(ChoiceQuestion(pod, result.feasible))
        if row is None:
            scheduler.let_go(queued)
            self._drop(pod)
            return Dropped()
        return await self._go_on(queued, runner, result, row)

    async def _asked(self, question: ChoiceQuestion) -> int | None:
        self._answer = self._loop.create_future()
        with self._scheduler.services.freeze:
            self.question.set_result(question)
            return await self._answer

    async def _go_on(
        self, queued: QueuedPodInfo, runner: ProfileRunner, result: SearchResult, row: int | None
    ) -> Outcome:
        """Have the scheduler try the pod with what was found, which nothing has changed since."""
        find, choose = runner.find, runner.choose
        runner.find = lambda _pod: result  # type: ignore[assignment, misc]  # the name of an argument is another
        if row is not None:
            choice = Choice(runner.cache.nodes[row])
            runner.choose = lambda _found: choice  # type: ignore[assignment]
        try:
            return await self._try_pod(queued)
        finally:
            runner.find, runner.choose = find, choose
