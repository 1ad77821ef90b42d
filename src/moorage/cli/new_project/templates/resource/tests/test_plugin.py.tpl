from pathlib import Path

import pytest
from {{ package }}.plugin import {{ plugin }}, {{ plugin }}Args, Reservation, ReservationSpec

from moorage import CycleState, ObjectMeta
from moorage.testing import Cluster, Rig, check_plugin, in_virtual_time, make_node, make_pod

PROJECT = Path(__file__).parents[1]

CASES = {
    "a node without a reservation is accepted": ("", {}, True),
    "a node of the pod's team is accepted": ("search", {"{{ label }}": "search"}, True),
    "a node of another team is rejected": ("ads", {"{{ label }}": "search"}, False),
    "a reserved node is rejected for a pod without a team": ("ads", {}, False),
}


@pytest.mark.parametrize(("team", "labels", "fits"), CASES.values(), ids=CASES)
def test_filter(team: str, labels: dict[str, str], fits: bool) -> None:
    rig = Rig(make_node("node-1"))
    plugin = {{ plugin }}(args={{ plugin }}Args(), handle=rig)
    if team:
        rig.add(Reservation(metadata=ObjectMeta(name="node-1"), spec=ReservationSpec(team=team)))
    status = plugin.filter(CycleState(), make_pod("pod", labels=labels), rig.nodes[0])
    assert (status is None) == fits


def test_plugin_follows_the_rules_for_plugins() -> None:
    # Random pods get the label, and random reservations exist.
    check_plugin({{ plugin }}, labels={"{{ label }}": ["search", "ads"]})


@in_virtual_time
async def test_pods_avoid_nodes_of_other_teams() -> None:
    config, definitions = (PROJECT / "deploy" / "scheduler.yaml").read_text(), [PROJECT / "deploy" / "definition.yaml"]
    async with Cluster(nodes=3, plugins=[{{ plugin }}], config=config, definitions=definitions) as cluster:
        await cluster.apply(PROJECT / "nodes.yaml", PROJECT / "workload.yaml")
        await cluster.wait_for(lambda: len(cluster.running("app={{ project }}")) == 4)
        assert {pod.node_name for pod in cluster.running()} == {"node-1", "node-3"}
