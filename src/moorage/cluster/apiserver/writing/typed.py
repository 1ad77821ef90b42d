"""Fast paths for the most frequent writes of a simulation, on pods that are stored as structs, without JSON.

Each does the same as the API's operation, or returns False: unusual cases are left to the API.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from moorage.cluster.apiserver.storage.store import Entry, Store
from moorage.kube.api.meta import Condition, format_time
from moorage.kube.api.pod import Pod, PodStatus

PODS: Final = "pods"
SCHEDULED: Final = "PodScheduled"
_FIELDS: Final = {field.encode_name: field.name for field in msgspec.structs.fields(PodStatus)}
_RESOURCES: Final = frozenset(("allocatedResources", "resources", "initContainerStatuses"))


def bind_pod(store: Store, entry: Entry, uid: str, node_name: str, now: float) -> bool:
    """Bind a pod to a node and set its PodScheduled condition; False if the API must handle the request."""
    if not entry.is_typed:
        return False
    pod = entry.typed(Pod)
    if pod.metadata.uid != uid or pod.is_terminating or pod.spec.node_name or pod.spec.scheduling_gates:
        return False
    unchanged = tuple(item for item in pod.status.conditions if item.type != SCHEDULED)
    scheduled = Condition(SCHEDULED, "True", last_transition_time=format_time(now))
    status = replace(pod.status, nominated_node_name="", conditions=(*unchanged, scheduled))
    store.put_typed(PODS, pod, spec=replace(pod.spec, node_name=node_name), status=status)
    return True


def merge_status(store: Store, entry: Entry, patch: Mapping[str, Any]) -> bool:
    """Merge fields into the status of a pod; False unless plain replacement is enough."""
    if not entry.is_typed or _RESOURCES & patch.keys() or any(isinstance(item, dict) for item in patch.values()):
        return False
    pod = entry.typed(Pod)
    new_status = msgspec.convert(patch, PodStatus)
    changed = {_FIELDS[key]: getattr(new_status, _FIELDS[key]) for key in patch if key in _FIELDS}
    # Cached properties of a pod depend on its spec and its reported resources, not on these fields.
    store.put_typed(PODS, pod, status=replace(pod.status, **changed))
    return True
