"""Coordinated leader election, the API server's part: ping the candidates of a lease and elect one.

Candidates are ranked by oldest emulated version, then oldest binary version, then age. If the leader is not the best
candidate, the lease names the preferred holder, and the leader steps down.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from moorage.cluster.controllers.actions import ControllerAction, Create, Patch, RequeueAfter
from moorage.cluster.controllers.base import BaseController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.kube.api.meta import KubeObject, format_micro_time, parse_time
from moorage.kube.api.records import Lease, LeaseCandidate
from moorage.kube.api.struct import Data

STRATEGY: Final = "OldestEmulationVersion"
LEASE_SECONDS: Final = 5.0
PING_SECONDS: Final = 5.0
"""Candidates must renew within this time after a ping."""
ALIVE_SECONDS: Final = 2 * PING_SECONDS
"""A renewal counts this long: early renewals must still count when the ping of other candidates times out."""
VALID_SECONDS: Final = 1800.0
"""Candidates expire this long after their last renewal."""


class ElectionController(BaseController):
    """Assigns leases to candidates. Its keys are leases."""

    name = "elections"
    kinds = (LeaseCandidate, Lease)

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if isinstance(obj, LeaseCandidate):
            return (f"{obj.namespace}/{obj.spec.lease_name}",)
        candidates = cache[LeaseCandidate].in_namespace(obj.namespace)
        return (obj.key,) if any(item.spec.lease_name == obj.name for item in candidates) else ()

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Elect a leader for a lease without a holder, otherwise prefer the best candidate."""
        namespace, _, name = key.partition("/")
        now = self._clock.wall()
        of_lease = (item for item in cache[LeaseCandidate].in_namespace(namespace) if item.spec.lease_name == name)
        candidates = sorted((item for item in of_lease if _age(item.spec.renew_time, now) < VALID_SECONDS), key=_rank)
        if not candidates or max(candidates, key=_version).spec.strategy != STRATEGY:
            return ()
        lease = cache[Lease].get(key)
        holder = lease.spec.holder_identity if lease is not None else None
        if lease is None or not holder or _remaining_seconds(lease, now) <= 0:
            return _elect(candidates, lease, key, now)
        requeue = RequeueAfter(_remaining_seconds(lease, now) + 0.1)
        best = next((item for item in candidates if not _has_missed_ping(item, now)), None)
        if best is None or best.name in (holder, lease.spec.preferred_holder):
            return (requeue,)
        if not _is_alive(best, now):
            return (*_ping((best,), now), RequeueAfter(1.0), requeue)
        return (
            Patch(lease, {"spec": {"preferredHolder": best.name, "strategy": STRATEGY}}, if_unchanged=True),
            requeue,
        )


def _elect(candidates: list[LeaseCandidate], lease: Lease | None, key: str, now: float) -> Iterator[ControllerAction]:
    """Ping the candidates, wait for renewals, and give the lease to the best live candidate."""
    alive = [item for item in candidates if _is_alive(item, now)]
    silent = [item for item in candidates if item not in alive]
    silent_candidates = [item for item in silent if _age(item.spec.ping_time, now) < PING_SECONDS]
    idle = [item for item in silent if item not in silent_candidates]
    if silent_candidates or (idle and not alive):
        yield from _ping(idle, now)
        yield RequeueAfter(1.0)
        return
    if not alive:
        return
    now_text = format_micro_time(now)
    spec: Data = {
        "holderIdentity": alive[0].name,
        "leaseDurationSeconds": int(LEASE_SECONDS),
        "acquireTime": now_text,
        "renewTime": now_text,
        "leaseTransitions": (lease.spec.lease_transitions or 0) + 1 if lease is not None else 0,
        "strategy": STRATEGY,
        "preferredHolder": None,
    }
    if lease is not None:
        yield Patch(lease, {"spec": spec}, if_unchanged=True)
    else:
        namespace, _, name = key.partition("/")
        fields = {field: content for field, content in spec.items() if content is not None}
        yield Create(Lease, {"metadata": {"namespace": namespace, "name": name}, "spec": fields})


def _ping(candidates: Iterable[LeaseCandidate], now: float) -> Iterator[ControllerAction]:
    for item in candidates:
        if not _is_alive(item, now) and _age(item.spec.ping_time, now) >= PING_SECONDS:
            yield Patch(item, {"spec": {"pingTime": format_micro_time(now)}})


def _is_alive(candidate: LeaseCandidate, now: float) -> bool:
    """Return whether a candidate renewed recently and after its last ping."""
    renewed, pinged = candidate.spec.renew_time, candidate.spec.ping_time
    if renewed is None or _age(renewed, now) > ALIVE_SECONDS:
        return False
    return pinged is None or parse_time(renewed) >= parse_time(pinged)


def _has_missed_ping(candidate: LeaseCandidate, now: float) -> bool:
    """Return whether a candidate did not renew in time after a ping."""
    renewed, pinged = candidate.spec.renew_time, candidate.spec.ping_time
    if renewed is None or pinged is None or parse_time(renewed) >= parse_time(pinged):
        return False
    return _age(pinged, now) >= PING_SECONDS


def _remaining_seconds(lease: Lease, now: float) -> float:
    return (lease.spec.lease_duration_seconds or 0) - _age(lease.spec.renew_time, now)


def _age(moment: str | None, now: float) -> float:
    return float("inf") if moment is None else now - parse_time(moment)


def _rank(candidate: LeaseCandidate) -> tuple[tuple[int, ...], tuple[int, ...], str, str]:
    created = candidate.metadata.creation_timestamp or ""
    return _numbers(candidate.spec.emulation_version), _version(candidate), created, candidate.name


def _version(candidate: LeaseCandidate) -> tuple[int, ...]:
    return _numbers(candidate.spec.binary_version)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal())
