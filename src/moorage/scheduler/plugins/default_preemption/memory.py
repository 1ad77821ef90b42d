"""What earlier dry runs came to: pods of one kind that preempt in a row look at the same nodes again and again."""

from collections.abc import Hashable, Iterable
from itertools import chain
from typing import TypeAlias

from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import Status
from moorage.scheduler.framework.victims import Victims

Outcome: TypeAlias = Victims | Status


class Memory:
    """Outcomes for the last kind of pod, by row, each good until its row changes."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._position = 0
        self._about: tuple[Hashable | None, int] = (None, 0)
        self.outcomes: dict[int, Outcome] = {}

    def turn_to(self, kind: Hashable | None, budgets: int, nominated: Iterable[int]) -> None:
        """Keep only what still holds for pods of a kind under some version of the budgets, and of rows not nominated.

        A node that is nominated to others is judged with them, too: what was found before they were counts no more.
        """
        is_known = kind is not None and self._about == (kind, budgets)
        changed = self._nodes.changed_since(self._position) if is_known else None
        self._about, self._position = (kind, budgets), self._nodes.position
        if changed is None:
            self.outcomes.clear()
            return
        for row in chain(changed, nominated):
            self.outcomes.pop(row, None)
