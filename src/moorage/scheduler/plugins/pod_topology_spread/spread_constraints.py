"""Spread constraints of a pod: its own, or default constraints with a selector deduced from services and owners."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage.common.caches import LRU, MAX_KEY_LABELS, short_key
from moorage.common.errors import SelectorError
from moorage.kube.api.affinity import TopologySpreadConstraint
from moorage.kube.api.cluster import Service
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import EVERYTHING, LabelMatcher, LabelSelector, label_matcher, label_set_matcher
from moorage.kube.api.shape import Shape
from moorage.kube.api.workloads import ReplicaSet, ReplicationController, StatefulSet
from moorage.scheduler.config.args import SYSTEM_DEFAULTING, PodTopologySpreadArgs
from moorage.scheduler.framework.handle import Handle
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
    """One parsed constraint."""

    topology_key: str
    max_skew: int
    matcher: LabelMatcher
    min_domains: int
    honors_affinity: bool
    honors_taints: bool

    def counts(self, pod: Pod, namespace: str) -> bool:
        """Return whether a pod on a node counts; as upstream, an empty selector counts no pod."""
        return (
            pod.namespace == namespace
            and not pod.is_terminating
            and not self.matcher.is_everything
            and self.matcher.matches(pod.labels)
        )

    def counted_pods(self, namespace: str, index: PodIndex) -> SelectorCount | None:
        """Return the incremental count of the same pods; ``None`` if the selector is empty."""
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
    """Returns the constraints of pods for one profile."""

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        self._is_system_defaulted = args.defaulting_type == SYSTEM_DEFAULTING
        defaults = SYSTEM_DEFAULTS if self._is_system_defaulted else args.default_constraints
        self._default_hard = _parse(defaults, HARD, {})
        self._default_soft = _parse(defaults, SOFT, {})
        # A lister starts a watch, so create it only if there are default constraints.
        self._selectors = DefaultSelectors(handle) if defaults else None
        self._known: LRU[LabelMatcher, _Defaults] = LRU("default spread constraints", MAX_KNOWN, self._with_selector)
        self._narrows = handle.features.enabled("MatchLabelKeysInPodTopologySpread")
        self._by_shape: LRU[tuple[Shape, str], Constraints] = LRU("spread constraints by shape", MAX_KNOWN)
        self._by_text: LRU[tuple[bytes, str, LabelPairs], Constraints] = LRU("spread constraints by text", MAX_KNOWN)

    def hard(self, pod: Pod) -> Constraints:
        """Return the pod's hard constraints (DoNotSchedule)."""
        if pod.spec.topology_spread_constraints:
            return self._written(pod, HARD)
        return self._defaults(pod).hard if self._default_hard else NO_CONSTRAINTS

    def soft(self, pod: Pod) -> Constraints:
        """Return the pod's soft constraints (ScheduleAnyway)."""
        if pod.spec.topology_spread_constraints:
            return self._written(pod, SOFT)
        return self._defaults(pod).soft if self._default_soft else NO_CONSTRAINTS

    def needs_all_keys(self, pod: Pod) -> bool:
        """Return whether scoring ignores nodes without one of the keys; system defaults do not require all keys."""
        return bool(pod.spec.topology_spread_constraints) or not self._is_system_defaulted

    def _written(self, pod: Pod, action: str) -> Constraints:
        constraints = self._by_shape.find((pod.shape, action))
        if constraints is not None:
            return constraints
        specs = pod.spec.topology_spread_constraints
        keys = {key for item in specs for key in item.match_label_keys if key in pod.labels}
        narrowing = {key: pod.labels[key] for key in sorted(keys)} if self._narrows else {}
        # Pods of other shapes often have the same constraints, and then share the counts.
        encoded = (short_key(_encoder.encode(specs)), action, tuple(narrowing.items()))
        constraints = self._by_text.find(encoded)
        if constraints is None:
            constraints = _parse(specs, action, narrowing)
            self._by_text.put(encoded, constraints)
        if not keys:
            self._by_shape.put((pod.shape, action), constraints)
        return constraints

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


def _parse(specs: Iterable[TopologySpreadConstraint], action: str, labels: Mapping[str, str]) -> Constraints:
    return tuple(_constraint(item, labels) for item in specs if item.when_unsatisfiable == action)


def _constraint(spec: TopologySpreadConstraint, labels: Mapping[str, str]) -> SpreadConstraint:
    narrowing = {key: labels[key] for key in spec.match_label_keys if key in labels}
    return SpreadConstraint(
        topology_key=spec.topology_key,
        max_skew=spec.max_skew,
        matcher=label_matcher(spec.label_selector).also(narrowing),
        min_domains=1 if spec.min_domains is None else spec.min_domains,
        honors_affinity=spec.node_affinity_policy in (None, HONOR),
        honors_taints=spec.node_taints_policy == HONOR,
    )


LabelSet = frozenset[tuple[str, str]]
Key = tuple[str, LabelSet, str, str]


class _Known(NamedTuple):
    owner: KubeObject
    selector: LabelMatcher


class DefaultSelectors:
    """Deduces selectors, and caches them by labels and owner until a service changes.

    A replica set changes with each of its pods, so owners are compared by selector, not by version.
    """

    def __init__(self, handle: Handle) -> None:
        self._services = handle.lister(Service)
        self._controllers = handle.lister(ReplicationController)
        self._replica_sets = handle.lister(ReplicaSet)
        self._stateful_sets = handle.lister(StatefulSet)
        self._services_version = -1
        self._unowned: LRU[tuple[str, LabelSet], LabelMatcher] = LRU("service selectors", MAX_KNOWN)
        self._owned: LRU[Key, _Known] = LRU("owner selectors", MAX_KNOWN)

    def of(self, pod: Pod) -> LabelMatcher:
        """Return the selector for a pod; ``EVERYTHING`` if no service or owner selects it."""
        if self._services.version != self._services_version:
            self._services_version = self._services.version
            self._unowned.clear()
            self._owned.clear()
        metadata = pod.metadata
        labels = frozenset(metadata.labels.items())
        if metadata.owner_references and (owner := self._owner(pod)) is not None:
            return self._of_owned(pod, owner, labels)
        key = metadata.namespace, labels
        selector = self._unowned.find(key)
        if selector is None:
            selector = self._deduce(pod, None)
            if len(labels) <= MAX_KEY_LABELS:
                self._unowned.put(key, selector)
        return selector

    def _of_owned(self, pod: Pod, owner: KubeObject, labels: LabelSet) -> LabelMatcher:
        key = (pod.namespace, labels, type(owner).__name__, owner.name)
        cached = self._owned.find(key)
        if cached is None or not _same_selector(cached.owner, owner):
            cached = _Known(owner, self._deduce(pod, owner))
            if len(labels) <= MAX_KEY_LABELS:
                self._owned.put(key, cached)
        return cached.selector

    def _owner(self, pod: Pod) -> KubeObject | None:
        reference = pod.metadata.controller
        if reference is None:
            return None
        match reference.api_version, reference.kind:
            case "v1", "ReplicationController":
                return self._controllers.get(reference.name, pod.namespace)
            case "apps/v1", "ReplicaSet":
                return self._replica_sets.get(reference.name, pod.namespace)
            case "apps/v1", "StatefulSet":
                return self._stateful_sets.get(reference.name, pod.namespace)
            case _:
                return None

    def _deduce(self, pod: Pod, owner: KubeObject | None) -> LabelMatcher:
        labels: dict[str, str] = {}
        for service in self._services.list(pod.namespace):
            selector = service.spec.selector
            if selector is not None and selector.items() <= pod.labels.items():
                labels.update(selector)
        if isinstance(owner, ReplicationController):
            labels.update(owner.spec.selector or {})
        matcher = _also_owner(label_set_matcher(labels), _find_selector(owner))
        return EVERYTHING if matcher.is_everything else matcher


def _also_owner(matcher: LabelMatcher, selector: LabelSelector | None) -> LabelMatcher:
    try:
        owned = label_matcher(selector)
    except SelectorError:
        # Upstream ignores invalid selectors.
        return matcher
    return matcher if owned.is_nothing else LabelMatcher((*matcher.requirements, *owned.requirements))


def _find_selector(owner: KubeObject | None) -> LabelSelector | None:
    return owner.spec.selector if isinstance(owner, ReplicaSet | StatefulSet) else None


def _same_selector(left: KubeObject, right: KubeObject) -> bool:
    if left is right:
        return True
    if isinstance(left, ReplicationController) and isinstance(right, ReplicationController):
        return left.spec.selector == right.spec.selector
    return _find_selector(left) == _find_selector(right)
