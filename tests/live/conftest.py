"""Live tests: they need the programs of `make control-plane` and take minutes; `make live` runs them."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator

import pytest

from moorage.kube.client.rest import ApiClient
from tests.live.cluster import Kubelets, LiveCluster
from tests.live.controllers import controller_manager
from tests.live.devices import clear_devices
from tests.live.invariants import check
from tests.live.storage import clear_storage
from tests.support.control_plane import ControlPlane, control_plane

# Scenarios are not named like tests, but their assertions need details as well.
pytest.register_assert_rewrite("tests.live.scenarios")

if not os.environ.get("MOORAGE_LIVE"):
    collect_ignore_glob = ["test_*.py", "scenarios/test_*.py"]

Story = Callable[[LiveCluster], Awaitable[None]]


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """Run one control plane for all tests."""
    with control_plane() as running:
        yield running


@pytest.fixture(scope="module")
def manager(plane: ControlPlane) -> Iterator[None]:
    """Prepare the real controllers of storage and devices for the control plane, for one test file."""
    with controller_manager(plane):
        yield


@pytest.fixture
def controllers(plane: ControlPlane, manager: None) -> Iterator[None]:
    """Run the controllers during a test, and until they have released all claims."""
    yield
    asyncio.run(_clear_claims(plane))


@pytest.fixture
def live(plane: ControlPlane) -> Iterator[Callable[[Story], None]]:
    """Run a scenario on an empty cluster where pods run after their binding, then check the invariants."""

    def run(story: Story) -> None:
        async def main() -> None:
            async with ApiClient(plane.connection()) as client:
                cluster = LiveCluster(client)
                background_tasks = [asyncio.create_task(each.run()) for each in (Kubelets(client), cluster.witness)]
                try:
                    await story(cluster)
                    await check(cluster)
                finally:
                    for task in background_tasks:
                        task.cancel()
                    await asyncio.gather(*background_tasks, return_exceptions=True)

        asyncio.run(main())

    yield run
    asyncio.run(_clear(plane))


async def _clear_claims(plane: ControlPlane) -> None:
    async with ApiClient(plane.connection()) as client:
        cluster = LiveCluster(client)
        await clear_storage(cluster)
        await clear_devices(cluster)


async def _clear(plane: ControlPlane) -> None:
    async with ApiClient(plane.connection()) as client:
        await LiveCluster(client).clear()
