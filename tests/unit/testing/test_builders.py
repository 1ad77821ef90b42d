"""Builders of pods and nodes take every field, as structs or as plain data."""

from typing import Any

import pytest

from moorage.kube.api.affinity import Affinity
from moorage.kube.api.pod import PodStatus
from moorage.testing import make_node, make_pod


def test_pod_takes_annotations_and_limits() -> None:
    pod = make_pod(annotations={"team": "shop"}, requests={"cpu": 1}, limits={"cpu": 2, "nvidia.com/gpu": 1})
    assert pod.annotations == {"team": "shop"}
    assert pod.requests == {"cpu": 1000, "nvidia.com/gpu": 1}
    assert pod.spec.containers[0].resources.limits == {"cpu": 2, "nvidia.com/gpu": 1}


QUALITIES: dict[str, tuple[dict[str, Any], str]] = {
    "no requests": ({}, "BestEffort"),
    "a request": ({"requests": {"cpu": 1}}, "Burstable"),
    "limits of CPU and memory": ({"limits": {"cpu": 1, "memory": "1Gi"}}, "Guaranteed"),
}


@pytest.mark.parametrize(("fields", "quality"), QUALITIES.values(), ids=QUALITIES)
def test_pod_has_its_qos_class(fields: dict[str, Any], quality: str) -> None:
    assert make_pod(**fields).qos_class == quality


def test_fields_may_be_plain_data_or_structs() -> None:
    term = {"key": "gpu", "operator": "Exists"}
    plain = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [term]}]}}}  # fmt: skip
    pod = make_pod(affinity=plain, hostNetwork=True, status={"phase": "Running"}, metadata={"generateName": "a-"})
    assert pod.spec.affinity is not None
    assert make_pod(affinity=pod.spec.affinity).spec.affinity == pod.spec.affinity
    assert isinstance(pod.spec.affinity, Affinity)
    assert (pod.spec.host_network, pod.status, pod.metadata.generate_name) == (True, PodStatus(phase="Running"), "a-")
    node = make_node(annotations={"rack": "7"}, status={"capacity": {"cpu": 8}}, spec={"unschedulable": True})
    assert (node.annotations, node.status.capacity, node.spec.unschedulable) == ({"rack": "7"}, {"cpu": 8}, True)
    assert node.allocatable["cpu"] == 4000


def test_unknown_field_is_reported_with_the_nearest_one() -> None:
    with pytest.raises(TypeError, match="PodSpec has no field 'affinty'; did you mean 'affinity'"):
        make_pod(affinty={})
