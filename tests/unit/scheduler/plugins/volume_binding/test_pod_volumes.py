import pytest

from moorage.common.errors import NotStored
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL
from moorage.kube.api.storage import PersistentVolumeClaim
from moorage.kube.features import FeatureGates
from moorage.scheduler.config.args import UtilizationShapePoint, VolumeBindingArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.node_resources_fit.strategies import broken_linear
from moorage.scheduler.plugins.volume_binding.plugin import VolumeBinding
from moorage.scheduler.plugins.volume_binding.pod_volumes import distinct_nodes
from moorage.testing import make_node, make_pod
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm
from moorage.testing.storage import (
    claim_volume,
    make_claim,
    make_class,
    make_csi_driver,
    make_pool,
    make_volume,
    reachable,
)

DRIVER = "csi.example.com"
LATE, OTHER = make_class("late", provisioner=DRIVER), make_class("other", provisioner=DRIVER)
WATCHED = make_csi_driver(DRIVER, watches_capacity=True)
LOCAL = make_class("local", provisioner="kubernetes.io/no-provisioner")


def pool(zone: str, capacity: str, storage_class: str = "late") -> KubeObject:
    return make_pool(f"{storage_class}-{zone}", storage_class=storage_class, capacity=capacity, labels={"zone": zone})


def claim(name: str, request: str, storage_class: str = "late") -> KubeObject:
    return make_claim(name, request=request, storage_class=storage_class)


def volume(name: str, capacity: str, zone: str, storage_class: str = "local") -> KubeObject:
    return make_volume(name, capacity=capacity, storage_class=storage_class, reach=reachable(zone=zone))


CASES: dict[str, tuple[tuple[KubeObject, ...], list[int]]] = {
    "most free capacity is best": (
        (claim("c", "10Gi"), LATE, WATCHED, pool("a", "30Gi"), pool("b", "100Gi")),
        [67, 90],
    ),
    "claims of one class draw on the same pool": (
        (claim("c", "10Gi"), claim("d", "20Gi"), LATE, WATCHED, pool("a", "60Gi"), pool("b", "30Gi")),
        [50, 0],
    ),
    "more than there is is treated as all of it": (
        (claim("c", "20Gi"), claim("d", "20Gi"), LATE, WATCHED, pool("a", "30Gi"), pool("b", "80Gi")),
        [0, 50],
    ),
    "the mean over classes is rounded": (
        (
            claim("c", "10Gi"),
            claim("d", "10Gi", "other"),
            LATE,
            OTHER,
            WATCHED,
            pool("a", "100Gi"),
            pool("a", "1000Gi", "other"),
            pool("b", "20Gi"),
            pool("b", "20Gi", "other"),
        ),
        [95, 50],
    ),
    "what no pool is watched for scores 0": ((claim("c", "10Gi"), LATE), [0, 0]),
    "existing volumes count by their size": (
        (claim("c", "10Gi", "local"), LOCAL, volume("v", "20Gi", "a"), volume("w", "10Gi", "b")),
        [50, 0],
    ),
    "all of one class together": (
        (
            claim("c", "10Gi", "local"),
            claim("d", "10Gi", "local"),
            LOCAL,
            volume("v", "10Gi", "a"),
            volume("w", "30Gi", "a"),
            volume("x", "20Gi", "b"),
            volume("y", "20Gi", "b"),
        ),
        [50, 50],
    ),
    "next to them, volumes to provision do not count": (
        (
            claim("c", "10Gi", "local"),
            claim("d", "10Gi"),
            LOCAL,
            LATE,
            WATCHED,
            volume("v", "20Gi", "a"),
            volume("w", "40Gi", "b"),
            pool("a", "1000Gi"),
            pool("b", "10Gi"),
        ),
        [50, 75],
    ),
    "a bound claim scores 0": ((make_claim("c", bound_to="v"), make_volume("v")), [0, 0]),
}


def scores(plugin: VolumeBinding, rig: Rig, form: ScoreForm, objects: tuple[KubeObject, ...]) -> list[int]:
    names = [obj.name for obj in objects if isinstance(obj, PersistentVolumeClaim)]
    pod, cycle = make_pod(volumes=tuple(map(claim_volume, names))), CycleState()
    assert plugin.pre_filter(cycle, pod, rig.nodes) is None
    assert not plugin.filter_nodes(cycle, pod, rig.nodes).rejected.any()
    assert plugin.pre_score(cycle, pod, rig.nodes) is None
    return form(plugin, cycle, pod, rig.nodes)


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("objects", "want"), CASES.values(), ids=CASES)
def test_score(form: ScoreForm, objects: tuple[KubeObject, ...], want: list[int]) -> None:
    rig = Rig(make_node("a", zone="a"), make_node("b", zone="b"), *objects)
    assert scores(VolumeBinding(handle=rig), rig, form, objects) == want


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_previously_selected_node_is_the_only_scored_node(form: ScoreForm) -> None:
    selection = make_claim("c", request="10Gi", storage_class="late", selected_node="a")
    rig = Rig(
        make_node("a"), make_node("b"), selection, LATE, WATCHED, make_pool(storage_class="late", capacity="20Gi")
    )
    plugin, cycle, pod = VolumeBinding(handle=rig), CycleState(), make_pod(volumes=(claim_volume("c"),))
    assert plugin.pre_filter(cycle, pod, rig.nodes) is None
    plugin.filter_nodes(cycle, pod, rig.nodes)
    assert form(plugin, cycle, pod, rig.nodes) == [50, 0]


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_nodes_that_were_not_filtered_score_zero(form: ScoreForm) -> None:
    objects = CASES["most free capacity is best"][0]
    rig = Rig(make_node("a", zone="a"), make_node("b", zone="b"), *objects)
    names = [obj.name for obj in objects if isinstance(obj, PersistentVolumeClaim)]
    plugin, pod, cycle = VolumeBinding(handle=rig), make_pod(volumes=tuple(map(claim_volume, names))), CycleState()
    assert plugin.pre_filter(cycle, pod, rig.nodes) is None
    assert form(plugin, cycle, pod, rig.nodes) == [0, 0]
    assert plugin.reserve(cycle, pod, "a") is None
    assert plugin.pre_bind_pre_flight(cycle, pod, "a") == Status.skip()


def test_missing_pre_filter_state_is_an_error() -> None:
    rig = Rig(make_node("a"))
    plugin, pod = VolumeBinding(handle=rig), make_pod()
    assert plugin.pre_score(CycleState(), pod, rig.nodes) == Status.error("not found")
    assert plugin.pre_bind_pre_flight(CycleState(), pod, "a") == Status.error("not found")
    with pytest.raises(NotStored, match=r"^not found$"):
        plugin.reserve(CycleState(), pod, "a")


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_the_shape_is_configurable(form: ScoreForm) -> None:
    objects = CASES["most free capacity is best"][0]
    rig = Rig(make_node("a", zone="a"), make_node("b", zone="b"), *objects)
    packing = VolumeBindingArgs(shape=(UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10)))
    assert scores(VolumeBinding(args=packing, handle=rig), rig, form, objects) == [33, 10]


def test_the_gate_turns_scoring_off() -> None:
    rig = Rig(make_node("a"), features=FeatureGates({"StorageCapacityScoring": False}))
    plugin, cycle = VolumeBinding(handle=rig), CycleState()
    plugin.pre_filter(cycle, make_pod(), rig.nodes)
    assert plugin.pre_score(cycle, make_pod(), rig.nodes) == Status.skip()


SHAPE = [(10, 20), (50, 100), (90, 30)]
LINES = {0: 20, 10: 20, 11: 22, 50: 100, 51: 99, 52: 97, 89: 32, 90: 30, 100: 30}


@pytest.mark.parametrize(("at", "want"), LINES.items())
def test_broken_line(at: int, want: int) -> None:
    assert broken_linear(SHAPE, at) == want


def test_nodes_are_grouped_by_the_labels_that_matter() -> None:
    nodes = NodeTable.of(*(NodeInfo(make_node(f"n{index}", zone=zone)) for index, zone in enumerate(("a", "b", "a"))))
    representatives, groups = distinct_nodes([ZONE_LABEL], nodes)
    assert (representatives.tolist(), groups.tolist()) == ([0, 1], [0, 1, 0])


def test_no_nodes_are_not_groups() -> None:
    representatives, groups = distinct_nodes([ZONE_LABEL, HOSTNAME_LABEL], NodeTable.of())
    assert (len(representatives), len(groups)) == (0, 0)
