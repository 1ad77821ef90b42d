"""What a deployment says of itself: counts, and whether it is available and makes progress.

``kubectl rollout status`` reads the counts, and gives up when progress has stopped for too long.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from moorage.cluster.controllers.actions import After, ControllerAction, status_actions
from moorage.cluster.controllers.ownership import with_condition
from moorage.cluster.controllers.replicaset import REPLICA_FAILURE
from moorage.kube.api.meta import format_time, parse_time
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import Deployment, ReplicaSet

PROGRESSING = "Progressing"


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """The pods of a deployment, and how many must be available at ``least``."""

    total: int
    updated: int
    ready: int
    available: int
    least: int


def count_of(replica_set: ReplicaSet, field: str) -> int:
    """Return a count of a replica set's status."""
    return int(replica_set.status.get(field) or 0)


def status_of(
    deployment: Deployment, counts: ReplicaCounts, newest: str, now: float, failure: Data | None = None
) -> Iterator[ControllerAction]:
    """Bring a deployment's status up to date, and look again when its time to make progress is over.

    ``newest`` is the name of the replica set that is rolled out, ``failure`` the condition of one
    that does not get its pods.
    """
    wanted = deployment.spec.replicas
    status: Data = {
        "observedGeneration": deployment.metadata.generation,
        "replicas": counts.total,
        "updatedReplicas": counts.updated,
        "readyReplicas": counts.ready,
        "availableReplicas": counts.available,
        "unavailableReplicas": max(0, max(counts.total, wanted) - counts.available),
    }
    moved = any((deployment.status.get(key) or 0) != count for key, count in status.items())
    is_complete = counts.updated == wanted == counts.total == counts.available
    found = list(deployment.status.get("conditions") or ())
    conditions = with_condition(found, format_time(now), **_availability(counts.available >= counts.least))
    if failure is not None:
        copied = {key: failure[key] for key in ("type", "status", "reason", "message")}
        conditions = with_condition(conditions, format_time(now), **copied)
    else:
        conditions = [condition for condition in conditions if condition.get("type") != REPLICA_FAILURE]
    progress = RolloutProgress(deployment, newest, moved=moved, is_complete=is_complete)
    conditions = progress.noted_in(conditions, now)
    yield from status_actions(deployment, deployment.status, {**status, "conditions": conditions})
    deadline = deployment.spec.progress_deadline_seconds
    if deadline is not None and not is_complete:
        yield After(float(deadline) + 1.0)


def _availability(is_up: bool) -> dict[str, str]:
    if is_up:
        message = "Deployment has minimum availability."
        return {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": message}
    message = "Deployment does not have minimum availability."
    return {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": message}


@dataclass(frozen=True, slots=True)
class RolloutProgress:
    """Whether a deployment gets on: it has moved since it was last looked at, or is where it should be."""

    deployment: Deployment
    newest: str
    moved: bool
    is_complete: bool

    def noted_in(self, conditions: list[Data], now: float) -> list[Data]:
        """Return conditions with the one about progress; its update time is that of the last move."""
        known = _progress_in(conditions)
        wanted = self._wanted(known, now)
        if wanted is None:
            return conditions
        updated = with_condition(conditions, format_time(now), **wanted)
        current = _progress_in(updated)
        assert current is not None
        if self.moved or "lastUpdateTime" not in current:
            current["lastUpdateTime"] = format_time(now)
        return updated

    def _wanted(self, known: Data | None, now: float) -> dict[str, str] | None:
        subject = f'ReplicaSet "{self.newest}"' if self.newest else f'Deployment "{self.deployment.name}"'
        if self.deployment.spec.paused:
            return _progressing("Unknown", "DeploymentPaused", "Deployment is paused")
        if known is not None and known.get("reason") == "DeploymentPaused":
            return _progressing("Unknown", "DeploymentResumed", "Deployment is resumed")
        if self.is_complete:
            return _progressing("True", "NewReplicaSetAvailable", f"{subject} has successfully progressed.")
        if self.moved or known is None:
            return _progressing("True", "ReplicaSetUpdated", f"{subject} is progressing.")
        if _is_late(self.deployment, known, now):
            return _progressing("False", "ProgressDeadlineExceeded", f"{subject} has timed out progressing.")
        return None


def _is_late(deployment: Deployment, known: Data, now: float) -> bool:
    deadline, since = deployment.spec.progress_deadline_seconds, known.get("lastUpdateTime")
    if deadline is None or not since or known.get("reason") == "NewReplicaSetAvailable":
        return False
    return parse_time(since) + deadline <= now


def _progress_in(conditions: list[Data]) -> Data | None:
    return next((condition for condition in conditions if condition.get("type") == PROGRESSING), None)


def _progressing(status: str, reason: str, message: str) -> dict[str, str]:
    return {"type": PROGRESSING, "status": status, "reason": reason, "message": message}
