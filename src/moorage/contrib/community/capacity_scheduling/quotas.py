"""Elastic quotas: how much each namespace is guaranteed, may use at most, and uses."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from moorage.common.errors import QuantityError
from moorage.kube.api.custom import custom_kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import ResourceList
from moorage.kube.api.requests import PODS, countable
from moorage.kube.api.struct import KubeStruct
from moorage.scheduler.framework.handle import Lister
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.state.side_columns import SideColumns

Amounts = dict[str, int]
"""Resources in the units in which they are counted: CPU in thousandths."""
NO_AMOUNTS: Final[Mapping[str, int]] = {}


class ElasticQuotaSpec(KubeStruct, frozen=True):
    """The guarantee and the limit of a namespace; resources that are not named are not counted."""

    min: ResourceList = {}
    max: ResourceList = {}


class ElasticQuotaStatus(KubeStruct, frozen=True):
    """The usage of a namespace."""

    used: ResourceList = {}


class ElasticQuota(KubeObject, frozen=True, dict=True, gc=True):
    """The elastic quota of a namespace."""

    spec: ElasticQuotaSpec = ElasticQuotaSpec()
    status: ElasticQuotaStatus = ElasticQuotaStatus()


KIND: Final = custom_kind("ElasticQuota", "elasticquotas", "scheduling.x-k8s.io/v1alpha1", type=ElasticQuota)


class Usage(SideColumns):
    """The requests of the pods of each namespace on all nodes, including assumed pods."""

    def __init__(self, nodes: NodeTable) -> None:
        super().__init__(nodes, {})
        self._by_row: dict[int, dict[str, Amounts]] = {}
        self._by_namespace: dict[str, Amounts] = {}

    def of(self, namespace: str) -> Amounts:
        self.refresh()
        return self._by_namespace.get(namespace, {})

    def write(self, info: NodeInfo) -> None:
        self.clear(info.row)
        here: dict[str, Amounts] = {}
        for pod in info.pods.values():
            add(here.setdefault(pod.namespace, {}), pod_usage(pod))
        for namespace, amounts in here.items():
            add(self._by_namespace.setdefault(namespace, {}), amounts)
        self._by_row[info.row] = here

    def clear(self, row: int) -> None:
        for namespace, amounts in self._by_row.pop(row, {}).items():
            add(self._by_namespace[namespace], amounts, -1)


class Quota(Struct):
    """The quota of a namespace: its bounds and its usage in a cluster."""

    namespace: str
    name: str
    min: Amounts
    max: Amounts
    used: Amounts

    def exceeds_max(self, more: Mapping[str, int]) -> bool:
        """Return whether additional requests would exceed the limit."""
        return any(self.used.get(name, 0) + more.get(name, 0) > most for name, most in self.max.items())

    def exceeds_min(self, more: Mapping[str, int] = NO_AMOUNTS) -> bool:
        """Return whether the usage, with additional requests, exceeds the guarantee."""
        return any(self.used.get(name, 0) + more.get(name, 0) > least for name, least in self.min.items())


class QuotaState(Struct):
    """All quotas during one attempt; a clone follows a what-if."""

    quotas: dict[str, Quota]
    promised: Amounts = field(default_factory=dict)
    """Requests of other nominated pods of the namespace with precedence, counted against its quota."""
    promised_to_all: Amounts = field(default_factory=dict)
    """Requests of such pods of all namespaces, counted against the sum of the guarantees."""

    def clone(self) -> "QuotaState":
        """Return a copy that can follow a what-if."""
        return QuotaState({**self.quotas}, self.promised, self.promised_to_all)

    def change(self, pod: Pod, sign: int) -> None:
        """Count a pod that is added to a node, or stop counting a removed one."""
        if (quota := self.quotas.get(pod.namespace)) is not None:
            usage = {**quota.used}
            add(usage, pod_usage(pod), sign)
            self.quotas[pod.namespace] = Quota(quota.namespace, quota.name, quota.min, quota.max, usage)

    def problem_with(self, pod: Pod) -> str:
        """Return the violated bound; an empty string if the pod violates no bound or the namespace has no quota."""
        quota = self.quotas.get(pod.namespace)
        if quota is None:
            return ""
        requests = pod_requests(pod)
        if quota.exceeds_max(plus(requests, self.promised)):
            return f"because ElasticQuota {quota.name} is more than Max"
        guaranteed, used = Amounts(), plus(requests, self.promised_to_all)
        for quota in self.quotas.values():
            add(guaranteed, quota.min)
            add(used, quota.used)
        if any(used.get(name, 0) > amount for name, amount in guaranteed.items()):
            return "because total ElasticQuota used is more than min"
        return ""


class QuotaBook:
    """The quotas by namespace, cached until one changes.

    If a namespace has several, the first by name counts. An invalid quota limits nothing; ``problems`` contains the
    reason, by namespace.
    """

    def __init__(self, objects: Lister[ElasticQuota]) -> None:
        self._objects = objects
        self._version = -1
        self._bounds: dict[str, tuple[str, Amounts, Amounts]] = {}
        self.problems: dict[str, str] = {}

    def with_usage(self, usage: Usage) -> dict[str, Quota]:
        """Return all quotas with their current usage, which is shared and must not be changed."""
        self._refresh()
        return {
            namespace: Quota(namespace, name, least, most, usage.of(namespace))
            for namespace, (name, least, most) in self._bounds.items()
        }

    def _refresh(self) -> None:
        if self._version == self._objects.version:
            return
        self._version = self._objects.version
        self._bounds, self.problems = {}, {}
        for elastic_quota in sorted(self._objects.list(), key=lambda quota: quota.key):
            if elastic_quota.namespace in self._bounds or elastic_quota.namespace in self.problems:
                continue
            try:
                bounds = elastic_quota.name, countable(elastic_quota.spec.min), countable(elastic_quota.spec.max)
            except QuantityError as error:
                self.problems[elastic_quota.namespace] = f"ElasticQuota {elastic_quota.name} cannot be read: {error}"
            else:
                self._bounds[elastic_quota.namespace] = bounds


def pod_requests(pod: Pod) -> Amounts:
    """Return the requests of a pod; every pod takes one of ``pods``."""
    return {**pod.requests, PODS: 1}


def pod_usage(pod: Pod) -> Amounts:
    """Return the resources that a pod uses on its node."""
    return {**pod.requests_on_node, PODS: 1}


def add(total: Amounts, more: Mapping[str, int], sign: int = 1) -> None:
    """Add amounts to others, or subtract them."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + sign * amount


def plus(first: Mapping[str, int], second: Mapping[str, int]) -> Amounts:
    """Return the sum of two amounts."""
    total = {**first}
    add(total, second)
    return total
