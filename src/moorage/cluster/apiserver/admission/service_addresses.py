"""The addresses and node ports of services."""

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network, ip_address
from itertools import count
from typing import Any, Final

from moorage.cluster.apiserver.storage.store import Store
from moorage.kube.admission.checks.type_checks import NOT_AN_ADDRESS
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import FieldError, invalid_value, unsupported_value
from moorage.kube.resources import ServedResource
from moorage.kube.status_errors import invalid

SERVICES: Final = "services"
NETWORK: Final = IPv4Network("10.96.0.0/16")
FIRST: Final = str(NETWORK[1])
"""The address of the service named kubernetes."""
FIRST_PORT: Final = 30_000
EXTERNAL: Final = ("NodePort", "LoadBalancer")
_ADDRESS_FIELDS: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
_TYPE_FIELDS: Final = {
    "externalTrafficPolicy": EXTERNAL,
    "allocateLoadBalancerNodePorts": ("LoadBalancer",),
    "healthCheckNodePort": ("LoadBalancer",),
    "loadBalancerClass": ("LoadBalancer",),
    "externalName": ("ExternalName",),
}
"""Fields of a service that belong to some types."""


def allocate_address(resource: ServedResource, data: Data, store: Store) -> None:
    """Allocate a unique cluster IP for a new service, unless it is headless, and node ports if required."""
    spec = data["spec"]
    if spec.get("type") == "ExternalName":
        return
    requested = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
    if problems := list(_address_problems(spec, requested)):
        raise invalid(resource, data["metadata"].get("name", ""), problems)
    services = [entry.data.get("spec") or {} for entry in store.list(SERVICES)]
    in_use = {address for service in services for address in service.get("clusterIPs") or ()}
    if requested and requested != "None" and requested in in_use:
        reason = f"failed to allocate IP {requested}: provided IP is already allocated"
        raise invalid(resource, data["metadata"]["name"], [invalid_value("spec.clusterIPs", [requested], reason)])
    address = requested or next(str(item) for item in NETWORK.hosts() if str(item) not in in_use and str(item) != FIRST)
    policy = spec.get("ipFamilyPolicy") or "SingleStack"
    spec |= {"clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"], "ipFamilyPolicy": policy}
    if address == "None" and not spec.get("selector"):
        # The endpoints of such a service come from elsewhere, so they can be of both families.
        spec |= {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}
    _allocate_ports(spec, services)


def _allocate_ports(spec: Data, services: Iterable[Data]) -> None:
    if spec.get("type") not in EXTERNAL:
        return
    is_balanced = spec["type"] == "LoadBalancer"
    used_ports = {port.get("nodePort") for service in services for port in service.get("ports") or ()}
    free = (number for number in count(FIRST_PORT) if number not in used_ports)
    if not is_balanced or spec.get("allocateLoadBalancerNodePorts") is not False:
        for port in spec.get("ports") or ():
            if not port.get("nodePort"):
                port["nodePort"] = next(free)
    if is_balanced and spec.get("externalTrafficPolicy") == "Local" and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = next(free)


def _address_problems(spec: Data, requested: str) -> Iterator[FieldError]:
    """Yield the errors of addresses and families that a cluster with IPv4 only cannot provide."""
    if spec.get("ipFamilyPolicy") == "RequireDualStack" and (requested != "None" or spec.get("selector")):
        reason = "this cluster is not configured for dual-stack services"
        yield invalid_value("spec.ipFamilyPolicy", "RequireDualStack", reason)
    for number, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in ("IPv4", "IPv6"):
            yield unsupported_value(f"spec.ipFamilies[{number}]", family, ("IPv4", "IPv6"))
    if requested != "None" or spec.get("selector"):
        for number, family in enumerate(spec.get("ipFamilies") or ()):
            if family == "IPv6":
                yield invalid_value(f"spec.ipFamilies[{number}]", family, "not configured on this cluster")
    if not requested or requested == "None":
        return
    try:
        address = ip_address(requested)
    except ValueError:
        yield invalid_value("spec.clusterIPs[0]", requested, NOT_AN_ADDRESS)
        return
    if address.version == 6:
        yield invalid_value("spec.clusterIPs[0]", [requested], "IPv6 is not configured on this cluster")
    elif address not in NETWORK or address in (NETWORK.network_address, NETWORK.broadcast_address):
        reason = f"the provided IP ({requested}) is not in the valid range. The range of valid IPs is {NETWORK}"
        yield invalid_value("spec.clusterIPs", [requested], f"failed to allocate IP {requested}: {reason}")


def update_address(resource: ServedResource, old: Mapping[str, Any], data: Data, store: Store) -> None:
    """Preserve the address and node ports of a service if its manifest does not specify them. Allocate new ones.

    If its type changes, fields of the old type that the client did not change are removed.
    """
    before, after = old.get("spec") or {}, data["spec"]
    is_reachable = after.get("type") in EXTERNAL or after.get("externalIPs")
    if not is_reachable and after.get("externalTrafficPolicy") == before.get("externalTrafficPolicy"):
        after.pop("externalTrafficPolicy", None)
    for name in _ADDRESS_FIELDS:
        if name in before and after.get("type") != "ExternalName":
            after.setdefault(name, before[name])
        elif name in before and after.get(name) == before[name]:
            del after[name]
    for name, types in _TYPE_FIELDS.items():
        is_unused = after.get("type") not in types and before.get("type") != after.get("type")
        if is_unused and name in before and after.get(name) == before[name]:
            del after[name]
    if before.get("type") in EXTERNAL and after.get("type") in EXTERNAL:
        _keep_ports(before, after)
    elif before.get("type") in EXTERNAL:
        numbers = {port.get("nodePort") for port in before.get("ports") or ()}
        for port in after.get("ports") or ():
            if port.get("nodePort") in numbers:
                port.pop("nodePort", None)
    if after.get("type") != "ExternalName" and not after.get("clusterIP"):
        allocate_address(resource, data, store)
    else:
        _allocate_ports(after, (entry.data.get("spec") or {} for entry in store.list(SERVICES)))


def _keep_ports(before: Data, after: Data) -> None:
    requested = {port.get("nodePort") for port in after.get("ports") or ()}
    numbers = {port.get("name", ""): port.get("nodePort") for port in before.get("ports") or ()}
    for port in after.get("ports") or ():
        number = numbers.get(port.get("name", ""))
        if not port.get("nodePort") and number and number not in requested:
            port["nodePort"] = number
            requested.add(number)
    if "healthCheckNodePort" in before and after.get("externalTrafficPolicy") == "Local":
        after.setdefault("healthCheckNodePort", before["healthCheckNodePort"])


def kubernetes_service() -> Data:
    """Return the service of the API server."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": FIRST,
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 443}],
        },
    }
