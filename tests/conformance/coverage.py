"""The coverage of a run: results, rejections by plugin and reason, and score plugins that distinguished nodes."""

import re
from collections import Counter
from typing import Any, Final

from rich import box
from rich.table import Table

_NAMES: Final = re.compile(r'"[^"]+"|\b[\w.-]+/[\w.-]+\b|\bn\d+\b')


class Coverage:
    """Counts over the decisions of kube-scheduler's side."""

    def __init__(self) -> None:
        self.clusters = 0
        self.pods = 0
        self.groups = 0
        self.verdicts = 0
        self._seen: Counter[tuple[str, str, str]] = Counter()

    def add(self, decisions: list[dict[str, Any]]) -> None:
        """Count the decisions on one cluster."""
        self.clusters += 1
        for decision in decisions:
            if "group" in decision:
                self._add_group(decision)
                continue
            self.pods += 1
            self._seen[("result", decision["result"], "")] += 1
            if rejected := decision.get("preFilter"):
                self._count("preFilter", rejected)
            if post_filter := decision.get("postFilter"):
                self._seen[("postFilter", "nominated", f"{min(len(post_filter['victims']), 3)} victims")] += 1
            if decision.get("result") == "error":
                self._seen[("error", _anonymous(decision.get("message", "")), "")] += 1
            self._add_nodes(decision.get("nodes", {}))

    def _add_group(self, decision: dict[str, Any]) -> None:
        self.groups += 1
        self._seen[("group", decision["result"], _anonymous(re.sub(r"\d+", "#", decision.get("message", ""))))] += 1
        if post_filter := decision.get("postFilter"):
            self._seen[("group", "preempts", f"{min(len(post_filter['victims']), 3)} victims")] += 1
        for scored in decision.get("scored", ()):
            self._seen[("group", "placements", "tied" if "tied" in scored else "told apart")] += 1

    def _add_nodes(self, nodes: dict[str, Any]) -> None:
        self.verdicts += len(nodes)
        for node in nodes.values():
            if "code" in node:
                self._count("filter", node)
        scored = [node["scores"] for node in nodes.values() if "scores" in node]
        for plugin in scored[0] if scored else ():
            values = {scores[plugin]["normalized"] for scores in scored}
            self._seen[("score", plugin, "tells nodes apart" if len(values) > 1 else "same for all")] += 1

    def _count(self, point: str, rejected: dict[str, Any]) -> None:
        plugin = rejected.get("plugin", "(narrowed)")
        for reason in rejected.get("reasons", ["(no reason)"]):
            self._seen[(point, f"{plugin} {rejected['code']}", _anonymous(reason))] += 1

    def table(self) -> Table:
        """Format the counts."""
        table = Table("Where", "Who", "What", "How often", box=box.SIMPLE_HEAD)
        for (point, name, description), count in sorted(self._seen.items()):
            table.add_row(point, name, description, str(count))
        return table


def _anonymous(text: str) -> str:
    return _NAMES.sub("…", text)[:90]
