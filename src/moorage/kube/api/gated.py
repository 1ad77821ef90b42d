"""Objects without the fields of disabled feature gates."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from moorage.kube.api.originals import carry_original
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates


def pod_adapter(features: FeatureGates) -> Callable[[Pod], Pod] | None:
    """Return a function that removes fields of disabled features from pods; ``None`` if all are enabled."""
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
