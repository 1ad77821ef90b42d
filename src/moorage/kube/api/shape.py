"""Values that pods of one template share: they follow from the spec and are computed once.

A Deployment's thousand pods differ only in name and node. They are recognized by their encoded spec, so that derived
values are computed for the first pod and looked up for the others.
"""

from collections.abc import Callable
from sys import intern
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary, ref

import msgspec
from msgspec.structs import force_setattr, replace

from moorage.common.caches import MAX_VALUE_LENGTH
from moorage.kube.api import requests
from moorage.kube.api.meta import Condition
from moorage.kube.api.volume import Volume

if TYPE_CHECKING:
    from moorage.kube.api.pod import Pod, PodSpec, PodStatus

_REPORTED: Final = (
    *("container_statuses", "init_container_statuses", "allocated_resources", "resources"),
    "node_allocatable_resource_claim_statuses",
)
"""The fields of a status in which a kubelet reports resources, or a scheduler what devices come to."""

_encoder = msgspec.json.Encoder(order="deterministic")


class Shape:
    """The derived values of one template. Pods of equal specs share the object, so that keys can contain it.

    ``spec`` and ``reported`` (the kubelet's report of resources, if it exists) are equal for all of them. A shape is
    referenced by its pods and deleted with the last one. The same holds for ``signed``, its cached signatures with the
    profile that computed them.
    """

    __slots__ = (
        "__weakref__",
        "holds_storage",
        "host_ports",
        "nonzero_requests",
        "reported",
        "requests",
        "requests_on_node",
        "scoring_requests",
        "signed",
        "spec",
    )

    def __init__(self, pod: "Pod", spec: "PodSpec", reported: "PodStatus | None") -> None:
        self.spec = spec
        self.reported = reported
        self.signed: tuple[object, Any] = (None, None)
        self.host_ports = pod.host_ports
        self.holds_storage = bool(spec.volumes) and not all(volume.is_plain for volume in spec.volumes)
        self.requests = requests.spec_requests(pod)
        self.scoring_requests = requests.scoring_requests(pod, self.requests)
        self.requests_on_node = self.requests if reported is None else requests.placed_requests(pod)
        self.nonzero_requests = requests.placed_nonzero_requests(
            pod, self.scoring_requests, has_report=reported is not None
        )

    def is_of(self, spec: "PodSpec", reported: "PodStatus | None") -> bool:
        """Return whether a pod with this spec and this kubelet report has this shape."""
        return self.spec == spec and self.reported == reported


_shapes: "WeakValueDictionary[int, Shape]" = WeakValueDictionary()
"""By the hash of the encoding, which may be longer than all that is known of the shape."""


class _Latest:
    """The shape of the last pod: the next in a list is most often of the same template, and to compare is quick."""

    shape: Callable[[], Shape | None] = staticmethod(lambda: None)


_latest = _Latest()


def take_shape(pod: "Pod") -> Shape:
    """Find the shape of a pod, and have the pod share what all pods of that shape have in common.

    The facts are set on the pod, and the parts it is made of are exchanged for equal ones: of a hundred thousand pods
    only the names are kept for each.
    """
    spec = _without_identity(pod.spec)
    reported = _kubelet_report(pod) if requests.has_kubelet_report(pod) else None
    shape = _latest.shape()
    if shape is None or not shape.is_of(spec, reported):
        shape = _find_shape(pod, spec, reported)
        _latest.shape = ref(shape)
    # Under the names of the pod's own properties.
    pod.__dict__.update(
        host_ports=shape.host_ports,
        nonzero_requests=shape.nonzero_requests,
        requests=shape.requests,
        requests_on_node=shape.requests_on_node,
        scoring_requests=shape.scoring_requests,
    )
    _share(pod, shape)
    return shape


def _find_shape(pod: "Pod", spec: "PodSpec", reported: "PodStatus | None") -> Shape:
    encoded = _encoder.encode(spec if reported is None else (spec, reported))
    key = hash(encoded)
    shape = _shapes.get(key)
    if shape is None or not shape.is_of(spec, reported):
        shape = Shape(pod, spec, reported)
        if len(encoded) <= MAX_VALUE_LENGTH:
            _shapes[key] = shape
    return shape


def _share(pod: "Pod", shape: Shape) -> None:
    spec, shared = pod.spec, shape.spec
    if spec.node_name or spec.volumes:
        shared = replace(shared, node_name=intern(spec.node_name), volumes=spec.volumes)
    force_setattr(pod, "spec", shared)
    if shape.reported is not None:
        force_setattr(pod, "status", replace(pod.status, **{name: getattr(shape.reported, name) for name in _REPORTED}))


def _kubelet_report(pod: "Pod") -> "PodStatus":
    """Return the kubelet's report of resources without other fields."""
    status, pending = pod.status, requests.RESIZE_PENDING
    resize = tuple(Condition(item.type, reason=item.reason) for item in status.conditions if item.type == pending)
    return type(status)(conditions=resize, **{name: getattr(status, name) for name in _REPORTED})


def _without_identity(spec: "PodSpec") -> "PodSpec":
    """Leave out the node, and names of volumes that mean nothing: every pod's service account token has its own."""
    if spec.node_name:
        spec = replace(spec, node_name="")
    if spec.volumes:
        spec = replace(spec, volumes=tuple(map(_without_name, spec.volumes)))
    return spec


def _without_name(volume: Volume) -> Volume:
    # The claim of an ephemeral volume is named after it.
    return volume if volume.ephemeral is not None else replace(volume, name="")
