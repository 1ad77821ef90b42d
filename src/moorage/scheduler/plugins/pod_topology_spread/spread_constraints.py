"""Spread constraints of a pod (its own, or defaults with a deduced selector), and the pod counts of their domains."""

from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from moorage.common.caches import LRU, MAX_KEY_LABELS
from moorage.common.errors import SelectorError
from moorage.kube.api.affinity import TopologySpreadConstraint
from moorage.kube.api.cluster import Service
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import EVERYTHING, LabelMatcher, label_matcher, label_set_matcher
from moorage.kube.api.shape import Shape
from moorage.kube.api.workloads import ReplicaSet, ReplicationController, StatefulSet
from moorage.scheduler.config.args import SYSTEM_DEFAULTING, PodTopologySpreadArgs
from moorage.scheduler.framework.columns import next_version
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.node_selection import all_of
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray, IntArray
from moorage.scheduler.plugins.node_affinity import find_node_affinity, read_demands
from moorage.scheduler.plugins.taint_toleration import repels
from moorage.scheduler.state.domains import DomainCounts, Domains, DomainTally, Labels, nodes_lacking
from moorage.scheduler.state.pod_index import PodIndex, SelectorCount

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HONOR: Final = "Honor"
MAX_KNOWN: Final = 1024

SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME_LABEL, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE_LABEL, when_unsatisfiable=SOFT),
)


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
        """Return the incremental count of the same pods, or ``None`` if the selector is empty."""
        if self.matcher.is_everything:
            return None
        return index.count(frozenset((namespace,)), self.matcher, terminating=False)


Constraints = tuple[SpreadConstraint, ...]
NO_CONSTRAINTS: Final[Constraints] = ()


def decisive_constraints(constraints: Constraints, nodes: NodeTable) -> Constraints:
    """Return the constraints that decide about every node: one with a key that no node has, otherwise all.

    Nodes without one of the keys form no domain. So no domain of the other constraints has a pod, or is too full.
    """
    for constraint in constraints:
        if not nodes.may_have_label(constraint.topology_key):
            return (constraint,)
    return constraints


class ConstraintSource:
    """Returns the constraints of pods for one profile."""

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        self._is_system_defaulted = args.defaulting_type == SYSTEM_DEFAULTING
        defaults = SYSTEM_DEFAULTS if self._is_system_defaulted else args.default_constraints
        self._defaults = {action: _parse(defaults, action, {}) for action in (HARD, SOFT)}
        # A lister starts a watch, so create it only if there are default constraints.
        self._selectors = DefaultSelectors(handle) if defaults else None
        self._narrows = handle.features.enabled("MatchLabelKeysInPodTopologySpread")
        self._by_shape: LRU[tuple[Shape, str], Constraints] = LRU("spread constraints by shape", MAX_KNOWN)

    def hard(self, pod: Pod) -> Constraints:
        """Return the pod's hard constraints (DoNotSchedule)."""
        return (
            self._parse_constraints(pod, HARD)
            if pod.spec.topology_spread_constraints
            else self._default_constraints(pod, HARD)
        )

    def soft(self, pod: Pod) -> Constraints:
        """Return the pod's soft constraints (ScheduleAnyway)."""
        return (
            self._parse_constraints(pod, SOFT)
            if pod.spec.topology_spread_constraints
            else self._default_constraints(pod, SOFT)
        )

    def needs_all_keys(self, pod: Pod) -> bool:
        """Return whether scoring ignores nodes without one of the keys. System defaults do not require all keys."""
        return bool(pod.spec.topology_spread_constraints) or not self._is_system_defaulted

    def _parse_constraints(self, pod: Pod, action: str) -> Constraints:
        constraints = self._by_shape.find((pod.shape, action))
        if constraints is not None:
            return constraints
        specs = pod.spec.topology_spread_constraints
        labels = pod.labels
        keys = {key for item in specs for key in item.match_label_keys if key in labels}
        narrowing = {key: labels[key] for key in sorted(keys)} if self._narrows else {}
        constraints = _parse(specs, action, narrowing)
        if not keys:
            self._by_shape.put((pod.shape, action), constraints)
        return constraints

    def _default_constraints(self, pod: Pod, action: str) -> Constraints:
        defaults = self._defaults[action]
        selector = self._selectors.of(pod) if defaults and self._selectors is not None else EVERYTHING
        if selector is EVERYTHING:
            return NO_CONSTRAINTS
        return tuple([replace(constraint, matcher=selector) for constraint in defaults])


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


Key = tuple[str | frozenset[tuple[str, str]], ...]
"""Namespace and labels of a pod, and kind and name of its owner if it has one."""


class _Deduced(NamedTuple):
    owner: KubeObject | None
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
        self._deduced: LRU[Key, _Deduced] = LRU("default spread selectors", MAX_KNOWN)

    def of(self, pod: Pod) -> LabelMatcher:
        """Return the selector for a pod; ``EVERYTHING`` if no service or owner selects it."""
        if self._services.version != self._services_version:
            self._services_version = self._services.version
            self._deduced.clear()
        metadata = pod.metadata
        labels = frozenset(metadata.labels.items())
        owner = self._owner(pod) if metadata.owner_references else None
        key: Key = (metadata.namespace, labels)
        if owner is not None:
            key = (*key, type(owner).__name__, owner.name)
        deduced = self._deduced.find(key)
        if deduced is None or (deduced.owner is not owner and _find_selector(deduced.owner) != _find_selector(owner)):
            deduced = _Deduced(owner, self._deduce(pod, owner))
            if len(labels) <= MAX_KEY_LABELS:
                self._deduced.put(key, deduced)
        return deduced.selector

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
        requirements = label_set_matcher(labels).requirements
        if isinstance(owner, ReplicaSet | StatefulSet):
            # Upstream ignores invalid selectors.
            with suppress(SelectorError):
                requirements += label_matcher(owner.spec.selector).requirements
        return LabelMatcher(requirements) if requirements else EVERYTHING


def _find_selector(owner: KubeObject | None) -> object:
    return owner.spec.selector if isinstance(owner, ReplicaSet | StatefulSet | ReplicationController) else None


class Inclusion:
    """Evaluates a pod's node selector, required node affinity and tolerations for nodes.

    ``by_number`` as in :meth:`~moorage.kube.api.affinity.Toleration.tolerates`.
    """

    def __init__(self, pod: Pod, *, by_number: bool = False) -> None:
        self._pod = pod
        self._by_number = by_number
        is_choosy = bool(pod.spec.node_selector) or find_node_affinity(pod).required is not None
        self._demands = read_demands(pod) if is_choosy else None

    def sign(self, constraints: Constraints) -> Hashable:
        """Return a key of the included nodes: pods with equal keys include the same nodes."""
        honors_affinity = any(constraint.honors_affinity for constraint in constraints)
        honors_taints = any(constraint.honors_taints for constraint in constraints)
        return self._demands if honors_affinity else None, self._pod.spec.tolerations if honors_taints else ()

    def includes(self, constraint: SpreadConstraint, node: NodeInfo) -> bool:
        """Return whether the policies of a constraint include a node."""
        if constraint.honors_affinity and self._demands is not None and not self._demands.accepts(node.node):
            return False
        return not (constraint.honors_taints and repels(node.taints, self._pod, by_number=self._by_number))

    def included(self, constraint: SpreadConstraint, nodes: NodeTable) -> BoolArray | None:
        """Find the included nodes. ``None`` means all."""
        accepted = tolerated = None
        if constraint.honors_affinity and self._demands is not None:
            accepted = self._demands.accepted_nodes(nodes)
        if constraint.honors_taints:
            pod, by_number = self._pod, self._by_number
            tolerated = nodes.taints.where(lambda taints: not repels(taints, pod, by_number=by_number))
        return all_of((accepted, tolerated))


MORE_THAN_ANY: Final = 2**31 - 1


class SpreadTally:
    """The number of pods in each domain of a constraint. ``where`` marks the rows that count, ``None`` means all.

    Valid until a node changes, or the index drops a count. :meth:`refresh` follows the pods only.
    """

    __slots__ = ("_domains", "codes", "domain_count", "eligible", "lacking", "tally", "values")

    def __init__(
        self, constraint: SpreadConstraint, namespace: str, index: PodIndex, column: Labels, where: BoolArray | None
    ) -> None:
        self.values = column.values
        self.codes: IntArray = column.codes.astype(np.int64)
        self.lacking = nodes_lacking(column)
        # Rows without a domain get an extra code after all domains.
        into, nowhere = self.codes, len(self.values)
        if self.lacking is not None:
            # As upstream, a missing label equals the value "", so these pods count in the domain of the empty value.
            empty = self.values.find("")
            into = np.where(self.lacking, nowhere if empty is None else empty, into)
        if where is not None:
            into = np.where(where, into, nowhere)
        self._domains = Domains(self.values, into, nowhere, next_version())
        inhabited = np.bincount(self._domains.codes, minlength=len(self.values) + 1)[: len(self.values)]
        self.eligible: BoolArray = np.greater(inhabited, 0)
        """The domains with at least one row that counts."""
        self.domain_count = int(np.count_nonzero(self.eligible))
        pods = constraint.counted_pods(namespace, index)
        self.tally = DomainTally(() if pods is None else ((pods, 1),))
        self.refresh()

    def refresh(self) -> None:
        """Apply added and removed pods."""
        self.tally.refresh(self._domains)

    def lowest(self) -> int:
        """Return the number of pods in the eligible domain with the fewest pods."""
        table = self.tally.table(self.values)
        if self.domain_count == len(table):
            return int(np.minimum.reduce(table, initial=MORE_THAN_ANY))
        return int(np.minimum.reduce(table, where=self.eligible, initial=MORE_THAN_ANY))


Counts = DomainTally | DomainCounts
"""The pods per domain: the tally of the cluster, or a changed copy."""
