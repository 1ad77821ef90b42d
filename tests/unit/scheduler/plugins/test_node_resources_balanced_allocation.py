import pytest

from moorage.kube.api.container import Container, ResourceRequirements
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.args import NodeResourcesBalancedAllocationArgs, ResourceSpec
from moorage.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation, evenness
from moorage.testing import make_node, make_pod
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm, run_score

GPU = "example.com/gpu"
THREE = NodeResourcesBalancedAllocationArgs(resources=(ResourceSpec("cpu"), ResourceSpec("memory"), ResourceSpec(GPU)))


def used(**amounts: str | int) -> Pod:
    return make_pod("there", node="node", requests=amounts)


CASES = {
    "a pod that changes nothing gets 75": (used(cpu="1000m", memory="4Gi"), {"cpu": "100m", "memory": "500Mi"}, 75),
    "one that evens out gets more": (used(cpu="2000m", memory="2Gi"), {"cpu": "100m", "memory": "4Gi"}, 77),
    "one that skews an empty node gets less": (used(), {"cpu": "4000m"}, 50),
    "what is more than full is treated as full": (used(cpu="8", memory="64Gi"), {"cpu": "1", "memory": "1Gi"}, 75),
    "a resource without a request still counts": (used(memory="16Gi"), {"cpu": "2000m"}, 87),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("there", "requests", "want"), CASES.values(), ids=CASES)
def test_score(form: ScoreForm, there: Pod, requests: dict[str, str], want: int) -> None:
    rig = Rig(make_node(), there)
    assert run_score(NodeResourcesBalancedAllocation(), rig, make_pod(requests=requests), form) == [want]


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_a_node_without_a_resource_is_rated_by_the_others(form: ScoreForm) -> None:
    rig = Rig(make_node("bare"), make_node("gpu", allocatable={GPU: 4}), make_node("one", allocatable={"memory": 0}))
    pod = make_pod(requests={"cpu": "2", "memory": "16Gi", GPU: 4})
    # gpu: fractions 0.5, 0.5, 1 deviate by sqrt(1/18) = 0.2357, so evenness falls from 100 to 76.
    assert run_score(NodeResourcesBalancedAllocation(args=THREE), rig, pod, form) == [75, 63, 75]


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_an_extended_resource_that_is_not_requested_does_not_count(form: ScoreForm) -> None:
    rig = Rig(make_node(allocatable={GPU: 4}), make_pod("there", node="node", requests={GPU: 4}))
    pod = make_pod(requests={"cpu": "2", "memory": "16Gi"})
    assert run_score(NodeResourcesBalancedAllocation(args=THREE), rig, pod, form) == [75]


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_the_number_of_pods_is_not_balanced(form: ScoreForm) -> None:
    args = NodeResourcesBalancedAllocationArgs(resources=(ResourceSpec("cpu"), ResourceSpec("pods")))
    assert run_score(
        NodeResourcesBalancedAllocation(args=args), Rig(make_node()), make_pod(requests={"cpu": 4}), form
    ) == [75]


SKIPPED = {
    "a pod without requests skips the plugin": (make_pod(), True),
    "also when it requests other resources only": (make_pod(requests={"ephemeral-storage": "1Gi"}), True),
    "an explicit zero is nothing": (make_pod(requests={"cpu": 0}), True),
    "any balanced resource will do": (make_pod(requests={"memory": 1}), False),
    "overhead counts": (make_pod(overhead={"cpu": "10m"}), False),
    "pod-level requests count": (make_pod(resources=ResourceRequirements(requests={"cpu": "1"})), False),
    "an init container counts": (
        make_pod(init_containers=(Container("init", resources=ResourceRequirements(requests={"cpu": 1})),)),
        False,
    ),
}


@pytest.mark.parametrize(("pod", "want"), SKIPPED.values(), ids=SKIPPED)
def test_skips(pod: Pod, want: bool) -> None:
    assert (run_score(NodeResourcesBalancedAllocation(), Rig(make_node()), pod, SCORE_FORMS[0]) is None) is want


EVENNESS = {
    "nothing to compare": ([], 100),
    "one resource is even with itself": ([0.7], 100),
    "two resources deviate by half their distance": ([0.0, 1.0], 50),
    "what is left is cut, not rounded": ([0.275, 0.125], 92),
    "more take the standard deviation": ([0.0, 0.5, 1.0], 59),
}


@pytest.mark.parametrize(("fractions", "want"), EVENNESS.values(), ids=EVENNESS)
def test_evenness(fractions: list[float], want: int) -> None:
    assert evenness(fractions) == want
