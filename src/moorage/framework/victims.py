"""Who would have to go for a pod to fit on a node."""

from dataclasses import dataclass

from moorage.api.pod import Pod


@dataclass(frozen=True, slots=True)
class Victims:
    """Pods of one node, the most important first, and how many of them a disruption budget protects."""

    pods: tuple[Pod, ...]
    violations: int = 0
