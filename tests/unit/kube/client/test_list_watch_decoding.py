"""What is listed is decoded into objects that share what is equal in them."""

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
    _, found, _ = Decoding(Node).page(msgspec.json.encode({"items": items}))
    return found


APP = {"names": ["registry.example.com/app:1"], "sizeBytes": 1000}
OLD = {"names": ["registry.example.com/app:0"], "sizeBytes": 1000}


def test_nodes_share_the_images_that_they_hold() -> None:
    one, other = listed(APP, OLD)
    assert one.status.images == msgspec.convert([APP, OLD], tuple[nodes.ContainerImage, ...])
    assert all(mine is theirs for mine, theirs in zip(one.status.images, other.status.images, strict=True))
    assert one.image_names == {"registry.example.com/app:1", "registry.example.com/app:0"}


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
def test_what_is_listed_and_what_is_watched_share_their_parts(
    kind: type[KubeObject], told: tuple[dict[str, Any], str]
) -> None:
    decoding, (data, path) = Decoding(kind), told
    _, (*_, listed), _ = decoding.page(msgspec.json.encode({"items": [data] * 20}))
    _, watched = decoding.event(msgspec.json.encode({"type": "MODIFIED", "object": data}))
    assert attrgetter(path)(listed) is attrgetter(path)(watched)
