from pathlib import Path

import pytest
from {{ package }}.plugin import {{ plugin }}, {{ plugin }}Args

from moorage import CycleState, NodeInfo
from moorage.testing import Cluster, check_plugin, in_virtual_time, make_node, make_pod

PROJECT = Path(__file__).parents[1]

CASES = {
    "a free node is the best": ({"{{ label }}": "0"}, 100),
    "a cheaper node is better": ({"{{ label }}": "30"}, 70),
    "a price above 100 is the worst": ({"{{ label }}": "250"}, 0),
    "a price that is not a number is the worst": ({"{{ label }}": "cheap"}, 0),
    "a node without a price is the worst": ({}, 0),
}


@pytest.mark.parametrize(("labels", "want"), CASES.values(), ids=CASES)
def test_score(labels: dict[str, str], want: int) -> None:
    plugin = {{ plugin }}(args={{ plugin }}Args())
    assert plugin.score(CycleState(), make_pod("pod"), NodeInfo(make_node("node-1", labels=labels))) == want


def test_plugin_follows_the_rules_for_plugins() -> None:
    # The labels that the plugin reads, with some values: random nodes and pods get them.
    check_plugin({{ plugin }}, labels={"{{ label }}": ["0", "30", "cheap"]})


@in_virtual_time
async def test_pods_run_on_the_cheapest_nodes() -> None:
    config = (PROJECT / "deploy" / "scheduler.yaml").read_text()
    async with Cluster(nodes=3, shape="cpu=8", plugins=[{{ plugin }}], config=config) as cluster:
        await cluster.apply(PROJECT / "nodes.yaml", PROJECT / "workload.yaml")
        await cluster.wait_for(lambda: len(cluster.running("app={{ project }}")) == 4)
        assert {pod.node_name for pod in cluster.running()} == {"node-2"}
