"""The built-in controllers of a cluster and of fake nodes."""

from collections.abc import Container

from moorage.cluster.controllers.coordinated_election import ElectionController
from moorage.cluster.controllers.cronjob import CronJobController
from moorage.cluster.controllers.daemonset import DaemonSetController
from moorage.cluster.controllers.deployment import DeploymentController
from moorage.cluster.controllers.disruption import DisruptionController
from moorage.cluster.controllers.endpoints import EndpointsController
from moorage.cluster.controllers.fake_nodes import Heartbeats
from moorage.cluster.controllers.garbage_collector import GROUPS, GarbageCollector
from moorage.cluster.controllers.job import JobController
from moorage.cluster.controllers.job_pod_groups import PodGroupProtection
from moorage.cluster.controllers.kubelet import Kubelet, KubeletPace
from moorage.cluster.controllers.manager import Controller
from moorage.cluster.controllers.namespaces import AccountController, NamespaceController, RootAuthorityController
from moorage.cluster.controllers.node_lifecycle import EvictionController, NodeController
from moorage.cluster.controllers.persistent_volumes import (
    AttributesClassController,
    ClaimController,
    EphemeralVolumeController,
    VolumeController,
)
from moorage.cluster.controllers.replicaset import ReplicaSetController, ReplicationManager
from moorage.cluster.controllers.resource_claims import ClaimUseController, GroupClaimController, PodClaimController
from moorage.cluster.controllers.statefulset import StatefulSetController
from moorage.common.clock import Clock
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.features import FeatureGates


def cluster_controllers(
    clock: Clock, features: FeatureGates, absent_owners: Container[str] = frozenset()
) -> tuple[Controller, ...]:
    """Return the controllers of kube-controller-manager for the enabled features.

    Dependents of absent owners are not collected as garbage.
    """
    groups = tuple(kind for kind in GROUPS if features.enabled(BY_TYPE[kind].gate))
    protects_trees = features.since(1, 38) and features.enabled("CompositePodGroup")
    shares_claims = features.enabled("DRAWorkloadResourceClaims")
    return (
        DeploymentController(clock),
        ReplicaSetController(clock),
        ReplicationManager(clock),
        StatefulSetController(clock),
        DaemonSetController(clock),
        JobController(clock, makes_groups=features.enabled("WorkloadWithJob")),
        CronJobController(clock),
        NamespaceController(clock),
        AccountController(clock),
        RootAuthorityController(clock),
        GarbageCollector(clock, groups, absent_owners),
        DisruptionController(clock),
        EndpointsController(clock),
        NodeController(clock),
        EvictionController(clock),
        ClaimController(clock),
        VolumeController(clock),
        EphemeralVolumeController(clock),
        AttributesClassController(clock),
        PodClaimController(clock, has_groups=shares_claims),
        ClaimUseController(clock, has_groups=shares_claims),
        *((PodGroupProtection(clock, with_composites=protects_trees),) if groups else ()),
        *((ElectionController(clock),) if features.enabled("CoordinatedLeaderElection") else ()),
        *((GroupClaimController(clock),) if shares_claims else ()),
    )


def kubelet_controllers(clock: Clock, pace: KubeletPace | None = None) -> tuple[Controller, ...]:
    """Return the controllers that act as the kubelets of all fake nodes."""
    return Kubelet(clock, pace), Heartbeats(clock)
