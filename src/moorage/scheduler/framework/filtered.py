"""The filter result of an extender."""

from collections.abc import Mapping

from msgspec import Struct, field

from moorage.kube.api.node import Node


class Filtered(Struct, frozen=True):
    """The feasible nodes in the extender's order, and reasons for others. Nodes may be missing without a reason.

    ``stand_ins`` contains the nodes as the extender returned them, if it returned objects instead of names.
    """

    names: tuple[str, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    stand_ins: Mapping[str, Node] = field(default_factory=dict)
