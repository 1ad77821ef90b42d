"""Workloads: the kinds of the apps and batch groups, and the replication controller.

Fields that controllers evaluate are typed. Other fields are plain data: a pod template is copied into pods with every
field that its author wrote, and a status is only compared. The scheduler lists thousands of replica sets and needs only
their selectors, so templates and statuses remain JSON until a controller reads them.
"""

from typing import ClassVar, Final

import msgspec

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.selectors import LabelSelector
from moorage.kube.api.struct import Data, Int32, Int64, KubeStruct

_EMPTY: Final = msgspec.Raw(b"{}")


def _decode(part: msgspec.Raw) -> Data:
    # Null means "absent", as everywhere.
    return msgspec.json.decode(part, type=Data | None) or {}


class RollingUpdate(KubeStruct, frozen=True):
    max_unavailable: Int32 | str | None = None
    max_surge: Int32 | str | None = None
    partition: Int32 | None = None


class UpdateStrategy(KubeStruct, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = RollingUpdate()


class OrdinalsSpec(KubeStruct, frozen=True):
    start: Int32 = 0


class RetentionPolicy(KubeStruct, frozen=True):
    """The retention of the claims of a stateful set's pods: ``Retain`` or ``Delete``."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class ReplicatedSpec(KubeStruct, frozen=True):
    """The common fields of the specs of all workloads that keep pods running."""

    replicas: Int32 = 1
    template_json: msgspec.Raw = msgspec.field(default=_EMPTY, name="template")
    min_ready_seconds: Int32 = 0

    @property
    def template(self) -> Data:
        """Return a copy of the pod template, which the caller may change."""
        return _decode(self.template_json)


class ReplicatedWorkload(KubeObject, frozen=True, dict=True, gc=True):
    """The common fields of all workloads that keep pods running."""

    holds_json: ClassVar[bool] = True

    status_json: msgspec.Raw = msgspec.field(default=_EMPTY, name="status")

    @property
    def status(self) -> Data:
        """Return a copy of the status, which the caller may change."""
        return _decode(self.status_json)


class AppsWorkloadSpec(ReplicatedSpec, frozen=True):
    """The union of the specs of workloads. Each kind has some of these fields."""

    selector: LabelSelector | None = None
    strategy: UpdateStrategy = UpdateStrategy()
    update_strategy: UpdateStrategy = UpdateStrategy()
    revision_history_limit: Int32 = 10
    progress_deadline_seconds: Int32 | None = None
    paused: bool = False
    service_name: str = ""
    pod_management_policy: str = ""
    volume_claim_templates: tuple[Data, ...] = ()
    ordinals: OrdinalsSpec = OrdinalsSpec()
    persistent_volume_claim_retention_policy: RetentionPolicy = RetentionPolicy()


class AppsWorkload(ReplicatedWorkload, frozen=True, dict=True, gc=True):
    """The common fields of the four workloads of the apps group."""

    spec: AppsWorkloadSpec = AppsWorkloadSpec()


class Deployment(AppsWorkload, frozen=True, dict=True, gc=True):
    """A deployment."""


class ReplicaSet(AppsWorkload, frozen=True, dict=True, gc=True):
    """A replica set."""


class StatefulSet(AppsWorkload, frozen=True, dict=True, gc=True):
    """A stateful set."""


class DaemonSet(AppsWorkload, frozen=True, dict=True, gc=True):
    """A daemon set."""


class ReplicationControllerSpec(ReplicatedSpec, frozen=True):
    """The spec of a replication controller. Its selector is a map, by default the labels of the template."""

    selector: dict[str, str] | None = None


class ReplicationController(ReplicatedWorkload, frozen=True, dict=True, gc=True):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class ControllerRevision(KubeObject, frozen=True, dict=True, gc=True):
    """A previous template, for rollbacks."""

    data: Data = {}
    revision: Int64 = 0


class ExitCodes(KubeStruct, frozen=True):
    operator: str = "In"
    values: tuple[Int32, ...] = ()
    container_name: str | None = None


class ConditionPattern(KubeStruct, frozen=True):
    type: str = ""
    status: str = "True"


class FailureRule(KubeStruct, frozen=True):
    action: str = "Count"
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[ConditionPattern, ...] = ()


class FailurePolicy(KubeStruct, frozen=True):
    """Reactions to failed pods. The first matching rule applies."""

    rules: tuple[FailureRule, ...] = ()


class SuccessRule(KubeStruct, frozen=True):
    """The completions that make a job successful: these indexes (``0-2,5``), a number, or a number of these."""

    succeeded_indexes: str | None = None
    succeeded_count: Int32 | None = None


class SuccessPolicy(KubeStruct, frozen=True):
    """Rules for the early success of an indexed job. The first matching rule applies."""

    rules: tuple[SuccessRule, ...] = ()


class JobSpec(KubeStruct, frozen=True):
    selector: LabelSelector | None = None
    template: Data = {}
    parallelism: Int32 = 1
    completions: Int32 | None = None
    backoff_limit: Int32 = 6
    completion_mode: str = "NonIndexed"
    active_deadline_seconds: Int64 | None = None
    ttl_seconds_after_finished: Int32 | None = None
    suspend: bool = False
    pod_failure_policy: FailurePolicy = FailurePolicy()
    success_policy: SuccessPolicy = SuccessPolicy()
    scheduling: Data | None = None


class Job(KubeObject, frozen=True, dict=True, gc=True):
    spec: JobSpec = JobSpec()
    status: Data = {}


class CronJobSpec(KubeStruct, frozen=True):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: Int64 | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    job_template: Data = {}
    successful_jobs_history_limit: Int32 = 3
    failed_jobs_history_limit: Int32 = 1


class CronJob(KubeObject, frozen=True, dict=True, gc=True):
    spec: CronJobSpec = CronJobSpec()
    status: Data = {}
