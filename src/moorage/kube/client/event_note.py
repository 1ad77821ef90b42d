"""Events for users, aggregated where they are stored."""

from msgspec import Struct

from moorage.kube.api.meta import KubeObject


class EventNote(Struct, frozen=True):
    """An event for the user; ``controller`` is the reporting scheduler name."""

    regarding: KubeObject
    reason: str
    action: str
    note: str
    controller: str
    is_warning: bool = False
    related: KubeObject | None = None
