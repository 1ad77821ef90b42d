"""A cluster at one time."""

from typing import Any

from tests.unit.insight.page.clusters import get, served

from moorage.insight.page.service import PageService


def test_empty_cluster_is_shown() -> None:
    async def talk(service: PageService) -> Any:
        return await get(service, "state"), await get(service, "nodes")

    state, nodes = served(talk, ())
    assert (state["nodes"], state["waiting"], nodes["names"]) == (0, 0, [])
