"""A plugin's writes of custom resources, on the embedded API server; tests/live has the same on a real one."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from moorage.kube.client.rest import ApiClient
from moorage.testing import Cluster
from tests.support.custom_writes import STORIES


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_custom_resources_are_written(story: Callable[[ApiClient], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Cluster(nodes=0, scheduler=False) as cluster:
            await story(cluster.client)

    asyncio.run(main())
