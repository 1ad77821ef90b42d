"""Pods of a group that are placed on trial: assumed and reserved as for real, and undone in reverse order."""

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
    """A stack of placements on trial, on top of the world as it is."""

    def __init__(self, cache: Cache, nominations: Callable[[], PodNominator]) -> None:
        self._cache = cache
        self._nominations = nominations
        self._placed: list[tuple[PodTrial, Pod]] = []

    def __len__(self) -> int:
        return len(self._placed)

    def place(self, trial: PodTrial) -> None:
        """Put a pod on the node found for it, unless a reserve plugin objects: then the trial says so."""
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
            self._take_back()
            trial.diagnosis = Diagnosis.on_node(trial.node_name, refusal)
            trial.node_name = ""

    def place_again(self, trials: Iterable[PodTrial]) -> str:
        """Put pods where they were found to fit; return what went wrong, if anything did."""
        for trial in trials:
            self.place(trial)
            if not trial.fits:
                problem = trial.status.message if trial.status is not None else ""
                return problem or (trial.diagnosis.message if trial.diagnosis is not None else "")
        return ""

    def revert_to(self, size: int) -> None:
        """Take back all placements but the first so many."""
        while len(self._placed) > size:
            self._take_back()

    def _take_back(self) -> None:
        trial, assumed = self._placed.pop()
        assert trial.runner is not None
        assert trial.state is not None
        trial.runner.unreserve(trial.state, assumed, assumed.node_name)
        self._cache.forget(assumed)
        if trial.queued.pod.status.nominated_node_name:
            self._nominations().add(trial.queued.pod)
