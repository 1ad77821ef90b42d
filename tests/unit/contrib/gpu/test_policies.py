"""The policies: scores as worked out by hand from the published formulas."""

from collections.abc import Callable

import pytest
from tests.support.gpus import gpu_node, gpu_pod

from moorage.contrib.gpu.columns import GpuTable
from moorage.contrib.gpu.devices import NodeGpus, gpus_of
from moorage.contrib.gpu.fgd import FGD
from moorage.contrib.gpu.gpu_best_fit import GpuBestFit
from moorage.contrib.gpu.gpu_clustering import GpuClustering
from moorage.contrib.gpu.gpu_dot_prod import GpuDotProd
from moorage.contrib.gpu.gpu_packing import GpuPacking
from moorage.contrib.gpu.gpu_random import GpuRandom
from moorage.contrib.gpu.gpu_share import GpuShare
from moorage.contrib.gpu.shapes import GpuShape, Typical
from moorage.kube.api.gpu_sharing import GPU_DEVICES
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.gpu_args import FGDArgs, GpuRandomArgs, TypicalShape
from moorage.scheduler.framework.cycle import ASSUMED, CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.plugin import ScorePlugin
from moorage.testing import make_pod
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm, run_score

SHAPES = (
    TypicalShape(cpu_milli=4000, gpus=1, gpu_milli=500, pods=3),
    TypicalShape(cpu_milli=1000, gpus=1, gpu_milli=1000, pods=1),
    TypicalShape(cpu_milli=500, pods=1),
    TypicalShape(cpu_milli=16000, gpus=1, gpu_milli=200, pods=1),
)
SMALL = (gpu_node("n", gpus=2, cpu=8), gpu_pod("a", milli=700, node="n", devices="1"))
"""1000 and 300 thousandths are free, and 8 CPUs."""
SHARE, WHOLE = gpu_pod("p", milli=460, cpu=6000), gpu_pod("p", cpu=6000)
EMPTY = (gpu_node("large", gpus=8, cpu=96), gpu_node("small", gpus=2, cpu=104))


def fgd(handle: Handle) -> FGD:
    return FGD(args=FGDArgs(typical_shapes=SHAPES), handle=handle)


CASES: dict[str, tuple[Callable[..., ScorePlugin], tuple[KubeObject, ...], Pod, list[int]]] = {
    # Before: 3·300 + 300 + 1300 + 1300 = 3800. On the full device: 0 + 0 + 1000 + 1000, and 1800 of 6 pods is 0.3 GPU.
    "FGD, a share that fills a device": (fgd, SMALL, gpu_pod("p", milli=300, cpu=1000), [57]),
    # After: 3·300 + 300 + 300 + 300 = 1800.
    "FGD, a whole GPU": (fgd, SMALL, gpu_pod("p", cpu=1000), [58]),
    # No pod uses the idle CPU: 6·1300 is lost.
    "FGD, a pod without GPUs in the way of all others": (fgd, SMALL, make_pod(requests={"cpu": "8"}), [33]),
    "FGD, a pod without GPUs in nobody's way": (fgd, SMALL, make_pod(requests={"cpu": "1"}), [50]),
    "FGD, no room": (fgd, SMALL, gpu_pod("p", gpus=2), [0]),
    # 17.7 and 52.1 before they are spread.
    "GpuBestFit, the tighter node": (GpuBestFit, EMPTY, SHARE, [0, 100]),
    # 17.7, 52.1 and, with a GPU in use, 23.9.
    "GpuBestFit, in between": (
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
    "GpuPacking, several of them": (
        GpuPacking,
        (gpu_node("n", gpus=4), gpu_pod("a", milli=1, node="n", devices="0")),
        gpu_pod("p", gpus=3),
        [47],
    ),
    "GpuPacking, no room": (GpuPacking, (gpu_node("n", gpus=1),), gpu_pod("p", gpus=2), [0]),
    "GpuPacking, a pod without GPUs": (GpuPacking, EMPTY, make_pod(), [0, 0]),
    "GpuClustering, idle nodes": (GpuClustering, EMPTY, SHARE, [25, 43]),
    "GpuClustering, only shares, and only whole ones": (
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
    "GpuClustering, both on one node": (
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


def test_fgd_gives_the_device_that_it_had_in_mind() -> None:
    rig = Rig(*SMALL)
    share, policy, cycle = GpuShare(handle=rig), fgd(rig), CycleState()
    assert policy.score(cycle, gpu_pod("p", milli=300, cpu=1000), rig.nodes[0]) == 57
    share.reserve(cycle, gpu_pod("p", milli=300, cpu=1000), "n")
    assert cycle[ASSUMED].metadata.annotations[GPU_DEVICES] == "1"


def test_fgd_prefers_a_device_that_is_not_the_tightest_if_that_leaves_less_of_no_use() -> None:
    shapes = (TypicalShape(gpus=1, gpu_milli=500, pods=1),)
    there = [gpu_pod("a", milli=300, node="n", devices="0"), gpu_pod("b", milli=200, node="n", devices="1")]
    rig = Rig(gpu_node("n", gpus=2), *there)  # 700 and 800 are free
    share, cycle = GpuShare(handle=rig), CycleState()
    FGD(args=FGDArgs(typical_shapes=shapes), handle=rig)
    share.reserve(cycle, gpu_pod("p", milli=300), "n")
    assert cycle[ASSUMED].metadata.annotations[GPU_DEVICES] == "1", "500 are left of it, and the others stay of use"


def test_fgd_learns_shapes_from_the_pods_in_the_cluster() -> None:
    rig = Rig(gpu_node("n", gpus=2))
    plugin = FGD(handle=rig)
    before = plugin.epoch()
    rig.add(*(gpu_pod(f"p{number}", milli=500, cpu=1000) for number in range(3)))
    assert plugin.epoch() != before
    assert plugin.typical.counts == {GpuShape(1000, 1, 500): 3}
    learned = plugin.epoch()
    rig.add(gpu_pod("late", milli=300))
    assert plugin.epoch() == learned, "it is not counted at every pod"
    rig.clock.advance_to(rig.clock.now() + 301)
    assert plugin.epoch() != learned


def test_random_takes_one_node_by_lot() -> None:
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
    assert [scores.index(100) for scores in other_scores if scores] != rows, "another seed, other lots"


def test_typical_shapes_are_the_popular_ones_until_they_cover_enough() -> None:
    shapes = [GpuShape(1000)] * 60 + [GpuShape(2000, 1, 500)] * 35 + [GpuShape(3000, 1, 1000)] * 5
    assert Typical.covering(shapes).counts == {GpuShape(1000): 60, GpuShape(2000, 1, 500): 35}
    assert Typical.covering(shapes, 96).weight == 100
    assert Typical.covering(shapes, 60).counts == {GpuShape(1000): 60}


FRAGMENTED: dict[str, tuple[NodeGpus, int]] = {
    "as above": (NodeGpus((1000, 300), None, 8000), 3800),
    "nothing is idle": (NodeGpus((0, 0), None, 8000), 0),
    "no CPU for anybody": (NodeGpus((1000, 300), None, 0), 6 * 1300),
    "enough of everything: only pods without GPUs have no use of it": (NodeGpus((1000, 1000), None, 16000), 2000),
    "too small for all but the one that asks for CPU": (NodeGpus((200, 100), None, 16000), 5 * 300 + 100),
}


@pytest.mark.parametrize(("node", "wanted"), FRAGMENTED.values(), ids=FRAGMENTED)
def test_fragmentation(node: NodeGpus, wanted: int) -> None:
    typical = Typical({GpuShape(s.cpu_milli, s.gpus, s.gpu_milli): s.pods for s in SHAPES})
    assert typical.fragmentation_of(node) == wanted
    assert typical.fragmentation(GpuTable.of([node, node])).tolist() == [wanted, wanted]


def test_a_shape_of_another_model_has_no_use_of_a_node() -> None:
    typical = Typical({GpuShape(0, 1, 500, ("T4",)): 1})
    there, elsewhere = NodeGpus((1000, 300), "T4", 0), NodeGpus((1000, 300), "G2", 0)
    assert [typical.fragmentation_of(node) for node in (there, elsewhere)] == [300, 1300]
    assert typical.fragmentation(GpuTable.of([there, elsewhere])).tolist() == [300, 1300]


def test_devices_of_a_removed_pod_are_free_in_a_copy() -> None:
    rig = Rig(*SMALL)
    copy = rig.nodes[0].copy()
    copy.remove_pod(next(iter(copy.pods.values())))
    assert gpus_of(copy).free == (1000, 1000)
