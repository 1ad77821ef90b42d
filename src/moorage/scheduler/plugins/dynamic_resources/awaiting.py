"""Pods that are kept out of the queue until a claim can be used, by that claim."""

from collections.abc import Collection
from typing import Final

from moorage.kube.api.devices import ResourceClaim
from moorage.scheduler.framework.handle import Lister

MAX_AWAITING: Final = 1 << 17
"""So many are known by their claims; with more of them, which may be gone, all have to be asked about."""


class PodsAwaitingClaims:
    """Finds the pods that a change of a claim may let in, so that not all have to be asked about.

    Without it, thousands of pods that are listed before their claims are each asked about for every claim.
    """

    def __init__(self, claims: Lister[ResourceClaim]) -> None:
        self._claims = claims
        self._position = -1
        self._count = 0
        self._by_claim: dict[str, set[str]] = {}

    def add(self, pod: str, claim: str) -> None:
        """Note that a pod waits for a claim, both by their keys; without a claim it waits for a change of its own."""
        if not claim or pod in self._by_claim.get(claim, ()):
            return
        if self._count >= MAX_AWAITING:
            self._by_claim.clear()
            self._count, self._position = 0, -1
        self._by_claim.setdefault(claim, set()).add(pod)
        self._count += 1

    def reconsidered(self) -> Collection[str] | None:
        """Return the pods whose claims have changed since the last time; None if it could be any."""
        changed = self._claims.changed_since(self._position) if self._position >= 0 else None
        self._position = self._claims.version
        if changed is None:
            return None
        found: set[str] = set()
        for claim in changed:
            waiting = self._by_claim.pop(claim, None)
            if waiting is not None:
                found |= waiting
                self._count -= len(waiting)
        return found
