"""A scheduler that stops between filter and score, so that an external agent chooses among the feasible nodes.

Everything else is the regular scheduler. The search is complete when the agent gets the question. The attempt then
continues with the result of the search and the chosen node, from reserve to bind; without feasible nodes, it continues
with preemption.
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
    """A pod and its feasible nodes, as a mask over all rows; at least two nodes are feasible."""

    pod: Pod
    feasible: BoolArray


class StoppingScheduler:
    """Schedules pods one by one, and pauses before each choice; ``drop`` removes a pod permanently."""

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
        """Pods that got a node since the last question."""

    def answer(self, row: int) -> bool:
        """Place the pod on a row, and return whether the row is feasible; if not, drop the pod."""
        assert self._answer is not None, "no decision is pending"
        question = self.question.result()
        will_do = 0 <= row < len(question.feasible) and bool(question.feasible[row])
        self.placed.clear()
        self.question = self._loop.create_future()
        future, self._answer = self._answer, None
        future.set_result(row if will_do else None)
        return will_do

    async def try_pod(self, queued: QueuedPodInfo) -> Outcome:
        """Schedule one pod: find the feasible nodes, wait for the choice, and continue the attempt."""
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
        """Schedule the pod with the search result, which is still current."""
        find, choose = runner.find, runner.choose
        runner.find = lambda _pod: result  # type: ignore[assignment, misc]  # the name of an argument is another
        if row is not None:
            choice = Choice(runner.cache.nodes[row])
            runner.choose = lambda _found: choice  # type: ignore[assignment]
        try:
            return await self._try_pod(queued)
        finally:
            runner.find, runner.choose = find, choose
