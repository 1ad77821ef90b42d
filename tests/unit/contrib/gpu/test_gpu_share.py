"""GpuShare: feasible nodes, allocated devices, and messages of pods."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.gpus import gpu_node, gpu_pod

from moorage.contrib.gpu.demand import GpuDemand, UnreadableDemand, demand_of
from moorage.contrib.gpu.devices import gpus_of
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
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_DEVICES, GPU_MILLI, GPU_MODEL
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.gpu_args import GpuShareArgs
from moorage.scheduler.framework.cycle import ASSUMED, CycleState
from moorage.scheduler.framework.events import QueueingHint
from moorage.scheduler.framework.status import Status
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, FilterForm, Rig, run_filter

ASKED: dict[str, tuple[Mapping[str, str], object]] = {
    "nothing said is nothing asked": ({}, None),
    "no devices are nothing, whatever is said of each": ({GPU_COUNT: "0", GPU_MILLI: "0"}, None),
    "devices are whole ones unless it is said": ({GPU_COUNT: "2"}, GpuDemand(2, 1000)),
    "a share is of one device": ({GPU_MILLI: "460"}, GpuDemand(1, 460)),
    "models may be several": ({GPU_COUNT: "1", GPU_MODEL: "T4|G2"}, GpuDemand(1, 1000, ("G2", "T4"))),
    "words are no numbers": (
        {GPU_COUNT: "1", GPU_MILLI: "lots"},
        UnreadableDemand(f'annotation {GPU_MILLI} is "lots": write thousandths of each device from 1 to 1000'),
    ),
    "more than a whole one is too much of it": (
        {GPU_MILLI: "1001"},
        UnreadableDemand(f'annotation {GPU_MILLI} is "1001": write thousandths of each device from 1 to 1000'),
    ),
    "nothing of a device is no share": (
        {GPU_COUNT: "1", GPU_MILLI: "0"},
        UnreadableDemand(f'annotation {GPU_MILLI} is "0": write thousandths of each device from 1 to 1000'),
    ),
    "less than no devices there are not": (
        {GPU_COUNT: "-1"},
        UnreadableDemand(f'annotation {GPU_COUNT} is "-1": write a number of devices from 0 to 62'),
    ),
    "a bar alone names no model": (
        {GPU_COUNT: "1", GPU_MODEL: "|"},
        UnreadableDemand(f'annotation {GPU_MODEL} is "|": write names of models joined by |, such as A100|H100'),
    ),
}


@pytest.mark.parametrize(("annotations", "wanted"), ASKED.values(), ids=ASKED)
def test_demand(annotations: Mapping[str, str], wanted: object) -> None:
    assert demand_of(gpu_pod(gpus=0, more=annotations)) == wanted


TWO = gpu_node("n", gpus=2, model="T4")
FILTER: dict[str, tuple[list[Pod], Pod, Status | None]] = {
    "a pod without GPUs passes": ([], make_pod(), None),
    "a free device will do for a share": ([], gpu_pod(milli=300), None),
    "and for a whole one": ([], gpu_pod(), None),
    "a model that is named": ([], gpu_pod(models="G2|T4"), None),
    "another model": ([], gpu_pod(models="G2"), OTHER_MODEL),
    "more devices than the node has": ([], gpu_pod(gpus=3), TOO_FEW),
    "what is left of a shared device is enough": (
        [gpu_pod("a", milli=700, node="n", devices="1")] * 1,
        gpu_pod(gpus=1),
        None,
    ),
    "what is left of all devices is too little": (
        [gpu_pod("a", milli=700, node="n", devices="0"), gpu_pod("b", milli=750, node="n", devices="1")],
        gpu_pod(milli=301),
        NO_SHARE_FREE,
    ),
    "but not for less": (
        [gpu_pod("a", milli=700, node="n", devices="0"), gpu_pod("b", milli=750, node="n", devices="1")],
        gpu_pod(milli=300),
        None,
    ),
    "a shared device is not free": ([gpu_pod("a", milli=1, node="n", devices="1")], gpu_pod(gpus=2), NONE_FREE),
    "pods whose devices nobody wrote down count as well": (
        [gpu_pod("a", node="n"), gpu_pod("b", milli=900, node="n")],
        gpu_pod(milli=200),
        NO_SHARE_FREE,
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("there", "pod", "wanted"), FILTER.values(), ids=FILTER)
def test_filter(there: list[Pod], pod: Pod, wanted: Status | None, form: FilterForm) -> None:
    rig = Rig(TWO, *there)
    assert run_filter(GpuShare(handle=rig), rig, pod, form) == [wanted]


@pytest.mark.parametrize("form", FORMS)
def test_a_node_without_gpus_is_rejected_for_good(form: FilterForm) -> None:
    rig = Rig(make_node("n"))
    assert run_filter(GpuShare(handle=rig), rig, gpu_pod(), form) == [NO_GPU]


def test_pod_with_invalid_annotations_reports_the_expected_value() -> None:
    rig = Rig(TWO)
    answer = GpuShare(handle=rig).pre_filter(CycleState(), gpu_pod(more={GPU_MILLI: "half"}), rig.nodes)
    assert isinstance(answer, Status)
    assert "write thousandths of each device" in answer.message


CHOSEN: dict[str, tuple[str, Pod, tuple[int, ...]]] = {
    "whole ones are taken in order of their numbers": ("Policy", gpu_pod(gpus=2), (2, 3)),
    "the tightest device, where no policy says more": ("Policy", gpu_pod(milli=200), (1,)),
    "the tightest that has enough": ("Tightest", gpu_pod(milli=400), (0,)),
    "the one with most left": ("Loosest", gpu_pod(milli=200), (2,)),
    "the first that has enough": ("First", gpu_pod(milli=200), (0,)),
}


@pytest.mark.parametrize(("selection", "pod", "wanted"), CHOSEN.values(), ids=CHOSEN)
def test_which_devices(selection: str, pod: Pod, wanted: tuple[int, ...]) -> None:
    there = [gpu_pod("a", milli=500, node="n", devices="0"), gpu_pod("b", milli=700, node="n", devices="1")]
    rig = Rig(gpu_node("n", gpus=4), *there)
    plugin, cycle = GpuShare(args=GpuShareArgs(device_selection=selection), handle=rig), CycleState()
    assert plugin.reserve(cycle, pod, "n") is None
    assert cycle[ASSUMED].metadata.annotations[GPU_DEVICES] == ",".join(map(str, wanted))
    assert plugin.pre_bind_pre_flight(cycle, pod, "n") is None


def test_random_devices_are_all_taken_in_time_and_never_one_that_is_full() -> None:
    rig = Rig(gpu_node("n", gpus=4), gpu_pod("a", milli=900, node="n", devices="1"))
    plugin = GpuShare(args=GpuShareArgs(device_selection="Random"), handle=rig)
    devices = set()
    for number in range(40):
        cycle = CycleState()
        plugin.reserve(cycle, gpu_pod(f"p{number}", milli=200), "n")
        devices.add(cycle[ASSUMED].metadata.annotations[GPU_DEVICES])
    assert devices == {"0", "2", "3"}


def test_no_devices_are_allocated_without_free_devices() -> None:
    rig = Rig(gpu_node("n", gpus=1), gpu_pod("a", node="n", devices="0"))
    assert GpuShare(handle=rig).reserve(CycleState(), gpu_pod(milli=1), "n") == NO_SHARE_FREE
    assert GpuShare(handle=rig).reserve(CycleState(), gpu_pod(), "n") == NONE_FREE
    assert GpuShare(handle=rig).reserve(CycleState(), make_pod(), "n") is None


def test_the_devices_are_written_before_the_pod_is_bound() -> None:
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


GIVEN: dict[str, tuple[list[Pod], tuple[int, ...]]] = {
    "as it is written": ([gpu_pod("a", milli=300, node="n", devices="2")], (1000, 1000, 700)),
    "whole ones": ([gpu_pod("a", gpus=2, node="n", devices="0,2")], (0, 1000, 0)),
    "a device that the node does not have": ([gpu_pod("a", milli=300, node="n", devices="9")], (700, 1000, 1000)),
    "fewer devices than were asked for": ([gpu_pod("a", gpus=2, node="n", devices="2")], (0, 0, 1000)),
    "one device twice": ([gpu_pod("a", gpus=2, node="n", devices="1,1")], (0, 0, 1000)),
    "more than there is of a device": (
        [gpu_pod("a", milli=700, node="n", devices="1"), gpu_pod("b", milli=700, node="n", devices="1")],
        (1000, 0, 1000),
    ),
    "more than there is on all": ([gpu_pod(str(number), gpus=2, node="n") for number in range(3)], (0, 0, 0)),
    "those who were given theirs come first": (
        [gpu_pod("a", milli=300, node="n"), gpu_pod("b", milli=600, node="n", devices="1")],
        (1000, 100, 1000),
    ),
}


@pytest.mark.parametrize(("there", "free"), GIVEN.values(), ids=GIVEN)
def test_free_gpu_capacity(there: list[Pod], free: tuple[int, ...]) -> None:
    rig = Rig(gpu_node("n", gpus=3), *there)
    assert gpus_of(rig.nodes[0]).free == free


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
