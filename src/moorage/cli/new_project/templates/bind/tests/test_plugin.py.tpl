from pathlib import Path

from {{ package }}.plugin import {{ plugin }}, {{ plugin }}Args

from moorage import CycleState, Status
from moorage.testing import Cluster, Rig, in_virtual_time, make_pod

PROJECT = Path(__file__).parents[1]


@in_virtual_time
async def test_pods_without_the_label_are_skipped() -> None:
    plugin = {{ plugin }}(args={{ plugin }}Args(), handle=Rig())
    assert await plugin.bind(CycleState(), make_pod("pod"), "node-1") == Status.skip()


@in_virtual_time
async def test_both_pods_are_bound() -> None:
    config = (PROJECT / "deploy" / "scheduler.yaml").read_text()
    async with Cluster(nodes=3, shape="cpu=4", plugins=[{{ plugin }}], config=config) as cluster:
        await cluster.apply(PROJECT / "workload.yaml")
        await cluster.wait_for(lambda: len(cluster.running()) == 2)
        assert cluster.plugin({{ plugin }}, "{{ project }}").bound == ["{{ project }}"]
