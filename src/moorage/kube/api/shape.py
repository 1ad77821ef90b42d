"""Values that pods of a template share: they follow from the spec and are computed once.

A Deployment's thousand pods differ only in name and node. They are recognized by their encoded spec, so that derived
values are computed for the first pod and looked up for the other pods.
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

if TYPE_CHECKING:
    from moorage.kube.api.pod import Pod, PodSpec, PodStatus

_REPORTED: Final = (
    *("container_statuses", "init_container_statuses", "allocated_resources", "resources"),
    "node_allocatable_resource_claim_statuses",
)
"""The fields of a status with resources, reported by a kubelet or by a scheduler for devices."""

_encoder = msgspec.json.Encoder(order="deterministic")


class Shape:
    """The derived values of a template. Pods of equal specs share the object, so that keys can contain it.

    ``spec`` and ``reported`` (the kubelet's report of resources, if it exists) are equal for all of them. A shape is
    referenced by its pods and deleted with the last one. The same holds for ``signed``, its cached signatures with the
    profile that computed them, and for ``demands``, its parsed node selector and node affinity.
    """

    __slots__ = (
        "__weakref__",
        "demands",
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
        self.demands: Any = None
        self.host_ports = pod.host_ports
        self.holds_storage = bool(spec.volumes) and not all(volume.is_plain for volume in spec.volumes)
        self.requests = requests.spec_requests(pod)
        self.scoring_requests = requests.scoring_requests(pod, self.requests)
        self.requests_on_node = self.requests if reported is None else requests.placed_requests(pod)
        self.nonzero_requests = requests.placed_nonzero_requests(
            pod, self.scoring_requests, has_report=reported is not None
        )

    def matches_spec(self, spec: "PodSpec", reported: "PodStatus | None") -> bool:
        """Return whether a pod with this spec and this kubelet report has this shape."""
        return self.spec == spec and self.reported == reported


_shapes: "WeakValueDictionary[int, Shape]" = WeakValueDictionary()
"""By the hash of the encoding, because the encoding can be longer than the shape itself."""


class _Latest:
    """The shape of the previous pod: the next pod of a list often has the same template, and comparing is fast."""

    shape: Callable[[], Shape | None] = staticmethod(lambda: None)


_latest = _Latest()


def take_shape(pod: "Pod") -> Shape:
    """Find the shape of a pod, and let the pod share all parts that pods of the shape have in common.

    Derived values are set on the pod, and its parts are replaced by equal ones, so that a pod needs memory for little
    more than its name.
    """
    spec = _without_identity(pod.spec)
    reported = _kubelet_report(pod) if requests.has_kubelet_report(pod) else None
    shape = _latest.shape()
    if shape is None or not shape.matches_spec(spec, reported):
        encoded = _encoder.encode(spec if reported is None else (spec, reported))
        key = hash(encoded)
        shape = _shapes.get(key)
        if shape is None or not shape.matches_spec(spec, reported):
            shape = Shape(pod, spec, reported)
            if len(encoded) <= MAX_VALUE_LENGTH:
                _shapes[key] = shape
        _latest.shape = ref(shape)
    # Under the names of the pod's own properties.
    pod.__dict__.update(
        host_ports=shape.host_ports,
        nonzero_requests=shape.nonzero_requests,
        requests=shape.requests,
        requests_on_node=shape.requests_on_node,
        scoring_requests=shape.scoring_requests,
    )
    own, shared = pod.spec, shape.spec
    if own.node_name or own.volumes:
        shared = replace(shared, node_name=intern(own.node_name), volumes=own.volumes)
    force_setattr(pod, "spec", shared)
    if shape.reported is not None:
        force_setattr(pod, "status", replace(pod.status, **{name: getattr(shape.reported, name) for name in _REPORTED}))
    return shape


def _kubelet_report(pod: "Pod") -> "PodStatus":
    status, pending = pod.status, requests.RESIZE_PENDING
    resize = tuple(Condition(item.type, reason=item.reason) for item in status.conditions if item.type == pending)
    return type(status)(conditions=resize, **{name: getattr(status, name) for name in _REPORTED})


def _without_identity(spec: "PodSpec") -> "PodSpec":
    """Remove the node and irrelevant volume names: each pod has its own name for its service account token."""
    if spec.node_name:
        spec = replace(spec, node_name="")
    if spec.volumes:
        # The claim of an ephemeral volume is named after it.
        volumes = tuple([item if item.ephemeral is not None else replace(item, name="") for item in spec.volumes])
        spec = replace(spec, volumes=volumes)
    return spec
