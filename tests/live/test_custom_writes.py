"""A plugin's writes of custom resources, on a real API server; tests/integration has the same on the embedded one."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from moorage.kube.client.rest import ApiClient
from tests.support.control_plane import ControlPlane
from tests.support.custom_writes import STORIES


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_custom_resources_are_written(plane: ControlPlane, story: Callable[[ApiClient], Awaitable[None]]) -> None:
    async def main() -> None:
        async with ApiClient(plane.connection()) as client:
            await story(client)

    asyncio.run(main())
