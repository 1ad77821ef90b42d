"""{{ plugin }}: prefer nodes that cost little."""

from collections.abc import Hashable

import msgspec

from moorage import CycleState, DependsOn, NodeInfo, Pod, ScorePlugin

MAX_SCORE = 100


class {{ plugin }}Args(msgspec.Struct, frozen=True, rename="camel"):
    """What `pluginConfig` may say."""

    label: str = "{{ label }}"


class {{ plugin }}(ScorePlugin):
    """Prefer nodes with a small number in a label; 100 and more, or no number, is the worst."""

    Args = {{ plugin }}Args
    # The answer about a node depends on the node alone, not on the pods there: it is kept until the node changes.
    depends_on = DependsOn.NODE

    def __init__(self, *, args: {{ plugin }}Args) -> None:
        self.label = args.label

    def sign(self, pod: Pod) -> Hashable:
        """Name everything of a pod that a score depends on: here nothing, all pods share their scores."""
        return ""

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Score a node from 0 to 100; the profile multiplies that by the plugin's weight."""
        price = node.labels.get(self.label, "")
        return max(0, MAX_SCORE - int(price)) if price.isascii() and price.isdecimal() else 0
