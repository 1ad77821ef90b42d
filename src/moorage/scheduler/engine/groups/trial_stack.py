"""Members of a group that are placed on trial: assumed and reserved, and reverted in reverse order."""

from collections.abc import Callable, Iterable
from typing import Final

import structlog

from moorage.common.errors import CacheError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.group_results import PodTrial
from moorage.scheduler.engine.outcomes import Diagnosis
from moorage.scheduler.framework.cycle import ASSUMED
from moorage.scheduler.framework.status import Status
from moorage.scheduler.queue.nominator import PodNominator
from moorage.scheduler.state.cache import Cache

log: Final = structlog.get_logger(__name__)


class TrialStack:
    """A stack of trial placements in the cache."""

    def __init__(self, cache: Cache, nominations: Callable[[], PodNominator]) -> None:
        self._cache = cache
        self._nominations = nominations
        self._placed: list[tuple[PodTrial, Pod]] = []

    def __len__(self) -> int:
        return len(self._placed)

    def place(self, trial: PodTrial) -> None:
        """Place a pod on its node, unless a reserve plugin rejects it; the trial contains the result."""
        runner, state, pod = trial.runner, trial.state, trial.queued.pod
        assert runner is not None
        assert state is not None
        assumed = pod.on_node(trial.node_name)
        try:
            self._cache.assume(assumed)
        except CacheError as error:
            trial.node_name, trial.status = "", Status.error(str(error))
            return
        self._nominations().remove(pod)
        self._placed.append((trial, assumed))
        refusal = runner.reserve(state, assumed, trial.node_name)
        if refusal is None and (recounted := state.get(ASSUMED)) is not None:
            self._cache.recount(recounted)
        if refusal is not None:
            self._revert_last()
            trial.diagnosis = Diagnosis.on_node(trial.node_name, refusal)
            trial.node_name = ""

    def place_again(self, trials: Iterable[PodTrial]) -> str:
        """Place pods again on their nodes; return the problem, or an empty string."""
        for trial in trials:
            self.place(trial)
            if not trial.fits:
                problem = trial.status.message if trial.status is not None else ""
                return problem or (trial.diagnosis.message if trial.diagnosis is not None else "")
        return ""

    def revert_to(self, size: int) -> None:
        """Revert all placements above this size of the stack."""
        while len(self._placed) > size:
            self._revert_last()

    def _revert_last(self) -> None:
        trial, assumed = self._placed.pop()
        assert trial.runner is not None
        assert trial.state is not None
        trial.runner.unreserve(trial.state, assumed, assumed.node_name)
        self._cache.forget(assumed)
        if trial.queued.pod.status.nominated_node_name:
            self._nominations().add(trial.queued.pod)
