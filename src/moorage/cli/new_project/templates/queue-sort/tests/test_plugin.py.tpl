from pathlib import Path

import pytest
from {{ package }}.plugin import {{ plugin }}, {{ plugin }}Args

from moorage.testing import Cluster, in_virtual_time, make_pod

PROJECT = Path(__file__).parents[1]

CASES = {
    "an earlier deadline is first": ({"{{ label }}": "5"}, {"{{ label }}": "60"}),
    "numbers are compared, not texts": ({"{{ label }}": "9"}, {"{{ label }}": "10"}),
    "a pod without a deadline is last": ({"{{ label }}": "60"}, {}),
    "a deadline that is not a number is last": ({"{{ label }}": "60"}, {"{{ label }}": "soon"}),
}


@pytest.mark.parametrize(("first", "second"), CASES.values(), ids=CASES)
def test_deadline(first: dict[str, str], second: dict[str, str]) -> None:
    plugin = {{ plugin }}(args={{ plugin }}Args())
    assert plugin.deadline(make_pod(labels=first)) < plugin.deadline(make_pod(labels=second))


@in_virtual_time
async def test_pod_with_the_earlier_deadline_gets_the_free_node() -> None:
    config = (PROJECT / "deploy" / "scheduler.yaml").read_text()
    async with Cluster(nodes=3, shape="cpu=4", plugins=[{{ plugin }}], config=config) as cluster:
        await cluster.apply(PROJECT / "workload.yaml")
        await cluster.wait_for(lambda: len(cluster.running()) == 3)
        await cluster.sleep(30)  # until both pending pods can be retried at once
        await cluster.delete({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "{{ project }}-first"}})
        await cluster.wait_for(lambda: len(cluster.running()) == 3 and cluster.pod("{{ project }}-first") is None)
        assert "soon" in {pod.name for pod in cluster.running()}
