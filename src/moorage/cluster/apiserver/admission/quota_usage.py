"""The quota usage of objects: their number and their requests; and the scopes of quotas."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from moorage.cluster.apiserver.storage.store import Entry
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import NANO, nano_value
from moorage.kube.api.requests import CPU, is_extended, limits_total, spec_requests
from moorage.kube.api.struct import Data
from moorage.kube.plain_data import find

Usage = dict[str, int]
"""Amounts in billionths by quota resource name."""
PODS: Final = "pods"
CLAIMS: Final = "persistentvolumeclaims"
SERVICES: Final = "services"
DEVICE_CLAIMS: Final = "resourceclaims.resource.k8s.io"
COUNTED_BY_NAME: Final = frozenset(
    (PODS, SERVICES, CLAIMS, "configmaps", "secrets", "replicationcontrollers", "resourcequotas")
)
"""Resources that quotas also count without the prefix ``count/``."""
MUST_ASK: Final = ("cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory")
"""If a quota limits one of these, every container must specify it."""
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
_STORAGE: Final = "storageclass.storage.k8s.io"


def compute_usage(storage: str, entry: Entry) -> Usage:
    """Return the quota usage of a stored object."""
    usage: Usage = {f"count/{storage}": NANO}
    if storage == PODS:
        pod = entry.typed(Pod)
        return usage if pod.is_finished else {**usage, PODS: NANO, **_compute(pod)}
    if storage in COUNTED_BY_NAME:
        usage[storage] = NANO
    if storage == CLAIMS:
        usage |= _claim(entry.data)
    elif storage == SERVICES:
        usage |= _service(entry.data)
    elif storage == DEVICE_CLAIMS:
        usage |= _devices(entry.data)
    return usage


def _compute(pod: Pod) -> Usage:
    requests, limits = _nanos(spec_requests(pod)), _nanos(limits_total(pod))
    usage: Usage = {}
    for name, amount in requests.items():
        if name in _NATIVE or name.startswith("hugepages-"):
            usage[name] = amount
        if name in _NATIVE or name.startswith("hugepages-") or is_extended(name):
            usage[f"requests.{name}"] = amount
    usage |= {f"limits.{name}": amount for name, amount in limits.items() if name in _NATIVE}
    return usage


def _nanos(amounts: Mapping[str, int]) -> Usage:
    return {name: amount * (NANO // 1000 if name == CPU else NANO) for name, amount in amounts.items()}


def _claim(data: Data) -> Usage:
    requested = nano_value(find(data, "spec.resources.requests.storage", "0"))
    usage = {"requests.storage": requested}
    if name := find(data, "spec.storageClassName"):
        usage |= {f"{name}.{_STORAGE}/requests.storage": requested, f"{name}.{_STORAGE}/{CLAIMS}": NANO}
    return usage


def _service(data: Data) -> Usage:
    spec = data.get("spec") or {}
    ports = len(spec.get("ports") or ()) * NANO
    match spec.get("type"):
        case "NodePort":
            return {"services.nodeports": ports}
        case "LoadBalancer":
            opened = spec.get("allocateLoadBalancerNodePorts", True)
            return {"services.loadbalancers": NANO, "services.nodeports": ports if opened else 0}
        case _:
            return {}


def _devices(data: Data) -> Usage:
    usage: Usage = {}
    for request in find(data, "spec.devices.requests", []):
        choices = request.get("firstAvailable") or [request.get("exactly") or {}]
        # The allocator selects one alternative later, so the quota counts the largest.
        most: Usage = {}
        for choice in choices:
            name = f"{choice.get('deviceClassName', '')}.deviceclass.resource.k8s.io/devices"
            most[name] = max(most.get(name, 0), int(choice.get("count") or 1) * NANO)
        for name, amount in most.items():
            usage[name] = usage.get(name, 0) + amount
    return usage


def find_unspecified(spec: Data, limited: Mapping[str, Any]) -> str:
    """Return a message about containers without amounts that the quota requires, or empty if all have them."""
    if spec.get("resources"):
        return ""
    parts = []
    for name in (name for name in MUST_ASK if name in limited):
        field, _, resource = name.rpartition(".")
        containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        silent = [
            item["name"] for item in containers if resource not in find(item, f"resources.{field or 'requests'}", {})
        ]
        if silent:
            parts.append(f"{name} for: {','.join(sorted(silent))}")
    return f"must specify {'; '.join(parts)}" if parts else ""


def is_in_scope(spec: Data, storage: str, entry: Entry) -> bool:
    """Return whether a quota applies to an object; scopes restrict it to pods, or to claims of volume classes."""
    scopes = ({"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ())
    requirements = (*scopes, *find(spec, "scopeSelector.matchExpressions", []))
    return all(_matches(requirement, storage, entry) for requirement in requirements)


def _matches(requirement: Data, storage: str, entry: Entry) -> bool:
    scope = requirement.get("scopeName", "")
    if scope == "VolumeAttributesClass":
        names = {find(entry.data, path) for path in _ATTRIBUTES} - {""} if storage == CLAIMS else set()
        return storage == CLAIMS and _selects(requirement, names)
    if storage != PODS:
        return False
    if scope == "PriorityClass":
        name = entry.typed(Pod).spec.priority_class_name
        return _selects(requirement, {name} if name else set())
    test = _POD_SCOPES.get(scope)
    return test is not None and test(entry)


_ATTRIBUTES: Final = (
    "spec.volumeAttributesClassName",
    "status.currentVolumeAttributesClassName",
    "status.modifyVolumeStatus.targetVolumeAttributesClassName",
)


def _selects(requirement: Data, names: set[Any]) -> bool:
    values = set(requirement.get("values") or ())
    match requirement.get("operator"):
        case "In":
            return bool(names & values)
        case "NotIn":
            return not names & values
        case "DoesNotExist":
            return not names
        case _:
            return bool(names)


def _selects_namespaces(entry: Entry) -> bool:
    """Return whether an affinity term of a pod selects pods of other namespaces."""
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = find(entry.data, f"spec.affinity.{kind}", {})
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        weighed = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [item.get("podAffinityTerm") or {} for item in weighed]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


_POD_SCOPES: Final[Mapping[str, Callable[[Entry], bool]]] = {
    "Terminating": lambda entry: find(entry.data, "spec.activeDeadlineSeconds", None) is not None,
    "NotTerminating": lambda entry: find(entry.data, "spec.activeDeadlineSeconds", None) is None,
    "BestEffort": lambda entry: bool(find(entry.data, "status.qosClass") == "BestEffort"),
    "NotBestEffort": lambda entry: bool(find(entry.data, "status.qosClass") != "BestEffort"),
    "CrossNamespacePodAffinity": _selects_namespaces,
}
