"""What earlier dry runs came to: pods of one kind that preempt in a row look at the same nodes again and again."""

from collections.abc import Hashable
from typing import TypeAlias

from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import NodeTable
from moorage.framework.status import Status
from moorage.framework.victims import Victims
from moorage.plugins.default_preemption.dry_run import DryRun

Outcome: TypeAlias = Victims | Status


class Memory:
    """Outcomes for the last kind of pod, by row, each good until its row changes."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._position = 0
        self._about: tuple[Hashable | None, int] = (None, 0)
        self._outcomes: dict[int, Outcome] = {}

    def turn_to(self, kind: Hashable | None, budgets: int) -> None:
        """Keep only what still holds for pods of a kind under some version of the budgets."""
        is_known = kind is not None and self._about == (kind, budgets)
        changed = self._nodes.changed_since(self._position) if is_known else None
        self._about, self._position = (kind, budgets), self._nodes.position
        if changed is None:
            self._outcomes.clear()
            return
        for row in changed:
            self._outcomes.pop(row, None)

    def ask(self, node: NodeInfo, dry_run: DryRun) -> Outcome:
        """Return what is remembered of a node, or find it out."""
        outcome = self._outcomes.get(node.row)
        if outcome is None:
            outcome = self._outcomes[node.row] = dry_run.on(node)
        return outcome
