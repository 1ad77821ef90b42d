"""Pending pods that are identical for the scheduler: only the first one has to be in the queue.

If the first pod is unschedulable, all are: further attempts are skipped. This makes simulations of a long queue
much cheaper. The scheduler still places every pod that starts.
"""

from bisect import insort
from typing import NamedTuple

import msgspec

from moorage.cluster import RUN_FOR
from moorage.kube.api.pod import Pod, PodSpec

PodSignature = tuple[object, ...]


class PositionedPod(NamedTuple):
    """A pending pod, and its position in the order of all pods that have been pending."""

    position: int
    pod: Pod


class IdenticalPods:
    """Finds identical pending pods, and withholds all except the first from the queue."""

    def __init__(self, signatures: "PodSignatures") -> None:
        self._signatures = signatures
        self._waiting: dict[PodSignature, list[PositionedPod]] = {}
        self._first: dict[str, PodSignature] = {}
        self._added = 0
        self._queued: dict[str, PositionedPod] = {}

    def position(self, uid: str) -> int:
        """Return the position of a queued pod: earlier pods have smaller positions."""
        queued = self._queued.get(uid)
        return 0 if queued is None else queued.position

    def add(self, pod: Pod) -> None:
        """Add a pending pod."""
        self._added += 1
        self._queued[pod.uid] = PositionedPod(self._added, pod)

    def hold(self, uid: str) -> bool:
        """Withhold a queued pod if an identical pod is in the queue. Return whether to remove it."""
        queued = self._queued.get(uid)
        if queued is None or uid in self._first or (signature := self._signatures.find(queued.pod)) is None:
            return False
        waiting_pods = self._waiting.get(signature)
        if waiting_pods is None:
            self._waiting[signature], self._first[uid] = [], signature
            return False
        insort(waiting_pods, self._queued.pop(uid))
        return True

    def pop_next(self, uid: str) -> PositionedPod | None:
        """Remove a scheduled pod. Return the identical pod that replaces it in the queue."""
        self._queued.pop(uid, None)
        signature = self._first.pop(uid, None)
        if signature is None:
            return None
        waiting_pods = self._waiting[signature]
        if not waiting_pods:
            del self._waiting[signature]
            return None
        following = waiting_pods.pop(0)
        self._first[following.pod.uid] = signature
        self._queued[following.pod.uid] = following
        return following


class PodSignatures:
    """Signatures of pods: pods with the same one are identical except for their name and duration."""

    def __init__(self) -> None:
        self._specs: dict[int, tuple[PodSpec, bytes]] = {}

    def find(self, pod: Pod) -> PodSignature | None:
        """Return the signature of a pod, or ``None`` if it has to be tried separately.

        Members of groups are scheduled together. Volumes and resource claims can have separate objects.
        """
        spec, metadata = pod.spec, pod.metadata
        if pod.group_key or spec.resource_claims or spec.volumes or spec.scheduling_gates:
            return None
        if pod.status.nominated_node_name:
            return None
        encoded = self._specs.get(id(spec))
        if encoded is None:
            # The spec is also stored, which prevents the reuse of its id.
            encoded = self._specs[id(spec)] = (spec, msgspec.json.encode(spec, order="deterministic"))
        annotations = [item for item in sorted(metadata.annotations.items()) if item[0] != RUN_FOR]
        owners = tuple(owner.uid for owner in metadata.owner_references)
        return (pod.namespace, encoded[1], tuple(sorted(pod.labels.items())), tuple(annotations), owners)
