"""The events of a job that is a group: word for word those of kube-controller-manager."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from moorage.cluster.controllers.actions import NAME, ControllerAction, Create, Delete, Patch, Tell
from moorage.kube.api.pod import Pod
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import Job

SOURCE: Final = "job-controller"


def with_events(action: ControllerAction, job: Job, now: float) -> ControllerAction:
    """Return an action with the event that follows it, if one does."""

    def tell(reason: str, message: str, *, is_warning: bool = False) -> Tell:
        return Tell(job, SOURCE, reason, message, now, is_warning)

    match action:
        case Create(kind=kind) if kind is Pod:
            return replace(action, tell=tell("SuccessfulCreate", f"Created pod: {NAME}"))
        case Create(kind=kind):
            what = kind.__name__
            return replace(action, tell=tell(f"{what}Created", f"Created {what} {NAME} for Job {job.name}"))
        case Delete(thing=Pod(name=name)):
            return replace(action, tell=tell("SuccessfulDelete", f"Deleted pod: {name}"))
        case Patch(thing=Job(), patch={"status": {"conditions": conditions}}):
            for item in _news(conditions, job.status.get("conditions") or ()):
                match item["type"], item["status"]:
                    case "Suspended", "True":
                        return replace(action, tell=tell("Suspended", "Job suspended"))
                    case "Suspended", "False":
                        return replace(action, tell=tell("Resumed", "Job resumed"))
                    case "Complete", "True":
                        return replace(action, tell=tell("Completed", "Job completed"))
                    case "Failed", "True":
                        return replace(action, tell=tell(item["reason"], item["message"], is_warning=True))
    return action


def _news(conditions: list[Data], known: Iterable[Data]) -> list[Data]:
    before = {item.get("type"): item.get("status") for item in known}
    return [item for item in conditions if before.get(item["type"]) != item["status"]]
