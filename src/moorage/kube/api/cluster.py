"""Objects around the pods: namespaces, accounts, services, priorities and disruption budgets."""

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.selectors import LabelSelector
from moorage.kube.api.struct import Data, Int32, Int64, KubeStruct


class NamespaceSpec(KubeStruct, frozen=True):
    finalizers: tuple[str, ...] = ()


class Namespace(KubeObject, frozen=True, dict=True, gc=True):
    """A namespace; namespace selectors match its labels."""

    spec: NamespaceSpec = NamespaceSpec()
    status: Data = {}


class ServiceAccount(KubeObject, frozen=True, dict=True, gc=True):
    """A service account."""


class ConfigMap(KubeObject, frozen=True, dict=True, gc=True):
    data: dict[str, str] = {}


class ServiceSpec(KubeStruct, frozen=True):
    """The pods of a service; a service without a selector has none."""

    selector: dict[str, str] | None = None


class Service(KubeObject, frozen=True, dict=True, gc=True):
    spec: ServiceSpec = ServiceSpec()


class PriorityClass(KubeObject, frozen=True, dict=True, gc=True):
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


class PodDisruptionBudgetSpec(KubeStruct, frozen=True):
    selector: LabelSelector | None = None
    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None


class PodDisruptionBudgetStatus(KubeStruct, frozen=True):
    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str | None] = {}
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    observed_generation: Int64 = 0
    conditions: tuple[Data, ...] = ()


class PodDisruptionBudget(KubeObject, frozen=True, dict=True, gc=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
