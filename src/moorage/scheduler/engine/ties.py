"""Tie-breaking for reproducible experiments, instead of upstream's."""

from collections.abc import Callable
from random import Random
from typing import Protocol

import numpy as np

from moorage.scheduler.framework.nodetable import NodeTable, RowArray


class Ties(Protocol):
    """Chooses between rows of equal score."""

    def choose(self, nodes: NodeTable, rows: RowArray) -> int:
        """Return one of some rows of the cluster."""
        ...


class RandomTies:
    """Chooses at random."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def choose(self, nodes: NodeTable, rows: RowArray) -> int:
        """Return any of the rows."""
        return int(rows[self._chance.randrange(len(rows))])


class TiesInOrder:
    """Chooses the first node in an order that never changes: by name, or by a key that a name determines."""

    def __init__(self, key: Callable[[str], str | float] = str) -> None:
        self._key = key
        self._version: tuple[int, int] | None = None
        self._positions: RowArray = np.zeros(0, dtype=np.int64)

    def choose(self, nodes: NodeTable, rows: RowArray) -> int:
        """Return the first of the rows. Nodes are re-sorted only after some were added or removed."""
        if len(rows) == 1:
            return int(rows[0])
        if self._version != (nodes.nodes_version, len(nodes)):
            order = np.argsort(np.array([self._key(name) for name in nodes.names], dtype=object), kind="stable")
            self._positions = np.empty(len(order), dtype=np.int64)
            self._positions[order] = np.arange(len(order))
            self._version = nodes.nodes_version, len(nodes)
        return int(rows[self._positions[rows].argmin()])
