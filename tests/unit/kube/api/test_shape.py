"""Pods of one template share their facts; pods that differ in anything that counts do not."""

from typing import Any
from weakref import WeakValueDictionary

import msgspec
import pytest
from msgspec.structs import replace

from moorage.kube.api import shape
from moorage.kube.api.codec import decode
from moorage.kube.api.container import ContainerStatus
from moorage.kube.api.meta import Condition
from moorage.kube.api.pod import Pod, PodStatus
from moorage.testing import make_pod

CLAIM_TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "db"}}, "spec": {"storageClassName": "fast"}}


def with_volumes(*volumes: dict[str, Any]) -> Pod:
    return decode(
        Pod, msgspec.json.encode({"metadata": {"name": "a"}, "spec": {"containers": [{}], "volumes": list(volumes)}})
    )


def with_token(name: str) -> Pod:
    """Return a pod as the API server stores it: with the token of its service account, mounted under that name."""
    mount = {"name": name, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
    spec = {"containers": [{"volumeMounts": [mount]}], "volumes": [{"name": name, "projected": {}}]}
    return decode(Pod, msgspec.json.encode({"metadata": {"name": "a"}, "spec": spec}))


def running(name: str, cpu: str, **status: Any) -> Pod:
    """Return a pod that requests one CPU, with the resources that a kubelet has allocated to it."""
    pod_status = PodStatus(container_statuses=(ContainerStatus("c", allocated_resources={"cpu": cpu}),), **status)
    return replace(make_pod(name, requests={"cpu": "1"}, node="node-1"), status=pod_status)


SAME = {
    "another name, node and set of labels": (
        make_pod("a", requests={"cpu": "1"}, labels={"app": "a"}),
        make_pod("b", requests={"cpu": "1"}, labels={"app": "b"}, node="node-1"),
    ),
    "a service account token under another name": (
        with_token("kube-api-access-abcde"),
        with_token("kube-api-access-vwxyz"),
    ),
    "the resources reported by a kubelet, with other fields": (
        running("a", cpu="2"),
        running("b", cpu="2", start_time="2026-01-31T12:00:00Z", conditions=(Condition("Ready", "True"),)),
    ),
}
OTHER = {
    "other requests": (make_pod(requests={"cpu": "1"}), make_pod(requests={"cpu": "2"})),
    "ephemeral volumes of other names, which have other claims": (
        with_volumes({"name": "a", "ephemeral": {"volumeClaimTemplate": CLAIM_TEMPLATE}}),
        with_volumes({"name": "b", "ephemeral": {"volumeClaimTemplate": CLAIM_TEMPLATE}}),
    ),
    "a kubelet that has reported resources": (
        make_pod(requests={"cpu": "1"}),
        running("a", cpu="2"),
    ),
    "kubelets that report different resources": (running("a", cpu="2"), running("b", cpu="3")),
    "a resize that cannot be": (
        running("a", cpu="2", conditions=(Condition("PodResizePending", "True", "Deferred"),)),
        running("b", cpu="2", conditions=(Condition("PodResizePending", "True", "Infeasible"),)),
    ),
}


@pytest.mark.parametrize(("first", "other"), SAME.values(), ids=SAME)
def test_pods_of_one_template_have_one_shape(first: Pod, other: Pod) -> None:
    assert first.shape is other.shape
    assert first.requests is other.requests


@pytest.mark.parametrize(("first", "other"), OTHER.values(), ids=OTHER)
def test_pods_with_different_scheduling_fields_have_different_shapes(first: Pod, other: Pod) -> None:
    assert first.shape is not other.shape


@pytest.mark.parametrize(("first", "other"), SAME.values(), ids=SAME)
def test_pod_keeps_its_fields_and_shares_equal_parts(first: Pod, other: Pod) -> None:
    for pod in (first, other):
        alone = msgspec.json.decode(msgspec.json.encode(pod), type=Pod)
        assert pod.shape
        assert pod == alone
    assert first.spec.containers is other.spec.containers
    assert first.status.container_statuses is other.status.container_statuses


def test_pods_of_two_templates_in_turns_keep_their_own_shapes() -> None:
    pods = [make_pod(str(number), requests={"cpu": str(1 + number % 2)}) for number in range(4)]
    assert [pod.shape.requests["cpu"] for pod in pods] == [1000, 2000, 1000, 2000]
    assert pods[0].shape is pods[2].shape


def test_shapes_with_equal_hashes_remain_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    class Crowded(WeakValueDictionary[int, shape.Shape]):
        def get(self, _key: int, default: Any = None) -> Any:
            return super().get(0, default)

        def __setitem__(self, _key: int, value: shape.Shape) -> None:
            super().__setitem__(0, value)

    monkeypatch.setattr(shape, "_shapes", Crowded())
    pods = [make_pod(requests={"cpu": cpu}) for cpu in ("1", "2", "1", "1")]
    assert [pod.requests["cpu"] for pod in pods] == [1000, 2000, 1000, 1000]
    assert pods[2].shape is pods[3].shape
