"""All controllers of a cluster, and all that fake nodes need, ready to be driven."""

from moorage.api.kinds import BY_TYPE
from moorage.api.workloads import ReplicationController
from moorage.box.controllers.accounts import AccountController, RootAuthorityController
from moorage.box.controllers.cronjob import CronJobController
from moorage.box.controllers.daemonset import DaemonSetController
from moorage.box.controllers.deployment import DeploymentController
from moorage.box.controllers.disruption import DisruptionController
from moorage.box.controllers.driver import Controller
from moorage.box.controllers.elections import ElectionController
from moorage.box.controllers.ephemeral import EphemeralVolumeController
from moorage.box.controllers.garbage import GROUPS, GarbageCollector
from moorage.box.controllers.heartbeats import Heartbeats
from moorage.box.controllers.job import JobController
from moorage.box.controllers.kubelet import Kubelet, KubeletPace
from moorage.box.controllers.namespaces import NamespaceController
from moorage.box.controllers.nodes import EvictionController, NodeController
from moorage.box.controllers.pod_groups import PodGroupProtection
from moorage.box.controllers.replicaset import ReplicaSetController
from moorage.box.controllers.resource_claims import ClaimUseController, GroupClaimController, PodClaimController
from moorage.box.controllers.statefulset import StatefulSetController
from moorage.box.controllers.volumes import ClaimController, VolumeController
from moorage.clock import Clock
from moorage.features import FeatureGates


def cluster_controllers(clock: Clock, features: FeatureGates) -> tuple[Controller, ...]:
    """Return what a controller manager runs, given the features that are on."""
    groups = tuple(kind for kind in GROUPS if features.enabled(BY_TYPE[kind].gate))
    shares_claims = features.enabled("DRAWorkloadResourceClaims")
    return (
        DeploymentController(clock),
        ReplicaSetController(clock),
        ReplicaSetController(clock, ReplicationController),
        StatefulSetController(clock),
        DaemonSetController(clock),
        JobController(clock, makes_groups=features.enabled("WorkloadWithJob")),
        CronJobController(clock),
        NamespaceController(clock),
        AccountController(),
        RootAuthorityController(),
        GarbageCollector(clock, groups),
        DisruptionController(clock),
        NodeController(clock),
        EvictionController(clock),
        ClaimController(),
        VolumeController(),
        EphemeralVolumeController(),
        PodClaimController(has_groups=shares_claims),
        ClaimUseController(has_groups=shares_claims),
        *((PodGroupProtection(),) if groups else ()),
        *((ElectionController(clock),) if features.enabled("CoordinatedLeaderElection") else ()),
        *((GroupClaimController(),) if shares_claims else ()),
    )


def kubelet_controllers(clock: Clock, pace: KubeletPace | None = None) -> tuple[Controller, ...]:
    """Return what stands for the kubelets of all fake nodes."""
    return Kubelet(clock, pace), Heartbeats(clock)
