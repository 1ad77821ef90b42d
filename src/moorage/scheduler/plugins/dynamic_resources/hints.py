"""Which events may have made a pod schedulable that its claims held back."""

from collections.abc import Sequence

from moorage.kube.api.devices import ResourceClaim
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource
from moorage.scheduler.plugins.dynamic_resources.awaiting import PodsAwaitingClaims
from moorage.scheduler.plugins.dynamic_resources.claims import ClaimBook, ClaimProblem


class DeviceHints:
    """Answers to events about claims, from what is known of them."""

    def __init__(self, claims: ClaimBook, awaiting: PodsAwaitingClaims, *, heeds_declared: bool = False) -> None:
        self._claims = claims
        self._awaiting = awaiting
        self._heeds_declared = heeds_declared

    def registrations(self) -> Sequence[EventRegistration]:
        """Return the events that may help."""
        of_node = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        declared = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_DECLARED_FEATURE)
        return (
            EventRegistration(ClusterEvent(Resource.NODE, of_node)),
            *((EventRegistration(declared, beyond_upstream=True),) if self._heeds_declared else ()),
            EventRegistration(
                ClusterEvent(Resource.RESOURCE_CLAIM, Action.ADD | Action.UPDATE | Action.DELETE), self.after_claim
            ),
            EventRegistration(
                ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM), self.after_pod
            ),
            EventRegistration(ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE)),
            EventRegistration(ClusterEvent(Resource.RESOURCE_SLICE, Action.ADD | Action.UPDATE)),
        )

    def after_claim(self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim | None) -> QueueingHint:
        """Devices given back may help any pod; any other change only a pod that uses the claim and has all others."""
        had_devices = old is not None and old.status.allocation is not None
        if new is None:
            return _queue_if(old is None or had_devices)
        try:
            uses_claim = any(claim.uid == new.uid for claim in list(self._claims.claims_of(pod)))
        except ClaimProblem:
            return QueueingHint.SKIP
        if had_devices and new.status.allocation is None:
            return QueueingHint.QUEUE
        return _queue_if(uses_claim and (old is None or old.status != new.status))

    def after_pod(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """A pod may be tried once all its claims can be used."""
        try:
            for _ in self._claims.claims_of(new or pod):
                pass
        except ClaimProblem as problem:
            # Nobody asks its gate again then, and only now is it known which claim was made for the pod.
            self._awaiting.add(pod.key, problem.claim)
            return QueueingHint.SKIP
        return QueueingHint.QUEUE


def _queue_if(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
