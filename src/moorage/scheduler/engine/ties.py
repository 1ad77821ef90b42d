"""Tie-breaking for reproducible experiments, instead of upstream's."""

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


class TiesByName:
    """Chooses the node whose name is first."""

    def __init__(self) -> None:
        self._version: tuple[int, int] | None = None
        self._places: RowArray = np.zeros(0, dtype=np.int64)

    def choose(self, nodes: NodeTable, rows: RowArray) -> int:
        """Return the row with the first name; names are re-sorted only after nodes were added or removed."""
        if len(rows) == 1:
            return int(rows[0])
        if self._version != (nodes.nodes_version, len(nodes)):
            order = np.argsort(np.array(nodes.names, dtype=object), kind="stable")
            self._places = np.empty(len(order), dtype=np.int64)
            self._places[order] = np.arange(len(order))
            self._version = nodes.nodes_version, len(nodes)
        return int(rows[self._places[rows].argmin()])
