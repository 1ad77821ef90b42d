"""The four combinations with the feature gates of groups enabled pass the same scenarios."""

from collections.abc import Iterator
from itertools import count
from typing import Final

import pytest

from moorage.kube.client.rest import ApiClient
from tests.live.scenarios import groups
from tests.live.scenarios.combinations import COMBINATIONS, SERVERS, Stage, scheduling
from tests.live.scenarios.listing import Scenario, scenarios_in
from tests.live.scenarios.scene import Scene

GATES: Final = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true,WorkloadWithJob=true"
SCENARIOS: Final = scenarios_in(groups)
NUMBERS: Final = count()


@pytest.fixture(scope="module", params=COMBINATIONS.values(), ids=tuple(COMBINATIONS))
def combination(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Run an API server with a scheduler, both with groups."""
    server, program = request.param
    with SERVERS[server](GATES) as stage, scheduling(stage.kubeconfig, program, gates=GATES):
        yield stage


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_group_scenario(combination: Stage, scenario: Scenario) -> None:
    async def play(client: ApiClient) -> None:
        async with Scene(client, f"groups-{next(NUMBERS)}") as scene:
            await scenario(scene)

    combination.run(play)
