"""All controllers of a cluster, and all that fake nodes need, ready to be driven."""

from moorage.api.workloads import ReplicationController
from moorage.box.controllers.accounts import AccountController, RootAuthorityController
from moorage.box.controllers.cronjob import CronJobController
from moorage.box.controllers.daemonset import DaemonSetController
from moorage.box.controllers.deployment import DeploymentController
from moorage.box.controllers.disruption import DisruptionController
from moorage.box.controllers.driver import Controller
from moorage.box.controllers.ephemeral import EphemeralVolumeController
from moorage.box.controllers.garbage import GarbageCollector
from moorage.box.controllers.heartbeats import Heartbeats
from moorage.box.controllers.job import JobController
from moorage.box.controllers.kubelet import Kubelet, KubeletPace
from moorage.box.controllers.namespaces import NamespaceController
from moorage.box.controllers.nodes import EvictionController, NodeController
from moorage.box.controllers.replicaset import ReplicaSetController
from moorage.box.controllers.resource_claims import ClaimUseController, PodClaimController
from moorage.box.controllers.statefulset import StatefulSetController
from moorage.box.controllers.volumes import ClaimController, VolumeController
from moorage.clock import Clock


def cluster_controllers(clock: Clock) -> tuple[Controller, ...]:
    """Return what a controller manager runs."""
    return (
        DeploymentController(clock),
        ReplicaSetController(clock),
        ReplicaSetController(clock, ReplicationController),
        StatefulSetController(clock),
        DaemonSetController(clock),
        JobController(clock),
        CronJobController(clock),
        NamespaceController(),
        AccountController(),
        RootAuthorityController(),
        GarbageCollector(clock),
        DisruptionController(clock),
        NodeController(clock),
        EvictionController(clock),
        ClaimController(),
        VolumeController(),
        EphemeralVolumeController(),
        PodClaimController(),
        ClaimUseController(),
    )


def kubelet_controllers(clock: Clock, pace: KubeletPace | None = None) -> tuple[Controller, ...]:
    """Return what stands for the kubelets of all fake nodes."""
    return Kubelet(clock, pace), Heartbeats(clock)
