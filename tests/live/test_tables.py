"""`kubectl get` has the same columns on the embedded and the real API server, for all common kinds."""

import asyncio
from typing import Any, Final

import aiohttp
import pytest

from moorage.cluster.apiserver.reading.tables.printing import select_printer
from moorage.kube.resources import Resources, ServedResource
from tests.support.control_plane import ADMIN, ControlPlane

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
LISTED: Final = [item for item in Resources() if "list" in item.verbs and item.version != "v1beta1"]


@pytest.fixture(scope="module")
def tables(plane: ControlPlane) -> dict[str, Any]:
    """Query the real server once for all of them."""
    return asyncio.run(fetch_table_columns(plane))


async def fetch_table_columns(plane: ControlPlane) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {plane.tokens[ADMIN]}", "Accept": TABLE}
    results: dict[str, Any] = {}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=False)) as session:
        for item in LISTED:
            root = f"/apis/{item.group}/{item.version}" if item.group else f"/api/{item.version}"
            async with session.get(f"{plane.server}{root}/{item.plural}") as answer:
                content = await answer.json()
            results[item.full_name] = [(each["name"], each["priority"]) for each in content["columnDefinitions"]]
    return results


@pytest.mark.parametrize("resource", LISTED, ids=lambda item: item.full_name)
def test_columns_are_equal(resource: ServedResource, tables: dict[str, Any]) -> None:
    printer = select_printer(resource.storage or resource.full_name, lambda: 0.0)
    assert [(column.name, column.priority) for column in printer.columns] == tables[resource.full_name]
