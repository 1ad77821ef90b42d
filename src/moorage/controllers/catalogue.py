"""All controllers of a cluster, and all that fake nodes need, ready to be driven."""

from moorage.clock import Clock
from moorage.controllers.accounts import AccountController
from moorage.controllers.cronjob import CronJobController
from moorage.controllers.daemonset import DaemonSetController
from moorage.controllers.deployment import DeploymentController
from moorage.controllers.disruption import DisruptionController
from moorage.controllers.driver import Controller
from moorage.controllers.ephemeral import EphemeralVolumeController
from moorage.controllers.garbage import GarbageCollector
from moorage.controllers.heartbeats import Heartbeats
from moorage.controllers.job import JobController
from moorage.controllers.kubelet import Kubelet, Pace
from moorage.controllers.namespaces import NamespaceController
from moorage.controllers.nodes import EvictionController, NodeController
from moorage.controllers.objects import ReplicationController
from moorage.controllers.replicaset import ReplicaSetController
from moorage.controllers.resource_claims import ClaimUseController, PodClaimController
from moorage.controllers.statefulset import StatefulSetController
from moorage.controllers.volumes import ClaimController, VolumeController


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


def kubelet_controllers(clock: Clock, pace: Pace | None = None) -> tuple[Controller, ...]:
    """Return what stands for the kubelets of all fake nodes."""
    return Kubelet(clock, pace), Heartbeats(clock)
