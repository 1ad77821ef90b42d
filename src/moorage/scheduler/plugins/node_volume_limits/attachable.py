"""Volumes of a pod that a CSI driver must attach, under unique names."""

from collections.abc import Iterator
from typing import Final

from moorage.common.errors import MigrationError
from moorage.kube.api.claims import ClaimUse, claim_use, ownership_problem, storage_class_name
from moorage.kube.api.csi_migration import (
    BY_PLUGIN,
    UNCOUNTED_PLUGINS,
    CSIName,
    find_migration,
    in_line_driver,
)
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.kube.api.volume import Volume
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.status import Status

# A prefix that real volume handles cannot have; upstream uses random letters.
NOT_YET_PROVISIONED: Final = "\0not-yet-provisioned-"


class UnattachableError(Exception):
    """The volumes of a pod cannot be determined; ``status`` is the filter's result for the node."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class AttachableVolumes:
    """Finds the volumes of pods. In-tree disks count where they are migrated: on nodes with a CSINode object."""

    def __init__(self, handle: Handle) -> None:
        self._claims = handle.lister(PersistentVolumeClaim)
        self._volumes = handle.lister(PersistentVolume)
        self._classes = handle.lister(StorageClass)

    def find(self, pod: Pod, *, migrated: bool, is_placed: bool = True) -> Iterator[CSIName]:
        """Iterate over the volumes of a pod; raise UnattachableError if they cannot be determined.

        Missing claims of a pod that is already placed on a node are ignored.
        """
        for volume in pod.spec.volumes:
            use = claim_use(pod, volume)
            name = None
            if use is None:
                name = _in_line(volume) if migrated else None
            elif (claim := self._claim(pod, use)) is not None:
                name = self._of_claim(claim, migrated=migrated)
            elif not is_placed:
                key, missing = f"{pod.namespace}/{use.name}", f'persistentvolumeclaim "{use.name}" not found'
                raise UnattachableError(Status.unresolvable(f"looking up PVC {key}: {missing}"))
            if name is not None:
                yield name

    def find_dependencies(self, pod: Pod) -> tuple[list[str], list[str]]:
        """Return the claims and volumes that a pod's attachments depend on."""
        uses = [use for volume in pod.spec.volumes if (use := claim_use(pod, volume)) is not None]
        claims = [self._claims.get(use.name, pod.namespace) for use in uses]
        return [f"{pod.namespace}/{use.name}" for use in uses], [
            claim.spec.volume_name for claim in claims if claim is not None and claim.spec.volume_name
        ]

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
            migration = find_migration(volume.spec)
            if migration is None or not migrated:
                return None
            try:
                name = migration.csi_name(volume.spec, volume.labels)
            except MigrationError:
                # A volume without a CSI name is not attached by any driver.
                return None
        return name if name.driver and name.handle else None

    def _of_class(self, claim: PersistentVolumeClaim, *, migrated: bool) -> CSIName | None:
        """Return a name for the volume that will be provisioned for a claim."""
        name = storage_class_name(claim)
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
    """Return whether a pod has a volume that a CSI driver may attach: a claim, or a disk that may be migrated."""
    # Most pods have no volumes; this is called several times per pod.
    return bool(pod.spec.volumes) and any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None or in_line_driver(volume) is not None
        for volume in pod.spec.volumes
    )


def _in_line(volume: Volume) -> CSIName | None:
    migration = find_migration(volume)
    if migration is None:
        return None
    try:
        return migration.csi_name(volume)
    except MigrationError as error:
        problem = f"converting volume({volume.name}) from inline to csi: {error}"
        raise UnattachableError(Status.error(problem)) from error
