"""Which images there are on nodes: size, and how many nodes have each."""

from moorage.kube.api.node import ContainerImage, Node
from moorage.scheduler.framework.node_storage import ImageFacts


class ImageIndex:
    """Facts per image name, kept as nodes come, change and go; ``version`` grows when one of them may have changed."""

    def __init__(self) -> None:
        self._images: dict[str, ImageFacts] = {}
        self._held_by: dict[str, tuple[ContainerImage, ...]] = {}
        self._is_hidden = False
        self.version = 0

    def find(self, name: str) -> ImageFacts | None:
        """Return the facts about an image, or ``None`` if no node has it."""
        return None if self._is_hidden else self._images.get(name)

    def hide(self, is_hidden: bool) -> None:
        """Know of no image for a while, or of all of them again."""
        self._is_hidden = is_hidden
        self.version += bool(self._images)

    def put(self, node: Node) -> None:
        """Add or update a node; most changes of a node do not change its images."""
        images = node.status.images
        if self._held_by.get(node.name, ()) == images:
            return
        self.drop(node.name)
        self._held_by[node.name] = images
        for image in images:
            for name in image.names:
                self._images.setdefault(name, ImageFacts(image.size_bytes))
        for name in node.image_names:
            self._images[name].node_count += 1
        self.version += 1

    def drop(self, node_name: str) -> None:
        """Remove a node, and the images that no other node has."""
        images = self._held_by.pop(node_name, ())
        for name in {name for image in images for name in image.names}:
            facts = self._images[name]
            facts.node_count -= 1
            if facts.node_count == 0:
                del self._images[name]
        self.version += bool(images)
