"""Objects as controllers see them: typed where they are reasoned about, whole where they are passed on.

A pod template is copied into pods with every field its author wrote, so it stays plain data. So does a status, which is
only ever compared with the one it should be.
"""

from typing import Any, Final

from moorage.api import storage
from moorage.api.kinds import BY_TYPE, Kind
from moorage.api.meta import KubeObject
from moorage.api.selectors import LabelSelector
from moorage.api.struct import KubeStruct

Data = dict[str, Any]


class RollingUpdate(KubeStruct, frozen=True):
    """How many pods may be missing or too many while a workload is brought up to date."""

    max_unavailable: int | str | None = None
    max_surge: int | str | None = None
    partition: int | None = None


class UpdateStrategy(KubeStruct, frozen=True):
    """How the pods of a workload are replaced by new ones."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = RollingUpdate()


class OrdinalsSpec(KubeStruct, frozen=True):
    """Where the numbers of a stateful set's pods begin."""

    start: int = 0


class RetentionPolicy(KubeStruct, frozen=True):
    """What becomes of the claims of a stateful set's pods: ``Retain`` or ``Delete``."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class WorkloadSpec(KubeStruct, frozen=True):
    """What workloads ask for; each kind has some of these fields."""

    selector: LabelSelector | None = None
    replicas: int = 1
    template: Data = {}
    min_ready_seconds: int = 0
    strategy: UpdateStrategy = UpdateStrategy()
    update_strategy: UpdateStrategy = UpdateStrategy()
    revision_history_limit: int = 10
    progress_deadline_seconds: int | None = None
    paused: bool = False
    service_name: str = ""
    pod_management_policy: str = ""
    volume_claim_templates: tuple[Data, ...] = ()
    ordinals: OrdinalsSpec = OrdinalsSpec()
    persistent_volume_claim_retention_policy: RetentionPolicy = RetentionPolicy()


class Workload(KubeObject, frozen=True, dict=True, gc=True):
    """Something that keeps pods alive."""

    spec: WorkloadSpec = WorkloadSpec()
    status: Data = {}


class Deployment(Workload, frozen=True, dict=True, gc=True):
    """A deployment."""


class ReplicaSet(Workload, frozen=True, dict=True, gc=True):
    """A replica set."""


class StatefulSet(Workload, frozen=True, dict=True, gc=True):
    """A stateful set."""


class DaemonSet(Workload, frozen=True, dict=True, gc=True):
    """A daemon set."""


class ReplicationControllerSpec(KubeStruct, frozen=True):
    """What a replication controller asks for: a replica set's wishes, with a plain map for a selector."""

    selector: dict[str, str] = {}
    replicas: int = 1
    template: Data = {}
    min_ready_seconds: int = 0


class ReplicationController(KubeObject, frozen=True, dict=True, gc=True):
    """A replication controller."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: Data = {}


class ControllerRevision(KubeObject, frozen=True, dict=True, gc=True):
    """A template as it once was, to go back to."""

    data: Data = {}
    revision: int = 0


class ExitCodes(KubeStruct, frozen=True):
    """Exit codes a rule is about, of one container or of all."""

    operator: str = "In"
    values: tuple[int, ...] = ()
    container_name: str | None = None


class ConditionPattern(KubeStruct, frozen=True):
    """A pod condition a rule is about."""

    type: str = ""
    status: str = "True"


class FailureRule(KubeStruct, frozen=True):
    """What to do about a pod that failed in a certain way."""

    action: str = "Count"
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[ConditionPattern, ...] = ()


class FailurePolicy(KubeStruct, frozen=True):
    """What to do about failed pods; the first rule that fits counts."""

    rules: tuple[FailureRule, ...] = ()


class JobSpec(KubeStruct, frozen=True):
    """What a job asks for."""

    selector: LabelSelector | None = None
    template: Data = {}
    parallelism: int = 1
    completions: int | None = None
    backoff_limit: int = 6
    completion_mode: str = "NonIndexed"
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    pod_failure_policy: FailurePolicy = FailurePolicy()


class Job(KubeObject, frozen=True, dict=True, gc=True):
    """A job."""

    spec: JobSpec = JobSpec()
    status: Data = {}


class CronJobSpec(KubeStruct, frozen=True):
    """When jobs are made, from what, and how many are kept."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    job_template: Data = {}
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1


class CronJob(KubeObject, frozen=True, dict=True, gc=True):
    """A cron job."""

    spec: CronJobSpec = CronJobSpec()
    status: Data = {}


class ServiceAccount(KubeObject, frozen=True, dict=True, gc=True):
    """A service account."""


class NamespaceSpec(KubeStruct, frozen=True):
    """Who has to agree before a namespace goes."""

    finalizers: tuple[str, ...] = ()


class Namespace(KubeObject, frozen=True, dict=True, gc=True):
    """A namespace."""

    spec: NamespaceSpec = NamespaceSpec()
    status: Data = {}


class PodDisruptionBudgetSpec(KubeStruct, frozen=True):
    """Which pods a budget protects, and how many of them must stay or may go."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudget(KubeObject, frozen=True, dict=True, gc=True):
    """A disruption budget."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: Data = {}


class StorageClass(storage.StorageClass, frozen=True, dict=True, gc=True):
    """How volumes of a class are made, and what becomes of them."""

    reclaim_policy: str = "Delete"


class ResourceClaimTemplateSpec(KubeStruct, frozen=True):
    """The claims made from a template, whole."""

    metadata: Data = {}
    spec: Data = {}


class ResourceClaimTemplate(KubeObject, frozen=True, dict=True, gc=True):
    """A template for claims of devices."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


_OWN: Final = (
    Kind("Deployment", "apps", "v1", "deployments", True, Deployment),
    Kind("ReplicaSet", "apps", "v1", "replicasets", True, ReplicaSet),
    Kind("StatefulSet", "apps", "v1", "statefulsets", True, StatefulSet),
    Kind("DaemonSet", "apps", "v1", "daemonsets", True, DaemonSet),
    Kind("ControllerRevision", "apps", "v1", "controllerrevisions", True, ControllerRevision),
    Kind("ReplicationController", "", "v1", "replicationcontrollers", True, ReplicationController),
    Kind("ServiceAccount", "", "v1", "serviceaccounts", True, ServiceAccount),
    Kind("CronJob", "batch", "v1", "cronjobs", True, CronJob),
    Kind("Job", "batch", "v1", "jobs", True, Job),
    Kind("Namespace", "", "v1", "namespaces", False, Namespace),
    Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", True, PodDisruptionBudget),
    Kind("StorageClass", "storage.k8s.io", "v1", "storageclasses", False, StorageClass),
    Kind("ResourceClaimTemplate", "resource.k8s.io", "v1", "resourceclaimtemplates", True, ResourceClaimTemplate),
)
_KINDS: Final = {kind.type: kind for kind in _OWN}


def kind_of(struct: type[KubeObject]) -> Kind:
    """Return the kind a struct stands for: one of those above, or one the scheduler knows as well."""
    return _KINDS.get(struct) or BY_TYPE[struct]
