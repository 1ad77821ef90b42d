"""Scores nodes by the utilization of storage by a pod's new volumes."""

from collections.abc import Callable, Sequence
from typing import Final

from moorage.kube.api.arithmetic import round_half_away
from moorage.kube.api.claims import STORAGE, class_of_claim, requested_storage
from moorage.kube.api.quantity import value
from moorage.scheduler.config.args import MAX_SHAPE_SCORE, UtilizationShapePoint
from moorage.scheduler.framework.status import MAX_NODE_SCORE
from moorage.scheduler.plugins.node_resources_fit.strategies import broken_linear
from moorage.scheduler.plugins.volume_binding.pod_volumes import PodVolumes

FULL: Final = 100


def scorer(points: Sequence[UtilizationShapePoint]) -> Callable[[PodVolumes], int]:
    """Make the function that scores what a node on_nodes, from the configured shape."""
    shape = [(point.utilization, point.score * (MAX_NODE_SCORE // MAX_SHAPE_SCORE)) for point in points]

    def score(volumes: PodVolumes) -> int:
        classes = _storage_by_class(volumes)
        if not classes:
            return 0
        total = sum(broken_linear(shape, _utilization(*storage)) for storage in classes.values())
        return round_half_away(total / len(classes))

    return score


def _utilization(requested: int, capacity: int) -> int:
    return FULL if capacity == 0 or requested > capacity else requested * FULL // capacity


def _storage_by_class(volumes: PodVolumes) -> dict[str, tuple[int, int]]:
    """Sum up requests and capacity per class: of bound volumes if there are any, else of storage pools."""
    classes: dict[str, tuple[int, int]] = {}
    for binding in volumes.bindings:
        name = binding.volume.spec.storage_class_name
        requested, capacity = classes.get(name, (0, 0))
        size = value(binding.volume.spec.capacity.get(STORAGE, 0))
        classes[name] = (requested + requested_storage(binding.claim), capacity + size)
    if classes:
        return classes
    for provision in volumes.provisions:
        if provision.pool is not None:
            name = provision.claim.spec.storage_class_name or class_of_claim(provision.claim)
            requested, _ = classes.get(name, (0, 0))
            # Claims of one class share the pool, so its capacity counts once: that of the last claim.
            classes[name] = (requested + requested_storage(provision.claim), value(provision.pool.capacity or 0))
    return classes
