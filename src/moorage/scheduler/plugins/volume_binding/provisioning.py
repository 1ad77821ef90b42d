"""Dynamic provisioning for a claim: its class, allowed topologies, and storage capacity."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Generic, TypeVar

from msgspec import Struct

from moorage.common.errors import SelectorError
from moorage.kube.api.claims import NO_PROVISIONER, STORAGE, requested_storage, storage_class_name
from moorage.kube.api.quantity import unit_value
from moorage.kube.api.selectors import (
    NOTHING,
    LabelMatcher,
    NodeMatcher,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Requirement,
    label_matcher,
    node_matcher,
)
from moorage.kube.api.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from moorage.scheduler.framework.handle import Handle

T = TypeVar("T")


class ByTopology(Generic[T]):
    """Items in order of preference, each with the nodes that can use it (``None``: all nodes).

    Clusters have thousands of local disks, each bound to one host name: items that require values of a single label are
    looked up by label value. Only the other items are tested one by one.
    """

    def __init__(self, items: Iterable[tuple[T, NodeMatcher | LabelMatcher | None]]) -> None:
        self._items: list[T] = []
        self._tests: list[tuple[int, Callable[[Mapping[str, str]], bool]]] = []
        self._by_label: dict[str, dict[str, list[int]]] = {}
        self.keys: set[str] = set()
        for item, reach in items:
            self._add(item, reach)

    def first(self, labels: Mapping[str, str], excluded: Callable[[T], bool]) -> T | None:
        """Return the most preferred item for a node with these labels, without excluded items."""
        best = len(self._items)
        for key, by_value in self._by_label.items():
            for index in by_value.get(labels[key], ()) if key in labels else ():
                if index >= best:
                    break
                if not excluded(self._items[index]):
                    best = index
        for index, usable in self._tests:
            if index >= best:
                break
            if not excluded(self._items[index]) and usable(labels):
                best = index
        return self._items[best] if best < len(self._items) else None

    def _add(self, item: T, reach: NodeMatcher | LabelMatcher | None) -> None:
        index = len(self._items)
        self._items.append(item)
        if reach is None:
            self._tests.append((index, lambda _: True))
            return
        self.keys.update(requirement.key for requirement in list_requirements(reach))
        if isinstance(reach, NodeMatcher) and (len(reach.terms) != 1 or reach.terms[0].matches_nothing):
            sole_requirement = None
        else:
            requirements = list_requirements(reach)
            sole_requirement = requirements[0] if len(requirements) == 1 and requirements[0].operator == "In" else None
        if sole_requirement is None:
            matches = reach.matches if isinstance(reach, LabelMatcher) else partial(reach.matches, name="")
            self._tests.append((index, matches))
            return
        by_value = self._by_label.setdefault(sole_requirement.key, {})
        for value in sole_requirement.values:
            by_value.setdefault(value, []).append(index)


def list_requirements(reach: NodeMatcher | LabelMatcher) -> tuple[Requirement, ...]:
    """Return all label requirements of a selector."""
    if isinstance(reach, LabelMatcher):
        return reach.requirements
    return tuple(requirement for term in reach.terms for requirement in term.expressions)


class Refusal(Enum):
    """Reason why a volume cannot be provisioned on a node."""

    NOT_HERE = "the class makes no volumes, or none there"
    NO_SPACE = "no storage pool has enough room"
    UNKNOWN = "the class cannot be found"


class Provision(Struct, frozen=True):
    """A claim to provision, and the storage pool that it uses, if capacity is tracked."""

    claim: PersistentVolumeClaim
    pool: CSIStorageCapacity | None = None


class Provisioning(Struct, frozen=True):
    """Provisioning of volumes for a claim. ``problem`` is an error, reported when a node depends on it.

    If ``topologies`` or ``pools`` is ``None``, it restricts nothing.
    """

    claim: PersistentVolumeClaim
    problem: str = ""
    makes_volumes: bool = False
    topologies: NodeMatcher | None = None
    pools: ByTopology[CSIStorageCapacity] | None = None

    @property
    def keys(self) -> frozenset[str]:
        """The node labels that matter."""
        keys = {item.key for item in list_requirements(self.topologies)} if self.topologies is not None else set()
        return frozenset(keys | (self.pools.keys if self.pools is not None else set()))

    def on(self, labels: Mapping[str, str]) -> Provision | Refusal:
        """Return the provision for a node with these labels, or the reason against it."""
        if self.problem:
            return Refusal.UNKNOWN
        if not self.makes_volumes or (self.topologies is not None and not self.topologies.matches(labels, "")):
            return Refusal.NOT_HERE
        if self.pools is None:
            return Provision(self.claim)
        pool = self.pools.first(labels, lambda _: False)
        return Refusal.NO_SPACE if pool is None else Provision(self.claim, pool)


class Provisioners:
    """Finds classes, drivers and storage pools."""

    def __init__(self, handle: Handle) -> None:
        self._classes = handle.lister(StorageClass)
        self._drivers = handle.lister(CSIDriver)
        self._pools = handle.lister(CSIStorageCapacity)
        self._pools_version = -1
        self._pools_of_class: dict[str, list[tuple[int, CSIStorageCapacity, LabelMatcher]]] = {}

    def for_claim(self, claim: PersistentVolumeClaim) -> Provisioning:
        """Return how volumes for a claim are provisioned."""
        name = storage_class_name(claim)
        if not name:
            return Provisioning(claim, problem=f'no class for claim "{claim.key}"')
        storage_class = self._classes.get(name)
        if storage_class is None:
            return Provisioning(claim, problem=f'failed to find storage class "{name}"')
        if storage_class.provisioner in ("", NO_PROVISIONER):
            return Provisioning(claim)
        topologies = _topology_matcher(storage_class.allowed_topologies) if storage_class.allowed_topologies else None
        pools = self._find_pools(claim, storage_class)
        return Provisioning(claim, makes_volumes=True, topologies=topologies, pools=pools)

    def _find_pools(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass
    ) -> ByTopology[CSIStorageCapacity] | None:
        driver = self._drivers.get(storage_class.provisioner)
        if STORAGE not in claim.spec.resources.requests or driver is None or not driver.spec.storage_capacity:
            return None
        if self._pools_version != self._pools.version:
            self._pools_version = self._pools.version
            self._pools_of_class.clear()
            for pool in self._pools.list():
                limit = volume_limit(pool)
                if limit is not None:
                    entry = (limit, pool, _reach(pool))
                    self._pools_of_class.setdefault(pool.storage_class_name, []).append(entry)
        request, pools = requested_storage(claim), self._pools_of_class.get(storage_class.name, ())
        return ByTopology((pool, reach) for limit, pool, reach in pools if limit >= request)


def volume_limit(pool: CSIStorageCapacity) -> int | None:
    """Return the size of the largest volume a storage pool can create, or ``None`` if unknown."""
    limit = pool.capacity if pool.maximum_volume_size is None else pool.maximum_volume_size
    return None if limit is None else unit_value(limit)


def _reach(pool: CSIStorageCapacity) -> LabelMatcher:
    try:
        return label_matcher(pool.node_topology)
    except SelectorError:
        # Upstream logs the error and treats the pool as unreachable.
        return NOTHING


def _topology_matcher(terms: tuple[TopologySelectorTerm, ...]) -> NodeMatcher:
    """Convert allowed topologies to a node selector; empty and invalid terms match nothing."""
    return node_matcher(
        NodeSelector(
            node_selector_terms=tuple(
                NodeSelectorTerm(
                    match_expressions=tuple(
                        NodeSelectorRequirement(key=item.key, operator="In", values=item.values)
                        for item in term.match_label_expressions
                    )
                )
                for term in terms
            )
        )
    )
