"""How an attempt to place a pod can end."""

from dataclasses import dataclass
from typing import TypeAlias

from moorage.engine.diagnosis import Diagnosis


@dataclass(frozen=True, slots=True)
class Placed:
    """The pod was given a node, and its binding cycle has begun."""

    node_name: str


@dataclass(frozen=True, slots=True)
class Parked:
    """The pod was turned down; plugins' events can bring it back. ``nominated_node`` as in PostFilterResult."""

    diagnosis: Diagnosis
    nominated_node: str | None = None

    @property
    def message(self) -> str:
        """What users read."""
        return self.diagnosis.message


@dataclass(frozen=True, slots=True)
class Failed:
    """Something went wrong, or there is nothing to choose from; the pod is tried again after a backoff."""

    message: str
    is_rejection: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    """There was nothing to try: the pod is being deleted, or has its node already."""


Outcome: TypeAlias = Placed | Parked | Failed | Dropped
