"""The four combinations with the feature gates of groups enabled pass the same scenarios."""

from collections.abc import Iterator
from itertools import count
from typing import Final

import pytest

from moorage.common.version import NEWEST
from moorage.kube.client.rest import ApiClient
from tests.live.scenarios import groups
from tests.live.scenarios.combinations import (
    COMBINATIONS,
    MOORAGE,
    SERVERS,
    Stage,
    embedded_server,
    real_server,
    scheduling,
)
from tests.live.scenarios.listing import Scenario, scenarios_in
from tests.live.scenarios.scene import Scene

GATES: Final = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true,WorkloadWithJob=true"
NEW_GATES: Final = "CompositePodGroup=true,WorkloadWithJob=true"
SCENARIOS: Final = scenarios_in(groups)
NUMBERS: Final = count()


@pytest.fixture(scope="module", params=COMBINATIONS.values(), ids=tuple(COMBINATIONS))
def combination(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Run an API server with a scheduler, both with groups."""
    server, program = request.param
    with SERVERS[server](GATES) as stage, scheduling(stage.kubeconfig, program, gates=GATES):
        yield stage


@pytest.fixture(scope="module", params=SERVERS, ids=tuple(SERVERS))
def next_release(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Run Moorage as the next release; so does the embedded server, on which groups have no gate then."""
    flags = [f"--emulated-version={NEWEST}"]
    server = real_server(GATES) if request.param == "real-server" else embedded_server(NEW_GATES, flags)
    gates = GATES if request.param == "real-server" else NEW_GATES
    with server as stage, scheduling(stage.kubeconfig, MOORAGE, gates=gates, flags=flags):
        yield stage


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_group_scenario(combination: Stage, scenario: Scenario) -> None:
    async def play(client: ApiClient) -> None:
        async with Scene(client, f"groups-{next(NUMBERS)}") as scene:
            await scenario(scene)

    combination.run(play)


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_group_scenario_of_the_next_release(next_release: Stage, scenario: Scenario) -> None:
    async def play(client: ApiClient) -> None:
        async with Scene(client, f"groups-{next(NUMBERS)}", release=NEWEST) as scene:
            await scenario(scene)

    next_release.run(play)
