"""One line in the log for every decision, from -v=2 on; a slow attempt is always worth one."""

from typing import Final

import structlog

from moorage.scheduler.engine.outcomes import Failed, Unschedulable
from moorage.scheduler.framework.logs import VERBOSITY
from moorage.scheduler.queue.entities import QueuedPodInfo

LEVEL: Final = 2
SLOW_SECONDS: Final = 0.1

log = structlog.get_logger(__name__)


def log_bound(queued: QueuedPodInfo, node_name: str, evaluated: int, feasible: int) -> None:
    """Log a binding, with the numbers of evaluated and feasible nodes."""
    if VERBOSITY.of(__name__) >= LEVEL:
        log.info(
            "Successfully bound pod to node",
            v=LEVEL,
            pod=queued.key,
            node=node_name,
            evaluatedNodes=evaluated,
            feasibleNodes=feasible,
        )


def log_failed(queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
    """Log that a pod did not get a node, and why."""
    if isinstance(outcome, Failed) and not outcome.is_rejection:
        log.error("Error scheduling pod; retrying", pod=queued.key, err=outcome.message)
    elif VERBOSITY.of(__name__) >= LEVEL:
        log.info("Unable to schedule pod; no fit; waiting", v=LEVEL, pod=queued.key, err=outcome.message)


def log_slow(queued: QueuedPodInfo, seconds: float) -> None:
    """Log an attempt that took longer than :data:`SLOW_SECONDS`."""
    log.info("slow scheduling attempt", pod=queued.key, took_ms=round(seconds * 1000, 1))
