"""{{ plugin }}: prefer cheap nodes."""

from collections.abc import Hashable

import msgspec

from moorage import CycleState, DependsOn, NodeInfo, Pod, ScorePlugin

MAX_SCORE = 100


class {{ plugin }}Args(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments in `pluginConfig`."""

    label: str = "{{ label }}"


class {{ plugin }}(ScorePlugin):
    """Prefer nodes with a low price in a label. Prices of 100 or more, and missing prices, score 0."""

    Args = {{ plugin }}Args
    # The result depends on the node alone, not on its pods: it is cached until the node changes.
    depends_on = DependsOn.NODE

    def __init__(self, *, args: {{ plugin }}Args) -> None:
        self.label = args.label

    def sign(self, pod: Pod) -> Hashable:
        """Return all properties of the pod that the score depends on: none here, so all pods share scores."""
        return ""

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Score a node from 0 to 100; the scheduler multiplies the score by the plugin's weight."""
        price = node.labels.get(self.label, "")
        return max(0, MAX_SCORE - int(price)) if price.isascii() and price.isdecimal() else 0
