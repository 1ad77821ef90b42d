"""Large objects: the work that one object causes grows with its size, not with its square or with size times nodes."""

import asyncio
import gc
import json
import math
import sys
import time
from functools import partial

import pytest
from benchmarks.drain import Rig
from benchmarks.engine_workloads import WORKLOADS
from benchmarks.large_objects import WAITING, Case, apply_object, cases, measure, measure_events, prepared

import moorage.scheduler.plugins.dynamic_resources.filter as filter_module
from moorage.scheduler.plugins.dynamic_resources.allocation.allocator import Search, Solution
from moorage.testing import make_pod

FEW, MANY = 50, 200
FIELDS = (
    *("spec.containers[0].resources.requests", "spec.overhead", "status.allocatable"),
    *("spec.containers[0].ports (host)", "spec.initContainers (sidecars)", "spec.nodeSelector"),
    *("nodeAffinity.required terms", "nodeAffinity.required expressions (numbers)", "nodeAffinity.preferred terms"),
    *("podAffinity.required terms", "podAntiAffinity.required terms", "podAffinity.preferred terms"),
    *("podAntiAffinity.required terms (keys)", "podAffinity.preferred terms (keys), bound"),
    *("podAntiAffinity.required terms, bound", "podAntiAffinity.required terms (keys), bound"),
    *("topologySpreadConstraints (hard)", "topologySpreadConstraints (soft)"),
    "status.allocation.nodeSelector",
)
CASES = {f"{case.kind} {case.field}": case for case in cases() if case.field in FIELDS}


@pytest.fixture(scope="module", autouse=True)
def _exclude_other_tests_from_collections() -> None:
    """Freeze the objects of earlier tests: each count starts with a collection, which would traverse all of them."""
    gc.collect()
    gc.freeze()


def count_calls(case: Case, elements: int, nodes: int) -> int:
    """Count the function calls that an object and the next pods cause."""
    calls = 0
    gc.collect()  # values derived from the specs of other runs

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    async def run() -> None:
        rig = await prepared(nodes, existing=20)
        body = json.dumps(case.build(elements)).encode()
        sys.setprofile(count)
        try:
            await measure(rig, case, elements, body)
        finally:
            sys.setprofile(None)

    asyncio.run(run())
    return calls


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_work_for_a_large_object_is_linear(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_module, "SLICE", math.inf)
    count_calls(case, MANY, 25)  # fills caches of parsed texts
    few, many = count_calls(case, FEW, 25), count_calls(case, MANY, 25)
    assert many <= few * MANY / FEW * 1.2, f"{FEW} elements: {few} calls, {MANY} elements: {many}"
    # Each node costs some calls, but not one for each element.
    for_nodes, for_nodes_and_elements = count_calls(case, FEW, 45) - few, count_calls(case, MANY, 45) - many
    most = 20 * (MANY - FEW) / 2
    assert for_nodes_and_elements - for_nodes < most, f"20 nodes: {for_nodes} or {for_nodes_and_elements} calls"


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


@pytest.mark.parametrize("field", ["spec.devices.requests", "spec.devices.requests[0].selectors"])
def test_long_searches_for_devices_let_other_pods_pass(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that is suspended after each node has the same result, and searches no node twice."""
    case = next(case for case in cases() if case.field == field)
    searches: list[object] = []
    run = Search.run

    def counted_run(search: Search) -> Solution | None:
        searches.append(search)
        return run(search)

    monkeypatch.setattr(Search, "run", counted_run)

    async def attempt() -> tuple[list[str], str | None]:
        rig = Rig(WORKLOADS["devices"], 10)
        bound: list[str] = []
        monkeypatch.setattr(rig.cluster, "_on_bound", lambda pod: bound.append(pod.name))
        searches.clear()
        apply_object(rig, case.kind, case.build(3 if "selectors" in field else 32))
        for pod in case.pods:
            apply_object(rig, "Pod", pod)
        rig.scheduler.handlers.pod_added(make_pod("ordinary"))
        await rig.drain()
        rig.scheduler.queue.flush(time.time() + 2)
        await rig.drain()
        return bound, rig.scheduler.queue.where(make_pod("user", uid="uid-user"))

    monkeypatch.setattr(filter_module, "SLICE", math.inf)
    bound, place = asyncio.run(attempt())
    assert len(searches) == 10
    monkeypatch.setattr(filter_module, "SLICE", -1.0)
    suspended = asyncio.run(attempt())
    assert (sorted(suspended[0]), suspended[1]) == (sorted(bound), place)
    assert suspended[0][0] == "ordinary"
    assert len(searches) == 10
