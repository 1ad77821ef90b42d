"""Objects around the pods: namespaces, accounts, services, priorities and disruption budgets."""

from msgspec import field

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.selectors import LabelSelector
from moorage.kube.api.struct import Data, Int32, Int64, KubeStruct


class NamespaceSpec(KubeStruct, frozen=True):
    finalizers: tuple[str, ...] = ()


class Namespace(KubeObject, frozen=True, dict=True, gc=True):
    """A namespace. Namespace selectors match its labels."""

    spec: NamespaceSpec = NamespaceSpec()
    status: Data = {}


class ServiceAccount(KubeObject, frozen=True, dict=True, gc=True):
    """A service account."""


class ConfigMap(KubeObject, frozen=True, dict=True, gc=True):
    data: dict[str, str] = {}


class ServicePort(KubeStruct, frozen=True):
    """A port of a service, and the port of its pods by number or name."""

    name: str = ""
    protocol: str = "TCP"
    app_protocol: str | None = None
    port: Int32 = 0
    target_port: Int32 | str = 0


class ServiceSpec(KubeStruct, frozen=True):
    """The pods of a service. A service without a selector has none."""

    selector: dict[str, str] | None = None
    type: str = ""
    cluster_ip: str = field(default="", name="clusterIP")
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False


class Service(KubeObject, frozen=True, dict=True, gc=True):
    spec: ServiceSpec = ServiceSpec()


class Endpoints(KubeObject, frozen=True, dict=True, gc=True):
    """The addresses of a service's pods, by ports."""

    subsets: list[Data] | None = None


class EndpointSlice(KubeObject, frozen=True, dict=True, gc=True):
    """Some of the addresses of a service's pods."""

    endpoints: list[Data] | None = None
    ports: list[Data] | None = None


class PriorityClass(KubeObject, frozen=True, dict=True, gc=True):
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


class PodDisruptionBudgetSpec(KubeStruct, frozen=True):
    selector: LabelSelector | None = None
    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


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
