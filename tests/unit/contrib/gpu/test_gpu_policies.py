"""GPU policies: scores computed by hand from the published formulas, and equal in both forms."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import strategies as st
from tests.support.gpus import gpu_node, gpu_pod
from tests.unit.contrib.gpu.gpu_builders import SMALL, fgd

from moorage.contrib.gpu.devices import read_gpus
from moorage.contrib.gpu.gpu_policies import FGD, GpuBestFit, GpuClustering, GpuDotProd, GpuPacking, GpuRandom
from moorage.contrib.gpu.gpu_share import GpuShare
from moorage.contrib.gpu.shapes import GpuShape
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_DEVICES, GPU_MILLI, GPU_MODEL
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.contrib_args import FGDArgs, GpuRandomArgs, TypicalShape
from moorage.scheduler.config.plugin_facts import GPU_PLUGINS
from moorage.scheduler.framework.cycle import ASSUMED, CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.plugin import ScorePlugin
from moorage.scheduler.wiring.policy import collect_plugins
from moorage.testing import check_plugin, make_node, make_pod
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm, run_score

SHARE, WHOLE = gpu_pod("p", milli=460, cpu=6000), gpu_pod("p", cpu=6000)


EMPTY = (gpu_node("large", gpus=8, cpu=96), gpu_node("small", gpus=2, cpu=104))


CASES: dict[str, tuple[Callable[..., ScorePlugin], tuple[KubeObject, ...], Pod, list[int]]] = {
    # Before: 3·300 + 300 + 1300 + 1300 = 3800. On the full device: 0 + 0 + 1000 + 1000, and 1800 of 6 pods is 0.3 GPU.
    "FGD, a share that fills a device": (fgd, SMALL, gpu_pod("p", milli=300, cpu=1000), [57]),
    # After: 3·300 + 300 + 300 + 300 = 1800.
    "FGD, a whole GPU": (fgd, SMALL, gpu_pod("p", cpu=1000), [58]),
    # No pod uses the idle CPU: 6·1300 is lost.
    "FGD, a pod without GPUs that blocks all others": (fgd, SMALL, make_pod(requests={"cpu": "8"}), [33]),
    "FGD, a pod without GPUs that blocks no pod": (fgd, SMALL, make_pod(requests={"cpu": "1"}), [50]),
    "FGD, no device fits": (fgd, SMALL, gpu_pod("p", gpus=2), [0]),
    # 17.7 and 52.1 before they are spread.
    "GpuBestFit, the tighter node": (GpuBestFit, EMPTY, SHARE, [0, 100]),
    # 17.7, 52.1 and, with a GPU in use, 23.9.
    "GpuBestFit, a node in between": (
        GpuBestFit,
        (*EMPTY, gpu_node("used", gpus=8, cpu=96), gpu_pod("a", node="used", devices="0")),
        SHARE,
        [0, 100, 17],
    ),
    "GpuDotProd": (GpuDotProd, EMPTY, SHARE, [95, 97]),
    "GpuDotProd, a pod without GPUs": (GpuDotProd, EMPTY, make_pod(requests={"cpu": "64"}), [81, 79]),
    "GpuPacking, empty nodes: the smaller first": (GpuPacking, EMPTY, SHARE, [25, 31]),
    "GpuPacking, a device in use": (
        GpuPacking,
        (*EMPTY, gpu_pod("a", milli=460, node="large", devices="3")),
        SHARE,
        [95, 31],
    ),
    "GpuPacking, a free device of a node in use": (
        GpuPacking,
        (*EMPTY, gpu_pod("a", milli=600, node="large", devices="3")),
        SHARE,
        [49, 31],
    ),
    "GpuPacking, several free devices": (
        GpuPacking,
        (gpu_node("n", gpus=4), gpu_pod("a", milli=1, node="n", devices="0")),
        gpu_pod("p", gpus=3),
        [47],
    ),
    "GpuPacking, no device fits": (GpuPacking, (gpu_node("n", gpus=1),), gpu_pod("p", gpus=2), [0]),
    "GpuPacking, a pod without GPUs": (GpuPacking, EMPTY, make_pod(), [0, 0]),
    "GpuClustering, idle nodes": (GpuClustering, EMPTY, SHARE, [25, 43]),
    "GpuClustering, only shares, and only whole devices": (
        GpuClustering,
        (*EMPTY, gpu_pod("a", milli=460, node="large", devices="3"), gpu_pod("b", node="small", devices="0")),
        SHARE,
        [76, 21],
    ),
    "GpuClustering, one GPU is another class than two": (
        GpuClustering,
        (*EMPTY, gpu_pod("a", gpus=2, node="large", devices="0,1"), gpu_pod("b", node="small", devices="0")),
        WHOLE,
        [6, 96],
    ),
    "GpuClustering, both classes on one node": (
        GpuClustering,
        (EMPTY[0], gpu_pod("a", milli=460, node="large", devices="3"), gpu_pod("b", node="large", devices="0")),
        SHARE,
        [54],
    ),
    "GpuClustering, pods without GPUs are of no class": (
        GpuClustering,
        (EMPTY[0], make_pod("a", node="large", uid="a")),
        SHARE,
        [25],
    ),
    "GpuClustering, a pod without GPUs": (GpuClustering, EMPTY, make_pod(), [0, 0]),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("make", "cluster", "pod", "scores"), CASES.values(), ids=CASES)
def test_scores(
    make: Callable[..., ScorePlugin], cluster: tuple[KubeObject, ...], pod: Pod, scores: list[int], form: ScoreForm
) -> None:
    rig = Rig(*cluster)
    assert run_score(make(handle=rig), rig, pod, form) == scores


def test_random_policy_selects_one_node() -> None:
    rig = Rig(*(gpu_node(f"n{number}", gpus=1) for number in range(4)))
    rows = []
    for number in range(60):
        scores = run_score(GpuRandom(handle=rig), rig, gpu_pod(f"p{number}"), SCORE_FORMS[0])
        assert scores is not None
        assert sorted(scores) == [0, 0, 0, 100]
        rows.append(scores.index(100))
    assert {rows.count(row) > 6 for row in range(4)} == {True}
    other_scores = [
        run_score(GpuRandom(args=GpuRandomArgs(seed=1), handle=rig), rig, gpu_pod(f"p{number}"), SCORE_FORMS[0])
        for number in range(60)
    ]
    assert [scores.index(100) for scores in other_scores if scores] != rows, "another seed selects other nodes"


def test_devices_of_a_removed_pod_are_free_in_a_copy() -> None:
    rig = Rig(*SMALL)
    copy = rig.nodes[0].copy()
    copy.remove_pod(next(iter(copy.pods.values())))
    assert read_gpus(copy).free == (1000, 1000)


TYPICAL = (
    TypicalShape(cpu_milli=4000, pods=3),
    TypicalShape(cpu_milli=2000, gpus=1, gpu_milli=300, pods=5),
    TypicalShape(cpu_milli=1000, gpus=1, gpu_milli=1000, gpu_models=("T4",), pods=2),
    TypicalShape(cpu_milli=8000, gpus=2, gpu_milli=1000, pods=1),
)


def clusters_with_gpus() -> st.SearchStrategy[tuple[KubeObject, ...]]:
    """Draw clusters with GPUs on some nodes, and pods with parts of GPUs, valid or not."""
    return st.randoms(use_true_random=False).map(_cluster)


def _cluster(chance: Random) -> tuple[KubeObject, ...]:
    objects: list[KubeObject] = []
    for number in range(chance.randint(1, 5)):
        gpus = chance.choice((0, 1, 2, 4, 8))
        model = {GPU_MODEL: chance.choice(("T4", "G2"))} if chance.random() < 0.8 else {}
        name = f"n{number}"
        has = {"cpu": chance.choice((8, 64)), GPU_COUNT: gpus, GPU_MILLI: 1000 * gpus}
        objects.append(make_node(name, labels=model, allocatable=has))
        objects += [_neighbor(chance, f"{name}-{index}", name) for index in range(chance.randint(0, 4))]
    return tuple(objects)


def _neighbor(chance: Random, name: str, node: str) -> Pod:
    devices = chance.choice((None, "0", "1", "0,1", "7", "x", "0,0"))
    more = {} if devices is None else {GPU_DEVICES: devices}
    return gpu_pod(name, gpus=chance.choice((0, 1, 1, 2)), milli=chance.choice((250, 500, 1000)), node=node, more=more)


def incoming() -> st.SearchStrategy[Pod]:
    """Draw pods that request GPUs in various ways."""
    return st.builds(
        gpu_pod,
        st.just("incoming"),
        gpus=st.sampled_from((0, 1, 1, 2, 4)),
        milli=st.sampled_from((1, 300, 500, 1000)),
        models=st.sampled_from(("", "T4", "T4|G2", "H100")),
        cpu=st.sampled_from((0, 1000, 12000)),
        more=st.sampled_from(({}, {}, {GPU_MILLI: "lots"})),
    )


@pytest.mark.parametrize("name", [name for name in GPU_PLUGINS if name != "FGD"])
def test_both_forms_agree(name: str) -> None:
    check_plugin(collect_plugins()[name], clusters=clusters_with_gpus(), pods=incoming(), examples=60)


def test_both_forms_of_fgd_agree() -> None:
    def given(handle: Handle) -> FGD:
        return FGD(args=FGDArgs(typical_shapes=TYPICAL), handle=handle)

    def learned(handle: Handle) -> FGD:
        return FGD(handle=handle)

    check_plugin(given, learned, clusters=clusters_with_gpus(), pods=incoming(), examples=60)


def test_fgd_selects_the_device_of_its_score() -> None:
    rig = Rig(*SMALL)
    share, policy, cycle = GpuShare(handle=rig), fgd(rig), CycleState()
    assert policy.score(cycle, gpu_pod("p", milli=300, cpu=1000), rig.nodes[0]) == 57
    share.reserve(cycle, gpu_pod("p", milli=300, cpu=1000), "n")
    assert cycle[ASSUMED].metadata.annotations[GPU_DEVICES] == "1"


def test_fgd_prefers_the_device_that_leaves_less_unusable_capacity() -> None:
    shapes = (TypicalShape(gpus=1, gpu_milli=500, pods=1),)
    there = [gpu_pod("a", milli=300, node="n", devices="0"), gpu_pod("b", milli=200, node="n", devices="1")]
    rig = Rig(gpu_node("n", gpus=2), *there)  # 700 and 800 are free
    share, cycle = GpuShare(handle=rig), CycleState()
    FGD(args=FGDArgs(typical_shapes=shapes), handle=rig)
    share.reserve(cycle, gpu_pod("p", milli=300), "n")
    assert cycle[ASSUMED].metadata.annotations[GPU_DEVICES] == "1", "500 are left of device 1"


def test_fgd_learns_shapes_from_the_pods_in_the_cluster() -> None:
    rig = Rig(gpu_node("n", gpus=2))
    plugin = FGD(handle=rig)
    before = plugin.epoch()
    rig.add(*(gpu_pod(f"p{number}", milli=500, cpu=1000) for number in range(3)))
    assert plugin.epoch() != before
    assert plugin.typical.counts == {GpuShape(1000, 1, 500): 3}
    learned = plugin.epoch()
    rig.add(gpu_pod("late", milli=300))
    assert plugin.epoch() == learned, "shapes are not recounted for each pod"
    rig.clock.advance_to(rig.clock.now() + 301)
    assert plugin.epoch() != learned
