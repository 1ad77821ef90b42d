"""Who would have to go for a pod to fit on a node."""

from msgspec import Struct

from moorage.api.pod import Pod


class Victims(Struct, frozen=True):
    """Pods of one node, the most important first, and how many of them a disruption budget protects."""

    pods: tuple[Pod, ...]
    violations: int = 0
