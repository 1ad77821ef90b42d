"""Existing volumes that a claim can be bound to, the smallest first."""

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct, field

from moorage.common.errors import SelectorError
from moorage.kube.api.claims import (
    exact_capacity,
    exact_request,
    find_reach,
    is_bound_to,
    storage_class_name,
)
from moorage.kube.api.selectors import EVERYTHING, label_matcher
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim
from moorage.scheduler.framework.handle import Lister
from moorage.scheduler.plugins.volume_binding.assume_cache import AssumeCache
from moorage.scheduler.plugins.volume_binding.provisioning import ByTopology, list_requirements

FILESYSTEM: Final = "Filesystem"


class Candidates(Struct, frozen=True):
    """The volumes a claim can be bound to: those reserved for it, then all available by size.

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
                reach = find_reach(volume)
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
            selects = EVERYTHING if claim.spec.selector is None else label_matcher(claim.spec.selector)
        except SelectorError as error:
            problem = f"error creating internal label selector for claim: {claim.key}: {error}"
            return Candidates(claim, problem=problem)
        self._refresh()
        set_aside: list[PersistentVolume] = []
        available: list[PersistentVolume] = []
        for name in self._names.get(storage_class_name(claim), ()):
            volume = self._cache.get(name)
            if volume is None or not _may_hold(claim, volume):
                continue
            if volume.spec.claim_ref is not None:
                set_aside.append(volume)
            elif (
                volume.status.phase == "Available"
                and selects.matches(volume.labels)
                and storage_class_name(volume) == storage_class_name(claim)
                and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
            ):
                available.append(volume)
        # The sort is stable; upstream iterates over a map, in random order.
        available.sort(key=exact_capacity)
        ordered = ByTopology((volume, find_reach(volume)) for volume in available)
        reaches = [reach for volume in set_aside if (reach := find_reach(volume)) is not None]
        keys = frozenset(item.key for reach in reaches for item in list_requirements(reach))
        return Candidates(claim, tuple(set_aside), ordered, keys | ordered.keys)

    def _refresh(self) -> None:
        if self._version == self._lister.version:
            return
        changed_names = self._lister.changed_since(self._version) if self._version >= 0 else None
        self._version = self._lister.version
        if changed_names is None:
            self._class_of.clear()
            self._names.clear()
            changed_names = [volume.name for volume in self._lister.list()]
        for name in changed_names:
            volume, before = self._lister.get(name), self._class_of.get(name)
            now = None if volume is None else storage_class_name(volume)
            if before != now and before is not None:
                del self._class_of[name]
                del self._names[before][name]
            if before != now and now is not None:
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
