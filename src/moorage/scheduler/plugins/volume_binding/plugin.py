"""The VolumeBinding plugin: its extension points."""

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from moorage.common.errors import ApiError
from moorage.kube.api.claims import SELECTED_NODE, claim_uses, exact_request
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim
from moorage.scheduler.config.args import VolumeBindingArgs, complete_args
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, Resource
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
from moorage.scheduler.framework.status import BoolArray, IntArray, Status, Verdict
from moorage.scheduler.plugins.volume_binding import hints
from moorage.scheduler.plugins.volume_binding.assume_cache import AssumeCache, OutOfSyncError
from moorage.scheduler.plugins.volume_binding.bound_volumes import (
    BoundVolume,
    MigratedPlugins,
    TranslationError,
    check_bound,
    check_bound_nodes,
)
from moorage.scheduler.plugins.volume_binding.pod_claims import ClaimSorter, PodClaims
from moorage.scheduler.plugins.volume_binding.pod_volumes import PodVolumes, VolumeFinder
from moorage.scheduler.plugins.volume_binding.provisioning import Provisioners
from moorage.scheduler.plugins.volume_binding.score import scorer
from moorage.scheduler.plugins.volume_binding.static_volumes import StaticVolumes
from moorage.scheduler.plugins.volume_binding.volume_binder import BindingError, Reservation, VolumeBinder

NODE_CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT: Final = "node(s) didn't find available persistent volumes to bind"
NO_SPACE: Final = "node(s) did not have enough free storage"
VOLUME_MISSING: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

FINDER = StateKey[VolumeFinder]("VolumeBinding", missing="not found")
FILTERED = StateKey[bool]("VolumeBinding/filtered")
"""Set by Filter: without it, volumes were not searched, and there is nothing to reserve."""
RESERVE_CALLED = StateKey[bool]("VolumeBinding/reserve calls")
"""Set by Reserve, even if nothing is reserved; a profile may disable Reserve."""
RESERVED = StateKey[Reservation]("VolumeBinding/reserved")
VOLUMES = StateKey[AssumeCache[PersistentVolume]]("VolumeBinding/volumes given to pods")
CLAIMS = StateKey[AssumeCache[PersistentVolumeClaim]]("VolumeBinding/claims given volumes")
NOT_PREPARED: Final = Status.error(FINDER.missing)
NOTHING_TO_FIND: Final = VolumeFinder()
"""The finder of pods without claims; shared, so it must never be changed."""
STAGE_ERRORS: Final = "scheduler_volume_scheduling_stage_error_total"


class VolumeBinding(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, ReservePlugin, PreBindPlugin):
    """Filter nodes by bound volumes and unbound claims, reserve volumes, and bind them before the pod."""

    Args = VolumeBindingArgs
    depends_on = DependsOn.NODE
    _signs_template = True
    _idle_when_skipped = True
    allows_parallel = True

    def __init__(self, *, args: VolumeBindingArgs | None = None, handle: Handle) -> None:
        completed: VolumeBindingArgs = complete_args(args or VolumeBindingArgs(), handle.features)
        volumes = handle.lister(PersistentVolume)
        self._handle = handle
        self._timeout = completed.bind_timeout_seconds
        claims = handle.lister(PersistentVolumeClaim)
        # Shared: assumed volumes are in use for all profiles, also after a reload of the configuration.
        self._volumes = handle.shared(VOLUMES, lambda: AssumeCache(volumes, "persistentvolumes"))
        self._claims = handle.shared(CLAIMS, lambda: AssumeCache(claims, "persistentvolumeclaims"))
        self._sorter = ClaimSorter(handle, self._claims)
        self._static = StaticVolumes(volumes, self._volumes)
        self._provisioners = Provisioners(handle)
        self._migrated = MigratedPlugins(handle)
        self._binder = VolumeBinder(handle, self._volumes, self._claims, self._migrated)
        self._score = scorer(completed.shape) if handle.features.enabled("StorageCapacityScoring") else None

    def sign(self, pod: Pod) -> Hashable | None:
        """Share results among pods without claims."""
        return None if claim_uses(pod) else ()

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        if not claim_uses(pod):
            cycle[FINDER] = NOTHING_TO_FIND
            return Status.skip()
        claims = self._sorter.sort(pod)
        if isinstance(claims, Status):
            return claims
        cycle[FINDER] = self._make_finder(claims)
        return None

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Filter one node; return all reasons, in upstream's order."""
        finder = cycle[FINDER]
        cycle[FILTERED] = True
        try:
            reached, exist = check_bound(finder.bound, node, self._migrated.on_node(node.name))
        except TranslationError as error:
            return self._failed("predicate", str(error))
        volumes = finder.on_node(node.name, node.labels)
        if volumes.problem:
            return self._failed("predicate", volumes.problem)
        checks = (
            (reached, NODE_CONFLICT),
            (volumes.has_volumes, BIND_CONFLICT),
            (volumes.has_space, NO_SPACE),
            (exist, VOLUME_MISSING),
        )
        reasons = tuple(reason for holds, reason in checks if not holds)
        return Status.unresolvable(*reasons) if reasons else None

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        """Filter all nodes, once per distinct topology; the per-node form reports errors."""
        finder = cycle[FINDER]
        cycle[FILTERED] = True
        if not nodes.is_window_of(self._handle.nodes):
            return super().filter_nodes(cycle, pod, nodes)
        try:
            unreached, missing = check_bound_nodes(finder.bound, nodes, self._migrated)
        except TranslationError:
            return super().filter_nodes(cycle, pod, nodes)
        lacking = self._lacking(finder, nodes)
        if lacking is None:
            return super().filter_nodes(cycle, pod, nodes)
        checks = ((unreached, NODE_CONFLICT), *lacking, (missing, VOLUME_MISSING))
        rejections = tuple((where, Status.unresolvable(reason)) for where, reason in checks if where is not None)
        return Verdict(len(nodes), rejections)

    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Skip only if the gate StorageCapacityScoring is off."""
        if self._score is None:
            return Status.skip()
        return None if FINDER in cycle else NOT_PREPARED

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Score one node by the storage that stays free."""
        finder = cycle[FINDER]
        return self._score_volumes(finder.on_node(node.name, node.labels)) if FILTERED in cycle else 0

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """Score all nodes, once per distinct topology."""
        finder = cycle[FINDER]
        if not finder.waits or FILTERED not in cycle:
            return np.zeros(len(nodes), dtype=np.int64)
        volumes, groups = finder.on_nodes(nodes)
        scores = np.fromiter((self._score_volumes(item) for item in volumes), dtype=np.int64, count=len(volumes))
        return scores[groups]

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Assume what the node on_nodes; nothing is to be done if all claims are bound."""
        finder = cycle[FINDER]
        cycle[RESERVE_CALLED] = True
        if not finder.waits or FILTERED not in cycle:
            return None
        node = self._handle.nodes.find(node_name)
        assert node is not None, "a pod is only given a node that is there"
        try:
            cycle[RESERVED] = self._binder.reserve(finder.on_node(node_name, node.labels), node_name)
        except OutOfSyncError as error:
            return self._failed("assume", str(error))
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        reservation = cycle.get(RESERVED)
        if reservation is not None:
            self._binder.release(reservation)

    def pre_bind_pre_flight(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Skip PreBind if nothing was reserved; it is an error if neither Filter nor Reserve ran."""
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
            return self._failed("bind", f"binding volumes: {error}")
        except ApiError:
            self._handle.meter.count(STAGE_ERRORS, "bind")
            raise
        return None

    def _failed(self, stage: str, problem: str) -> Status:
        self._handle.meter.count(STAGE_ERRORS, stage)
        return Status.error(problem)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Register for everything that decides where volumes exist or can be provisioned."""
        changed = Action.ADD | Action.UPDATE
        return (
            EventRegistration(ClusterEvent(Resource.STORAGE_CLASS, changed), hints.after_class_changed),
            EventRegistration(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, changed), hints.after_claim_changed),
            EventRegistration(ClusterEvent(Resource.PERSISTENT_VOLUME, changed)),
            EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            EventRegistration(ClusterEvent(Resource.CSI_NODE, changed), hints.after_csi_node_changed),
            EventRegistration(ClusterEvent(Resource.CSI_DRIVER, Action.UPDATE), hints.after_driver_changed),
            EventRegistration(ClusterEvent(Resource.CSI_STORAGE_CAPACITY, changed), hints.after_capacity_changed),
        )

    def _make_finder(self, claims: PodClaims) -> VolumeFinder:
        bound = tuple(self._bound_volume(claim) for claim in claims.bound)
        if not claims.delayed:
            return VolumeFinder(bound)
        selected_claims = [claim for claim in claims.delayed if SELECTED_NODE in claim.annotations]
        unselected_claims = sorted(
            (claim for claim in claims.delayed if SELECTED_NODE not in claim.annotations), key=exact_request
        )
        to_match = [
            (self._static.candidates(claim), self._provisioners.for_claim(claim)) for claim in unselected_claims
        ]
        to_provision = [self._provisioners.for_claim(claim) for claim in selected_claims]
        keys = frozenset[str]().union(
            *(candidates.keys | otherwise.keys for candidates, otherwise in to_match),
            *(provisioning.keys for provisioning in to_provision),
        )
        selected = frozenset(claim.annotations[SELECTED_NODE] for claim in selected_claims)
        return VolumeFinder(bound, selected, to_match, to_provision, tuple(sorted(keys)))

    def _bound_volume(self, claim: PersistentVolumeClaim) -> BoundVolume | None:
        volume = self._volumes.get(claim.spec.volume_name)
        return None if volume is None else BoundVolume.of(volume)

    def _lacking(self, finder: VolumeFinder, nodes: NodeTable) -> list[tuple[BoolArray, str]] | None:
        """Find the nodes without volumes and without space for unbound claims; ``None`` after an error."""
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
