"""Equal parts of several objects are stored once, and nothing else changes."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.common.caches import MAX_KEY_LABELS, MAX_KEY_LENGTH, MAX_VALUE_LENGTH
from moorage.common.errors import QuantityError
from moorage.kube.api.codec import decode, encode
from moorage.kube.api.devices import ResourceClaim, ResourceSlice
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.sharing import (
    MAX_CONDITIONS,
    MAX_LABELS,
    MAX_OWNERS,
    share_claim,
    share_node,
    share_pod,
    share_slice,
)

_texts = st.text(max_size=8)
_maps = st.dictionaries(_texts, _texts, max_size=4)
_amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "pods"]), st.sampled_from(["1", "2Gi", 3]), max_size=3)
_conditions = st.lists(
    st.fixed_dictionaries({"type": _texts, "status": _texts, "message": st.sampled_from(["", "x" * 2000])}), max_size=3
)
_metadata = st.fixed_dictionaries(
    {"name": _texts, "namespace": _texts, "labels": _maps},
    optional={
        "creationTimestamp": st.just("2026-11-17T00:00:00Z"),
        "generateName": _texts,
        "ownerReferences": st.lists(st.fixed_dictionaries({"name": _texts, "uid": _texts}), max_size=2),
    },
)


@given(_metadata, st.fixed_dictionaries({"phase": _texts, "conditions": _conditions}))
def test_shared_pod_keeps_its_fields(metadata: dict[str, Any], status: dict[str, Any]) -> None:
    """Sharing changes no field of a pod."""
    _says_the_same(decoded(Pod, {"metadata": metadata, "status": status}), share_pod)


@given(
    _metadata,
    st.fixed_dictionaries({"allocatable": _amounts, "capacity": _amounts, "conditions": _conditions}),
    st.lists(st.fixed_dictionaries({"names": st.lists(_texts, max_size=2), "sizeBytes": st.integers(0, 9)})),
)
def test_shared_node_keeps_its_fields(
    metadata: dict[str, Any], status: dict[str, Any], images: list[dict[str, Any]]
) -> None:
    """Sharing changes no field of a node, nor its counts."""
    data = {"metadata": metadata, "status": {**status, "images": images}}
    counted = decoded(Node, data).allocatable
    node = decoded(Node, data)
    _says_the_same(node, share_node)
    assert node.allocatable == counted


def test_pods_of_one_owner_have_one_of_each() -> None:
    """Labels, owner, conditions, namespace and time of two pods are the same objects."""
    data = {
        "metadata": {
            "namespace": "somewhere-else",
            "creationTimestamp": "2026-11-17T00:00:00Z",
            "labels": {"app": "web"},
            "ownerReferences": [{"name": "web", "uid": "1"}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    first, second = decoded(Pod, data), decoded(Pod, data)
    share_pod(first)
    share_pod(second)
    for name in ("labels", "owner_references", "namespace", "creation_timestamp"):
        assert getattr(first.metadata, name) is getattr(second.metadata, name), name
    assert first.status.conditions is second.status.conditions


def test_nodes_have_one_of_each() -> None:
    """Amounts, their counts, and images of two nodes are the same objects; labels have the same texts."""
    data = {
        "metadata": {"labels": {"example.com/a-label-with-a-long-name": "and-its-value"}},
        "status": {"allocatable": {"cpu": "3"}, "capacity": {"cpu": "3"}, "images": [{"names": ["app"]}]},
    }
    first, second = decoded(Node, data), decoded(Node, data)
    share_node(first)
    share_node(second)
    assert first.allocatable is second.allocatable
    assert first.status.allocatable is second.status.allocatable is first.status.capacity
    assert first.status.images[0] is second.status.images[0]
    assert next(iter(first.labels.items()))[0] is next(iter(second.labels.items()))[0]
    assert first.labels["example.com/a-label-with-a-long-name"] is second.labels["example.com/a-label-with-a-long-name"]


def test_nodes_of_one_kind_have_the_same_devices() -> None:
    """From the third slice on, equal devices are the same objects; unique devices are not stored."""
    data = {"spec": {"devices": [{"name": "gpu-0", "attributes": {"model": {"string": "a100"}}}]}}
    slices = [decoded(ResourceSlice, data) for _ in range(4)]
    before = encode(slices[0])
    for piece in slices:
        share_slice(piece)
    assert slices[2].spec.devices is slices[3].spec.devices
    assert [encode(piece) for piece in slices] == [before] * 4


def test_claims_of_one_template_request_the_same_devices() -> None:
    """Equal specs are one object, with the key that each would have had; what is far too long is not kept."""
    for name, is_shared in (("gpu", True), ("x" * (MAX_VALUE_LENGTH + 1), False)):
        data = {"spec": {"devices": {"requests": [{"name": name, "exactly": {"deviceClassName": "gpu", "count": 1}}]}}}
        keys = {decoded(ResourceClaim, data).spec_key}
        claims = [decoded(ResourceClaim, data) for _ in range(4)]
        for claim in claims:
            share_claim(claim)
        assert (claims[2].spec is claims[3].spec) is is_shared
        assert {claim.spec_key for claim in claims} == keys


def test_long_values_are_not_shared() -> None:
    """A pod with very many labels or owners, or with a long status message, leaves no shared parts behind."""
    data: dict[str, Any] = {
        "metadata": {
            "labels": {str(number): "x" for number in range(MAX_LABELS + 1)},
            "ownerReferences": [{"name": str(number)} for number in range(MAX_OWNERS + 1)],
        },
        "status": {"conditions": [{"type": "PodScheduled", "message": "x" * (MAX_KEY_LENGTH + 1)}]},
    }
    _nothing_is_shared(data)
    data["status"] = {"conditions": [{"type": str(number)} for number in range(MAX_CONDITIONS + 1)]}
    _nothing_is_shared(data)


def _nothing_is_shared(data: dict[str, Any]) -> None:
    first, second = decoded(Pod, data), decoded(Pod, data)
    share_pod(first)
    share_pod(second)
    assert first.labels is not second.labels
    assert first.metadata.owner_references is not second.metadata.owner_references
    assert first.status.conditions is not second.status.conditions


def test_invalid_amount_is_rejected() -> None:
    """A node is rejected for its allocatable resources exactly as without sharing, for any number of resources."""
    for more in (0, MAX_KEY_LABELS + 1):
        amounts = {"cpu": "lots", **{f"example.com/{number}": "1" for number in range(more)}}
        with pytest.raises(QuantityError, match="lots"):
            share_node(decoded(Node, {"status": {"allocatable": amounts}}))


def decoded(kind: type[Any], data: dict[str, Any]) -> Any:
    return decode(kind, msgspec.json.encode(data))


def _says_the_same(obj: KubeObject, share: Any) -> None:
    before = encode(obj)
    share(obj)
    assert encode(obj) == before
