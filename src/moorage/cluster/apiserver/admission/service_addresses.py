"""The addresses and node ports of services."""

from collections.abc import Mapping
from ipaddress import IPv4Network
from itertools import count
from typing import Any, Final

from moorage.cluster.apiserver.storage.store import Store
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import invalid_value
from moorage.kube.resources import ServedResource
from moorage.kube.status_errors import invalid

SERVICES: Final = "services"
NETWORK: Final = IPv4Network("10.96.0.0/16")
FIRST: Final = str(NETWORK[1])
"""The address of the service named kubernetes."""
FIRST_PORT: Final = 30_000


def allocate_address(resource: ServedResource, data: Data, store: Store) -> None:
    """Allocate a unique cluster IP for a new service, unless it is headless, and node ports if required."""
    spec = data["spec"]
    if spec.get("type") == "ExternalName":
        return
    requested = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
    services = [entry.data.get("spec") or {} for entry in store.list(SERVICES)]
    in_use = {address for service in services for address in service.get("clusterIPs") or ()}
    if requested and requested != "None" and requested in in_use:
        why = f"failed to allocate IP {requested}: provided IP is already allocated"
        raise invalid(resource, data["metadata"]["name"], [invalid_value("spec.clusterIPs", [requested], why)])
    address = requested or next(str(item) for item in NETWORK.hosts() if str(item) not in in_use and str(item) != FIRST)
    spec |= {"clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
    if address == "None" and not spec.get("selector"):
        # The endpoints of such a service come from elsewhere, so they can be of both families.
        spec |= {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        used_ports = {port.get("nodePort") for service in services for port in service.get("ports") or ()}
        free = (number for number in count(FIRST_PORT) if number not in used_ports)
        for port in spec.get("ports") or ():
            if not port.get("nodePort"):
                port["nodePort"] = next(free)


def keep_address(old: Mapping[str, Any], data: Data) -> None:
    """Preserve the address of a service whose manifest does not specify one."""
    before, after = old.get("spec") or {}, data["spec"]
    if after.get("type") == before.get("type"):
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if name in before:
                after.setdefault(name, before[name])


def kubernetes_service(port: int = 443) -> Data:
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
            "ports": [{"name": "https", "port": port, "protocol": "TCP", "targetPort": port}],
        },
    }
