"""Pods of one template share their facts; pods that differ in anything that counts do not."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from moorage.api.codec import decode
from moorage.api.pod import Pod, PodStatus
from moorage.api.volume import Volume
from moorage.testing import make_pod

CLAIM_TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "db"}}, "spec": {"storageClassName": "fast"}}


def with_volumes(*volumes: dict[str, Any]) -> Pod:
    return decode(
        Pod, msgspec.json.encode({"metadata": {"name": "a"}, "spec": {"containers": [{}], "volumes": list(volumes)}})
    )


SAME = {
    "another name, node and set of labels": (
        make_pod("a", requests={"cpu": "1"}, labels={"app": "a"}),
        make_pod("b", requests={"cpu": "1"}, labels={"app": "b"}, node="node-1"),
    ),
    "a service account token under another name": (
        with_volumes({"name": "kube-api-access-abcde", "projected": {}}),
        with_volumes({"name": "kube-api-access-vwxyz", "projected": {}}),
    ),
}
OTHER = {
    "other requests": (make_pod(requests={"cpu": "1"}), make_pod(requests={"cpu": "2"})),
    "ephemeral volumes of other names, which have other claims": (
        with_volumes({"name": "a", "ephemeral": {"volumeClaimTemplate": CLAIM_TEMPLATE}}),
        with_volumes({"name": "b", "ephemeral": {"volumeClaimTemplate": CLAIM_TEMPLATE}}),
    ),
    "a kubelet that has spoken of resources": (
        make_pod(requests={"cpu": "1"}),
        replace(make_pod(requests={"cpu": "1"}), status=PodStatus(allocated_resources={"cpu": "2"})),
    ),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_pods_of_one_template_have_one_shape(one: Pod, other: Pod) -> None:
    assert one.shape is other.shape
    assert one.requests is other.requests


@pytest.mark.parametrize(("one", "other"), OTHER.values(), ids=OTHER)
def test_pods_that_differ_in_what_counts_do_not(one: Pod, other: Pod) -> None:
    assert one.shape is not other.shape


PLAIN = {
    "nothing said of it": (Volume(name="scratch"), True),
    "a token": (with_volumes({"name": "t", "projected": {"sources": []}}).spec.volumes[0], True),
    "a claim": (with_volumes({"name": "d", "persistentVolumeClaim": {"claimName": "data"}}).spec.volumes[0], False),
    "an ephemeral claim, labels and all": (
        with_volumes({"name": "e", "ephemeral": {"volumeClaimTemplate": CLAIM_TEMPLATE}}).spec.volumes[0],
        False,
    ),
    "a CSI volume in line": (with_volumes({"name": "c", "csi": {"driver": "x"}}).spec.volumes[0], False),
}


@pytest.mark.parametrize(("volume", "want"), PLAIN.values(), ids=PLAIN)
def test_which_volumes_are_plain(volume: Volume, want: bool) -> None:
    assert volume.is_plain is want
    assert Pod(spec=replace(make_pod().spec, volumes=(volume,))).shape.holds_storage is not want
