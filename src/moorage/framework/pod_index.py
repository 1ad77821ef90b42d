"""Pods on nodes, counted by what is asked of their labels, so that a selector costs one look-up per cycle."""

import numpy as np

from moorage.api.pod import Pod
from moorage.api.selectors import LabelMatcher
from moorage.framework.status import IntArray


class PodIndex:
    """Counts of pods per row; the cache keeps it in step with the node table."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[Pod, int]] = {}
        self._rows = 0

    def resize(self, rows: int) -> None:
        """Follow the number of rows of the node table."""
        self._rows = rows

    def add(self, pod: Pod, row: int) -> None:
        """Count a pod on a row."""
        self._pods[pod.uid] = (pod, row)

    def remove(self, pod: Pod, row: int) -> None:
        """Stop counting a pod."""
        del self._pods[pod.uid]

    def move(self, source: int, target: int) -> None:
        """Follow a row that took the place of one that went."""
        for uid, (pod, row) in self._pods.items():
            if row == source:
                self._pods[uid] = (pod, target)

    def counts(self, namespaces: frozenset[str] | None, matcher: LabelMatcher, *, terminating: bool) -> IntArray:
        """Count per row the pods of these namespaces (``None``: all) that match; terminating ones on demand."""
        found = np.zeros(self._rows, dtype=np.int64)
        for pod, row in self._pods.values():
            if (namespaces is None or pod.namespace in namespaces) and matcher.matches(pod.labels):
                found[row] += terminating or not pod.is_terminating
        return found
