"""Which spread constraints a pod has: its own, or default ones with a selector deduced for it."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage.common.caches import LRU, short_key
from moorage.kube.api.affinity import TopologySpreadConstraint
from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import EVERYTHING, LabelMatcher, label_matcher
from moorage.kube.api.shape import Shape
from moorage.scheduler.config.args import SYSTEM_DEFAULTING, PodTopologySpreadArgs
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.plugins.pod_topology_spread.selectors import DefaultSelectors
from moorage.scheduler.state.pod_index import PodIndex, SelectorCount

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HONOR: Final = "Honor"
MAX_KNOWN: Final = 1024

SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME_LABEL, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE_LABEL, when_unsatisfiable=SOFT),
)

LabelPairs = tuple[tuple[str, str], ...]

_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")


class SpreadConstraint(Struct, frozen=True):
    """One constraint, ready to be counted."""

    topology_key: str
    max_skew: int
    matcher: LabelMatcher
    min_domains: int
    honors_affinity: bool
    honors_taints: bool

    def counts(self, other: Pod, namespace: str) -> bool:
        """Return whether a pod on a node counts; an empty selector counts no pod, as upstream."""
        return (
            other.namespace == namespace
            and not other.is_terminating
            and not self.matcher.is_everything
            and self.matcher.matches(other.labels)
        )

    def counted_pods(self, namespace: str, index: PodIndex) -> SelectorCount | None:
        """Return the standing count of the same pods; ``None`` if there can be none."""
        if self.matcher.is_everything:
            return None
        return index.count(frozenset((namespace,)), self.matcher, terminating=False)


Constraints = tuple[SpreadConstraint, ...]
NO_CONSTRAINTS: Final[Constraints] = ()


class _Defaults(NamedTuple):
    selector: LabelMatcher
    hard: Constraints
    soft: Constraints


_NO_DEFAULTS: Final = _Defaults(EVERYTHING, NO_CONSTRAINTS, NO_CONSTRAINTS)


class ConstraintSource:
    """Knows the constraints of every pod, as one profile is configured."""

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        self._is_system_defaulted = args.defaulting_type == SYSTEM_DEFAULTING
        written = SYSTEM_DEFAULTS if self._is_system_defaulted else args.default_constraints
        self._default_hard = _parse(written, HARD, {})
        self._default_soft = _parse(written, SOFT, {})
        # Asking for a kind makes the scheduler watch it, so nothing is asked for without need.
        self._selectors = DefaultSelectors(handle) if written else None
        self._known: LRU[LabelMatcher, _Defaults] = LRU("default spread constraints", MAX_KNOWN, self._with_selector)
        self._narrows = handle.features.enabled("MatchLabelKeysInPodTopologySpread")
        self._by_shape: LRU[tuple[Shape, str], Constraints] = LRU("spread constraints by shape", MAX_KNOWN)
        self._by_text: LRU[tuple[bytes, str, LabelPairs], Constraints] = LRU("spread constraints by text", MAX_KNOWN)

    def hard(self, pod: Pod) -> Constraints:
        """Return the constraints that keep the pod off nodes."""
        if pod.spec.topology_spread_constraints:
            return self._written(pod, HARD)
        return self._defaults(pod).hard if self._default_hard else NO_CONSTRAINTS

    def soft(self, pod: Pod) -> Constraints:
        """Return the constraints that make the pod like nodes more or less."""
        if pod.spec.topology_spread_constraints:
            return self._written(pod, SOFT)
        return self._defaults(pod).soft if self._default_soft else NO_CONSTRAINTS

    def needs_all_keys(self, pod: Pod) -> bool:
        """Return whether nodes without one of the keys are left out of scoring: only system defaults forgive that."""
        return bool(pod.spec.topology_spread_constraints) or not self._is_system_defaulted

    def _written(self, pod: Pod, action: str) -> Constraints:
        known = self._by_shape.find((pod.shape, action))
        if known is not None:
            return known
        written = pod.spec.topology_spread_constraints
        keys = {key for item in written for key in item.match_label_keys if key in pod.labels}
        narrowing = {key: pod.labels[key] for key in sorted(keys)} if self._narrows else {}
        # Pods of other shapes often have the same constraints, and then share what is counted for them.
        encoded = (short_key(_encoder.encode(written)), action, tuple(narrowing.items()))
        known = self._by_text.find(encoded)
        if known is None:
            known = _parse(written, action, narrowing)
            self._by_text.put(encoded, known)
        if not keys:
            self._by_shape.put((pod.shape, action), known)
        return known

    def _defaults(self, pod: Pod) -> _Defaults:
        assert self._selectors is not None
        selector = self._selectors.of(pod)
        return _NO_DEFAULTS if selector is EVERYTHING else self._known.lookup(selector)

    def _with_selector(self, selector: LabelMatcher) -> _Defaults:
        return _Defaults(
            selector,
            tuple(replace(constraint, matcher=selector) for constraint in self._default_hard),
            tuple(replace(constraint, matcher=selector) for constraint in self._default_soft),
        )


def _parse(written: Iterable[TopologySpreadConstraint], action: str, labels: Mapping[str, str]) -> Constraints:
    return tuple(_constraint(item, labels) for item in written if item.when_unsatisfiable == action)


def _constraint(written: TopologySpreadConstraint, labels: Mapping[str, str]) -> SpreadConstraint:
    narrowing = {key: labels[key] for key in written.match_label_keys if key in labels}
    return SpreadConstraint(
        topology_key=written.topology_key,
        max_skew=written.max_skew,
        matcher=label_matcher(written.label_selector).also(narrowing),
        min_domains=1 if written.min_domains is None else written.min_domains,
        honors_affinity=written.node_affinity_policy in (None, HONOR),
        honors_taints=written.node_taints_policy == HONOR,
    )
