"""Volumes of a pod that a CSI driver must attach, under unique names."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from moorage.common.errors import MigrationError
from moorage.kube.api.claims import ClaimUse, claim_use, class_of_claim, ownership_problem
from moorage.kube.api.csi_migration import (
    BY_PLUGIN,
    UNCOUNTED_PLUGINS,
    CSIName,
    csi_name_in_line,
    csi_name_of_volume,
    migration_in_line,
    migration_of_volume,
    takes_part_in_migration,
)
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.kube.api.volume import Volume
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.not_found import claim_not_found

# A prefix that real volume handles cannot have; upstream uses random letters.
NOT_YET_PROVISIONED: Final = "\0not-yet-provisioned-"


class UnattachableError(Exception):
    """The volumes of a pod cannot be determined; ``status`` is the filter's result for the node."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class VolumeDependencies(Struct, frozen=True):
    """The claims and volumes that a pod's attachments depend on."""

    claims: tuple[str, ...]
    volumes: tuple[str, ...]


class AttachableVolumes:
    """Finds the volumes of pods. In-tree disks count where they are migrated: on nodes with a CSINode object."""

    def __init__(self, handle: Handle) -> None:
        self._claims = handle.lister(PersistentVolumeClaim)
        self._volumes = handle.lister(PersistentVolume)
        self._classes = handle.lister(StorageClass)

    def find_new_volumes(self, pod: Pod, *, migrated: bool) -> dict[CSIName, str]:
        """Return the volumes of a pending pod with their drivers; raise UnattachableError if a claim is missing."""
        names: dict[CSIName, str] = {}
        for volume in pod.spec.volumes:
            use = claim_use(pod, volume)
            if use is None:
                name = _in_line(volume) if migrated else None
            else:
                claim = self._claim(pod, use)
                if claim is None:
                    problem = f"looking up PVC {pod.namespace}/{use.name}: {claim_not_found(use.name)}"
                    raise UnattachableError(Status.unresolvable(problem))
                name = self._of_claim(claim, migrated=migrated)
            if name is not None:
                names[name] = name.driver
        return names

    def find_placed_volumes(self, pod: Pod, *, migrated: bool) -> Iterator[CSIName]:
        """Iterate over the volumes of a pod on a node; missing claims are ignored."""
        for volume in pod.spec.volumes:
            use = claim_use(pod, volume)
            if use is None:
                name = _in_line(volume) if migrated else None
            else:
                claim = self._claim(pod, use)
                name = None if claim is None else self._of_claim(claim, migrated=migrated)
            if name is not None:
                yield name

    def find_dependencies(self, pod: Pod) -> VolumeDependencies:
        """Return the objects that a pod's volumes depend on, besides storage classes."""
        uses = [use for volume in pod.spec.volumes if (use := claim_use(pod, volume)) is not None]
        claims = [self._claims.get(use.name, pod.namespace) for use in uses]
        return VolumeDependencies(
            tuple(f"{pod.namespace}/{use.name}" for use in uses),
            tuple(claim.spec.volume_name for claim in claims if claim is not None and claim.spec.volume_name),
        )

    def _claim(self, pod: Pod, use: ClaimUse) -> PersistentVolumeClaim | None:
        if not use.name:
            raise UnattachableError(Status.error("PersistentVolumeClaim had no name"))
        claim = self._claims.get(use.name, pod.namespace)
        if claim is not None and use.is_ephemeral and (problem := ownership_problem(claim, pod)):
            raise UnattachableError(Status.error(problem))
        return claim

    def _of_claim(self, claim: PersistentVolumeClaim, *, migrated: bool) -> CSIName | None:
        volume = self._volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is None:
            return self._of_class(claim, migrated=migrated)
        if volume.spec.csi is not None:
            name = CSIName(volume.spec.csi.driver, volume.spec.csi.volume_handle)
        else:
            migration = migration_of_volume(volume)
            if migration is None or not migrated:
                return None
            try:
                name = csi_name_of_volume(volume, migration)
            except MigrationError:
                # A volume without a CSI name is not attached by any driver.
                return None
        return name if name.driver and name.handle else None

    def _of_class(self, claim: PersistentVolumeClaim, *, migrated: bool) -> CSIName | None:
        """Return a name for the volume that will be provisioned for a claim."""
        name = class_of_claim(claim)
        storage_class = self._classes.get(name) if name else None
        if storage_class is None or storage_class.provisioner in UNCOUNTED_PLUGINS:
            return None
        driver = storage_class.provisioner
        if driver in BY_PLUGIN:
            if not migrated:
                return None
            driver = BY_PLUGIN[driver].driver
        return CSIName(driver, f"{NOT_YET_PROVISIONED}{claim.key}") if driver else None


def attaches_anything(pod: Pod) -> bool:
    """Return whether a pod has a volume that a CSI driver may attach."""
    return any(map(may_attach, pod.spec.volumes)) if pod.spec.volumes else False


def may_attach(volume: Volume) -> bool:
    """Return whether a volume is a claim, or a disk that may be migrated to CSI."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None or takes_part_in_migration(volume)


def _in_line(volume: Volume) -> CSIName | None:
    migration = migration_in_line(volume)
    if migration is None:
        return None
    try:
        return csi_name_in_line(volume, migration)
    except MigrationError as error:
        problem = f"converting volume({volume.name}) from inline to csi: {error}"
        raise UnattachableError(Status.error(problem)) from error
