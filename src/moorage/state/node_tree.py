"""The order in which nodes are visited: one of each zone in turn."""

from itertools import zip_longest

from moorage.api.node import Node


class NodeTree:
    """Nodes by zone. Zones keep the order in which they first appeared, nodes the order in which they came."""

    def __init__(self) -> None:
        self._zones: dict[str, dict[str, None]] = {}
        self._zone_of: dict[str, str] = {}

    def add(self, node: Node) -> None:
        """Put a node at the end of its zone."""
        self._zone_of[node.name] = node.zone_key
        self._zones.setdefault(node.zone_key, {})[node.name] = None

    def remove(self, name: str) -> None:
        """Take a node out; a zone without nodes is forgotten."""
        zone = self._zone_of.pop(name)
        del self._zones[zone][name]
        if not self._zones[zone]:
            del self._zones[zone]

    def update(self, node: Node) -> None:
        """Move a node whose zone changed to the end of the new one."""
        if self._zone_of[node.name] != node.zone_key:
            self.remove(node.name)
            self.add(node)

    def names(self) -> list[str]:
        """List all nodes: the first of each zone, the second of each zone, and so on."""
        turns = zip_longest(*self._zones.values())
        return [name for turn in turns for name in turn if name is not None]
