"""Existing volumes that a claim can be bound to, the smallest first."""

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct, field

from moorage.common.errors import SelectorError
from moorage.kube.api.claims import (
    class_of_claim,
    class_of_volume,
    exact_capacity,
    exact_request,
    is_bound_to,
    reach_of_volume,
)
from moorage.kube.api.selectors import EVERYTHING, LabelMatcher, label_matcher
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim
from moorage.scheduler.framework.handle import Lister
from moorage.scheduler.plugins.volume_binding.assume_cache import AssumeCache
from moorage.scheduler.plugins.volume_binding.by_topology import ByTopology, list_requirements

FILESYSTEM: Final = "Filesystem"


class MatchingError(Exception):
    """A claim cannot be matched with volumes; the message is for users."""


class Candidates(Struct, frozen=True):
    """The volumes a claim can be bound to: those set aside for it, then all available by size.

    ``problem`` is an error, reported when a node depends on it.
    """

    claim: PersistentVolumeClaim
    set_aside: tuple[PersistentVolume, ...] = ()
    available: ByTopology[PersistentVolume] = field(default_factory=lambda: ByTopology(()))
    keys: frozenset[str] = frozenset()
    problem: str = ""

    def best(self, labels: Mapping[str, str], taken_names: Collection[str]) -> PersistentVolume | None:
        """Choose the volume for a node with these labels, without volumes used by the pod's other claims.

        A volume that is pre-bound to the claim is the only choice, even if the node does not reach it.
        """
        for volume in self.set_aside:
            if volume.name not in taken_names:
                reach = reach_of_volume(volume)
                return volume if reach is None or reach.matches(labels, "") else None
        return self.available.first(labels, lambda volume: volume.name in taken_names)


class StaticVolumes:
    """All volumes by storage class, including assumed changes."""

    def __init__(self, lister: Lister[PersistentVolume], cache: AssumeCache[PersistentVolume]) -> None:
        self._lister = lister
        self._cache = cache
        self._version = -1
        self._class_of: dict[str, str] = {}
        self._names: dict[str, dict[str, None]] = {}

    def candidates(self, claim: PersistentVolumeClaim) -> Candidates:
        """Collect the volumes that a claim can be bound to."""
        try:
            return self._candidates(claim)
        except MatchingError as error:
            return Candidates(claim, problem=str(error))

    def _candidates(self, claim: PersistentVolumeClaim) -> Candidates:
        selects = _selector(claim)
        self._refresh()
        set_aside: list[PersistentVolume] = []
        available: list[PersistentVolume] = []
        for name in self._names.get(class_of_claim(claim), ()):
            volume = self._cache.get(name)
            if volume is None or not _may_hold(claim, volume):
                continue
            if volume.spec.claim_ref is not None:
                set_aside.append(volume)
            elif _is_available(claim, volume, selects):
                available.append(volume)
        # The sort is stable; upstream iterates over a map, in random order.
        available.sort(key=exact_capacity)
        ordered = ByTopology((volume, reach_of_volume(volume)) for volume in available)
        return Candidates(claim, tuple(set_aside), ordered, _label_keys(set_aside) | ordered.keys)

    def _refresh(self) -> None:
        if self._version == self._lister.version:
            return
        changed = self._lister.changed_since(self._version) if self._version >= 0 else None
        self._version = self._lister.version
        if changed is None:
            self._class_of.clear()
            self._names.clear()
            changed = [volume.name for volume in self._lister.list()]
        for name in changed:
            self._file(name, self._lister.get(name))

    def _file(self, name: str, volume: PersistentVolume | None) -> None:
        before = self._class_of.get(name)
        now = None if volume is None else class_of_volume(volume)
        if before == now:
            return
        if before is not None:
            del self._class_of[name]
            del self._names[before][name]
        if now is not None:
            self._class_of[name] = now
            self._names.setdefault(now, {})[name] = None


def _may_hold(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    if volume.spec.claim_ref is not None and not is_bound_to(volume, claim):
        return False
    return (
        exact_capacity(volume) >= exact_request(claim)
        and (volume.spec.volume_mode or FILESYSTEM) == (claim.spec.volume_mode or FILESYSTEM)
        and (volume.spec.volume_attributes_class_name or "") == (claim.spec.volume_attributes_class_name or "")
        and not volume.is_terminating
    )


def _selector(claim: PersistentVolumeClaim) -> LabelMatcher:
    if claim.spec.selector is None:
        return EVERYTHING
    try:
        return label_matcher(claim.spec.selector)
    except SelectorError as error:
        raise MatchingError(f"error creating internal label selector for claim: {claim.key}: {error}") from error


def _is_available(claim: PersistentVolumeClaim, volume: PersistentVolume, selects: LabelMatcher) -> bool:
    return (
        volume.status.phase == "Available"
        and selects.matches(volume.labels)
        and class_of_volume(volume) == class_of_claim(claim)
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    )


def _label_keys(volumes: Collection[PersistentVolume]) -> frozenset[str]:
    reaches = (reach_of_volume(volume) for volume in volumes)
    return frozenset(item.key for reach in reaches if reach is not None for item in list_requirements(reach))
