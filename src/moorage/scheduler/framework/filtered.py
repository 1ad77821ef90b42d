"""What an extender made of the nodes it was asked about."""

from collections.abc import Mapping

from msgspec import Struct, field

from moorage.kube.api.node import Node


class Filtered(Struct, frozen=True):
    """The nodes that are left, in the extender's order, and why others are not; a node may also vanish unexplained.

    ``stand_ins`` are the nodes as the extender sent them back, if it did not just name them.
    """

    names: tuple[str, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    stand_ins: Mapping[str, Node] = field(default_factory=dict)
