"""Typical shapes of a trace: the measure of fragmentation, and the configuration of FGD."""

import pytest
from tests.support.lab import config_with, pool_cluster, trial_with

from moorage.contrib import GpuShape
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_MILLI
from moorage.lab.fragmentation import find_typical_shapes, load_trial_policy, measure_fragmentation
from moorage.lab.ledger import UsageLedger
from moorage.lab.trace import PodMaker, TracePod, collect_facts

HALF = TracePod("half", cpu_milli=1000, gpus=1, gpu_milli=500, gpu_models=("B", "A", "B"))
PLAIN = TracePod("plain", cpu_milli=2000)


def test_shapes_of_pods_with_and_without_gpus_are_counted() -> None:
    typical = find_typical_shapes(collect_facts([HALF, HALF, PLAIN]))
    assert dict(typical.counts) == {GpuShape(1000, 1, 500, ("A", "B")): 2, GpuShape(2000): 1}


def test_idle_part_of_a_gpu_is_fragmented_if_it_is_too_small() -> None:
    ledger = UsageLedger()
    for node in pool_cluster(2, 8, gpus=1).nodes:
        ledger.add_node(node)
    pod = TracePod("p", cpu_milli=1000, gpus=1, gpu_milli=600)
    typical = find_typical_shapes(collect_facts([pod]))
    assert measure_fragmentation(ledger, typical) == 0.0
    ledger.take(PodMaker().make(pod).on_node("pool-0"))
    # 400 thousandths of one of two GPUs are idle and too small for the only shape.
    assert measure_fragmentation(ledger, typical) == pytest.approx(400 / 2000)


def typical_shapes(*pods: TracePod, **args: object) -> tuple[int, ...]:
    config = config_with(enabled=("GpuShare",), weights={"FGD": 1}, **args)
    profile = load_trial_policy(trial_with(*pods, config=config)).config.profiles[0]
    return tuple(shape.pods for shape in getattr(profile.find_args("FGD"), "typical_shapes", ()))


def test_policy_of_a_trace_with_gpus_gets_its_shapes() -> None:
    assert typical_shapes(HALF, HALF, PLAIN) == (2, 1)
    assert typical_shapes(PLAIN) == ()


def test_configured_shapes_are_kept() -> None:
    shapes = [{"cpuMilli": 1000, "gpus": 1, "gpuMilli": 1000, "pods": 7}]
    assert typical_shapes(HALF, args={"FGD": {"typicalShapes": shapes}}) == (7,)


def test_gpu_requests_are_thousandths() -> None:
    assert PodMaker().make(HALF).requests[GPU_MILLI] == 500
    assert PodMaker().make(HALF).annotations[GPU_COUNT] == "1"
