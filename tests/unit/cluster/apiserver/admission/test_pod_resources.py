"""Admission of new objects: limits, overhead, addresses and protection."""

from typing import Any

import pytest
from tests.support.api import PODS, ApiHarness, Data, pod

from moorage.kube.api.qos import qos_class

RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
LIMITS = "/api/v1/namespaces/default/limitranges"
SERVICES = "/api/v1/namespaces/default/services"


def resources(requests: Data | None = None, limits: Data | None = None) -> Data:
    return {"resources": {"requests": requests or {}, "limits": limits or {}}}


BOTH = {"cpu": "1", "memory": "1Gi"}
QUALITIES = {
    "no requests": ([resources()], "BestEffort"),
    "only resources that do not count": ([resources({"example.org/gpu": "1"}, {"example.org/gpu": "1"})], "BestEffort"),
    "a request": ([resources({"cpu": "1"})], "Burstable"),
    "all of it limited": ([resources(BOTH, BOTH)], "Guaranteed"),
    "the same in other words": ([resources({"cpu": "1000m", "memory": "1024Mi"}, BOTH)], "Guaranteed"),
    "a limit above the request": ([resources(BOTH, {**BOTH, "cpu": "2"})], "Burstable"),
    "one container without limits": ([resources(BOTH, BOTH), resources()], "Burstable"),
}


@pytest.mark.parametrize(("containers", "want"), QUALITIES.values(), ids=QUALITIES)
def test_qos_class(containers: list[Data], want: str) -> None:
    assert qos_class({"containers": containers}) == want


def runtime_class(**content: Any) -> Data:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "vm"},
        "handler": "vm",
        **content,
    }


def test_runtime_class_adds_overhead_and_node_selector() -> None:
    client = ApiHarness()
    toleration = {"key": "vm", "operator": "Exists", "effect": "NoSchedule"}
    scheduling = {"nodeSelector": {"vm": "yes"}, "tolerations": [toleration]}
    client.create(RUNTIMES, runtime_class(overhead={"podFixed": {"cpu": "250m"}}, scheduling=scheduling))
    spec = client.create(PODS, pod(runtimeClassName="vm"))["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "250m"}, {"vm": "yes"})
    assert toleration in spec["tolerations"]


CONFLICTS = {
    "another overhead": ({"overhead": {"cpu": "1"}}, "Pod's Overhead doesn't match RuntimeClass's defined Overhead"),
    "another node": ({"nodeSelector": {"vm": "no"}}, "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes"),
}


@pytest.mark.parametrize(("spec", "want"), CONFLICTS.values(), ids=CONFLICTS)
def test_pod_that_contradicts_its_runtime_class_is_rejected(spec: Data, want: str) -> None:
    client = ApiHarness()
    scheduling = {"nodeSelector": {"vm": "yes"}}
    client.create(RUNTIMES, runtime_class(overhead={"podFixed": {"cpu": "250m"}}, scheduling=scheduling))
    assert want in client.request("POST", PODS, pod(runtimeClassName="vm", **spec), want=403)["message"]


def limit_range() -> Data:
    limits = [{"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1", "memory": "1Gi"}}]
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "usual"}, "spec": {"limits": limits}}


def test_containers_get_default_limits_of_their_namespace() -> None:
    client = ApiHarness()
    before = client.create(PODS, pod("before"))
    client.create(LIMITS, limit_range())
    after = client.create(PODS, pod("after"))
    elsewhere = client.create("/api/v1/namespaces/kube-system/pods", pod("elsewhere"))
    assert [item["spec"]["containers"][0]["resources"] for item in (before, elsewhere)] == [{}, {}]
    want = {"limits": {"cpu": "2"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    assert after["spec"]["containers"][0]["resources"] == want
    assert (before["status"]["qosClass"], after["status"]["qosClass"]) == ("BestEffort", "Burstable")


def service(name: str, **spec: Any) -> Data:
    full = {"ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": full}


def test_services_have_unique_addresses() -> None:
    client = ApiHarness()
    assert client.get(f"{SERVICES}/kubernetes")["spec"]["clusterIP"] == "10.96.0.1"
    addresses = [client.create(SERVICES, service(name))["spec"]["clusterIP"] for name in "abc"]
    assert len({*addresses, "10.96.0.1"}) == 4
    assert client.create(SERVICES, service("none", clusterIP="None"))["spec"]["clusterIPs"] == ["None"]
    assert client.create(SERVICES, service("open", type="NodePort"))["spec"]["ports"][0]["nodePort"] == 30_000


def test_service_keeps_its_address_on_replace() -> None:
    client = ApiHarness()
    stored = client.create(SERVICES, service("a"))
    again = client.request("PUT", f"{SERVICES}/a", service("a", ports=[{"port": 81}]))
    assert again["spec"]["clusterIP"] == stored["spec"]["clusterIP"]
    assert again["spec"]["ports"][0]["port"] == 81


def test_pod_keeps_its_priority_on_replace() -> None:
    client = ApiHarness()
    client.create(PODS, pod())
    again = client.request("PUT", f"{PODS}/web", pod(labels={"a": "b"}))
    assert (again["spec"]["priority"], again["metadata"]["labels"]) == (0, {"a": "b"})


def test_system_namespace_cannot_be_deleted() -> None:
    assert ApiHarness().request("DELETE", "/api/v1/namespaces/kube-system", want=403)["reason"] == "Forbidden"
