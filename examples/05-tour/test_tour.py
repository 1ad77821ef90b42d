from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from tour import Tour

from moorage.testing import Cluster, in_virtual_time

DIRECTORY = Path(__file__).parent
LIFECYCLE = [
    "PreEnqueue", "PreFilter", "Filter", "Filter", "PreScore", "Score", "Score", "NormalizeScore",
    "Reserve", "Permit", "PreBindPreFlight", "PreBind", "Bind", "PostBind",
]  # fmt: skip


def test_extension_points_are_logged_in_order(logged: list[MutableMapping[str, Any]]) -> None:
    @in_virtual_time
    async def story() -> None:
        config = DIRECTORY / "scheduler.yaml"
        async with Cluster(nodes=2, shape="cpu=8", plugins=[Tour], config=config, cross_check=False) as cluster:
            await cluster.apply(DIRECTORY / "workload.yaml")
            await cluster.wait_for(lambda: [pod.name for pod in cluster.running()] == ["traveller"])
            await cluster.wait_for(lambda: "2 Insufficient cpu" in cluster.why_pending("giant"))

    story()
    lines = [line for line in logged if line.get("plugin") == "Tour"]
    assert [line["event"] for line in lines if line["pod"] == "default/traveller"] == LIFECYCLE
    (helpless,) = (line for line in lines if line["event"] == "PostFilter")
    assert (helpless["pod"], helpless["why"]) == ("default/giant", "2 Insufficient cpu")
