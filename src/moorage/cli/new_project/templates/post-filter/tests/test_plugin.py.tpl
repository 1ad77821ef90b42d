from pathlib import Path

import pytest
from {{ package }}.plugin import {{ plugin }}, {{ plugin }}Args

from moorage import CycleState
from moorage.testing import Cluster, Rig, in_virtual_time, make_pod

PROJECT = Path(__file__).parents[1]

CASES = {
    "the pool of the pod is named": ({"{{ label }}": "fast"}, "pool fast needs another node"),
    "a pod without the label fits any pool": ({}, "pool any needs another node"),
}


@pytest.mark.parametrize(("labels", "message"), CASES.values(), ids=CASES)
@in_virtual_time
async def test_post_filter(labels: dict[str, str], message: str) -> None:
    plugin = {{ plugin }}(args={{ plugin }}Args(), handle=Rig())
    result = await plugin.post_filter(CycleState(), make_pod("pod", labels=labels), None)
    assert result.status is not None
    assert result.status.message == message


@in_virtual_time
async def test_users_read_the_message() -> None:
    config = (PROJECT / "deploy" / "scheduler.yaml").read_text()
    async with Cluster(nodes=3, shape="cpu=4", plugins=[{{ plugin }}], config=config) as cluster:
        await cluster.apply(PROJECT / "workload.yaml")
        await cluster.wait_for(lambda: "pool fast needs another node" in cluster.why_pending("{{ project }}"))
        assert cluster.plugin({{ plugin }}, "{{ project }}").missing.value(pool="fast") >= 1
