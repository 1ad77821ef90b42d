"""TargetLoadPacking: scores by measured and expected CPU usage."""

import pytest
from msgspec.structs import replace
from tests.unit.contrib.community.load_builders import node, packing

from moorage.contrib.community.measured_load import MeasuredLoad
from moorage.contrib.community.target_load_packing import Prediction
from moorage.kube.api.container import Container, ResourceRequirements
from moorage.kube.api.meta import Condition, format_time
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.contrib_args import (
    TargetLoadPackingArgs,
)
from moorage.testing import make_pod
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm, run_score

PACKED: dict[str, tuple[float | None, int]] = {
    # The pod is expected to use a tenth of a node.
    "an idle node": (0, 55),
    "a node that the pod brings to the target": (30, 100),
    "one below it": (15, 78),
    "just above the target": (31, 39),
    "far above it": (80, 7),
    "a node that the pod fills": (90, 0),
    "one that it would overload": (95, 0),
    "a node without measurements": (None, 0),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("load", "score"), PACKED.values(), ids=PACKED)
def test_packing(load: float | None, score: int, form: ScoreForm) -> None:
    rig = Rig(node("n"))
    plugin = packing(rig, n=MeasuredLoad(cpu=load))
    assert run_score(plugin, rig, make_pod(), form) == [score]


def pod_with(*containers: tuple[str | None, str | None], overhead: str = "0") -> Pod:
    pod_containers = tuple(
        Container(
            name=f"c{number}",
            resources=ResourceRequirements(
                requests={"cpu": request} if request else {}, limits={"cpu": limit} if limit else {}
            ),
        )
        for number, (request, limit) in enumerate(containers)
    )
    pod = make_pod()
    return replace(pod, spec=replace(pod.spec, containers=pod_containers, overhead={"cpu": overhead}))


PREDICTED: dict[str, tuple[Pod, int]] = {
    "a container without resources": (pod_with((None, None)), 1000),
    "requests are exceeded by half": (pod_with(("1", None)), 1500),
    "limits are reached": (pod_with(("1", "3")), 3000),
    "containers add up, and so does the overhead": (pod_with(("1", None), (None, "2"), overhead="100m"), 3600),
    "halves are rounded up": (pod_with(("1m", None)), 2),
}


@pytest.mark.parametrize(("pod", "milli"), PREDICTED.values(), ids=PREDICTED)
def test_expected_usage_of_a_pod(pod: Pod, milli: int) -> None:
    assert Prediction(TargetLoadPackingArgs()).of(pod) == milli


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_pods_that_are_too_new_to_be_measured_count(form: ScoreForm) -> None:
    rig = Rig(node("n"))
    plugin = packing(rig, n=MeasuredLoad(cpu=0))
    for name, ago in (("old", 61.0), ("new", 59.0)):
        there = make_pod(name, node="n", uid=name)
        scheduled = Condition("PodScheduled", "True", last_transition_time=format_time(rig.clock.wall() - ago))
        rig.add(replace(there, status=replace(there.status, conditions=(scheduled,))))
    assert run_score(plugin, rig, make_pod(), form) == [70], "as if a tenth were in use"
    rig.add(make_pod("assumed", node="n", uid="assumed"))
    assert run_score(plugin, rig, make_pod(), form) == [85]
