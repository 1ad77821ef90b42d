"""Objects around the pods: namespaces, accounts, services, priorities, disruption budgets and groups of pods."""

from moorage.api.meta import Condition, KubeObject
from moorage.api.selectors import LabelSelector
from moorage.api.struct import Data, KubeStruct


class NamespaceSpec(KubeStruct, frozen=True):
    """Who has to agree before a namespace goes."""

    finalizers: tuple[str, ...] = ()


class Namespace(KubeObject, frozen=True, dict=True, gc=True):
    """A namespace; its labels are what namespace selectors select by."""

    spec: NamespaceSpec = NamespaceSpec()
    status: Data = {}


class ServiceAccount(KubeObject, frozen=True, dict=True, gc=True):
    """A service account."""


class ConfigMap(KubeObject, frozen=True, dict=True, gc=True):
    """Texts by name."""

    data: dict[str, str] = {}


class ServiceSpec(KubeStruct, frozen=True):
    """Which pods a service stands for; a service without a selector stands for none."""

    selector: dict[str, str] | None = None


class Service(KubeObject, frozen=True, dict=True, gc=True):
    """A service."""

    spec: ServiceSpec = ServiceSpec()


class PriorityClass(KubeObject, frozen=True, dict=True, gc=True):
    """A named priority, perhaps the one that pods without a name get."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class PodDisruptionBudgetSpec(KubeStruct, frozen=True):
    """Which pods the budget protects, and how many of them must stay or may go."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(KubeStruct, frozen=True):
    """How many of them may go now."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str | None] = {}
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0
    conditions: tuple[Data, ...] = ()


class PodDisruptionBudget(KubeObject, frozen=True, dict=True, gc=True):
    """A disruption budget."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class GangPolicy(KubeStruct, frozen=True):
    """A group that runs only when enough of it can."""

    min_count: int = 0


class PodGroupPolicy(KubeStruct, frozen=True):
    """How the pods of a group are scheduled: one by one, or together."""

    basic: Data | None = None
    gang: GangPolicy | None = None


class PodGroupSpec(KubeStruct, frozen=True):
    """The policy of a group of pods."""

    scheduling_policy: PodGroupPolicy = PodGroupPolicy()
    priority: int | None = None
    priority_class_name: str = ""


class PodGroupStatus(KubeStruct, frozen=True):
    """What has become of a group of pods."""

    conditions: tuple[Condition, ...] = ()


class PodGroup(KubeObject, frozen=True, dict=True, gc=True):
    """A group of pods that are scheduled together."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class WorkloadPodGroupTemplate(KubeStruct, frozen=True):
    """A group that a workload makes."""

    name: str = ""
    scheduling_policy: PodGroupPolicy = PodGroupPolicy()


class PodGroupsSpec(KubeStruct, frozen=True):
    """The groups of a workload."""

    pod_group_templates: tuple[WorkloadPodGroupTemplate, ...] = ()


class Workload(KubeObject, frozen=True, dict=True, gc=True):
    """A workload, as the scheduling API describes it."""

    spec: PodGroupsSpec = PodGroupsSpec()
