"""The VolumeBinding plugin: its extension points."""

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from moorage.common.errors import ApiError
from moorage.kube.api.claims import (
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    ClaimUse,
    claim_uses,
    exact_request,
    is_fully_bound,
    ownership_problem,
    storage_class_name,
    uses_claim,
)
from moorage.kube.api.csi_migration import list_migrated_plugins
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from moorage.scheduler.config.args import VolumeBindingArgs, complete_args
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource, queue_if
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import (
    DependsOn,
    FilterPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
)
from moorage.scheduler.framework.pods_by_claim import BY_VOLUME_CLAIM
from moorage.scheduler.framework.status import BoolArray, IntArray, Status, Verdict
from moorage.scheduler.plugins.volume_binding.assume_cache import AssumeCache, OutOfSyncError
from moorage.scheduler.plugins.volume_binding.bound_volumes import (
    BoundVolume,
    MigratedPlugins,
    TranslationError,
    check_bound,
    check_bound_nodes,
)
from moorage.scheduler.plugins.volume_binding.pod_volumes import PodVolumes, VolumeFinder, make_scorer
from moorage.scheduler.plugins.volume_binding.provisioning import Provisioners, volume_limit
from moorage.scheduler.plugins.volume_binding.static_volumes import StaticVolumes
from moorage.scheduler.plugins.volume_binding.volume_binder import BindingError, Reservation, VolumeBinder

NODE_CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT: Final = "node(s) didn't find available persistent volumes to bind"
NO_SPACE: Final = "node(s) did not have enough free storage"
VOLUME_MISSING: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND_IMMEDIATE: Final = Status.unresolvable("pod has unbound immediate PersistentVolumeClaims")

FINDER = StateKey[VolumeFinder]("VolumeBinding", missing="not found")
FILTERED = StateKey[bool]("VolumeBinding/filtered")
"""Set by Filter: without it, volumes were not searched, and there is nothing to reserve."""
RESERVE_CALLED = StateKey[bool]("VolumeBinding/reserve calls")
"""Set by Reserve, even if nothing is reserved. A profile may disable Reserve."""
RESERVED = StateKey[Reservation]("VolumeBinding/reserved")
VOLUMES = StateKey[dict[str, AssumeCache[PersistentVolume]]]("VolumeBinding/volumes given to pods, by profile")
CLAIMS = StateKey[dict[str, AssumeCache[PersistentVolumeClaim]]]("VolumeBinding/claims given volumes, by profile")
NOT_PREPARED: Final = Status.error(FINDER.missing)
NOTHING_TO_FIND: Final = VolumeFinder()
"""The finder of pods without claims. Shared, so it must never be changed."""
STAGE_ERRORS: Final = "scheduler_volume_scheduling_stage_error_total"


class VolumeBinding(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, ReservePlugin, PreBindPlugin):
    """Filter nodes by bound volumes and unbound claims, reserve volumes, and bind them before the pod."""

    call_timeout = None  # bindTimeoutSeconds limits the wait

    Args = VolumeBindingArgs
    depends_on = DependsOn.NODE
    _signs_template = True
    _idle_when_skipped = True
    allows_parallel = True

    def __init__(self, *, args: VolumeBindingArgs | None = None, handle: Handle) -> None:
        completed: VolumeBindingArgs = complete_args(args or VolumeBindingArgs(), handle.features)
        volumes, claims = handle.lister(PersistentVolume), handle.lister(PersistentVolumeClaim)
        self._handle = handle
        self._timeout = completed.bind_timeout_seconds
        self._classes = handle.lister(StorageClass)
        # Shared: assumed volumes remain in use after a reload of the configuration. Each profile has its own, as
        # in kube-scheduler: if two profiles assume one volume, the API server rejects the second write.
        profile, volume_caches, claim_caches = handle.profile, handle.shared(VOLUMES, dict), handle.shared(CLAIMS, dict)
        self._volumes = volume_caches.setdefault(profile, AssumeCache(volumes, "persistentvolumes"))
        self._claims = claim_caches.setdefault(profile, AssumeCache(claims, "persistentvolumeclaims"))
        self._static = StaticVolumes(volumes, self._volumes)
        self._provisioners = Provisioners(handle)
        self._migrated = MigratedPlugins(handle)
        self._binder = VolumeBinder(handle, self._volumes, self._claims, self._migrated)
        self._score = make_scorer(completed.shape) if handle.features.enabled("StorageCapacityScoring") else None

    def sign(self, pod: Pod) -> Hashable | None:
        """Share results among pods without claims."""
        return None if claim_uses(pod) else ()

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        if not claim_uses(pod):
            cycle[FINDER] = NOTHING_TO_FIND
            return Status.skip()
        finder = self._make_finder(pod)
        if isinstance(finder, Status):
            return finder
        cycle[FINDER] = finder
        return None

    def _make_finder(self, pod: Pod) -> VolumeFinder | Status:
        """Look up the pod's claims. Return a status for the first problem in the order of its volumes."""
        claims = []
        for use in claim_uses(pod):
            claim = self._claims.known(use.name, pod.namespace)
            if problem := _find_problem(claim, use, pod):
                return Status.unresolvable(problem)
            assert claim is not None
            claims.append(self._claims.latest(claim))
        bound_volumes: list[BoundVolume | None] = []
        delayed = []
        is_immediate = False
        for claim in claims:
            if is_fully_bound(claim):
                volume = self._volumes.get(claim.spec.volume_name)
                bound_volumes.append(None if volume is None else BoundVolume.of(volume))
                continue
            name = storage_class_name(claim)
            storage_class = self._classes.get(name) if name else None
            mode = WAIT_FOR_FIRST_CONSUMER if storage_class is None else storage_class.volume_binding_mode
            if mode is None:
                return Status.error(f'VolumeBindingMode not set for StorageClass "{name}"')
            # A claim that names its volume and is not bound yet is bound by the PV controller.
            if storage_class is None or mode != WAIT_FOR_FIRST_CONSUMER or claim.spec.volume_name:
                is_immediate = True
            else:
                delayed.append(claim)
        if is_immediate:
            return UNBOUND_IMMEDIATE
        selected = {claim.annotations[SELECTED_NODE] for claim in delayed if SELECTED_NODE in claim.annotations}
        unselected = sorted((claim for claim in delayed if SELECTED_NODE not in claim.annotations), key=exact_request)
        to_match = [(self._static.candidates(claim), self._provisioners.for_claim(claim)) for claim in unselected]
        to_provision = [self._provisioners.for_claim(claim) for claim in delayed if SELECTED_NODE in claim.annotations]
        keys = frozenset[str]().union(
            *(candidates.keys | otherwise.keys for candidates, otherwise in to_match),
            *(provisioning.keys for provisioning in to_provision),
        )
        return VolumeFinder(tuple(bound_volumes), frozenset(selected), to_match, to_provision, tuple(sorted(keys)))

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Filter one node. Return all reasons, in upstream's order."""
        finder = cycle[FINDER]
        cycle[FILTERED] = True
        try:
            reached, exist = check_bound(finder.bound, node, self._migrated.on_node(node.name))
        except TranslationError as error:
            return self._make_failure("predicate", str(error))
        volumes = finder.on_node(node.name, node.labels)
        if volumes.problem:
            return self._make_failure("predicate", volumes.problem)
        checks = (
            (reached, NODE_CONFLICT),
            (volumes.has_volumes, BIND_CONFLICT),
            (volumes.has_space, NO_SPACE),
            (exist, VOLUME_MISSING),
        )
        reasons = tuple(reason for holds, reason in checks if not holds)
        return Status.unresolvable(*reasons) if reasons else None

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        """Filter all nodes, once per distinct topology. The per-node form reports errors."""
        finder = cycle[FINDER]
        cycle[FILTERED] = True
        if not nodes.is_window_of(self._handle.nodes):
            return super().filter_nodes(cycle, pod, nodes)
        try:
            unreached, missing_mask = check_bound_nodes(finder.bound, nodes, self._migrated)
        except TranslationError:
            return super().filter_nodes(cycle, pod, nodes)
        lacking = self._lacking(finder, nodes)
        if lacking is None:
            return super().filter_nodes(cycle, pod, nodes)
        checks = ((unreached, NODE_CONFLICT), *lacking, (missing_mask, VOLUME_MISSING))
        rejections = tuple((where, Status.unresolvable(reason)) for where, reason in checks if where is not None)
        return Verdict(len(nodes), rejections)

    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Skip only if the gate StorageCapacityScoring is off."""
        if self._score is None:
            return Status.skip()
        return None if FINDER in cycle else NOT_PREPARED

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        finder = cycle[FINDER]
        return self._score_volumes(finder.on_node(node.name, node.labels)) if FILTERED in cycle else 0

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        finder = cycle[FINDER]
        if not finder.waits or FILTERED not in cycle:
            return np.zeros(len(nodes), dtype=np.int64)
        volumes, groups = finder.on_nodes(nodes)
        scores = np.fromiter((self._score_volumes(item) for item in volumes), dtype=np.int64, count=len(volumes))
        return scores[groups]

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Assume the volumes of the node. Nothing is to be done if all claims are bound."""
        finder = cycle[FINDER]
        cycle[RESERVE_CALLED] = True
        if not finder.waits or FILTERED not in cycle:
            return None
        node = self._handle.nodes.find(node_name)
        assert node is not None, "a pod is reserved on an existing node"
        try:
            cycle[RESERVED] = self._binder.reserve(finder.on_node(node_name, node.labels), node_name)
        except OutOfSyncError as error:
            return self._make_failure("assume", str(error))
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        reservation = cycle.get(RESERVED)
        if reservation is not None:
            self._binder.release(reservation)

    def pre_bind_pre_flight(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Skip PreBind if nothing was reserved. It is an error if neither Filter nor Reserve ran."""
        if FINDER not in cycle:
            return NOT_PREPARED
        if RESERVE_CALLED not in cycle and FILTERED not in cycle:
            return Status.error(f'no pod volume found for node "{node_name}"')
        return None if RESERVED in cycle else Status.skip()

    async def pre_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Write the bindings and wait for the PV controller."""
        reservation = cycle.get(RESERVED)
        if reservation is None:
            return None
        try:
            await self._binder.write(reservation)
            await self._binder.wait(pod, node_name, reservation, self._timeout)
        except BindingError as error:
            return self._make_failure("bind", f"binding volumes: {error}")
        except ApiError:
            self._handle.meter.count(STAGE_ERRORS, "bind")
            raise
        return None

    def _make_failure(self, stage: str, problem: str) -> Status:
        self._handle.meter.count(STAGE_ERRORS, stage)
        return Status.error(problem)

    def events_to_register(self) -> Sequence[EventRegistration]:
        add_or_update = Action.ADD | Action.UPDATE
        return (
            EventRegistration(ClusterEvent(Resource.STORAGE_CLASS, add_or_update), after_class_changed),
            EventRegistration(
                ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, add_or_update),
                after_claim_changed,
                index=BY_VOLUME_CLAIM,
            ),
            EventRegistration(ClusterEvent(Resource.PERSISTENT_VOLUME, add_or_update)),
            EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            EventRegistration(ClusterEvent(Resource.CSI_NODE, add_or_update), after_csi_node_changed),
            EventRegistration(ClusterEvent(Resource.CSI_DRIVER, Action.UPDATE), after_driver_changed),
            EventRegistration(ClusterEvent(Resource.CSI_STORAGE_CAPACITY, add_or_update), after_capacity_changed),
        )

    def _lacking(self, finder: VolumeFinder, nodes: NodeTable) -> list[tuple[BoolArray, str]] | None:
        """Find the nodes without volumes and without space for unbound claims, or ``None`` after an error."""
        if not finder.waits:
            return []
        volumes, groups = finder.on_nodes(nodes)
        if any(item.problem for item in volumes):
            return None
        without_volumes = np.array([not item.has_volumes for item in volumes], dtype=np.bool_)
        without_space = np.array([not item.has_space for item in volumes], dtype=np.bool_)
        return [(without_volumes[groups], BIND_CONFLICT), (without_space[groups], NO_SPACE)]

    def _score_volumes(self, volumes: PodVolumes) -> int:
        return 0 if self._score is None else self._score(volumes)


def _find_problem(claim: PersistentVolumeClaim | None, use: ClaimUse, pod: Pod) -> str | None:
    if claim is None and use.is_ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
    if claim is None:
        return f'persistentvolumeclaim "{use.name}" not found'
    if claim.status.phase == "Lost":
        volume = claim.spec.volume_name
        return f'persistentvolumeclaim "{use.name}" bound to non-existent persistentvolume "{volume}"'
    if claim.is_terminating:
        return f'persistentvolumeclaim "{use.name}" is being deleted'
    return ownership_problem(claim, pod) if use.is_ephemeral else None


def after_class_changed(_pod: Pod, old: StorageClass | None, new: StorageClass) -> QueueingHint:
    """Queue if the class is new, or its allowed topologies changed."""
    return queue_if(old is None or old.allowed_topologies != new.allowed_topologies)


def after_claim_changed(pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> QueueingHint:
    """Queue if the pod uses the claim."""
    return queue_if(uses_claim(pod, new))


def after_csi_node_changed(_pod: Pod, old: CSINode | None, new: CSINode) -> QueueingHint:
    """Queue if the object is new, or its migrated plugins changed."""
    return queue_if(old is None or list_migrated_plugins(old) != list_migrated_plugins(new))


def after_driver_changed(pod: Pod, old: CSIDriver, new: CSIDriver) -> QueueingHint:
    """Queue if a driver of the pod's inline volumes no longer tracks storage capacity."""
    uses_driver = any(volume.csi is not None and volume.csi.driver == new.name for volume in pod.spec.volumes)
    return queue_if(uses_driver and bool(old.spec.storage_capacity) and not new.spec.storage_capacity)


def after_capacity_changed(_pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> QueueingHint:
    """Queue if the storage pool is new, or its volume limit was raised."""
    if old is None:
        return QueueingHint.QUEUE
    before, now = volume_limit(old), volume_limit(new)
    return queue_if(now is not None and (before is None or now > before))
