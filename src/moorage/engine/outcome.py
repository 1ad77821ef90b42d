"""How an attempt to place a pod can end."""

from typing import TypeAlias

from msgspec import Struct

from moorage.engine.diagnosis import Diagnosis


class Placed(Struct, frozen=True):
    """The pod was given a node, and its binding cycle has begun; ``tied`` are equals that upstream might have drawn."""

    node_name: str
    tied: tuple[str, ...] = ()


class Parked(Struct, frozen=True):
    """The pod was turned down; plugins' events can bring it back. ``nominated_node`` as in PostFilterResult."""

    diagnosis: Diagnosis
    nominated_node: str | None = None

    @property
    def message(self) -> str:
        """What users read."""
        return self.diagnosis.message


class Failed(Struct, frozen=True):
    """Something went wrong, or there is nothing to choose from; the pod is tried again after a backoff."""

    message: str
    is_rejection: bool = False


class Dropped(Struct, frozen=True):
    """There was nothing to try: the pod is being deleted, or has its node already."""


Outcome: TypeAlias = Placed | Parked | Failed | Dropped
