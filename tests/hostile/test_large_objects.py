"""Large objects: the work that one object causes grows with its size, not with its square or with size times nodes."""

import asyncio
import json
import sys
from functools import partial

import pytest
from benchmarks.drain import Rig
from benchmarks.engine_workloads import WORKLOADS
from benchmarks.large_objects import WAITING, Case, cases, measure, measure_events

from moorage.testing import make_pod

FEW, MANY = 50, 200
FIELDS = (
    *("spec.containers[0].ports (host)", "spec.initContainers (sidecars)", "spec.nodeSelector"),
    *("nodeAffinity.required terms", "nodeAffinity.required expressions (numbers)", "nodeAffinity.preferred terms"),
    *("podAffinity.required terms", "podAntiAffinity.required terms", "podAffinity.preferred terms"),
    *("podAntiAffinity.required terms (keys)", "podAffinity.preferred terms (keys), bound"),
    *("podAntiAffinity.required terms, bound", "podAntiAffinity.required terms (keys), bound"),
    *("topologySpreadConstraints (hard)", "topologySpreadConstraints (soft)"),
)
CASES = {case.field: case for case in cases() if case.field in FIELDS}


def count_calls(case: Case, elements: int, nodes: int) -> int:
    """Count the function calls that an object and the next pods cause."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    async def run() -> None:
        rig = Rig(WORKLOADS["devices"], nodes)
        for number in range(20):
            labels = {"app": f"v{number}", f"k{number}": ""}
            rig.scheduler.handlers.pod_added(make_pod(f"old-{number}", node=f"node-{number % nodes}", labels=labels))
        body = json.dumps(case.build(elements)).encode()
        sys.setprofile(count)
        try:
            await measure(rig, case, elements, body)
        finally:
            sys.setprofile(None)

    asyncio.run(run())
    return calls


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_work_for_a_large_object_is_linear(case: Case) -> None:
    few, many = count_calls(case, FEW, 10), count_calls(case, MANY, 10)
    assert many <= few * MANY / FEW * 1.2, f"{FEW} elements: {few} calls, {MANY} elements: {many}"
    # Each node costs some calls of its own, but not one for each element.
    more_nodes = count_calls(case, MANY, 30)
    assert more_nodes - many < 20 * MANY / 2, f"10 nodes: {many} calls, 30 nodes: {more_nodes}"


@pytest.mark.parametrize("name", [name for name in WAITING if name not in ("CPU", "affinity, own negative terms")])
def test_events_do_not_evaluate_pods_that_they_do_not_concern(name: str) -> None:
    calls: dict[int, int] = {}

    for pods in (50, 200):
        counted = 0

        def count(_frame: object, event: str, _argument: object) -> None:
            nonlocal counted
            counted += event in ("call", "c_call")

        asyncio.run(measure_events(name, pods, partial(sys.setprofile, count)))
        sys.setprofile(None)
        calls[pods] = counted
    assert calls[200] < 1.5 * calls[50], calls
