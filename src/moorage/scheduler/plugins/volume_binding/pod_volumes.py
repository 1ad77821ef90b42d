"""The volumes for a pod's claims on each node, and the utilization of storage by them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct, field

from moorage.kube.api.arithmetic import round_half_away
from moorage.kube.api.claims import STORAGE, requested_storage, storage_class_name
from moorage.kube.api.quantity import unit_value
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim
from moorage.scheduler.config.args import MAX_SHAPE_SCORE, UtilizationShapePoint
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.status import MAX_NODE_SCORE
from moorage.scheduler.plugins.node_resources_fit.strategies import broken_linear
from moorage.scheduler.plugins.volume_binding.bound_volumes import BoundVolume
from moorage.scheduler.plugins.volume_binding.provisioning import Provision, Provisioning, Refusal
from moorage.scheduler.plugins.volume_binding.static_volumes import Candidates

MAX_TABLE: Final = 1 << 20
FULL: Final = 100


class StaticBinding(Struct, frozen=True):
    """A volume to bind to a claim."""

    volume: PersistentVolume
    claim: PersistentVolumeClaim


class PodVolumes(Struct, frozen=True):
    """The volumes of a node for the pod's unbound claims. ``problem`` is an error message."""

    bindings: tuple[StaticBinding, ...] = ()
    provisions: tuple[Provision, ...] = ()
    has_volumes: bool = True
    has_space: bool = True
    problem: str = ""


NO_VOLUMES: Final = PodVolumes(has_volumes=False)
NO_SPACE: Final = PodVolumes(has_space=False)
NOTHING_NEEDED: Final = PodVolumes()


class VolumeFinder(Struct):
    """The volumes of a pod's bound claims, and its unbound claims.

    Results depend on a few node labels only (``keys``), so nodes with equal labels share them. ``selected`` are the
    nodes that an earlier attempt selected for some of the claims: no other node is feasible.
    """

    bound: tuple[BoundVolume | None, ...] = ()
    selected: frozenset[str] = frozenset()
    to_match: Sequence[tuple[Candidates, Provisioning]] = ()
    to_provision: Sequence[Provisioning] = ()
    keys: tuple[str, ...] = ()
    _by_labels: dict[tuple[str | None, ...], PodVolumes] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        """Whether there are unbound claims."""
        return bool(self.to_match or self.to_provision)

    def on_node(self, name: str, labels: Mapping[str, str]) -> PodVolumes:
        """Return the volumes of a node for the unbound claims."""
        if not self.waits:
            return NOTHING_NEEDED
        if self.selected and self.selected != {name}:
            return NO_VOLUMES
        return self._volumes_for_labels(labels)

    def on_nodes(self, nodes: NodeTable) -> tuple[list[PodVolumes], RowArray]:
        """Return the distinct volumes of a window's nodes, and for each node the index of its volumes."""
        if not self.selected:
            representatives, groups = distinct_nodes(self.keys, nodes)
            return [self._volumes_for_labels(nodes[index].labels) for index in representatives.tolist()], groups
        groups = np.zeros(len(nodes), dtype=np.int64)
        node = nodes.find(next(iter(self.selected))) if len(self.selected) == 1 else None
        if node is None:
            return [NO_VOLUMES], groups
        groups[nodes.rows == node.row] = 1
        return [NO_VOLUMES, self._volumes_for_labels(node.labels)], groups

    def _volumes_for_labels(self, labels: Mapping[str, str]) -> PodVolumes:
        projection = tuple(labels.get(key) for key in self.keys)
        volumes = self._by_labels.get(projection)
        if volumes is None:
            volumes = self._by_labels[projection] = self._find_volumes(labels)
        return volumes

    def _find_volumes(self, labels: Mapping[str, str]) -> PodVolumes:
        taken_names: set[str] = set()
        bindings: list[StaticBinding] = []
        to_provision = list(self.to_provision)
        for candidates, otherwise in self.to_match:
            if candidates.problem:
                return PodVolumes(problem=candidates.problem)
            volume = candidates.best(labels, taken_names)
            if volume is None:
                to_provision.append(otherwise)
            else:
                taken_names.add(volume.name)
                bindings.append(StaticBinding(volume, candidates.claim))
        provisions: list[Provision] = []
        for provisioning in to_provision:
            provision = provisioning.on(labels)
            if not isinstance(provision, Provision):
                return _REFUSED.get(provision) or PodVolumes(problem=provisioning.problem)
            provisions.append(provision)
        return PodVolumes(tuple(bindings), tuple(provisions))


_REFUSED: Final = {Refusal.NOT_HERE: NO_VOLUMES, Refusal.NO_SPACE: NO_SPACE}


def distinct_nodes(keys: Sequence[str], nodes: NodeTable) -> tuple[RowArray, RowArray]:
    """Group the nodes of a window by labels: a window index for each group, and the group of each node."""
    combined = np.zeros(len(nodes), dtype=np.int64)
    size = 1
    for key in keys:
        column = nodes.label(key)
        if size * len(column.values) > MAX_TABLE:
            # Renumbering keeps the combined codes small: only combinations that occur get a number.
            combined, size = _renumber(combined, size)
        combined = combined * len(column.values) + column.codes
        size *= len(column.values)
    groups, _ = _renumber(combined, size)
    representatives = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.int64)
    representatives[groups[::-1]] = np.arange(len(nodes) - 1, -1, -1)
    return representatives, groups


def _renumber(numbers: RowArray, size: int) -> tuple[RowArray, int]:
    """Renumber the values that occur from 0."""
    if size > MAX_TABLE:
        distinct, inverse = np.unique(numbers, return_inverse=True)
        return inverse.astype(np.int64, copy=False), len(distinct)
    occurs = np.zeros(size, dtype=np.bool_)
    occurs[numbers] = True
    table = np.cumsum(occurs) - 1
    return table[numbers], int(np.count_nonzero(occurs))


def make_scorer(points: Sequence[UtilizationShapePoint]) -> Callable[[PodVolumes], int]:
    """Return a function that scores the utilization of storage by new volumes, with the configured shape."""
    shape = [(point.utilization, point.score * (MAX_NODE_SCORE // MAX_SHAPE_SCORE)) for point in points]

    def score(volumes: PodVolumes) -> int:
        classes = _storage_by_class(volumes)
        if not classes:
            return 0
        shares = (
            FULL if capacity == 0 or requested > capacity else requested * FULL // capacity
            for requested, capacity in classes.values()
        )
        return round_half_away(sum(broken_linear(shape, share) for share in shares) / len(classes))

    return score


def _storage_by_class(volumes: PodVolumes) -> dict[str, tuple[int, int]]:
    """Sum up requests and capacity per class: of bound volumes if there are any, else of storage pools."""
    classes: dict[str, tuple[int, int]] = {}
    for binding in volumes.bindings:
        name = binding.volume.spec.storage_class_name
        requested, capacity = classes.get(name, (0, 0))
        size = unit_value(binding.volume.spec.capacity.get(STORAGE, 0))
        classes[name] = (requested + requested_storage(binding.claim), capacity + size)
    if classes:
        return classes
    for provision in volumes.provisions:
        if provision.pool is not None:
            name = provision.claim.spec.storage_class_name or storage_class_name(provision.claim)
            requested, _ = classes.get(name, (0, 0))
            # Claims of the same class share the pool, so its capacity counts once: that of the last claim.
            classes[name] = (requested + requested_storage(provision.claim), unit_value(provision.pool.capacity or 0))
    return classes
