"""What is listed is decoded into objects that share what is equal in them."""

from typing import Any

import msgspec
import pytest

from moorage.api import node as nodes
from moorage.api import sharing
from moorage.api.node import Node
from moorage.client.list_watch import Decoding
from moorage.lru import LRU


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
    monkeypatch.setattr(sharing, "_images", LRU(2, lambda image: image))
    for number in range(10):
        listed({"names": [f"app:{number}"], "sizeBytes": number})
    assert sharing._images.size <= 2
