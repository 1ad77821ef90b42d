"""Events for users: what happened to a pod, said once and aggregated where it is stored."""

from msgspec import Struct

from moorage.kube.api.meta import KubeObject


class EventNote(Struct, frozen=True):
    """Something worth telling the user; ``controller`` is the scheduler name it is reported under."""

    regarding: KubeObject
    reason: str
    action: str
    note: str
    controller: str
    is_warning: bool = False
    related: KubeObject | None = None
