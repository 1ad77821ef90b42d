"""The controllers that run the workloads of cluster files.

Commands that read files without running workloads do not import this module.
"""

from collections.abc import Iterable, Sequence

from moorage.cluster.controllers.cronjob import CronJobController
from moorage.cluster.controllers.daemonset import DaemonSetController
from moorage.cluster.controllers.deployment import DeploymentController
from moorage.cluster.controllers.disruption import DisruptionController
from moorage.cluster.controllers.garbage_collector import GarbageCollector
from moorage.cluster.controllers.job import JobController
from moorage.cluster.controllers.manager import Controller
from moorage.cluster.controllers.persistent_volumes import ClaimController, EphemeralVolumeController, VolumeController
from moorage.cluster.controllers.replicaset import ReplicaSetController, ReplicationManager
from moorage.cluster.controllers.resource_claims import ClaimUseController, PodClaimController
from moorage.cluster.controllers.statefulset import StatefulSetController
from moorage.cluster.files.workloads import WORKLOADS, makes_pods, selector_uids
from moorage.common.clock import Clock
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.devices import ResourceClaim, ResourceClaimTemplate
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolumeClaim


def find_absent_owners(objects: Sequence[KubeObject]) -> frozenset[str]:
    """Return the UIDs of owners that are missing in the input, which may be incomplete."""
    present = {obj.uid for obj in objects} - selector_uids(objects)
    return frozenset(item.uid for obj in objects for item in obj.metadata.owner_references) - present


def select_controllers(objects: Iterable[KubeObject], clock: Clock) -> tuple[Controller, ...]:
    """Return the controllers that a cluster needs, or none if it has only nodes and pods."""
    all_objects = list(objects)
    kinds = {type(obj) for obj in all_objects}
    has_workloads = any(isinstance(obj, WORKLOADS) and makes_pods(obj) for obj in all_objects)
    controllers: list[Controller] = []
    if has_workloads:
        controllers += [
            DeploymentController(clock),
            ReplicaSetController(clock),
            ReplicationManager(clock),
            StatefulSetController(clock),
            DaemonSetController(clock),
            JobController(clock),
            CronJobController(clock),
            GarbageCollector(clock, absent=find_absent_owners(all_objects)),
        ]
    volumes = (volume for obj in all_objects if isinstance(obj, Pod) for volume in obj.spec.volumes)
    if has_workloads or PersistentVolumeClaim in kinds or any(volume.ephemeral is not None for volume in volumes):
        controllers += [ClaimController(clock), VolumeController(clock), EphemeralVolumeController(clock)]
    if has_workloads or kinds & {ResourceClaim, ResourceClaimTemplate}:
        controllers += [PodClaimController(clock), ClaimUseController(clock)]
    if has_workloads and PodDisruptionBudget in kinds:
        controllers.append(DisruptionController(clock))
    return tuple(controllers)
