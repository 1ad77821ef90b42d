"""Endpoints and EndpointSlices of services."""

from collections.abc import Iterable
from typing import Any

import pytest
from tests.support.reconciling import make, pod

from moorage.cluster.controllers.actions import ControllerAction, Create, Delete, Patch
from moorage.cluster.controllers.endpoints import MAX_ENDPOINTS, EndpointsController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.common.clock import VirtualClock
from moorage.kube.api.cluster import Endpoints, EndpointSlice, Service
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import ZONE_LABEL, Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.workloads import StatefulSet

WEB = {"app": "web"}
PORT = {"port": 80, "targetPort": 8080}
NAMED = [{"name": "main", "image": "app:1", "ports": [{"name": "http", "containerPort": 9090}]}]
MANAGED = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
Addresses = tuple[list[int], int, int]


def service(**spec: Any) -> Service:
    return make(Service, "web", spec={"selector": WEB, "ports": [PORT], "clusterIP": "10.0.0.1", **spec})


def reconcile(*objects: KubeObject) -> list[ControllerAction]:
    return list(EndpointsController(VirtualClock()).reconcile("shop/web", InformerCache(objects)))


def created(actions: Iterable[ControllerAction], kind: type[KubeObject]) -> list[dict[str, Any]]:
    return [action.data for action in actions if isinstance(action, Create) and action.kind is kind]


CASES: dict[str, tuple[Service, list[Pod], Addresses, list[tuple[bool, bool, bool]]]] = {
    "ready and unready pods": (
        service(),
        [pod("a", labels=WEB), pod("b", labels=WEB, ready=False), pod("other", labels={"app": "db"})],
        ([8080], 1, 1),
        [(True, True, False), (False, False, False)],
    ),
    "unready addresses are published on request": (
        service(publishNotReadyAddresses=True),
        [pod("b", labels=WEB, ready=False)],
        ([8080], 1, 0),
        [(True, False, False)],
    ),
    "terminating pods stay in slices only": (
        service(),
        [pod("a", labels=WEB, stopping=True)],
        ([], 0, 0),
        [(False, True, True)],
    ),
    "pods without an address are omitted": (
        service(),
        [pod("a", labels=WEB, phase="Pending"), pod("b", labels=WEB, phase="Succeeded")],
        ([], 0, 0),
        [],
    ),
    "ports by name": (
        service(ports=[{"port": 80, "targetPort": "http"}]),
        [pod("a", labels=WEB, containers=NAMED)],
        ([9090], 1, 0),
        [(True, True, False)],
    ),
    "a missing port by name": (
        service(ports=[{"port": 80, "targetPort": "grpc"}]),
        [pod("a", labels=WEB, containers=NAMED)],
        ([], 0, 0),
        [(True, True, False)],
    ),
    "a headless service without ports": (
        service(ports=[], clusterIP="None"),
        [pod("a", labels=WEB)],
        ([], 1, 0),
        [(True, True, False)],
    ),
}


@pytest.mark.parametrize(("item", "pods", "addresses", "conditions"), CASES.values(), ids=CASES)
def test_addresses(
    item: Service, pods: list[Pod], addresses: Addresses, conditions: list[tuple[bool, bool, bool]]
) -> None:
    actions = reconcile(item, *pods)
    [endpoints] = created(actions, Endpoints)
    subsets = endpoints.get("subsets", [])
    ports = [port["port"] for subset in subsets for port in subset.get("ports", ())]
    ready, unready = (sum(len(subset.get(key, ())) for subset in subsets) for key in ("addresses", "notReadyAddresses"))
    assert (ports, ready, unready) == addresses
    [piece] = created(actions, EndpointSlice)
    assert [tuple(endpoint["conditions"].values()) for endpoint in piece["endpoints"]] == conditions


def test_slice_names_zone_host_and_headless_service() -> None:
    database = make(StatefulSet, "db", spec={"serviceName": "web"})
    node = make(Node, "n1", metadata={"labels": {ZONE_LABEL: "z1"}})
    [piece] = created(
        reconcile(service(clusterIP="None"), database, node, pod("db-0", labels=WEB, owner=database)), EndpointSlice
    )
    [endpoint] = piece["endpoints"]
    assert (endpoint["zone"], endpoint["hostname"], endpoint["nodeName"]) == ("z1", "db-0", "n1")
    assert piece["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


def test_large_services_have_several_slices() -> None:
    pods = [pod(f"p-{number:03d}", labels=WEB) for number in range(MAX_ENDPOINTS + 1)]
    assert [len(piece["endpoints"]) for piece in created(reconcile(service(), *pods), EndpointSlice)] == [100, 1]


def written(actions: Iterable[ControllerAction]) -> list[KubeObject]:
    """Make the objects that actions create."""
    objects: list[KubeObject] = []
    for number, action in enumerate(actions):
        assert isinstance(action, Create)
        content = dict(action.data)
        objects.append(make(action.kind, "web", metadata={"uid": str(number), **content.pop("metadata")}, **content))
    return objects


def test_unchanged_addresses_are_not_rewritten() -> None:
    objects = (service(), pod("a", labels=WEB))
    assert reconcile(*objects, *written(reconcile(*objects))) == []
    empty = (service(),)
    assert reconcile(*empty, *written(reconcile(*empty))) == []


def test_changed_addresses_are_patched() -> None:
    present = written(reconcile(service(), pod("a", labels=WEB), pod("b", labels=WEB)))
    actions = reconcile(service(), *present, pod("a", labels=WEB))
    patches = [action for action in actions if isinstance(action, Patch)]
    assert [type(action.obj) for action in patches] == [Endpoints, EndpointSlice]
    assert len(patches[1].patch["endpoints"]) == 1


UNMANAGED = {
    "a service without a selector": [service(selector=None)],
    "an external name": [service(type="ExternalName")],
    "endpoints of another manager": [make(Endpoints, "web")],
}


@pytest.mark.parametrize("objects", UNMANAGED.values(), ids=UNMANAGED)
def test_other_endpoints_are_unchanged(objects: list[KubeObject]) -> None:
    assert reconcile(*objects, pod("a", labels=WEB)) == []


def test_endpoints_of_a_deleted_service_are_deleted() -> None:
    [action] = reconcile(make(Endpoints, "web", metadata={"labels": MANAGED}))
    assert isinstance(action, Delete)


def test_pods_affect_the_services_that_select_them() -> None:
    cache = InformerCache([service(), make(Service, "all", spec={"selector": {}})])
    controller = EndpointsController(VirtualClock())
    assert list(controller.affected(pod("a", labels={**WEB, "tier": "1"}), cache)) == ["shop/web"]
    labels = {"kubernetes.io/service-name": "web"}
    assert list(controller.affected(make(EndpointSlice, "web-x", metadata={"labels": labels}), cache)) == ["shop/web"]
