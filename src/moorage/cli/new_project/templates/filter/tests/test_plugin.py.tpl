from pathlib import Path

import pytest
from {{ package }}.plugin import {{ plugin }}, {{ plugin }}Args

from moorage import CycleState, NodeInfo
from moorage.testing import Cluster, check_plugin, in_virtual_time, make_node, make_pod

PROJECT = Path(__file__).parents[1]

CASES = {
    "a pod without the label is accepted everywhere": ({}, {"{{ label }}": "fast"}, True),
    "a node with the same value is accepted": ({"{{ label }}": "fast"}, {"{{ label }}": "fast"}, True),
    "a node with another value is rejected": ({"{{ label }}": "fast"}, {"{{ label }}": "slow"}, False),
    "a node without the label is rejected": ({"{{ label }}": "fast"}, {}, False),
}


@pytest.mark.parametrize(("pod_labels", "node_labels", "fits"), CASES.values(), ids=CASES)
def test_filter(pod_labels: dict[str, str], node_labels: dict[str, str], fits: bool) -> None:
    plugin = {{ plugin }}(args={{ plugin }}Args())
    node = NodeInfo(make_node("node-1", labels=node_labels))
    status = plugin.filter(CycleState(), make_pod("pod", labels=pod_labels), node)
    assert (status is None) == fits


def test_plugin_follows_the_rules_for_plugins() -> None:
    # The labels that the plugin reads, with some values: random nodes and pods get them.
    check_plugin({{ plugin }}, labels={"{{ label }}": ["fast", "slow"]})


@in_virtual_time
async def test_pods_run_only_on_nodes_of_their_pool() -> None:
    config = (PROJECT / "deploy" / "scheduler.yaml").read_text()
    async with Cluster(nodes=3, shape="cpu=4", plugins=[{{ plugin }}], config=config) as cluster:
        await cluster.apply(PROJECT / "nodes.yaml", PROJECT / "workload.yaml")
        await cluster.wait_for(lambda: len(cluster.running("app={{ project }}")) == 3)
        assert {pod.node_name for pod in cluster.running()} == {"node-1"}
        (pending,) = (pod.name for pod in cluster.pods() if not pod.node_name)
        await cluster.wait_for(lambda: "2 node(s) were not in the {{ label }} of the pod" in cluster.why_pending(pending))
