"""The condition of a PodGroup: whether it was initially scheduled, and if not, the reason."""

from collections.abc import Mapping
from typing import Any, Final

import structlog

from moorage.common.errors import ApiError
from moorage.kube.api.meta import format_time
from moorage.kube.api.pod_groups import PodGroup
from moorage.scheduler.engine.services import Services
from moorage.scheduler.framework.status import Status

INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"

log = structlog.get_logger(__name__)


class GroupConditions:
    """Writes the condition of PodGroups, in the background."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def report(self, group: PodGroup, status: Status | None) -> Mapping[str, str]:
        """Write the result of a group, and return the condition; a scheduled group never becomes unscheduled."""
        patch = condition_patch(group, status, self._services.clock.wall())
        if not patch:
            return {}
        self._services.background.start(self._patch(group, patch), name=f"status of pod group {group.key}")
        condition: Mapping[str, str] = patch["conditions"][0]
        return condition

    async def _patch(self, group: PodGroup, patch: Mapping[str, Any]) -> None:
        try:
            await self._services.cluster.patch_status(group, patch)
        except ApiError as error:
            log.warning("cannot write the pod group status", group=group.key, error=str(error))


def condition_patch(group: PodGroup, status: Status | None, now: float) -> Mapping[str, Any]:
    """Return the patch of the group's status; empty if nothing changes."""
    if status is None:
        desired = ("True", SCHEDULED, "")
    else:
        desired = ("False", UNSCHEDULABLE if status.is_rejection else SCHEDULER_ERROR, status.message)
    conditions = group.status.conditions
    current = next((condition for condition in conditions if condition.type == INITIALLY_SCHEDULED), None)
    generation = group.metadata.generation
    if current is not None:
        if current.status == "True" and status is not None:
            return {}
        if (current.status, current.reason, current.message, current.observed_generation) == (*desired, generation):
            return {}
    since = current.last_transition_time if current is not None and current.status == desired[0] else None
    condition: dict[str, Any] = {
        "type": INITIALLY_SCHEDULED,
        "status": desired[0],
        "reason": desired[1],
        "message": desired[2],
        "lastTransitionTime": since or format_time(now),
    }
    if generation:
        condition["observedGeneration"] = generation
    return {"conditions": [condition]}
