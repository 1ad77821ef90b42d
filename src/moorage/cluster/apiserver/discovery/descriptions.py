"""Short descriptions of kinds and of the fields that matter for scheduling, for ``kubectl explain``.

They are not upstream's texts; fields without one have no description.
"""

from collections.abc import Mapping
from typing import Final

DESCRIPTIONS: Final[Mapping[str, str]] = {
    "apps.v1.DaemonSet": "Runs one pod on each selected node.",
    "apps.v1.Deployment": "Runs replicas of a pod and replaces them step by step when the template changes.",
    "apps.v1.DeploymentSpec.paused": "Changes of the template have no effect until this is false.",
    "apps.v1.DeploymentSpec.progressDeadlineSeconds": "Time until a rollout without progress is reported as failed.",
    "apps.v1.DeploymentSpec.replicas": "Number of pods; the default is 1.",
    "apps.v1.DeploymentSpec.selector": "Labels of the pods; must match the template and cannot be changed.",
    "apps.v1.DeploymentSpec.strategy": "How pods are replaced: RollingUpdate (default) or Recreate.",
    "apps.v1.DeploymentSpec.template": "The pod to create.",
    "apps.v1.ReplicaSet": "Keeps a number of equal pods running; usually owned by a Deployment.",
    "apps.v1.StatefulSet": "Runs numbered pods with stable names and claims of their own.",
    "apps.v1.StatefulSetSpec.podManagementPolicy": "OrderedReady starts pods one after the other, Parallel at once.",
    "apps.v1.StatefulSetSpec.serviceName": "The headless service that gives the pods their DNS names.",
    "apps.v1.StatefulSetSpec.volumeClaimTemplates": "Claims that each pod gets; they are kept when the pod is deleted.",
    "batch.v1.CronJob": "Creates Jobs on a schedule.",
    "batch.v1.CronJobSpec.schedule": "Minute, hour, day of month, month and day of week, or a macro such as @daily.",
    "batch.v1.Job": "Runs pods until a number of them succeeds.",
    "batch.v1.JobSpec.backoffLimit": "Number of failed pods after which the job fails; the default is 6.",
    "batch.v1.JobSpec.completions": "Number of pods that must succeed.",
    "batch.v1.JobSpec.parallelism": "Maximum number of pods that run at the same time.",
    "batch.v1.JobSpec.suspend": "A suspended job has no pods.",
    "batch.v1.JobSpec.ttlSecondsAfterFinished": "Time after which a finished job is deleted.",
    "core.v1.Affinity.nodeAffinity": "Required and preferred labels of nodes.",
    "core.v1.Affinity.podAffinity": "Pods near which this pod should run.",
    "core.v1.Affinity.podAntiAffinity": "Pods near which this pod should not run.",
    "core.v1.ConfigMap": "Configuration as keys and texts.",
    "core.v1.Container.image": "The image; fake kubelets do not pull it.",
    "core.v1.Container.name": "The name, unique in the pod.",
    "core.v1.Container.ports": "Ports; only host ports affect scheduling.",
    "core.v1.Container.resources": "Requested and maximum amounts of resources; the scheduler counts requests.",
    "core.v1.Container.restartPolicy": "Always makes an init container a sidecar, whose requests are added.",
    "core.v1.LimitRange": "Default, minimum and maximum amounts of the containers, pods and claims of a namespace.",
    "core.v1.Namespace": "A scope for names, quotas and access rules.",
    "core.v1.Node": "A machine that runs pods.",
    "core.v1.NodeSpec.taints": "Pods must tolerate these to run here (NoSchedule, NoExecute, PreferNoSchedule).",
    "core.v1.NodeSpec.unschedulable": "A cordoned node gets no new pods.",
    "core.v1.NodeStatus.allocatable": "The amounts that pods can request.",
    "core.v1.PersistentVolume": "Storage of the cluster.",
    "core.v1.PersistentVolumeClaim": "A request for storage.",
    "core.v1.PersistentVolumeClaimSpec.storageClassName": "The class that provisions the volume; empty for none.",
    "core.v1.Pod": "Containers that run together on one node.",
    "core.v1.PodSpec.affinity": "Rules about nodes and about other pods.",
    "core.v1.PodSpec.containers": "The containers; at least one.",
    "core.v1.PodSpec.initContainers": "Containers that run one after the other before the others, and sidecars.",
    "core.v1.PodSpec.nodeName": "The node of the pod; set by the scheduler.",
    "core.v1.PodSpec.nodeSelector": "Labels that the node must have.",
    "core.v1.PodSpec.overhead": "Resources of the runtime, added to the requests; set by the runtime class.",
    "core.v1.PodSpec.preemptionPolicy": "Never prevents the eviction of pods with lower priority.",
    "core.v1.PodSpec.priorityClassName": "The class that sets the priority.",
    "core.v1.PodSpec.resourceClaims": "Claims of devices that containers can refer to.",
    "core.v1.PodSpec.restartPolicy": "Always (default), OnFailure or Never.",
    "core.v1.PodSpec.schedulerName": "The scheduler of the pod; the default is default-scheduler.",
    "core.v1.PodSpec.schedulingGates": "The pod is not scheduled until all gates are removed.",
    "core.v1.PodSpec.terminationGracePeriodSeconds": "Time to stop after deletion; the default is 30 seconds.",
    "core.v1.PodSpec.tolerations": "Taints of nodes that the pod tolerates.",
    "core.v1.PodSpec.topologySpreadConstraints": "How evenly matching pods are spread over zones or nodes.",
    "core.v1.PodSpec.volumes": "Volumes that containers can mount.",
    "core.v1.ResourceQuota": "Limits of the amounts and objects in a namespace.",
    "core.v1.ResourceRequirements.limits": "Maximum amounts; also the default of requests.",
    "core.v1.ResourceRequirements.requests": "Amounts that are reserved on the node.",
    "core.v1.Secret": "Confidential data as keys and base64.",
    "core.v1.Service": "A stable address for selected pods.",
    "core.v1.ServiceAccount": "An identity for pods.",
    "core.v1.Taint.effect": "NoSchedule, PreferNoSchedule, or NoExecute, which also evicts.",
    "core.v1.TopologySpreadConstraint.maxSkew": "Maximum difference between the numbers of pods of two domains.",
    "core.v1.TopologySpreadConstraint.minDomains": "Minimum number of domains; fewer count as one with no pods.",
    "core.v1.TopologySpreadConstraint.topologyKey": "The label of nodes whose values are the domains.",
    "core.v1.TopologySpreadConstraint.whenUnsatisfiable": "DoNotSchedule (default) or ScheduleAnyway.",
    "policy.v1.PodDisruptionBudget": "Limits how many selected pods may be evicted at the same time.",
    "policy.v1.PodDisruptionBudgetSpec.maxUnavailable": "Maximum number or share of pods that are not available.",
    "policy.v1.PodDisruptionBudgetSpec.minAvailable": "Minimum number or share of pods that stay available.",
    "resource.v1.DeviceClass": "Selects devices for claims.",
    "resource.v1.ResourceClaim": "A request for devices.",
    "resource.v1.ResourceSlice": "Devices that a driver offers, usually on one node.",
    "scheduling.v1.PriorityClass": "A named priority of pods.",
    "scheduling.v1.PriorityClass.globalDefault": "Whether pods without a class get this priority.",
    "scheduling.v1.PriorityClass.preemptionPolicy": "PreemptLowerPriority (default) or Never.",
    "scheduling.v1.PriorityClass.value": "The priority; higher values are scheduled first.",
    "storage.v1.StorageClass": "How volumes are provisioned.",
    "storage.v1.StorageClass.volumeBindingMode": "Immediate, or WaitForFirstConsumer, which uses the node of the pod.",
}
"""Descriptions by type, or by type and field."""
EVERYWHERE: Final[Mapping[str, str]] = {
    "apiVersion": "APIVersion defines the group and version of the object.",
    "kind": "The kind of the object.",
    "metadata": "Name, namespace, labels, annotations and owners.",
    "spec": "The desired state.",
    "status": "The observed state; written by controllers.",
}
"""Descriptions of fields that objects of each kind have."""


def describe(type_name: str, field: str = "", *, is_object: bool = False) -> str:
    """Return the description of a type such as ``io.k8s.api.core.v1.Pod``, or of one of its fields; may be empty."""
    name = ".".join(type_name.rsplit(".", 3)[1:])
    if not field:
        return DESCRIPTIONS.get(name, "")
    return DESCRIPTIONS.get(f"{name}.{field}", "") or (EVERYWHERE.get(field, "") if is_object else "")
