"""Log lines about attempts, with kube-scheduler's texts, keys and verbosity."""

from typing import Final

import structlog

from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, NoNode, OneNode, SearchResult
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Failed, Outcome, Placed, Unschedulable
from moorage.scheduler.framework.logs import VERBOSITY
from moorage.scheduler.queue.entities import QueuedPodGroupInfo, QueuedPodInfo
from moorage.scheduler.state.pod_groups import ENTITY

DECISION_LEVEL: Final = 2
"""Log level from which each decision is logged."""
ATTEMPT_LEVEL: Final = 3
"""Log level from which the start of each attempt is logged."""

log = structlog.get_logger(__name__)


class AttemptLogger(AttemptObserver):
    """Logs attempts and their results; below its verbosity it only logs errors."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}

    def on_attempt(self, queued: QueuedPodInfo) -> None:
        """Log the start of a pod's attempt."""
        if VERBOSITY.of(__name__) >= ATTEMPT_LEVEL:
            log.info("Attempting to schedule pod", v=ATTEMPT_LEVEL, pod=queued.key)

    def on_group_attempt(self, queued: QueuedPodGroupInfo) -> None:
        """Log the start of a group's attempt."""
        if VERBOSITY.of(__name__) >= ATTEMPT_LEVEL:
            key = queued.key.removeprefix(ENTITY)
            log.info("Attempting to schedule pod group", v=ATTEMPT_LEVEL, podGroup=key)

    def on_search(self, queued: QueuedPodInfo, runner: ProfileRunner, result: SearchResult | ExtendedNodes) -> None:
        """Remember the number of nodes until the pod is bound."""
        if VERBOSITY.of(__name__) >= DECISION_LEVEL:
            result = result.result if isinstance(result, ExtendedNodes) else result
            feasible = 0 if isinstance(result, NoNode) else 1 if isinstance(result, OneNode) else result.count
            counts = {"evaluatedNodes": result.diagnosis.node_count, "feasibleNodes": feasible}
            self._counts[queued.pod.metadata.uid] = counts

    def on_attempt_end(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Log a failed attempt. A placed pod is logged when it is bound."""
        if not isinstance(outcome, Placed):
            self._counts.pop(queued.pod.metadata.uid, None)
        if isinstance(outcome, Unschedulable | Failed):
            self.on_binding_failure(queued, outcome)

    def on_bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        """Log a pod that has its node."""
        counts = self._counts.pop(queued.pod.metadata.uid, {})
        if VERBOSITY.of(__name__) >= DECISION_LEVEL:
            log.info("Successfully bound pod to node", v=DECISION_LEVEL, pod=queued.key, node=node_name, **counts)

    def on_binding_failure(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Log an attempt that failed, before or during the binding."""
        self._counts.pop(queued.pod.metadata.uid, None)
        if isinstance(outcome, Failed) and not outcome.is_rejection:
            log.error("Error scheduling pod; retrying", pod=queued.key, err=outcome.message)
        elif VERBOSITY.of(__name__) >= DECISION_LEVEL:
            if isinstance(outcome, Unschedulable) and not outcome.diagnosis.node_count:
                message = "Unable to schedule pod; no nodes are registered to the cluster; waiting"
                log.info(message, v=DECISION_LEVEL, pod=queued.key)
                return
            message = "Unable to schedule pod; no fit; waiting"
            log.info(message, v=DECISION_LEVEL, pod=queued.key, err=outcome.message)
