"""Short cuts for what a simulation writes most, on pods that are stored as structs: no JSON is made or read.

Each does what the API's own operation does, or nothing: whatever is out of the ordinary is left to that one.
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
    """Give a pod its node and note that it is scheduled; False if there is anything to refuse, or to be read."""
    if not entry.is_typed:
        return False
    pod = entry.typed(Pod)
    if pod.metadata.uid != uid or pod.is_terminating or pod.spec.node_name or pod.spec.scheduling_gates:
        return False
    others = tuple(item for item in pod.status.conditions if item.type != SCHEDULED)
    scheduled = Condition(SCHEDULED, "True", last_transition_time=format_time(now))
    status = replace(pod.status, nominated_node_name="", conditions=(*others, scheduled))
    store.put_typed(PODS, pod, spec=replace(pod.spec, node_name=node_name), status=status)
    return True


def merge_status(store: Store, entry: Entry, patch: Mapping[str, Any]) -> bool:
    """Merge fields into the status of a pod; False if it takes more than to exchange them."""
    if not entry.is_typed or _RESOURCES & patch.keys() or any(isinstance(item, dict) for item in patch.values()):
        return False
    pod = entry.typed(Pod)
    given = msgspec.convert(patch, PodStatus)
    changed = {_FIELDS[key]: getattr(given, _FIELDS[key]) for key in patch if key in _FIELDS}
    # What is derived from a pod follows from its spec, and from what a kubelet says of resources: not from these.
    store.put_typed(PODS, pod, status=replace(pod.status, **changed))
    return True
