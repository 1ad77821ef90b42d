from pathlib import Path

import pytest
from {{ package }}.plugin import {{ plugin }}, {{ plugin }}Args

from moorage import CycleState
from moorage.testing import Cluster, Rig, in_virtual_time, make_node, make_pod

PROJECT = Path(__file__).parents[1]
LICENSED = {"{{ label }}": "solver"}

CASES = {
    "a license is free": (0, LICENSED, True),
    "the pod itself takes the last license": (1, LICENSED, True),
    "no license is left": (2, LICENSED, False),
    "a pod without the label needs no license": (2, {}, True),
}


@pytest.mark.parametrize(("used", "labels", "fits"), CASES.values(), ids=CASES)
def test_reserve(used: int, labels: dict[str, str], fits: bool) -> None:
    others = [make_pod(f"other-{number}", labels=LICENSED, node="node-1") for number in range(used)]
    pod = make_pod("pod", labels=labels, node="node-1")  # the scheduler assumes a pod on its node before reserve
    plugin = {{ plugin }}(args={{ plugin }}Args(), handle=Rig(make_node("node-1"), *others, pod))
    assert (plugin.reserve(CycleState(), pod, "node-1") is None) == fits


@in_virtual_time
async def test_pod_without_a_license_is_pending() -> None:
    config = (PROJECT / "deploy" / "scheduler.yaml").read_text()
    async with Cluster(nodes=3, shape="cpu=4", plugins=[{{ plugin }}], config=config) as cluster:
        await cluster.apply(PROJECT / "workload.yaml")
        await cluster.wait_for(lambda: len(cluster.running()) == 2)
        (pending,) = (pod.name for pod in cluster.pods() if not pod.node_name)
        reason = "1 node(s) were not reserved: all 2 licenses were in use"
        await cluster.wait_for(lambda: reason in cluster.why_pending(pending))
