"""What is worked out once for all pods that ask the same of spreading."""

from collections.abc import Callable, Hashable
from typing import Final, Generic, Protocol, TypeVar

from moorage.common.caches import LRU, MAX_KEY_LABELS
from moorage.kube.api.pod import Pod
from moorage.kube.api.shape import Shape
from moorage.scheduler.plugins.pod_topology_spread.constraints import Constraints
from moorage.scheduler.plugins.pod_topology_spread.inclusion import Inclusion

MAX_BYTES: Final = 32 << 20
BYTES_PER_ROW: Final = 32
MIN_KEPT: Final = 16
MAX_KEPT: Final = 1024
MAX_TEMPLATES: Final = 1024

Template = tuple[Shape, str, frozenset[tuple[str, str]]]


class Kept(Protocol):
    """What is kept for some pods, all of which have these constraints."""

    @property
    def constraints(self) -> Constraints:
        """The constraints it is about."""
        ...


K = TypeVar("K", bound=Kept)


class SpreadCache(Generic[K]):
    """Finds what is kept for a pod: by its template, or else by what matters of it."""

    def __init__(self, make: Callable[[Constraints, Pod, Inclusion], K], *, by_number: bool = False) -> None:
        self._make = make
        self._by_number = by_number
        self._by_template: LRU[Template, K] = LRU("spread counts by template", MAX_TEMPLATES)
        self._kept: LRU[Hashable, K] = LRU("spread counts", MIN_KEPT, on_drop=self._drop_templates)

    def find(self, constraints: Constraints, pod: Pod, rows: int) -> K:
        """Return what is kept for pods like this one; ``rows`` says how much memory that takes."""
        metadata = pod.metadata
        template = (pod.shape, metadata.namespace, frozenset(metadata.labels.items()))
        known = self._by_template.find(template)
        if known is None or known.constraints != constraints:
            known = self._find(constraints, pod, rows)
            if len(metadata.labels) <= MAX_KEY_LABELS:
                self._by_template.put(template, known)
        return known

    def _find(self, constraints: Constraints, pod: Pod, rows: int) -> K:
        inclusion = Inclusion(pod, by_number=self._by_number)
        counts_itself = tuple(constraint.matcher.matches(pod.labels) for constraint in constraints)
        is_written = bool(pod.spec.topology_spread_constraints)
        key = (constraints, is_written, pod.namespace, counts_itself, inclusion.sign(constraints))
        kept = self._kept.find(key)
        if kept is None:
            kept = self._make(constraints, pod, inclusion)
            self._kept.resize(max(MIN_KEPT, min(MAX_KEPT, MAX_BYTES // (BYTES_PER_ROW * (rows + 1)))))
            self._kept.put(key, kept)
        return kept

    def _drop_templates(self, key: Hashable, dropped: K) -> None:
        # They would keep in memory what was dropped to save it.
        self._by_template.clear()
