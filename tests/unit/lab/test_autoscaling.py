"""The autoscaler: packing of pending pods on new nodes, choice of instance types, consolidation."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.lab import pool_cluster, trial_with

from moorage.common.errors import InputError
from moorage.kube.api.pod import Pod
from moorage.lab.autoscaling import Autoscaler
from moorage.lab.cluster import LabCluster, NodePool, Scaling, build_cluster
from moorage.lab.instance_types import INSTANCE_TYPE
from moorage.lab.measuring import run_trial
from moorage.lab.trace import TracePod
from moorage.testing import make_pod

ZONE = "topology.kubernetes.io/zone"
CAPACITY_TYPE = "karpenter.sh/capacity-type"


def autoscaler(at_most: int = 2) -> Autoscaler:
    return Autoscaler(pool_cluster(0, scaling=Scaling(at_most, 60.0, 120.0)).scaled)


def big(name: str, **more: Any) -> Pod:
    return make_pod(name, uid=name, requests={"cpu": "3"}, **more)


def request(scaler: Autoscaler, *pods: Pod) -> list[str]:
    scaler.add_pending(pods)
    return [each.node.name for each in scaler.request_nodes()]


def test_pods_share_a_starting_node_that_has_space() -> None:
    scaler = autoscaler()
    small = [make_pod(f"s{number}", uid=f"s{number}", requests={"cpu": "2"}) for number in range(3)]
    assert scaler.add_pending(small)
    assert [(each.node.name, each.seconds) for each in scaler.request_nodes()] == [
        ("pool-added-0", 60.0),
        ("pool-added-1", 60.0),
    ]
    assert not scaler.add_pending(small), "every pod has a node that starts"


def test_pod_that_lost_its_node_to_another_requests_the_next_one() -> None:
    scaler = autoscaler()
    scaler.add_pending([big("a")])
    (first,) = scaler.request_nodes()
    scaler.add_node(first.node)
    scaler.add_pending([big("a")])
    (second,) = scaler.request_nodes()
    assert second.node.name != first.node.name
    scaler.add_node(second.node)
    assert request(scaler, big("a")) == [], "the pool has reached its limit"


def test_empty_node_is_removed_after_the_idle_time() -> None:
    scaler = autoscaler()
    scaler.add_pending([big("a")])
    (requested,) = scaler.request_nodes()
    name = requested.node.name
    assert not scaler.is_idle(name, 1000.0), "it has not started"
    scaler.add_node(requested.node)
    assert scaler.start_idle(name, 100.0) == 220.0
    assert not scaler.is_idle(name, 219.9)
    assert scaler.is_idle(name, 220.0)
    scaler.remove_node(name)
    assert not scaler.is_idle(name, 220.0), "it is gone"
    assert scaler.start_idle("permanent", 1.0) is None


def test_pod_whose_selector_no_pool_matches_requests_no_node() -> None:
    assert request(autoscaler(), big("a", node_selector={"disk": "ssd"})) == []
    cluster = pool_cluster(0, scaling=Scaling(2), labels={"disk": "ssd"})
    assert request(Autoscaler(cluster.scaled), big("a", node_selector={"disk": "ssd"})) == ["pool-added-0"]


def offering(price: float, zone: str, capacity_type: str = "on-demand", *, available: bool = True) -> dict[str, Any]:
    labels = {CAPACITY_TYPE: capacity_type, ZONE: zone}
    requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    return {"Price": price, "Available": available, "Requirements": requirements}


def instance_type(cores: int, price: float) -> dict[str, Any]:
    return {
        "name": f"c-{cores}x",
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": str(cores), "memory": f"{4 * cores}Gi", "pods": "110"},
        "offerings": [
            offering(price, "a"),
            offering(price, "b"),
            offering(price / 2, "a", "spot"),
            offering(0.001, "c", available=False),
        ],
    }


TYPES = [instance_type(2, 0.11), instance_type(4, 0.2), instance_type(8, 0.38), instance_type(16, 0.9)]


@pytest.fixture
def types(tmp_path: Path) -> Path:
    (tmp_path / "types.json").write_text(json.dumps(TYPES))
    return tmp_path


def priced_cluster(directory: Path, **scaling: Any) -> LabCluster:
    pool = NodePool(
        "nodes",
        0,
        instance_types="types.json",
        requirements={CAPACITY_TYPE: ("on-demand",)},
        scaling=Scaling(**{"at_most": 20, "startup_seconds": 30.0, "idle_seconds": 60.0, **scaling}),
    )
    return build_cluster("priced", [pool], "a test", directory)


def test_cheapest_instance_type_that_fits_all_pods_is_added(types: Path) -> None:
    scaler = Autoscaler(priced_cluster(types).scaled)
    scaler.add_pending(big(f"p{number}") for number in range(2))
    (requested,) = scaler.request_nodes()
    assert requested.node.labels[INSTANCE_TYPE] == "c-8x", "6 cores; 16 cores cost more"
    assert requested.node.labels[CAPACITY_TYPE] == "on-demand"


def test_equal_prices_in_several_zones_are_used_in_turn(types: Path) -> None:
    scaler = Autoscaler(priced_cluster(types).scaled)
    zones = []
    for number in range(4):
        scaler.add_pending([make_pod(f"p{number}", uid=f"p{number}", requests={"cpu": "15"})])
        zones += [each.node.labels[ZONE] for each in scaler.request_nodes()]
    assert zones == ["a", "b", "a", "b"]


REJECTED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown label": ({"requirements": {"karpenter.sh/capacity-typ": ("spot",)}}, "no instance type has the label"),
    "no offering": ({"requirements": {ZONE: ("c",)}}, "no available offering of types.json"),
    "missing file": ({"instance_types": "none.json"}, "none.json"),
    "cpu and types": ({"cpu": 4}, "replaces cpu and memory"),
    "no scaling": ({"scaling": None}, "needs scaling"),
    "requirements without types": ({"instance_types": "", "cpu": 1, "memory": 1}, "only valid with instanceTypes"),
    "no cpu": ({"instance_types": "", "requirements": {}}, "cpu is missing"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_invalid_pool_is_rejected(types: Path, name: str) -> None:
    changes, problem = REJECTED[name]
    fields = {"instance_types": "types.json", "scaling": Scaling(3), "requirements": {ZONE: ("a",)}, **changes}
    with pytest.raises(InputError, match=problem):
        build_cluster("c", [NodePool("nodes", 0, **fields)], "a test", types)


def test_invalid_file_of_instance_types_is_named(types: Path) -> None:
    (types / "types.json").write_text('[{"name": 7}]')
    with pytest.raises(InputError, match=r"types\.json: not a list of instance types"):
        priced_cluster(types)


def test_pods_of_a_batch_share_one_large_node(types: Path) -> None:
    pods = [TracePod(f"p{number}", float(number), 500.0, cpu_milli=1900) for number in range(4)]
    apart = run_trial(trial_with(*pods, TracePod("late", 400.0, 1.0), cluster=priced_cluster(types)))
    together = run_trial(
        trial_with(*pods, TracePod("late", 400.0, 1.0), cluster=priced_cluster(types, batch_seconds=5.0))
    )
    assert apart.trial.measures["nodes.started"] == 4
    assert together.trial.measures["nodes.started"] == 1
    assert together.trial.measures["cost"] < apart.trial.measures["cost"]


def consolidated(directory: Path, consolidation: str, **more: Any) -> dict[str, float]:
    """Two full nodes of eight cores lose half of their pods; then one node would be sufficient."""
    pods = [
        TracePod(f"p{number}", 0.0, 300.0 if number < 2 else 5000.0, cpu_milli=3900, kind="web") for number in range(4)
    ]
    cluster = priced_cluster(directory, consolidation=consolidation, **more)
    return dict(run_trial(trial_with(*pods, TracePod("late", 4000.0, 1.0), cluster=cluster)).trial.measures)


def test_underused_nodes_are_consolidated_and_cost_less(types: Path) -> None:
    big_types = [TYPES[2]]
    (types / "types.json").write_text(json.dumps(big_types))
    empty, underused = consolidated(types, "empty"), consolidated(types, "underused")
    assert empty["evictions"] == 0
    assert underused["evictions"] == 1
    assert underused["cost"] < 0.7 * empty["cost"]


def test_node_is_replaced_by_a_cheaper_one(types: Path) -> None:
    pods = (
        TracePod("short", 0.0, 100.0, cpu_milli=6000),
        TracePod("long", 0.0, 8000.0, cpu_milli=1000),
        TracePod("late", 4000.0, 1.0),
    )
    cluster = priced_cluster(types, consolidation="underused")
    result = run_trial(trial_with(*pods, cluster=cluster))
    assert result.trial.measures["nodes.started"] == 2
    assert result.trial.measures["cost"] == pytest.approx((0.38 * 190 + 0.11 * 3810) / 3600, rel=0.05)
    assert next(row for row in result.pods if row.pod == "long").evictions == 1


def test_classes_in_keeps_are_not_evicted(types: Path) -> None:
    (types / "types.json").write_text(json.dumps([TYPES[2]]))
    assert consolidated(types, "underused", keeps=("web",))["evictions"] == 0
