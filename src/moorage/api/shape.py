"""What pods of one template share: facts that follow from the spec, worked out once for all of them.

A Deployment's thousand pods differ in name and node only. They are recognised by their encoded spec, so whatever
depends on nothing else is computed for the first and looked up for the rest.
"""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from moorage.api import requests
from moorage.api.volume import Volume

if TYPE_CHECKING:
    from moorage.api.pod import HostPort, Pod, PodSpec

MOST_SHAPES: Final = 16384
FACTS: Final = ("host_ports", "nonzero_requests", "requests", "requests_on_node", "scoring_requests")
"""What a pod is told of its shape, under the names of its own properties."""

_encoder = msgspec.json.Encoder()


class Shape:
    """The facts of one template; pods of equal specs have the same object, so it can stand for the spec in a key."""

    __slots__ = ("facts", "holds_storage", *FACTS)

    def __init__(self, pod: "Pod", host_ports: "tuple[HostPort, ...]") -> None:
        self.host_ports = host_ports
        self.holds_storage = not all(volume.is_plain for volume in pod.spec.volumes)
        self.requests = requests.spec_requests(pod)
        self.scoring_requests = requests.scoring_requests(pod, self.requests)
        self.requests_on_node = requests.placed_requests(pod, self.requests)
        self.nonzero_requests = requests.placed_nonzero_requests(pod, self.scoring_requests)
        self.facts: dict[str, Any] = {name: getattr(self, name) for name in FACTS}
        """The facts as a pod keeps them."""


_shapes: dict[bytes, Shape] = {}


def find_shape(pod: "Pod") -> Shape:
    """Return the shape of a pod; where a kubelet has spoken of resources, the pod has one of its own."""
    if requests.has_kubelet_word(pod):
        return Shape(pod, pod.host_ports)
    key = _encoder.encode(_without_identity(pod.spec))
    known = _shapes.get(key)
    if known is None:
        if len(_shapes) >= MOST_SHAPES:
            _shapes.clear()
        known = _shapes[key] = Shape(pod, pod.host_ports)
    return known


def _without_identity(spec: "PodSpec") -> "PodSpec":
    """Leave out the node, and names of volumes that mean nothing: every pod's service account token has its own."""
    if spec.node_name:
        spec = msgspec.structs.replace(spec, node_name="")
    if spec.volumes:
        spec = msgspec.structs.replace(spec, volumes=tuple(map(_without_name, spec.volumes)))
    return spec


def _without_name(volume: Volume) -> Volume:
    # The claim of an ephemeral volume is named after it.
    return volume if volume.ephemeral is not None else msgspec.structs.replace(volume, name="")
