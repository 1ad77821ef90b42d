"""Words that anonymized snapshots keep: constants of Kubernetes and of this project, which reveal no user's choice."""

from typing import Final

from moorage.kube.api.csi_migration import MIGRATIONS
from moorage.kube.api.kinds import KINDS
from moorage.kube.features import GATES

_ENUMS: Final = """
Always OnFailure Never IfNotPresent File FallbackToLogsOnError ClusterFirst ClusterFirstWithHostNet Default None
Pending Running Succeeded Failed Unknown Active Terminating Bound Available Released Lost True False
Ready PodScheduled Initialized ContainersReady PodReadyToStartContainers DisruptionTarget PodGroupScheduled
PodGroupInitiallyScheduled PodResizePending PodResizeInProgress Deferred Infeasible Proposed InProgress
MemoryPressure DiskPressure PIDPressure NetworkUnavailable NoSchedule PreferNoSchedule NoExecute
In NotIn Exists DoesNotExist Gt Lt Equal DoNotSchedule ScheduleAnyway Honor Ignore PreemptLowerPriority
TCP UDP SCTP ClusterIP NodePort LoadBalancer ExternalName Block Filesystem Immediate WaitForFirstConsumer
ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod Retain Delete Recycle Managed Dedicated Shared
OrderedReady Parallel RollingUpdate OnDelete Recreate NonIndexed Indexed Allow Forbid Replace
TerminatingOrFailed FailJob Count FailIndex IfHealthyBudget AlwaysAllow RestartAllContainers Restart
NotTerminating BestEffort NotBestEffort CrossNamespacePodAffinity VolumeAttributesClass Container
ExactCount All FromClass FromClaim NodePrepareResources NodeUnprepareResources basic gang single all pod podGroup
Unschedulable SchedulingGated SchedulerError PreemptionByScheduler DeletionByTaintManager EvictionByEvictionAPI
TerminationByKubelet DeletionByPodGC KubeletReady KubeletNotReady NodeStatusUnknown Burstable Guaranteed linux
windows amd64 arm64 zone host yes true false NotRequired RestartContainer
"""
_NAMES: Final = """
default kube-system kube-public kube-node-lease metadata.name metadata.namespace spec.nodeName default-scheduler moorage
system-cluster-critical system-node-critical control-plane master worker foregroundDeletion orphan
cpu memory pods storage ephemeral-storage count services services.loadbalancers services.nodeports configmaps secrets
persistentvolumeclaims replicationcontrollers resourcequotas attachable-volumes-aws-ebs attachable-volumes-gce-pd
attachable-volumes-azure-disk attachable-volumes-cinder requests.cpu requests.memory requests.storage
requests.ephemeral-storage limits.cpu limits.memory limits.ephemeral-storage devices
pod-template-hash controller-revision-hash pod-template-generation controller-uid job-name
aws: projects zones regions disks UNSPECIFIED nvidia.com/gpu amd.com/gpu 0.0.0.0 127.0.0.1 :: ::1
"""
_KEYS: Final = """
app.kubernetes.io/name app.kubernetes.io/instance app.kubernetes.io/component apps.kubernetes.io/pod-index
batch.kubernetes.io/controller-uid batch.kubernetes.io/job-completion-index batch.kubernetes.io/job-name
batch.kubernetes.io/cronjob-scheduled-timestamp batch.kubernetes.io/job-tracking beta.kubernetes.io/arch
beta.kubernetes.io/os beta.kubernetes.io/instance-type controller.kubernetes.io/pod-deletion-cost
deployment.kubernetes.io/revision failure-domain.beta.kubernetes.io/region failure-domain.beta.kubernetes.io/zone
kubernetes.io/arch kubernetes.io/config.mirror kubernetes.io/hostname kubernetes.io/metadata.name kubernetes.io/os
kubernetes.io/no-provisioner kubernetes.io/pv-protection kubernetes.io/pvc-protection kubernetes.io/azure-file
kubernetes.io/vsphere-volume kubernetes.io/portworx-volume kubernetes.io/service-name
moorage.io/exit-code moorage.io/fail moorage.io/fake moorage.io/gang moorage.io/gang-size moorage.io/gpu-count
moorage.io/gpu-devices moorage.io/gpu-milli moorage.io/gpu-model moorage.io/price-per-hour
moorage.io/run-for moorage.io/start-delay moorage.io/stop-delay moorage.io/topology
node-role.kubernetes.io/control-plane node-role.kubernetes.io/master node-role.kubernetes.io/worker
node.kubernetes.io/disk-pressure node.kubernetes.io/exclude-from-external-load-balancers
node.kubernetes.io/instance-type node.kubernetes.io/memory-pressure node.kubernetes.io/network-unavailable
node.kubernetes.io/not-ready node.kubernetes.io/out-of-service node.kubernetes.io/pid-pressure
node.kubernetes.io/unreachable node.kubernetes.io/unschedulable node.cloudprovider.kubernetes.io/uninitialized
preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority
preemption-toleration.scheduling.x-k8s.io/toleration-seconds
pv.kubernetes.io/bind-completed pv.kubernetes.io/bound-by-controller pv.kubernetes.io/migrated-to
pv.kubernetes.io/provisioned-by resource.kubernetes.io/delete-protection
resource.kubernetes.io/extended-resource-claim resource.kubernetes.io/pcieRoot resource.kubernetes.io/pciBusID
resource.kubernetes.io/pod-claim-name scheduling.k8s.io/group-template-name scheduling.k8s.io/podgroup-protection
scheduling.x-k8s.io/pod-group statefulset.kubernetes.io/pod-name storage.alpha.kubernetes.io/migrated-plugins
storageclass.kubernetes.io/is-default-class topology.kubernetes.io/region topology.kubernetes.io/zone
topology.ebs.csi.aws.com/zone topology.gke.io/zone topology.cinder.csi.openstack.org/zone
volume.beta.kubernetes.io/storage-class volume.beta.kubernetes.io/storage-provisioner
volume.kubernetes.io/selected-node volume.kubernetes.io/storage-provisioner
"""

PUBLIC_KEYS: Final = frozenset(_KEYS.split())
"""Keys of labels, taints, annotations, attributes and parameters. Numbers below them also remain."""
PUBLIC_DOMAINS: Final = frozenset(key.partition("/")[0] for key in PUBLIC_KEYS) | {
    *("node-restriction.kubernetes.io", "deviceclass.resource.kubernetes.io", "kubernetes.io", "k8s.io"),
    *(f"{word}.resource.k8s.io" for word in ("deviceclass",)),
    *(f"{word}.storage.k8s.io" for word in ("storageclass",)),
}
PUBLIC_WORDS: Final = frozenset(
    (
        "",
        *_ENUMS.split(),
        *_NAMES.split(),
        *PUBLIC_KEYS,
        *PUBLIC_DOMAINS,
        *(migration.plugin for migration in MIGRATIONS),
        *(migration.driver for migration in MIGRATIONS),
        *(word for kind in KINDS for word in (kind.name, kind.api_version, kind.full_name, kind.plural, kind.group)),
        *GATES,
    )
)
"""All other texts are renamed."""
