"""Binds volumes: changes are assumed immediately, written later, and completed by the PV controller."""

import asyncio
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import MigrationError
from moorage.kube.api.claims import BOUND_BY_CONTROLLER, SELECTED_NODE, find_reach, is_bound_to, is_fully_bound
from moorage.kube.api.csi_migration import find_migration, translated
from moorage.kube.api.integers import to_int64
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import ObjectReference, PersistentVolume, PersistentVolumeClaim
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.plugins.volume_binding.assume_cache import AssumeCache, OutOfSyncError
from moorage.scheduler.plugins.volume_binding.bound_volumes import MigratedPlugins
from moorage.scheduler.plugins.volume_binding.pod_volumes import PodVolumes, StaticBinding

POLL_SECONDS: Final = 1.0
T = TypeVar("T", bound=KubeObject)


class BindingError(Exception):
    """Volumes cannot be bound. The message is for users."""


class Reservation(Struct):
    """Volumes and claims to write; after a write, the objects that the API returned."""

    bindings: list[StaticBinding]
    claims: list[PersistentVolumeClaim]


class VolumeBinder:
    """Reserves, writes and awaits bindings."""

    def __init__(
        self,
        handle: Handle,
        volumes: AssumeCache[PersistentVolume],
        claims: AssumeCache[PersistentVolumeClaim],
        migrated_plugins: MigratedPlugins,
    ) -> None:
        self._handle = handle
        self._pods = handle.lister(Pod)
        self._volumes = volumes
        self._claims = claims
        self._migrated_plugins = migrated_plugins

    def reserve(self, volumes: PodVolumes, node_name: str) -> Reservation:
        """Assume all bindings and provisions of a node. Raise :class:`OutOfSyncError` if an object is stale."""
        reservation = Reservation([], [])
        try:
            for binding in volumes.bindings:
                volume = bound_to(binding.volume, binding.claim)
                if volume is not binding.volume:
                    self._volumes.assume(volume)
                reservation.bindings.append(StaticBinding(volume, binding.claim))
            for provision in volumes.provisions:
                claim = with_annotation(provision.claim, SELECTED_NODE, node_name)
                self._claims.assume(claim)
                reservation.claims.append(claim)
        except OutOfSyncError:
            self.release(reservation)
            raise
        return reservation

    def release(self, reservation: Reservation) -> None:
        """Roll back assumptions; writes that the API has accepted remain."""
        for binding in reservation.bindings:
            self._volumes.restore(binding.volume)
        for claim in reservation.claims:
            self._claims.restore(claim)

    async def write(self, reservation: Reservation) -> None:
        """Write volumes, then claims. Completed writes are not rolled back if a later write fails."""
        stored = Reservation([], [])
        try:
            for binding in reservation.bindings:
                volume = await self._update(binding.volume)
                stored.bindings.append(StaticBinding(volume, binding.claim))
            for claim in reservation.claims:
                stored.claims.append(await self._update(claim))
        finally:
            bindings, claims = len(stored.bindings), len(stored.claims)
            self.release(Reservation(reservation.bindings[bindings:], reservation.claims[claims:]))
            reservation.bindings[:bindings] = stored.bindings
            reservation.claims[:claims] = stored.claims

    async def wait(self, pod: Pod, node_name: str, reservation: Reservation, seconds: float) -> None:
        """Check once a second whether the PV controller is done. Raise :class:`BindingError` if binding failed."""
        while seconds > POLL_SECONDS:
            await asyncio.sleep(POLL_SECONDS)
            seconds -= POLL_SECONDS
            # Check observed objects, not assumed ones: assumptions of another attempt may be newer.
            node = self._handle.nodes.find(node_name)
            if node is None:
                raise BindingError(f'failed to get node "{node_name}": node "{node_name}" not found')
            if self._pods.get(pod.name, pod.namespace) is None:
                raise BindingError(f'pod does not exist any more: pod "{pod.name}" not found')
            if all(self._is_static_bound(binding, node) for binding in reservation.bindings) and all(
                self._is_provisioned(claim, node) for claim in reservation.claims
            ):
                return
        await asyncio.sleep(seconds)
        raise BindingError("context deadline exceeded")

    async def _update(self, obj: T) -> T:
        stored_object = await self._handle.cluster.update(obj)
        assert isinstance(stored_object, type(obj)), "an update returns the object as stored"
        return stored_object

    def _is_static_bound(self, binding: StaticBinding, node: NodeInfo) -> bool:
        volume = self._volumes.known(binding.volume.name)
        if volume is None:
            raise BindingError(f'failed to check binding: persistentvolumes "{binding.volume.name}" not found')
        claim = self._observed_claim(binding.claim, "failed to check binding")
        if _is_newer(binding.volume, volume):
            return False
        self._check_reach(volume, node, "failed to translate pv to csi: ")
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise BindingError(f'ClaimRef got reset for pv "{volume.name}"')
        return is_fully_bound(claim)

    def _is_provisioned(self, reserved: PersistentVolumeClaim, node: NodeInfo) -> bool:
        claim = self._observed_claim(reserved, "failed to check provisioning pvc")
        if _is_newer(reserved, claim):
            return False
        if not claim.annotations:
            raise BindingError(f'selectedNode annotation reset for PVC "{claim.name}"')
        if claim.annotations.get(SELECTED_NODE, "") != node.name:
            raise BindingError(f'provisioning failed for PVC "{claim.name}"')
        if claim.spec.volume_name:
            volume = self._volumes.known(claim.spec.volume_name)
            if volume is None:
                # The claim may be observed before the volume. If the volume was deleted, the claim will report it.
                return False
            self._check_reach(volume, node, "")
        return is_fully_bound(claim)

    def _observed_claim(self, claim: PersistentVolumeClaim, action: str) -> PersistentVolumeClaim:
        observed = self._claims.known(claim.name, claim.namespace)
        if observed is None:
            raise BindingError(f'{action}: persistentvolumeclaims "{claim.key}" not found')
        return observed

    def _check_reach(self, volume: PersistentVolume, node: NodeInfo, translating: str) -> None:
        migration = find_migration(volume.spec)
        if migration is not None and migration.plugin in self._migrated_plugins.on_node(node.name).split(","):
            try:
                volume = translated(volume, migration)
            except MigrationError as error:
                raise BindingError(f"{translating}could not translate pv: {error}") from error
        reach = find_reach(volume)
        if reach is not None and not reach.matches(node.labels, ""):
            raise BindingError(
                f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}": no matching NodeSelectorTerms'
            )


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return a volume bound to a claim; the same one if it is bound already."""
    bound_volume = volume
    ref = volume.spec.claim_ref
    if ref is None or (ref.namespace, ref.name, ref.uid) != (claim.namespace, claim.name, claim.uid):
        reference = ObjectReference(
            api_version="v1",
            kind="PersistentVolumeClaim",
            namespace=claim.namespace,
            name=claim.name,
            uid=claim.uid,
            resource_version=claim.metadata.resource_version,
        )
        bound_volume = replace(volume, spec=replace(volume.spec, claim_ref=reference))
    if not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in volume.annotations:
        bound_volume = with_annotation(bound_volume, BOUND_BY_CONTROLLER, "yes")
    return bound_volume


def with_annotation(obj: T, key: str, text: str) -> T:
    """Return an object with one annotation set."""
    return replace(obj, metadata=replace(obj.metadata, annotations={**obj.annotations, key: text}))


def _is_newer(left: KubeObject, right: KubeObject) -> bool:
    """Return whether our written version is newer than the observed one."""
    left_version, right_version = (to_int64(obj.metadata.resource_version) or 0 for obj in (left, right))
    return left_version > right_version
