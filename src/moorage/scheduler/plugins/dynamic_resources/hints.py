"""Queueing hints of DynamicResources, and the index of gated pods."""

from collections.abc import Collection, Hashable, Sequence
from typing import Final

from moorage.kube.api.devices import ResourceClaim
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource, queue_if
from moorage.scheduler.framework.handle import Lister
from moorage.scheduler.plugins.dynamic_resources.claims.tracker import ClaimProblem, ClaimTracker, claim_name

MAX_AWAITING: Final = 1 << 17
"""Maximum number of indexed pods. If there are more, the index restarts and all pods are checked."""


class PodsAwaitingClaims:
    """Finds the gated pods that a change of a claim may admit, so that not all gated pods are checked.

    Without the index, thousands of pods listed before their claims are all checked for every claim.
    """

    def __init__(self, claims: Lister[ResourceClaim]) -> None:
        self._claims = claims
        self._position: int | None = None
        self._count = 0
        self._by_claim: dict[str, set[str]] = {}

    def add(self, pod: str, claim: str) -> None:
        """Record that a pod needs a claim, both by key. Without a claim, the pod waits for its own update."""
        if not claim or pod in self._by_claim.get(claim, ()):
            return
        if self._position is None:
            self._position = self._claims.version  # no pod was gated before
        if self._count >= MAX_AWAITING:
            self._by_claim.clear()
            self._count, self._position = 0, -1
        self._by_claim.setdefault(claim, set()).add(pod)
        self._count += 1

    def reconsidered(self) -> Collection[str] | None:
        """Return the pods with claims that changed since the last call; None if all pods may be affected."""
        position = self._position
        changed_claims = self._claims.changed_since(position) if position is not None and position >= 0 else None
        self._position = self._claims.version
        if changed_claims is None:
            return None
        pods: set[str] = set()
        for claim in changed_claims:
            waiting_pods = self._by_claim.pop(claim, None)
            if waiting_pods is not None:
                pods |= waiting_pods
                self._count -= len(waiting_pods)
        return pods


class _PodsByClaim:
    """Finds the pending pods that use a changed claim."""

    def keys(self, pod: Pod) -> list[Hashable]:
        return [f"{pod.namespace}/{claim_name(pod, entry)}" for entry in pod.spec.resource_claims]

    def affected(self, old: ResourceClaim | None, new: ResourceClaim | None) -> list[Hashable] | None:
        if old is not None and old.status.allocation is not None and (new is None or new.status.allocation is None):
            return None  # any pod may get the released devices
        return [] if new is None else [new.key]


class DeviceHints:
    """Queueing hints for events about claims."""

    def __init__(
        self, claims: ClaimTracker, awaiting: PodsAwaitingClaims, *, with_declared_features: bool = False
    ) -> None:
        self._claims = claims
        self._awaiting = awaiting
        self._with_declared_features = with_declared_features

    def registrations(self) -> Sequence[EventRegistration]:
        of_node = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        declared = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_DECLARED_FEATURE)
        return (
            EventRegistration(ClusterEvent(Resource.NODE, of_node)),
            *((EventRegistration(declared, beyond_upstream=True),) if self._with_declared_features else ()),
            EventRegistration(
                ClusterEvent(Resource.RESOURCE_CLAIM, Action.ADD | Action.UPDATE | Action.DELETE),
                self.after_claim,
                index=_PodsByClaim(),
            ),
            EventRegistration(
                ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM), self.after_pod
            ),
            EventRegistration(ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE)),
            EventRegistration(ClusterEvent(Resource.RESOURCE_SLICE, Action.ADD | Action.UPDATE)),
        )

    def after_claim(self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim | None) -> QueueingHint:
        """Queue any pod if devices were released, and users of the claim after other changes."""
        had_devices = old is not None and old.status.allocation is not None
        if new is None:
            return queue_if(old is None or had_devices)
        try:
            uses_claim = any(claim.uid == new.uid for claim in list(self._claims.iter_claims(pod)))
        except ClaimProblem:
            return QueueingHint.SKIP
        if had_devices and new.status.allocation is None:
            return QueueingHint.QUEUE
        return queue_if(uses_claim and (old is None or old.status != new.status))

    def after_pod(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """Queue the pod if all its claims can be used."""
        try:
            for _ in self._claims.iter_claims(new or pod):
                pass
        except ClaimProblem as problem:
            # PreEnqueue is not called again in this case, and the generated claim's name is known only now.
            self._awaiting.add(pod.key, problem.claim)
            return QueueingHint.SKIP
        return QueueingHint.QUEUE
