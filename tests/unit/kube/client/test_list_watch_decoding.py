"""Listed objects are decoded into objects that share equal parts."""

from operator import attrgetter
from typing import Any

import msgspec
import pytest

from moorage.common.caches import LRU
from moorage.kube.api import node as nodes
from moorage.kube.api import sharing
from moorage.kube.api.devices import ResourceClaim, ResourceSlice
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.list_watch import Decoding


def listed(*images: dict[str, Any]) -> list[Node]:
    """Return two nodes of one page that hold the same images."""
    items = [{"metadata": {"name": name}, "status": {"images": images}} for name in ("node-1", "node-2")]
    _, nodes_listed, _ = Decoding(Node).page(msgspec.json.encode({"items": items}))
    return nodes_listed


APP = {"names": ["registry.example.com/app:1"], "sizeBytes": 1000}
OLD = {"names": ["registry.example.com/app:0"], "sizeBytes": 1000}


def test_nodes_share_the_images_that_they_hold() -> None:
    first, second = listed(APP, OLD)
    assert first.status.images == msgspec.convert([APP, OLD], tuple[nodes.ContainerImage, ...])
    assert all(
        first_image is second_image
        for first_image, second_image in zip(first.status.images, second.status.images, strict=True)
    )
    assert first.image_names == {"registry.example.com/app:1", "registry.example.com/app:0"}


def test_images_that_no_node_has_any_more_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_images", LRU("images", 2, lambda image: image))
    for number in range(10):
        listed({"names": [f"app:{number}"], "sizeBytes": number})
    assert len(sharing._images) <= 2


ALIKE: dict[type[KubeObject], tuple[dict[str, Any], str]] = {
    Pod: ({"metadata": {"labels": {"app": "web"}}}, "metadata.labels"),
    Node: ({"status": {"allocatable": {"cpu": "7"}}}, "status.allocatable"),
    ResourceClaim: ({"spec": {"devices": {"requests": [{"name": "gpu"}]}}}, "spec"),
    ResourceSlice: ({"spec": {"devices": [{"name": "gpu-0"}]}}, "spec.devices"),
}


@pytest.mark.parametrize(("kind", "told"), ALIKE.items(), ids=[kind.__name__ for kind in ALIKE])
def test_listed_and_watched_objects_share_parts(kind: type[KubeObject], told: tuple[dict[str, Any], str]) -> None:
    decoding, (data, path) = Decoding(kind), told
    _, (*_, listed_obj), _ = decoding.page(msgspec.json.encode({"items": [data] * 20}))
    _, watched = decoding.event(msgspec.json.encode({"type": "MODIFIED", "object": data}))
    assert attrgetter(path)(listed_obj) is attrgetter(path)(watched)
