"""GpuShare: feasible nodes, allocated devices, hints and gauges."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.gpus import gpu_node, gpu_pod

from moorage.contrib.gpu.gpu_policies import FGD
from moorage.contrib.gpu.gpu_share import (
    NO_GPU,
    NO_SHARE_FREE,
    NONE_FREE,
    OTHER_MODEL,
    TOO_FEW,
    GpuShare,
    after_node_change,
    after_own_change,
    after_pod_deletion,
)
from moorage.kube.api.gpu_sharing import GPU_DEVICES, GPU_MILLI
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.contrib_args import FGDArgs, GpuShareArgs, TypicalShape
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import QueueingHint
from moorage.scheduler.framework.status import Status
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, FilterForm, Rig, run_filter

TWO = gpu_node("n", gpus=2, model="T4")


FILTER: dict[str, tuple[list[Pod], Pod, Status | None]] = {
    "a pod without GPUs passes": ([], make_pod(), None),
    "a free device fits a share": ([], gpu_pod(milli=300), None),
    "a free device fits a complete request": ([], gpu_pod(), None),
    "the model is accepted": ([], gpu_pod(models="G2|T4"), None),
    "the model is not accepted": ([], gpu_pod(models="G2"), OTHER_MODEL),
    "more devices than the node has": ([], gpu_pod(gpus=3), TOO_FEW),
    "one device is free and one is shared": (
        [gpu_pod("a", milli=700, node="n", devices="1")] * 1,
        gpu_pod(gpus=1),
        None,
    ),
    "no device has enough left for a share": (
        [gpu_pod("a", milli=700, node="n", devices="0"), gpu_pod("b", milli=750, node="n", devices="1")],
        gpu_pod(milli=301),
        NO_SHARE_FREE,
    ),
    "a device has just enough left for a share": (
        [gpu_pod("a", milli=700, node="n", devices="0"), gpu_pod("b", milli=750, node="n", devices="1")],
        gpu_pod(milli=300),
        None,
    ),
    "a shared device is not free": ([gpu_pod("a", milli=1, node="n", devices="1")], gpu_pod(gpus=2), NONE_FREE),
    "pods without a device annotation count": (
        [gpu_pod("a", node="n"), gpu_pod("b", milli=900, node="n")],
        gpu_pod(milli=200),
        NO_SHARE_FREE,
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("there", "pod", "expected"), FILTER.values(), ids=FILTER)
def test_filter(there: list[Pod], pod: Pod, expected: Status | None, form: FilterForm) -> None:
    rig = Rig(TWO, *there)
    assert run_filter(GpuShare(handle=rig), rig, pod, form) == [expected]


@pytest.mark.parametrize("form", FORMS)
def test_a_node_without_gpus_is_rejected_permanently(form: FilterForm) -> None:
    rig = Rig(make_node("n"))
    assert run_filter(GpuShare(handle=rig), rig, gpu_pod(), form) == [NO_GPU]


def test_pod_with_invalid_annotations_reports_the_expected_value() -> None:
    rig = Rig(TWO)
    answer = GpuShare(handle=rig).pre_filter(CycleState(), gpu_pod(more={GPU_MILLI: "half"}), rig.nodes)
    assert isinstance(answer, Status)
    assert "write thousandths of each device" in answer.message


def test_no_devices_are_allocated_without_free_devices() -> None:
    rig = Rig(gpu_node("n", gpus=1), gpu_pod("a", node="n", devices="0"))
    assert GpuShare(handle=rig).reserve(CycleState(), gpu_pod(milli=1), "n") == NO_SHARE_FREE
    assert GpuShare(handle=rig).reserve(CycleState(), gpu_pod(), "n") == NONE_FREE
    assert GpuShare(handle=rig).reserve(CycleState(), make_pod(), "n") is None


def test_devices_are_written_before_the_pod_is_bound() -> None:
    patches: list[tuple[str, Mapping[str, Any]]] = []

    class Writes:
        async def patch(self, obj: Pod, patch: Mapping[str, Any], *, subresource: str = "") -> Pod:
            patches.append((obj.name, patch))
            return obj

    rig = Rig(gpu_node("n", gpus=2))
    rig.cluster = Writes()  # type: ignore[assignment]
    plugin, cycle, pod = GpuShare(handle=rig), CycleState(), gpu_pod("p", gpus=2)
    plugin.reserve(cycle, pod, "n")
    assert asyncio.run(plugin.pre_bind(cycle, pod, "n")) is None
    assert patches == [("p", {"metadata": {"annotations": {GPU_DEVICES: "0,1"}}})]
    assert plugin.pre_bind_pre_flight(CycleState(), make_pod(), "n") == Status.skip()


def test_deleted_gpu_pod_wakes_pending_pods() -> None:
    waiting = gpu_pod("w")
    assert after_pod_deletion(waiting, gpu_pod("a", node="n"), None) == QueueingHint.QUEUE
    assert after_pod_deletion(waiting, make_pod("a", node="n"), None) == QueueingHint.SKIP
    assert after_pod_deletion(waiting, gpu_pod("a"), None) == QueueingHint.SKIP


def test_node_wakes_pods_that_fit_on_it() -> None:
    waiting, small, large = (
        gpu_pod("w", gpus=2, models="T4"),
        gpu_node(gpus=1, model="T4"),
        gpu_node(gpus=2, model="T4"),
    )
    assert after_node_change(waiting, None, large) == QueueingHint.QUEUE
    assert after_node_change(waiting, None, small) == QueueingHint.SKIP
    assert after_node_change(waiting, small, large) == QueueingHint.QUEUE
    assert after_node_change(waiting, large, large) == QueueingHint.SKIP
    assert after_node_change(waiting, gpu_node(gpus=2, model="G2"), large) == QueueingHint.QUEUE
    assert after_node_change(waiting, None, gpu_node(gpus=2, model="G2")) == QueueingHint.SKIP


def test_pod_with_changed_requests_is_retried() -> None:
    before, after = gpu_pod("w", milli=500), gpu_pod("w", milli=400)
    assert after_own_change(after, before, after) == QueueingHint.QUEUE
    assert after_own_change(after, after, after) == QueueingHint.SKIP


SHAPES = (TypicalShape(gpus=1, gpu_milli=500, pods=3), TypicalShape(cpu_milli=1000, pods=1))


SHARE, WITHOUT = "cpu=0m,gpu=1x500", "cpu=1000m,gpu=none"


def readings(*there: Node | Pod, label: str = "") -> dict[tuple[str, ...], float]:
    """Read the gauges of a cluster, by name and labels."""
    rig = Rig(*there)
    FGD(args=FGDArgs(typical_shapes=SHAPES), handle=rig)
    args = GpuShareArgs(pool_label=label) if label else GpuShareArgs()
    return {(name, *labels): value for name, labels, value in GpuShare(args=args, handle=rig).gauges()}


def test_pools_are_grouped_by_gpu_model() -> None:
    full = gpu_pod("a", milli=700, node="b", devices="0")
    values = readings(gpu_node("a", gpus=4, model="T4"), gpu_node("b", gpus=1, model="G2"), full, make_node("c"))
    ratio = "moorage_fragmentation_ratio"
    assert values == {
        ("moorage_largest_job_gpus", "all"): 4.0,
        ("moorage_largest_job_gpus", "T4"): 4.0,
        ("moorage_largest_job_gpus", "G2"): 0.0,
        (ratio, "T4", SHARE): 0.0,
        (ratio, "T4", WITHOUT): 1.0,
        (ratio, "T4", "typical"): 0.25,
        (ratio, "G2", SHARE): 0.3,
        (ratio, "G2", WITHOUT): 0.3,
        (ratio, "G2", "typical"): 0.3,
        (ratio, "all", SHARE): 0.06,
        (ratio, "all", WITHOUT): 0.86,
        (ratio, "all", "typical"): 0.26,
    }


def test_pools_can_be_grouped_by_another_label() -> None:
    values = readings(gpu_node("a", gpus=2), label="kubernetes.io/hostname")
    assert values["moorage_largest_job_gpus", "a"] == 2.0


def test_cluster_without_gpus_has_no_fragmentation() -> None:
    assert readings(make_node("a")) == {}
