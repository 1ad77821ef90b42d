"""All writes of custom resources by plugins, with the expected stored results, on any API server."""

import asyncio
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from moorage.common.clock import SystemClock
from moorage.common.errors import Conflict, NotFound, TooManyRequests
from moorage.kube.api.custom import CustomObject, custom_kind
from moorage.kube.api.kinds import Kind, find_kind
from moorage.kube.api.meta import KubeObject, ObjectMeta
from moorage.kube.api.struct import KubeStruct
from moorage.kube.client.dispatcher import Dispatcher
from moorage.kube.client.recorder import EventRecorder
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.wiring.api_writer import ApiWriter

GROUP: Final = "writes.example.org"


class BudgetSpec(KubeStruct, frozen=True):
    """A spending limit."""

    euros: int
    note: str = ""


class BudgetStatus(KubeStruct, frozen=True):
    """The remaining amount."""

    spent: int = 0


class Budget(KubeObject, frozen=True):
    """A custom resource with a struct that lacks the field ``spec.currency``."""

    spec: BudgetSpec = BudgetSpec(0)
    status: BudgetStatus = BudgetStatus()


TYPED: Final = custom_kind("Budget", "budgets", f"{GROUP}/v1", type=Budget)
PLAIN: Final = custom_kind("Purse", "purses", f"{GROUP}/v1")
BARE: Final = custom_kind("Bag", "bags", f"{GROUP}/v1")
"""A kind with a definition that has no subresource for the status."""


def definition(kind: Kind, *, has_status: bool = True) -> dict[str, Any]:
    """Return the definition of a kind that accepts any field."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind.name, "plural": kind.plural, "singular": kind.name.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.full_name},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": names,
            "versions": [{**version, "subresources": {"status": {}}} if has_status else version],
        },
    }


async def define(client: ApiClient, kind: Kind, *, has_status: bool = True) -> None:
    """Define a kind and wait until it is served."""
    body = msgspec.json.encode(definition(kind, has_status=has_status))
    await client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    await until_served(client, kind)


async def until_served(client: ApiClient, kind: Kind) -> None:
    """Wait until a new kind is served, shortly after the condition of its definition."""
    async with asyncio.timeout(60):
        while True:
            try:
                await client.request("GET", kind.path())
            except (NotFound, TooManyRequests):  # kube-apiserver returns this while it prepares its storage
                await asyncio.sleep(0.05)
            else:
                return


async def stored(client: ApiClient, obj: KubeObject) -> dict[str, Any]:
    """Read an object without decoding it."""
    answer: dict[str, Any] = msgspec.json.decode(
        await client.request("GET", find_kind(type(obj)).path(obj.name, obj.namespace))
    )
    return answer


def writer(client: ApiClient) -> ApiWriter:
    """Return a writer like ``handle.cluster`` of plugins."""
    return ApiWriter(client, Dispatcher(), EventRecorder(client, "host", SystemClock()), SystemClock())


async def write_typed(client: ApiClient) -> None:
    """Create, change and delete objects with a struct; unknown fields are kept."""
    await define(client, TYPED)
    cluster = writer(client)
    meta = ObjectMeta(name="ads", namespace="default")
    created = await cluster.create(Budget(metadata=meta, spec=BudgetSpec(10, "first")))
    assert created.uid
    assert created.spec.euros == 10
    await client.request(
        "PATCH", TYPED.path("ads", "default"), b'{"spec":{"currency":"EUR"}}', "application/merge-patch+json"
    )
    current = await cluster.get(created)
    updated = await cluster.update(replace(current, spec=BudgetSpec(20)))
    assert updated.spec == BudgetSpec(20)
    data = await stored(client, created)
    assert data["spec"] == {"euros": 20, "currency": "EUR"}
    assert set(data) == {"apiVersion", "kind", "metadata", "spec"}
    with pytest.raises(Conflict):
        await cluster.update(replace(current, spec=BudgetSpec(30)))

    patched = await cluster.patch(created, {"spec": {"note": "more"}, "metadata": {"labels": {"team": "ads"}}})
    assert patched.spec == BudgetSpec(20, "more")
    assert patched.labels == {"team": "ads"}
    patched = await cluster.patch_status(created, {"spent": 7, "conditions": [{"type": "Ready", "status": "True"}]})
    assert (patched.spec.euros, patched.status.spent) == (20, 7)
    await cluster.patch_status(created, {"conditions": [{"type": "Known", "status": "True"}]})
    data = await stored(client, created)
    assert data["status"] == {"spent": 7, "conditions": [{"type": "Known", "status": "True"}]}
    renewed = await cluster.get(created)
    with_status = await cluster.update(replace(renewed, status=BudgetStatus(8)), subresource="status")
    assert with_status.status.spent == 8
    await cluster.delete(created)
    with pytest.raises(NotFound):
        await cluster.get(created)


async def write_plain(client: ApiClient) -> None:
    """Create, change and delete objects as plain data."""
    await define(client, PLAIN)
    cluster = writer(client)
    kind = PLAIN.type
    assert issubclass(kind, CustomObject)
    created = await cluster.create(
        kind.of({"metadata": {"name": "ads", "namespace": "default"}, "spec": {"coins": [1]}})
    )
    assert created["spec"] == {"coins": [1]}
    updated = await cluster.update(created.replace(spec={"coins": [1, 2], "lid": True}))
    assert updated["spec"] == {"coins": [1, 2], "lid": True}
    labeled = replace(updated, metadata=replace(updated.metadata, labels={"team": "ads"}))
    assert (await cluster.update(labeled)).labels == {"team": "ads"}
    data = await stored(client, created)
    assert set(data) == {"apiVersion", "kind", "metadata", "spec"}, "only the written fields"
    assert data["spec"] == {"coins": [1, 2], "lid": True}
    with pytest.raises(Conflict):
        await cluster.update(created.replace(spec={}))

    patched = await cluster.patch(created, {"spec": {"lid": None}})
    assert patched["spec"] == {"coins": [1, 2]}
    await cluster.patch_status(created, {"full": True})
    assert (await cluster.get(created))["status"] == {"full": True}
    await cluster.delete(created)
    with pytest.raises(NotFound):
        await cluster.get(created)


async def write_without_a_status(client: ApiClient) -> None:
    """Report the name of the missing field, even if the server does not."""
    await define(client, BARE, has_status=False)
    cluster = writer(client)
    created = await cluster.create(BARE.type(metadata=ObjectMeta(name="old", namespace="default")))
    with pytest.raises(NotFound, match=r"bags\.writes\.example\.org has no subresource 'status': add `subresources"):
        await cluster.patch_status(created, {"full": True})
    await cluster.delete(created)
    with pytest.raises(NotFound) as error:
        await cluster.patch_status(created, {"full": True})
    assert "subresource" not in str(error.value)


STORIES: Final = {
    "with a struct": write_typed,
    "as plain data": write_plain,
    "without a subresource": write_without_a_status,
}
