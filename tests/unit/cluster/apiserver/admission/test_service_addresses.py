"""Addresses, families and ports of services."""

import pytest
from tests.support.api import MERGE, ApiHarness

SERVICES = "/api/v1/namespaces/default/services"
PORTS = [{"port": 80}]


def create(spec, want=201):
    service = {"metadata": {"name": "web"}, "spec": {"ports": PORTS, **spec}}
    return ApiHarness().request("POST", SERVICES, service, want=want)


REFUSED = {
    "an address outside of the network": ({"clusterIP": "1.2.3.4"}, "is not in the valid range"),
    "text instead of an address": ({"clusterIP": "here"}, "must be a valid IP address"),
    "an IPv6 address": ({"clusterIP": "fd00::1"}, "IPv6 is not configured on this cluster"),
    "the family IPv6": ({"ipFamilies": ["IPv6"]}, "not configured on this cluster"),
    "two families": ({"ipFamilyPolicy": "RequireDualStack"}, "this cluster is not configured for dual-stack services"),
}


@pytest.mark.parametrize(("spec", "message"), REFUSED.values(), ids=REFUSED)
def test_service_that_the_cluster_cannot_provide_is_rejected(spec: dict[str, object], message: str) -> None:
    assert message in create(spec, want=422)["message"]


def test_balancer_with_local_traffic_gets_a_port_for_health_checks():
    spec = create({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})["spec"]
    assert spec["healthCheckNodePort"] != spec["ports"][0]["nodePort"]


def test_preferred_families_are_kept():
    assert create({"ipFamilyPolicy": "PreferDualStack"})["spec"]["ipFamilyPolicy"] == "PreferDualStack"


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_external_service_can_become_internal(kind: str) -> None:
    client = ApiHarness()
    client.create(SERVICES, {"metadata": {"name": "web"}, "spec": {"ports": PORTS, "type": kind}})
    client.request("PATCH", f"{SERVICES}/web", {"spec": {"type": "ClusterIP"}}, content_type=MERGE)
    spec = client.get(f"{SERVICES}/web")["spec"]
    assert spec["type"] == "ClusterIP"
    assert "nodePort" not in spec["ports"][0]
    assert not spec.keys() & {"externalTrafficPolicy", "allocateLoadBalancerNodePorts", "healthCheckNodePort"}
    assert spec["clusterIP"]


REPLACED = {
    "node ports are kept by name": ("NodePort", {"type": "NodePort", "ports": [{"port": 81}]}, {30000}),
    "a new port gets another number": (
        "NodePort",
        {"type": "NodePort", "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]},
        {30001, 30002},
    ),
    "an internal service becomes external": ("ClusterIP", {"type": "NodePort", "ports": PORTS}, {30000}),
    "a requested number is used": (
        "NodePort",
        {"type": "NodePort", "ports": [{"port": 80, "nodePort": 31000}]},
        {31000},
    ),
    "a balancer without node ports": (
        "ClusterIP",
        {"type": "LoadBalancer", "ports": PORTS, "allocateLoadBalancerNodePorts": False},
        {None},
    ),
}


@pytest.mark.parametrize(("kind", "spec", "expected"), REPLACED.values(), ids=REPLACED)
def test_replaced_service_keeps_its_address_and_gets_node_ports(
    kind: str, spec: dict[str, object], expected: set[int | None]
) -> None:
    client = ApiHarness()
    created = client.create(SERVICES, {"metadata": {"name": "web"}, "spec": {"ports": PORTS, "type": kind}})
    replaced = client.request("PUT", f"{SERVICES}/web", {"metadata": {"name": "web"}, "spec": spec})["spec"]
    assert replaced["clusterIP"] == created["spec"]["clusterIP"]
    assert {port.get("nodePort") for port in replaced["ports"]} == expected


def test_alias_loses_its_address_and_gets_one_again() -> None:
    client = ApiHarness()
    client.create(SERVICES, {"metadata": {"name": "web"}, "spec": {"ports": PORTS}})
    alias = {"type": "ExternalName", "externalName": "a.example.org"}
    spec = client.request("PATCH", f"{SERVICES}/web", {"spec": alias}, content_type=MERGE)["spec"]
    assert "clusterIP" not in spec
    spec = client.request("PATCH", f"{SERVICES}/web", {"spec": {"type": "ClusterIP"}}, content_type=MERGE)["spec"]
    assert spec["clusterIP"].startswith("10.96.")
    assert "externalName" not in spec
