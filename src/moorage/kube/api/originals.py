"""Objects in their original encoding, for clients such as extenders that need fields without a struct member.

The text is stored with the object, so it has the same version and the same lifetime.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates

_Parts = dict[str, msgspec.Raw]
_PLACE = "_original"


def keep_original(obj: KubeObject, body: msgspec.Raw) -> None:
    """Keep the text of an object with it.

    As kube-scheduler keeps objects: without ``kind``, and pods, but not nodes, without ``managedFields``, which are
    often half of the text.
    """
    parts = msgspec.json.decode(body, type=_Parts)
    parts.pop("kind", None)
    parts.pop("apiVersion", None)
    if isinstance(obj, Pod) and "metadata" in parts:
        metadata = msgspec.json.decode(parts["metadata"], type=_Parts | None) or {}
        metadata.pop("managedFields", None)
        parts["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    obj.__dict__[_PLACE] = msgspec.json.encode(parts)


def carry_original(obj: KubeObject, copy: KubeObject) -> None:
    """Copy the text of an object to a changed copy of the object."""
    if _PLACE in obj.__dict__:
        copy.__dict__[_PLACE] = obj.__dict__[_PLACE]


def whole(obj: KubeObject) -> object:
    """Return an object for JSON encoding: its text with all fields, or its struct if no text was kept."""
    text: bytes | None = obj.__dict__.get(_PLACE)
    if text is None:
        return obj
    if isinstance(obj, Pod) and obj.node_name:
        text = _insert_node(text, obj.node_name)
    return msgspec.Raw(text)


def _insert_node(text: bytes, node_name: str) -> bytes:
    """Add the node to the text of a pod that was assumed after it was received."""
    parts = msgspec.json.decode(text, type=_Parts)
    spec = msgspec.json.decode(parts["spec"], type=_Parts)
    if "nodeName" in spec:
        return text
    spec["nodeName"] = msgspec.Raw(msgspec.json.encode(node_name))
    return msgspec.json.encode(parts | {"spec": msgspec.Raw(msgspec.json.encode(spec))})


def pod_adapter(features: FeatureGates) -> Callable[[Pod], Pod] | None:
    """Return a function that removes fields of disabled features from pods, or ``None`` if all are enabled."""
    spec: Mapping[str, Any] = {} if features.enabled("PodLevelResources") else {"resources": None}
    with_status = features.enabled("InPlacePodLevelResourcesVerticalScaling")
    status: Mapping[str, Any] = {} if with_status else {"resources": None, "allocated_resources": None}
    if not spec and not status:
        return None

    def adapt(pod: Pod) -> Pod:
        adapted = replace(pod, spec=replace(pod.spec, **spec), status=replace(pod.status, **status))
        carry_original(pod, adapted)
        return adapted

    return adapt
